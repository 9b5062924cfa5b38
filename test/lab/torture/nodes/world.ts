/**
 * The world of a run with many nodes: the shared database with list, plans and keys, made by the
 * program's own commands, and its nodes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  addSharedCustomers,
  command,
  environmentOf,
  type Shared,
} from '../../support/shared-database.ts'
import { createRestartable, type Restartable, type RestartOptions } from '../kill-serve/restart.ts'
import { type Kind, listText } from '../limiter/traffic.ts'
import { customersOf, type Ids } from '../limiter/world.ts'
import type { Run } from '../part.ts'

/** A run with the program as the beginning of a command. */
export type NodesRun = Omit<Run, 'binary'> & { program: readonly string[] }

/** Fills the database for requests of these kinds; gives the ids of the keys. */
export async function makeWorld(
  shared: Shared,
  directory: string,
  kinds: readonly Kind[],
  requests: number,
): Promise<Ids> {
  const list = join(directory, 'list.txt')
  writeFileSync(list, listText())
  await command(shared, ['import', list])
  const customers = customersOf(kinds, requests)
  return customers.byKind(await addSharedCustomers(shared, directory, customers))
}

/** Longest wait for the first copy of a long list, on a machine that copies several. */
const FIRST_COPY_MS_MAX = 300_000

/** Nodes of the database, each with a directory of its own, ready. */
export async function startNodes(
  shared: Shared,
  directories: readonly string[],
  { env = {}, more = [] }: Pick<RestartOptions, 'env' | 'more'> = {},
): Promise<Restartable[]> {
  const nodes = directories.map(data =>
    createRestartable({
      ...{ program: shared.program, data, more },
      env: { ...environmentOf(shared), ...env },
    }),
  )
  for (const node of nodes) node.start()
  for (const node of nodes) await node.ready(FIRST_COPY_MS_MAX)
  return nodes
}
