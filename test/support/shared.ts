/**
 * A database for tests of the service: it has what a data directory has, and its clock is moved
 * by hand.
 */

import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { createRegistry } from '../../src/postgres/registry.ts'
import { createUsageStore } from '../../src/postgres/usage/usage.ts'
import { openList, openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from './fixtures.ts'
import { migratedDatabase, optionsFor } from './postgres.ts'
import { onCleanUp } from './temporary.ts'

const COLUMNS =
  'id bigint, checked_at bigint, ping_ms bigint, types bigint, anon smallint, works smallint, ' +
  'speed bigint, services integer, country integer, city integer, ip_out text'
const NAMES = COLUMNS.replaceAll(/ \w+(?=,|$)/g, '')

/** Makes the list of a data directory the first version of that of a database. */
async function copyList(dir: string, { transaction }: Connection): Promise<void> {
  const list = openList(dir)
  const [cities, rows] = ['cities', 'proxies'].map(table =>
    JSON.stringify(list.db.query(`select * from ${table}`).all()),
  )
  list.close()
  await transaction(async query => {
    const [{ version } = { version: 0 }] = await query<{ version: number }>(
      'update proxylist.list set version = version + 1 returning version::float8 as version',
    )
    const values = [version, cities ?? '']
    await query('delete from proxylist.proxies')
    await query('update proxylist.list set removed_before = version') // copied as a whole
    await query(
      `insert into proxylist.cities select id, name, name_en, $1::float8
       from json_to_recordset($2::text::json) as c (id integer, name text, name_en text)
       on conflict do nothing`,
      values,
    )
    await query(
      `insert into proxylist.proxies (${NAMES}, version) select ${NAMES}, $1::float8
       from json_to_recordset($2::text::json) as r (${COLUMNS})`,
      [version, rows ?? ''],
    )
    await query(
      `update proxylist.list set (rows, newest, oldest) =
         (select count(*), max(checked_at), min(checked_at) from proxylist.proxies)`,
    )
    await query('insert into proxylist.list_versions values ($1::float8, gen_random_uuid(), 0)', [
      version,
    ])
    await query(`select pg_notify('proxylist', 'list')`)
  })
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
