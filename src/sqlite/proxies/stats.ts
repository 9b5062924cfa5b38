/** Statistics of an open list from columns in memory, and the server's side of the worker that makes them. */
import type { Database } from 'bun:sqlite'
import { bodyOf, createAnswerRenderer } from '../../api/answer.ts'
import type { Output } from '../../api/render.ts'
import { type SetTimer, timerLater } from '../../lib/clock.ts'
import { type EncodedBodies, encode } from '../../lib/compression.ts'
import { StoreError } from '../../lib/errors.ts'
import { ageClock, MINUTE_MS } from '../../lib/time.ts'
import { startTask, startTasks, type Task, type Tasks } from '../../lib/worker.ts'
import { type Condition, conditionsOf } from '../../proxies/filter.ts'
import { type ProxyType, TYPES } from '../../proxies/proxy.ts'
import { countryText, ROW_COLUMNS, type Row, type RowNumbers } from '../../proxies/row.ts'
import {
  AGES_SECONDS,
  type Breakdown,
  type Columns,
  countFacets,
  createColumns,
  type StatsRequest,
  statsDocument,
} from '../../proxies/stats.ts'
import type { StatsSource } from '../../proxies/store.ts'
import { typesOf } from '../../proxies/types.ts'
import { dataVersionOf } from '../database.ts'
import { toStoreError } from '../errors.ts'
import { createCities } from './cities.ts'
import { allOf, ORDER, valuesOf } from './filter-sql.ts'
import { countRows } from './store.ts'
import type { StreamHooks } from './stream.ts'

const FROM_LIST = `from proxies indexed by proxies_by_age order by ${ORDER}`

/** Whole records, as `demo` gets them by default. */
const EXAMPLES: Output = {
  ...{ kind: 'json', shape: 'array', fields: null, pretty: false },
  ...{ isDownload: false, line: null, splitIp: false, wrap: false },
}

/** Answers queries about an open list. It keeps the columns, because filling them takes most of a second. */
export function createStatsReader(db: Database) {
  const { named, nameOf } = createCities(db)
  const dataVersion = dataVersionOf(db)
  let kept: { columns: Columns; version: string } | null = null

  function fill(): Columns {
    const columns = createColumns(countRows(db))
    const all = db.prepare<RowNumbers, []>(
      `select ${ROW_COLUMNS.slice(0, -1).join(', ')} ${FROM_LIST}`,
    )
    for (const row of all.iterate()) columns.add(row)
    return columns
  }

  /** The rows at these positions of the columns; of rows that look alike when masked, the first that matches. */
  function rowsAt(
    positions: readonly number[],
    { checkedAt, ping, masked }: Columns,
    conditions: readonly Condition[],
  ) {
    // By this index, however many check times, pings and networks are the same.
    const alike = db.prepare(
      `select ${ROW_COLUMNS.join(', ')} from proxies indexed by proxies_by_port where id & 65535 = ? and
       checked_at = ? and ping_ms = ? and id between ? and ? and ${allOf(conditions)} order by id limit 1`,
    )
    return positions.flatMap(at => {
      const address = masked[at] ?? 0
      const first = Math.floor(address / 65_536) * 2 ** 32
      const port = address % 65_536
      const values = [port, checkedAt[at] ?? 0, ping[at] ?? 0, first, first + 2 ** 32 - 1]
      return alike.values(...values, ...valuesOf(conditions)) as unknown as Row[] // values() is untyped
    })
  }

  function documentOf(columns: Columns, request: StatsRequest) {
    const { filter, nowMs, part, provider } = request
    const at = ageClock(nowMs)
    const inCities = named(filter.cities, filter.lang).condition
    const options = { addressBits: 32, inCities, countryMode: filter.countryMode } as const
    const found = countFacets(columns, filter, at, options)
    const { all } = conditionsOf(filter, options, null)
    const rows = part === 'full' ? rowsAt(found.firsts, columns, all) : []
    const { answer } = createAnswerRenderer(provider)(
      { filter, output: EXAMPLES, addressBits: 16 },
      { rows, cityNames: nameOf, areKept: false },
    )
    const examples = JSON.parse(Buffer.from(bodyOf(answer, nowMs)).toString())
    return statsDocument(columns, found, at, request, nameOf, examples)
  }

  return (request: StatsRequest): EncodedBodies => {
    db.run('begin') // one snapshot
    try {
      // The version of a request may be older than this snapshot; a list in memory has no other.
      const version = `${request.version} ${dataVersion()}`
      if (kept?.version !== version) kept = null // before there are two of them
      kept ??= { columns: fill(), version }
      return encode(JSON.stringify(documentOf(kept.columns, request)))
    } finally {
      db.run('rollback')
    }
  }
}

const countBy = (db: Database, column: 'types & 15' | 'country') =>
  db
    .query<{ value: number; count: number }, []>(
      `select ${column} as value, count(*) as count from proxies group by 1 order by count desc, 1`,
    )
    .all()

/** The list by type, country and age at an instant in milliseconds, on one snapshot. */
export function readBreakdown(db: Database, nowMs: number): Breakdown {
  const at = ageClock(nowMs)
  const nth = db.prepare<{ at: number }, [number]>(
    `select checked_at as at ${FROM_LIST} limit 1 offset ?`,
  )
  const since = db.prepare<{ rows: number }, [number]>(
    'select count(*) as rows from proxies indexed by proxies_by_age where checked_at >= ?',
  )
  return db.transaction(() => {
    const rows = countRows(db)
    const typeSets = countBy(db, 'types & 15')
    const rowsOf = (type: ProxyType): number =>
      typeSets.reduce((n, { value, count }) => n + (typesOf(value).includes(type) ? count : 0), 0)
    const upTo = [...AGES_SECONDS.map(seconds => since.get(at - seconds)?.rows ?? 0), rows]
    return {
      rows,
      newest: nth.get(0)?.at ?? null,
      median: nth.get(Math.floor(rows / 2))?.at ?? null,
      types: TYPES.map(type => ({ type, count: rowsOf(type) })),
      countries: countBy(db, 'country').map(({ value, count }) => ({
        country: countryText(value),
        count,
      })),
      ages: upTo.map((count, i) => ({
        seconds: AGES_SECONDS[i] ?? null,
        count: count - (upTo[i - 1] ?? 0),
      })),
    }
  })()
}

export type StatsQuery = { file: string; request: StatsRequest }
/** The task of the worker that counts once and ends. */
export type CountTask = { kind: 'count'; file: string; database: 'proxies'; nowMs: number }

/** A worker that takes longer is ended: it keeps the WAL from being emptied. */
const WORK_MS_MAX = 20_000
const IDLE_MS = MINUTE_MS

/** Answers queries about the list in `file` in a worker. */
export function createStatsSource(
  file: string,
  { verify, onFailure }: StreamHooks,
  later: SetTimer = timerLater,
): StatsSource & { close(): void } {
  const counting = new Set<Task<Breakdown>>()
  let worker: Tasks<StatsQuery, EncodedBodies> | null = null
  let cancelIdle = (): void => {}
  let isClosed = false

  function endWorker(why?: Error): void {
    cancelIdle()
    worker?.end(why)
    worker = null
  }

  /** The result of work on a list that may still be shown. @throws StoreError */
  async function checked<T>(work: () => Promise<T>, end: (why: Error) => void): Promise<T> {
    const tooLong = new Error(`they took longer than ${WORK_MS_MAX} ms`)
    const cancelTimer = later(() => end(tooLong), WORK_MS_MAX)
    try {
      const result = await work()
      verify()
      return result
    } catch (error) {
      if (!isClosed) onFailure(error)
      const known = toStoreError(file, error)
      if (known instanceof StoreError) throw known
      throw new StoreError('the statistics could not be made', { cause: error })
    } finally {
      cancelTimer()
    }
  }

  return {
    answer(request) {
      cancelIdle()
      cancelIdle = later(endWorker, IDLE_MS)
      return checked(async () => {
        worker ??= startTasks<StatsQuery, EncodedBodies>('sqlite/proxies/stats.worker.ts')
        return worker.run({ file, request })
      }, endWorker).catch((error: Error) => {
        endWorker(error) // the next query opens the list again
        throw error
      })
    },
    async count(nowMs) {
      const input = { kind: 'count', file, database: 'proxies', nowMs } as const
      const task = startTask<CountTask, Breakdown>('sqlite/database.worker.ts', input)
      counting.add(task)
      return checked(() => task.result, task.end).finally(() => counting.delete(task))
    },
    close(): void {
      isClosed = true
      const stopping = new Error('the server is stopping')
      endWorker(stopping)
      for (const task of counting) task.end(stopping)
    },
  }
}
