/**
 * Versions of keys and plans, and of the list: each commit that changes one has its next number, in the
 * order of commits, which the copies of nodes follow; and a random mark, because after a failover another
 * commit may have the same number.
 */
import { type Connection, onlyRow, type Query } from './connection.ts'

/**
 * Runs `work` in a transaction that has locked keys and plans: what it reads stays so until its end.
 * `version` numbers the change, in the order of commits; rows that it writes carry it. One that has changed nothing
 * leaves no number behind.
 */
export type Change = <T>(
  work: (query: Query, version: number) => Promise<{ result: T; isChanged: boolean }>,
) => Promise<T>

/** The next number of keys and plans, with the lock that makes changes one after the other; `storeKeysVersion` stores it. */
export async function nextKeysVersion(query: Query): Promise<number> {
  const { version } = await onlyRow<{ version: number }>(
    query,
    'select (keys_version + 1)::float8 as version from proxylist.installation for update',
  )
  return version
}

/** Stores a version of keys and plans with a mark, and announces it. */
export async function storeKeysVersion(query: Query, version: number): Promise<void> {
  await query(
    `with stored as (update proxylist.installation set keys_version = $1::float8),
       made as (insert into proxylist.keys_versions values ($1::float8, gen_random_uuid()))
     select pg_notify('proxylist', 'keys')`,
    [version],
  )
}

/** Versions that are remembered; a copy that is further back is made again as a whole. */
const VERSIONS_KEPT = 100_000

/** Forgets old versions of keys, and which keys were removed by then. */
export async function pruneKeysVersions({ transaction }: Connection): Promise<void> {
  await transaction(async tx => {
    const { kept } = await onlyRow<{ kept: number }>(
      tx,
      'select (keys_version - $1)::float8 as kept from proxylist.installation',
      [VERSIONS_KEPT],
    )
    // A copy at a version that is not known is made again as a whole.
    await tx('delete from proxylist.keys_versions where version < $1::float8', [kept])
    await tx('delete from proxylist.removed_keys where version <= $1::float8', [kept])
  })
}

export const createChange =
  ({ transaction }: Pick<Connection, 'transaction'>): Change =>
  work =>
    transaction(async query => {
      const version = await nextKeysVersion(query)
      const { result, isChanged } = await work(query, version)
      if (isChanged) await storeKeysVersion(query, version)
      return result
    })

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
export async function storeListVersion(query: Query, state: ListState): Promise<void> {
  const { version, rows, newest, oldest } = state
  await query(
    `with stored as (
       update proxylist.list set version = $1, rows = $2, newest = $3, oldest = $4
     ), made as (
       insert into proxylist.list_versions values ($1, gen_random_uuid(), proxylist.now_ms())
     )
     select pg_notify('proxylist', 'list')`,
    [version, rows, newest, oldest],
  )
}

/** How long a machine may be away and still copy only what has changed. */
const KEPT_MS = 3 * 86_400_000

/** Forgets what was removed long ago; a copy that is older than that is copied whole. */
export async function pruneListVersions(query: Query): Promise<void> {
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
