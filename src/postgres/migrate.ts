/** Makes and migrates the schema in PostgreSQL, once for all machines, under an advisory lock. */
import { CommandError } from '../lib/errors.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'
import { seedPlans } from './registry.ts'
import from1 from './schema/from-1.sql' with { type: 'text' }
import from2 from './schema/from-2.sql' with { type: 'text' }
import functions from './schema/functions.sql' with { type: 'text' }
import tables from './schema/tables.sql' with { type: 'text' }

const UPGRADES: readonly string[] = [from1, from2]
export const SCHEMA_VERSION = UPGRADES.length + 1

/** The oldest server that the statements work on (contract I). */
const SERVER_VERSION_MIN = 140_000

/** Advisory locks of this program: the first of their two numbers is `PRXL` in ASCII. */
export const LOCK_CLASS = 0x5052584c
export const LOCKS = { migrate: 1, jobs: 2, checker: 4 } as const

/** The version of the schema; `null` when there is none. */
async function versionOf(query: Query): Promise<number | null> {
  // Not to_regclass: it may not see yet what another session committed while this one waited.
  const found = await query(
    `select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'proxylist' and c.relname = 'installation'`,
  )
  if (found.length === 0) return null
  const text = 'select schema as version from proxylist.installation'
  return (await onlyRow<{ version: number }>(query, text)).version
}

export const newer = (version: number, shown: string): CommandError =>
  new CommandError(
    `the database ${shown} was written by a newer proxylist ` +
      `(schema ${version}, this one knows ${SCHEMA_VERSION}); use that version`,
  )

type SchemaState = 'none' | 'older' | 'newest'

/**
 * Where the schema of a database stands. A command that only reads makes and migrates nothing, because
 * servers of an earlier version may use it.
 * @throws CommandError for a server that is too old, and when a newer program made it; StoreError when
 *   the database fails.
 */
export async function schemaState({
  query,
  shown,
}: Pick<Connection, 'query' | 'shown'>): Promise<SchemaState> {
  const server = await onlyRow<{ version: number; text: string }>(
    query,
    `select current_setting('server_version_num')::int as version,
       current_setting('server_version') as text`,
  )
  if (server.version < SERVER_VERSION_MIN) {
    throw new CommandError(`${shown} runs PostgreSQL ${server.text}; 14 or newer is needed`)
  }
  const version = await versionOf(query)
  if (version === null) return 'none'
  if (version > SCHEMA_VERSION) throw newer(version, shown)
  return version === SCHEMA_VERSION ? 'newest' : 'older'
}

/** Which database this is: a copy of its list knows. */
export const installationOf = async (query: Query): Promise<string> =>
  (await onlyRow<{ id: string }>(query, 'select id::text as id from proxylist.installation')).id

/** Makes or migrates the schema in one transaction. @throws CommandError when a newer program made it. */
export async function migrate({ query, transaction, shown }: Connection): Promise<void> {
  if ((await schemaState({ query, shown })) === 'newest') return
  await transaction(async tx => {
    await tx('select pg_advisory_xact_lock($1, $2)', [LOCK_CLASS, LOCKS.migrate])
    const version = await versionOf(tx) // again: another process may have been first
    if ((version ?? 0) > SCHEMA_VERSION) throw newer(version ?? 0, shown)
    const upgrades = version === null ? [] : UPGRADES.slice(version - 1)
    for (const script of [...upgrades, tables, functions]) await tx(script)
    if (version === null) await seedPlans(tx)
    await tx('update proxylist.installation set schema = $1', [SCHEMA_VERSION])
  })
}
