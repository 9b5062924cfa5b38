/** Owns the list in a database: what writes it, and what is read of it as a whole. */
import type { Clock } from '../../lib/clock.ts'
import { ageClock, SECOND_MS } from '../../lib/time.ts'
import { AT, type CityName } from '../../proxies/row.ts'
import { type Breakdown, breakdownOf } from '../../proxies/stats/breakdown.ts'
import { createCounter } from '../../proxies/stats/counts.ts'
import type { ProxyWriter, Removal } from '../../proxies/store.ts'
import type { Connection } from '../connection.ts'
import { LOCK_CLASS, LOCKS } from '../schema.ts'
import { beginImport } from './import.ts'
import { readList } from './read.ts'
import { lockList, pruneVersions, storeVersion } from './version.ts'

/** Rows removed at a time: so many are on all machines within a second (contract I3). */
const REMOVE_SLICE = 5_000

type Extent = { rows: number; newestMs: number | null }

/**
 * The list in a database. The connection is for this store alone: an import holds it from its first
 * row to its end, and takes as long as it needs.
 */
export function createListStore(connection: Connection, clock: Clock) {
  const { query, transaction } = connection

  const removeStale = (retainMs: number, nowMs: number): Promise<Removal> =>
    transaction(async tx => {
      const [lock] = await tx<{ ok: boolean }>('select pg_try_advisory_xact_lock($1, $2) as ok', [
        ...[LOCK_CLASS, LOCKS.list],
      ])
      if (!lock?.ok) return { removed: 0, rowsBefore: 0, mayRemain: false } // an import is under way
      const { version, rows } = await lockList(tx)
      const removedRows = await tx<{ removed: number }>(
        `with stale as (
           select id from proxylist.proxies
             where checked_at < floor((least($1::float8,
               (select max(checked_at) from proxylist.proxies) * 1000) - $2::float8) / 1000)
             order by checked_at limit ${REMOVE_SLICE}
         ), gone as (
           delete from proxylist.proxies p using stale where p.id = stale.id returning p.id
         ), tombstones as (
           insert into proxylist.removed select id, $3 from gone
             on conflict (id) do update set version = excluded.version
         )
         select count(*)::int as removed from gone`,
        [nowMs, retainMs, version + 1],
      )
      const removed = removedRows[0]?.removed ?? 0
      if (removed > 0) await storeVersion(tx, { version: version + 1, rows: rows - removed })
      const mayRemain = removed === REMOVE_SLICE
      if (!mayRemain) await pruneVersions(tx)
      return { removed, rowsBefore: rows, mayRemain }
    })

  return {
    begin: (mode, onWait = () => {}) => beginImport(connection, mode, onWait, clock()),
    removeStale,

    /** The number of rows, and the newest check in milliseconds. */
    async extent(): Promise<Extent> {
      const [found] = await query<{ rows: number; newest: number | null }>(
        `select rows::float8 as rows,
           (select max(checked_at)::float8 from proxylist.proxies) as newest from proxylist.list`,
      )
      const { rows, newest } = found ?? { rows: 0, newest: null }
      return { rows, newestMs: newest === null ? null : newest * SECOND_MS }
    },

    /** Where the list stands. */
    async version(): Promise<{ version: number; mark: string }> {
      const [found] = await query<{ version: number; mark: string }>(
        `select version::float8 as version, mark::text as mark
           from proxylist.list join proxylist.list_versions using (version)`,
      )
      return found ?? { version: 0, mark: '' }
    },

    /** The list by type, country and age, as of one moment; a million rows take seconds. */
    async breakdown(nowMs: number): Promise<Breakdown> {
      const counter = createCounter(ageClock(nowMs))
      const names = new Map<number, CityName>()
      const checks: number[] = []
      await readList(connection, null, {
        begin() {},
        removed() {},
        cities(rows) {
          for (const { id, ...name } of rows) names.set(id, name)
        },
        rows(rows) {
          for (const row of rows) {
            counter.add(row)
            checks.push(row[AT.checkedAt])
          }
        },
      })
      const counts = counter.read(id => names.get(id) ?? { name: '', nameEn: '' })
      const newestFirst = Float64Array.from(checks).sort().reverse()
      return breakdownOf(counts, newestFirst[Math.floor(counts.rows / 2)] ?? null)
    },

    close: connection.close,
  } satisfies ProxyWriter & { [member: string]: unknown }
}
