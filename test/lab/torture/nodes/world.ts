/**
 * Owns the world of a run with many nodes: the shared database with list, plans and keys, made by the
 * program's own commands, and its nodes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  addSharedCustomers,
  command,
  environmentOf,
  type Program,
} from '../../support/shared-database.ts'
import { createRestartable, type Restartable, type RestartOptions } from '../kill-serve/restart.ts'
import { type Kind, keyText, listText, subjectsOf } from '../limiter/traffic.ts'
import type { Ids } from '../limiter/world.ts'

/** Fills the database for requests of these kinds; gives the ids of the keys. */
export async function makeWorld(
  program: Program,
  directory: string,
  kinds: readonly Kind[],
  requests: number,
): Promise<Ids> {
  const list = join(directory, 'list.txt')
  writeFileSync(list, listText())
  await command(program, ['import', list])
  const regular = kinds.filter(({ caller }) => caller === 'regular')
  const subjects = kinds.map(kind =>
    kind.caller === 'demo'
      ? []
      : Array.from({ length: subjectsOf(kind, requests) }, (_, n) => keyText(kind, n)),
  )
  const keys = kinds.flatMap(({ caller, name }, i) => {
    const plan = caller === 'regular' ? name : caller
    return (subjects[i] ?? []).map(key => ({ key, plan }))
  })
  const plans = Object.fromEntries(regular.map(({ name, limits }) => [name, limits]))
  const ids = await addSharedCustomers(program, join(directory, 'keys.csv'), plans, keys)
  return subjects.map(its => its.map(key => ids.get(key) ?? ''))
}

/** Nodes of the database, each with a directory of its own, ready. */
export async function startNodes(
  program: Program,
  directories: readonly string[],
  { env = {}, more = [] }: Pick<RestartOptions, 'env' | 'more'> = {},
): Promise<Restartable[]> {
  const nodes = directories.map(data =>
    createRestartable({
      ...{ binary: program.binary, data, more },
      env: { ...environmentOf(program), ...env },
    }),
  )
  for (const node of nodes) node.start()
  for (const node of nodes) await node.ready()
  return nodes
}
