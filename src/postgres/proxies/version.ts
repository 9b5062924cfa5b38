/**
 * Owns the versions of the list: each commit that changes it has the next one, with a random mark,
 * because after a failover another commit may have the same number.
 */
import type { Query } from '../connection.ts'
import { onlyRow } from '../rows.ts'

/** Wakes the machines that follow the list. */
const NOTIFY = "select pg_notify('proxylist', 'list')"

/** Where the list stands. Checks are Unix seconds: the newest one, and one that none is older than. */
export type ListState = {
  version: number
  rows: number
  newest: number | null
  oldest: number | null
}

const STATE = `select version::float8 as version, rows::float8 as rows, newest::float8 as newest,
  oldest::float8 as oldest from proxylist.list`

export const readState = (query: Query): Promise<ListState> => onlyRow(query, STATE)

/** Locks the list until the end of the transaction. */
export const lockList = (query: Query): Promise<ListState> => onlyRow(query, `${STATE} for update`)

/** Stores a new version of the locked list; the commit shows it to others and notifies them. */
export async function storeVersion(query: Query, state: ListState): Promise<void> {
  const { version, rows, newest, oldest } = state
  await query(
    `with stored as (
       update proxylist.list set version = $1, rows = $2, newest = $3, oldest = $4 returning version
     )
     insert into proxylist.list_versions
       select version, gen_random_uuid(), proxylist.now_ms() from stored`,
    [version, rows, newest, oldest],
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
