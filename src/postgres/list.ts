/** The list in a database: what writes it. */
import type { Clock } from '../lib/clock.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import type { ProxyWriter, Removal } from '../proxies/store.ts'
import {
  type ListState,
  lockList,
  pruneListVersions,
  readState,
  storeListVersion,
} from './change-numbers.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'
import { beginImport } from './import.ts'
import { LOCK_CLASS, LOCKS } from './migrate.ts'

/** Rows removed at a time: so many are on all machines within a second (contract I3). */
const REMOVE_SLICE = 5_000

const REMOVE = `
  with stale as (
    select id from proxylist.proxies where checked_at < $1 order by checked_at limit ${REMOVE_SLICE}
  ), gone as (
    delete from proxylist.proxies p using stale where p.id = stale.id returning p.id
  ), tombstones as (
    insert into proxylist.removed select id, $2 from gone
      on conflict (id) do update set version = excluded.version
  )
  select count(*)::int as removed from gone`

const OLDEST = 'select min(checked_at)::float8 as oldest from proxylist.proxies'

/** Removes a slice of what is too old from the locked list; returns how many rows that were. */
async function removeSlice(
  tx: Query,
  { version, rows, newest, oldest }: ListState,
  { retainMs, nowMs }: { retainMs: number; nowMs: number },
): Promise<number> {
  const newestMs = newest === null ? nowMs : newest * SECOND_MS
  const cutoff = Math.max(0, toSeconds(Math.min(nowMs, newestMs) - retainMs))
  if (oldest === null || oldest >= cutoff) return 0
  const { removed } = await onlyRow<{ removed: number }>(tx, REMOVE, [cutoff, version + 1])
  const isLast = removed < REMOVE_SLICE
  const left = isLast ? await onlyRow<Pick<ListState, 'oldest'>>(tx, OLDEST) : { oldest }
  const state = { rows: rows - removed, newest, oldest: left.oldest }
  if (removed > 0) await storeListVersion(tx, { version: version + 1, ...state })
  else await tx('update proxylist.list set oldest = $1', [state.oldest])
  return removed
}

/**
 * The list in a database. The connection is for this store alone: an import holds it from its first
 * row to its end, and takes as long as it needs.
 */
export function createListStore(connection: Connection, clock: Clock) {
  const { query, transaction } = connection

  const removeStale = (retainMs: number, nowMs: number): Promise<Removal> =>
    transaction(async tx => {
      const text = 'select pg_try_advisory_xact_lock($1, $2) as ok'
      const { ok } = await onlyRow<{ ok: boolean }>(tx, text, [LOCK_CLASS, LOCKS.list])
      if (!ok) return { removed: 0, mayRemain: false } // an import is under way
      const state = await lockList(tx)
      const removed = await removeSlice(tx, state, { retainMs, nowMs })
      const mayRemain = removed === REMOVE_SLICE
      if (!mayRemain) await pruneListVersions(tx)
      return { removed, mayRemain }
    })

  return {
    begin: (mode, onWait = () => {}) => beginImport(connection, mode, onWait, clock()),
    removeStale,
    async importMark(): Promise<string> {
      const text = 'select imported::text as mark from proxylist.list'
      return (await onlyRow<{ mark: string }>(query, text)).mark
    },
    count: async (): Promise<number> => (await readState(query)).rows,

    close: connection.close,
  } satisfies ProxyWriter & { [member: string]: unknown }
}
