/** Reading the counts of a list, and making the coded statistics of them. */
import type { Database } from 'bun:sqlite'
import { type Coded, encode } from '../../lib/coded.ts'
import { ageClock } from '../../lib/time.ts'
import { AT, type CityName, ROW_COLUMNS } from '../../proxies/row.ts'
import {
  type Breakdown,
  breakdownOf,
  COUNTED_COLUMNS,
  type CountedRow,
  createCounter,
  type ListCounts,
  largestThatFits,
  statsDocument,
} from '../../proxies/stats.ts'
import type { StatsRequest } from '../../proxies/store.ts'

/** Rows that are in memory at a time. */
const PAGE_ROWS = 2_000
/** The most bytes of the statistics in either compressed form (contract F4). */
const STATS_BYTES_MAX = 40_000

/** Counts the rows of an open list on one snapshot, `at` in Unix seconds; a million take 0.3 s. */
export function readCounts(db: Database, at: number): ListCounts {
  const columns = ROW_COLUMNS.slice(0, COUNTED_COLUMNS).join(', ')
  const page = db.prepare(`select ${columns} from proxies where id > ? order by id limit ?`)
  const city = db.prepare<CityName, [number]>(
    'select name, name_en as nameEn from cities where id = ?',
  )
  const cityNames = (id: number): CityName => city.get(id) ?? { name: '', nameEn: '' }
  return db.transaction(() => {
    const counter = createCounter(at)
    let lastId = -1
    for (;;) {
      const rows = page.values(lastId, PAGE_ROWS) as unknown as CountedRow[] // values() is untyped
      for (const row of rows) counter.add(row)
      if (rows.length < PAGE_ROWS) return counter.read(cityNames)
      lastId = rows.at(-1)?.[AT.id] ?? Number.MAX_SAFE_INTEGER
    }
  })()
}

/** The list by type, country and age at an instant in milliseconds, on one snapshot. */
export function readBreakdown(db: Database, nowMs: number): Breakdown {
  const nth = db.prepare<{ at: number }, [number]>(
    'select checked_at as at from proxies order by checked_at desc limit 1 offset ?',
  )
  return db.transaction(() => {
    const counts = readCounts(db, ageClock(nowMs))
    return breakdownOf(counts, nth.get(Math.floor(counts.rows / 2))?.at ?? null)
  })()
}

/** The statistics of an open list, with as many cells as fit. */
export function makeStats(db: Database, { nowMs, ...options }: StatsRequest): Coded {
  const counts = readCounts(db, ageClock(nowMs))
  return largestThatFits(
    counts,
    size => encode(JSON.stringify(statsDocument(counts, options, size))),
    ({ gzip, zstd }) => Math.max(gzip.length, zstd.length) <= STATS_BYTES_MAX,
  )
}
