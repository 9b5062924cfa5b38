/** The counts of a list and the statistics made of them, and the server's side of the worker that makes both. */
import type { Database } from 'bun:sqlite'
import { type Later, timerLater } from '../../lib/clock.ts'
import { type Coded, encode } from '../../lib/coded.ts'
import { StoreError } from '../../lib/errors.ts'
import { ageClock } from '../../lib/time.ts'
import { startTask, type Task } from '../../lib/worker.ts'
import { ROW_COLUMNS } from '../../proxies/row.ts'
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
import type { StatsRequest, StatsSource } from '../../proxies/store.ts'
import { toStoreError } from '../errors.ts'
import { createCities } from './cities.ts'
import { pagesById } from './store.ts'
import type { StreamHooks } from './stream.ts'

/** The most bytes of the statistics in either compressed form (contract F4). */
const STATS_BYTES_MAX = 40_000

/** Counts the rows of an open list on one snapshot, `at` in Unix seconds; a million take 0.3 s. */
export function readCounts(db: Database, at: number): ListCounts {
  const { nameOf } = createCities(db)
  return db.transaction(() => {
    const counter = createCounter(at)
    for (const rows of pagesById<CountedRow>(db, ROW_COLUMNS.slice(0, COUNTED_COLUMNS))) {
      for (const row of rows) counter.add(row)
    }
    return counter.read(nameOf)
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

/** What the worker is sent: to make the statistics of the list in a file, or only to count it. */
export type StatsTask = { file: string; holds: 'proxies' } & (
  | { kind: 'make'; request: StatsRequest }
  | { kind: 'count'; nowMs: number }
)

/** A worker that takes longer is ended: it keeps the WAL from being emptied. */
const WORK_MS_MAX = 20_000

/** Makes the statistics of the list in `file`; each time in a worker that ends afterwards. */
export function createStatsSource(
  file: string,
  { verify, onFailure }: StreamHooks,
  later: Later = timerLater,
): StatsSource & { close(): void } {
  const tasks = new Set<Task<unknown>>()
  const list = { file, holds: 'proxies' } as const
  let isClosed = false

  /** Has the worker do a task on a list that may be used. @throws StoreError */
  async function run<Result>(input: StatsTask): Promise<Result> {
    const task = startTask<StatsTask, Result>('sqlite/database.worker.ts', input)
    tasks.add(task)
    const tooLong = new Error(`they took longer than ${WORK_MS_MAX} ms`)
    const cancelTimer = later(() => task.end(tooLong), WORK_MS_MAX)
    try {
      const result = await task.result
      verify()
      return result
    } catch (error) {
      if (!isClosed) onFailure(error)
      const known = toStoreError(file, error)
      if (known instanceof StoreError) throw known
      throw new StoreError('the statistics could not be made', { cause: error })
    } finally {
      cancelTimer()
      tasks.delete(task)
    }
  }

  return {
    make: request => run<Coded>({ kind: 'make', ...list, request }),
    count: nowMs => run<Breakdown>({ kind: 'count', ...list, nowMs }),
    close(): void {
      isClosed = true
      for (const task of tasks) task.end(new Error('the server is stopping'))
    },
  }
}
