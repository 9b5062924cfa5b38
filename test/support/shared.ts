/**
 * A database for tests of the service: it has what a data directory has, and its clock is moved
 * by hand.
 */
import { joinFrames, toFrame } from '../../src/postgres/body.ts'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { append, readHead } from '../../src/postgres/log.ts'
import { createRegistry } from '../../src/postgres/registry.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { readAll } from '../../src/sqlite/copy.ts'
import { openList, openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from './fixtures.ts'
import { migratedDatabase, optionsFor } from './postgres.ts'
import { onCleanUp } from './temporary.ts'

/** Writes the list of a data directory into the log of a database. */
async function copyList(dir: string, { query }: Connection): Promise<void> {
  const list = openList(dir)
  const body = joinFrames([...readAll(list.db)].map(toFrame))
  const head = await readHead(query)
  const [version, after] = [(head?.version ?? 0) + 1, head?.mark ?? '']
  const rows = list.proxies.count()
  list.close()
  const entry = { version, after, mark: crypto.randomUUID(), changed: rows, rows, imported: '' }
  await append(query, { ...entry, kind: 'delta' }, body)
}

/** The registry of a database, as one more machine has it; `elapsedMs` is the stopwatch there. */
export function openSharedRegistry(url: string, elapsedMs?: () => number) {
  const options = optionsFor(url)
  const connection = openConnection(options)
  const usage = createUsageStore(options, elapsedMs)
  return {
    connection,
    registry: createRegistry(connection, usage),
    async close(): Promise<void> {
      await usage.close()
      await connection.close()
    },
  }
}

/** Copies plans and keys of a data directory. */
async function copyRegistry(dir: string, url: string): Promise<void> {
  const { registry, close } = openSharedRegistry(url)
  const own = openRegistry(dir)
  for (const plan of own.plans.list()) await registry.plans.set(plan)
  await registry.keys.load(own.keys.dump(), false)
  own.close()
  await close()
}

/** Makes the clock of a database one that is set by the function that is returned, to Unix milliseconds. */
export async function clockByHand({ query }: Connection) {
  await query('create table public.clock (now_ms bigint not null)')
  await query(`insert into public.clock values (${T0})`)
  await query(
    `create or replace function proxylist.now_ms() returns bigint language sql volatile
     return (select now_ms from public.clock)`,
  )
  return (ms: number) => query(`update public.clock set now_ms = ${ms}`)
}

/** A migrated database whose clock is set by `setClock`. */
export async function databaseWithClock() {
  const { url, connection } = await migratedDatabase()
  return { url, connection, setClock: await clockByHand(connection) }
}

/** Those that no test uses at the moment. */
const free: Awaited<ReturnType<typeof databaseWithClock>>[] = []

/** Such a database at T0 for a while, after `statements` that empty it; `giveBack` is for the next one. */
export async function borrowDatabase(statements: string) {
  const known = free.pop()
  const database = known ?? (await databaseWithClock())
  if (known === undefined) onCleanUp(() => void free.splice(0))
  await database.connection.query(statements)
  await database.setClock(T0)
  return { ...database, giveBack: () => void free.push(database) }
}

/** Such a database with what a data directory has. */
export async function sharedDatabaseOf(dir: string) {
  const database = await databaseWithClock()
  await copyList(dir, database.connection)
  await copyRegistry(dir, database.url)
  return database
}
