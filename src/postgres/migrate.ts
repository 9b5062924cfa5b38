/**
 * The schema in PostgreSQL: making and migrating it, once for all machines, under an advisory
 * lock. Everything is in the schema `proxylist` of the database.
 */
import { CommandError, StoreError } from '../lib/errors.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'
import { lacksRight } from './errors.ts'
import { seedPlans } from './registry.ts'
import tables1 from './schema/1-tables.sql' with { type: 'text' }
import usage1 from './schema/1-usage.sql' with { type: 'text' }

/** The scripts that lead to each version of the schema. Released ones do not change. */
export const SCHEMA: readonly (readonly string[])[] = [[tables1, usage1]]

export const SCHEMA_VERSION = SCHEMA.length

/** The oldest server that the statements work on (contract I). */
export const SERVER_VERSION_MIN = 140_000

/** Advisory locks of this program: the first of their two numbers is that of `PRXL`. */
export const LOCK_CLASS = 0x5052584c
export const LOCKS = { migrate: 1, jobs: 2, list: 3, checker: 4 } as const

/** The version of the schema; `null` when there is none. */
export async function versionOf(query: Query): Promise<number | null> {
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
export async function schemaState(
  { query, shown }: Pick<Connection, 'query' | 'shown'>,
  newest = SCHEMA_VERSION,
): Promise<SchemaState> {
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
  if (version > newest) throw newer(version, shown)
  return version === newest ? 'newest' : 'older'
}

/**
 * @throws StoreError when the schema is gone of which there are copies; `lost` says what helps then, and is
 *   `null` where there are none.
 */
export async function requireCopied(connection: Connection, lost: string | null): Promise<void> {
  if (lost === null || (await schemaState(connection)) !== 'none') return
  throw new StoreError(`the database ${connection.shown} holds nothing of proxylist; ${lost}`)
}

/** Which database this is: a copy of it knows. */
export async function installationOf({ query }: Connection): Promise<string> {
  const text = 'select id::text as id from proxylist.installation'
  return (await onlyRow<{ id: string }>(query, text)).id
}

/**
 * Makes the schema, or brings it to the newest version, in one transaction; others wait for that.
 * `scripts` are those of a made-up version in tests.
 * @throws CommandError when a newer program made it, StoreError when the database fails.
 */
export async function migrate(
  { query, transaction, shown }: Connection,
  scripts = SCHEMA,
): Promise<void> {
  if ((await schemaState({ query, shown }, scripts.length)) === 'newest') return
  const changed = transaction(async tx => {
    await tx('select pg_advisory_xact_lock($1, $2)', [LOCK_CLASS, LOCKS.migrate])
    const version = (await versionOf(tx)) ?? 0 // again: another process may have been first
    if (version > scripts.length) throw newer(version, shown)
    for (const script of scripts.slice(version).flat()) await tx(script)
    if (version === 0) await seedPlans(tx)
    await tx('update proxylist.installation set schema = $1', [scripts.length])
  })
  await changed.catch((failure: unknown) => {
    if (!lacksRight(failure)) throw failure
    throw new CommandError(
      `this role may not make or upgrade the schema of ${shown}: run a command that changes ` +
        'something, such as plans set standard, once with the URL of the owner',
    )
  })
}
