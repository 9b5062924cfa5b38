/**
 * Owns the world of a run with many nodes: the shared database with list, plans and keys, made by the
 * program's own commands, and its nodes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Limits } from '../../../support/fixtures.ts'
import { succeed } from '../../../support/launch.ts'
import type { SharedDatabase } from '../../support/shared-database.ts'
import { createRestartable, type Restartable } from '../kill-serve/restart.ts'
import { type Kind, keyText, listText, subjectsOf } from '../limiter/traffic.ts'
import type { Ids } from '../limiter/world.ts'

export type Program = { binary: string; database: SharedDatabase }

export const environmentOf = ({ database }: Program) => ({ PROXYLIST_DATABASE: database.url() })

/** Runs a command of the program on the database. @throws Error with its stderr when it fails. */
export const command = (program: Program, args: readonly string[]): Promise<string> =>
  succeed([program.binary, ...args], { env: environmentOf(program), deadlineSeconds: 300 })

/** The limits of a plan as flags of `plans set`. */
function flagsOf({ burst, ...limits }: Limits): string[] {
  const window = burst === null ? 'unlimited' : `${burst.requests}/${burst.seconds}s`
  const names = ['daily', 'subnets', 'clients', 'count', 'downloads'] as const
  const others = names.flatMap(name => [`--${name}`, String(limits[name] ?? 'unlimited')])
  return ['--burst', window, ...others]
}

/** Adds plans, and keys whose label is the key itself; gives the ids of the keys by that label. */
export async function addCustomers(
  program: Program,
  file: string,
  plans: { readonly [name: string]: Limits },
  keys: readonly { key: string; plan: string }[],
): Promise<Map<string, string>> {
  for (const [name, limits] of Object.entries(plans)) {
    await command(program, ['plans', 'set', name, ...flagsOf(limits)])
  }
  const lines = keys.map(({ key, plan }) => `${key},${key},${plan}\n`)
  writeFileSync(file, `key,label,plan\n${lines.join('')}`)
  await command(program, ['keys', 'import', file])
  const rows = await program.database.run('select id, label from proxylist.keys')
  return new Map(rows.map(({ id, label }) => [String(label), String(id)]))
}

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
  const ids = await addCustomers(program, join(directory, 'keys.csv'), plans, keys)
  return subjects.map(its => its.map(key => ids.get(key) ?? ''))
}

/** Nodes of the database, each with a directory of its own, ready. */
export async function startNodes(
  program: Program,
  directories: readonly string[],
  env: { readonly [name: string]: string } = {},
): Promise<Restartable[]> {
  const nodes = directories.map(data =>
    createRestartable({
      ...{ binary: program.binary, data, more: ['--trust-proxy', '127.0.0.1'] },
      env: { ...environmentOf(program), ...env },
    }),
  )
  for (const node of nodes) node.start()
  for (const node of nodes) await node.ready()
  return nodes
}
