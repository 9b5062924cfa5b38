/**
 * Owns the versions of the list: each commit that changes it has the next one, with a random mark,
 * because after a failover another commit may have the same number.
 */
import type { Query } from '../connection.ts'

/** Wakes the machines that follow the list. */
const NOTIFY = "select pg_notify('proxylist', 'list')"

export type ListState = { version: number; rows: number }

/** Locks the list until the end of the transaction, and returns where it stands. */
export async function lockList(query: Query): Promise<ListState> {
  const [state] = await query<ListState>(
    'select version::float8 as version, rows::float8 as rows from proxylist.list for update',
  )
  return state ?? { version: 0, rows: 0 }
}

/** Stores a new version of the locked list; the commit shows it to others and notifies them. */
export async function storeVersion(query: Query, { version, rows }: ListState): Promise<void> {
  await query('update proxylist.list set version = $1, rows = $2', [version, rows])
  await query(
    'insert into proxylist.list_versions values ($1, gen_random_uuid(), proxylist.now_ms())',
    [version],
  )
  await query(NOTIFY)
}

/** How long a machine may be away and still copy only what has changed. */
const KEPT_MS = 3 * 86_400_000

/** Forgets what was removed long ago; a copy that is older than that is copied whole. */
export async function pruneVersions(query: Query): Promise<void> {
  await query(
    `with bound as (
       select max(v.version) as version from proxylist.list_versions v
         where v.committed_at < proxylist.now_ms() - $1
     ), pruned as (
       update proxylist.list set removed_before = bound.version
         from bound where bound.version > removed_before returning removed_before as version
     ), tombstones as (
       delete from proxylist.removed r using pruned where r.version <= pruned.version
     )
     delete from proxylist.list_versions v using pruned where v.version < pruned.version`,
    [KEPT_MS],
  )
}
