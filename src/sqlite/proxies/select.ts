/**
 * Owns selecting from the list: full and quick selects, of whole records or of endpoints. The
 * SQL of a filter is in `filter-sql.ts`.
 */
import type { Database } from 'bun:sqlite'
import type { Filter } from '../../proxies/filter.ts'
import { maskId } from '../../proxies/mask.ts'
import { AT, type EndpointRow, type Found, type Row } from '../../proxies/row.ts'
import type { FindOptions } from '../../proxies/store.ts'
import { dataVersionOf } from '../database.ts'
import type { Search } from './filter-sql.ts'
import { createFreshest } from './freshest.ts'
import { createMarks, readPages } from './pages.ts'
import { createQuickSelect, QUICK_RECORDS_MAX } from './quick-select.ts'
import {
  type Columns,
  createReader,
  ENDPOINT_COLUMNS,
  fullSql,
  ROW_COLUMNS,
  valuesOf,
} from './reader.ts'

/**
 * Returns up to `count` rows: the first of those that look the same when they are masked. Pauses
 * after each page.
 */
function* firstOfEach<R extends EndpointRow>(
  pages: Iterable<readonly R[]>,
  count: number | null,
): Generator<void, R[]> {
  const first = new Map<number, R>()
  for (const page of pages) {
    for (const row of page) {
      const key = maskId(row[AT.id])
      if (!first.has(key)) first.set(key, row)
      if (first.size === count) return [...first.values()]
    }
    yield
  }
  return [...first.values()]
}

/** What work returns that pauses now and then. */
function withoutPause<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/**
 * The rows of a full select; `null` when that would take long or find many. `findFirst` finds up to
 * `most` rows, or `null`.
 */
function selectFew<R extends EndpointRow>(
  { count }: Filter,
  { addressBits }: FindOptions,
  findFirst: (most: number) => R[] | null,
): R[] | null {
  const isMasked = addressBits === 16
  const most = isMasked ? QUICK_RECORDS_MAX : Math.min(count ?? Infinity, QUICK_RECORDS_MAX + 1)
  const found = findFirst(most)
  if (found === null || found.length > QUICK_RECORDS_MAX) return null
  if (!isMasked) return found
  const shown = withoutPause(firstOfEach([found], count))
  return found.length < most || shown.length === count ? shown : null
}

/** Runs all statements of `work` on one snapshot: an import may commit between two of them. */
function createSnapshots(db: Database) {
  const begin = db.prepare('begin')
  const end = db.prepare('commit')
  return <T>(work: () => T): T => {
    if (db.inTransaction) return work()
    begin.run()
    try {
      return work()
    } finally {
      end.run()
    }
  }
}

/** Finds the rows that match, in order: freshest check first, then lowest ping, then address. */
export type Selector<R> = {
  /** All that match, at most `filter.count`. */
  findAll(filter: Filter, options: FindOptions): R[]
  /** The same; `null` when that would take long or find many. `version`: of the list. */
  findQuickly(filter: Filter, options: FindOptions, version: number): R[] | null
  /** All that match when they are masked, found with pauses; to be called on a snapshot. */
  findMasked(filter: Filter, nowMs: number): Generator<void, R[]>
  /** The same in pages, read as they are used, on one snapshot; all bits of an address count. */
  pages(filter: Filter, nowMs: number): Generator<R[]>
}

/** Selects from an open list; a quick select reads up to `scanMax` entries of each branch. */
export function createSelect(db: Database, scanMax: number) {
  const read = createReader(db)
  const selectFirst = createQuickSelect(read, scanMax)
  const freshest = createFreshest(read, dataVersionOf(db), scanMax)
  const nextMark = createMarks(read, dataVersionOf(db))
  const onSnapshot = createSnapshots(db)

  /** The statement of a full select, and its values. */
  function full(filter: Filter, options: FindOptions, columns: Columns) {
    const { since, all } = read.search(filter, options)
    const conditions = [since, ...all]
    return [fullSql(columns, [conditions]), [...valuesOf(conditions), filter.count ?? -1]] as const
  }

  /** Selects `columns`, or finds rows that begin with them. */
  function selectorOf<R extends EndpointRow>(
    columns: Columns,
    findFresh: (search: Search, most: number, version: number) => R[] | null,
  ): Selector<R> {
    const findMasked = (filter: Filter, nowMs: number): Generator<void, R[]> => {
      const search = read.search(filter, { nowMs, addressBits: 16 })
      return firstOfEach(readPages<R>(read, search, columns, null, { nextMark }), filter.count)
    }
    const allRows = (filter: Filter, options: FindOptions): R[] =>
      options.addressBits === 16
        ? withoutPause(findMasked(filter, options.nowMs))
        : read.all<R>(...full(filter, options, columns))
    return {
      findMasked,
      findAll: (filter, options) => onSnapshot(() => allRows(filter, options)),
      findQuickly: (filter, options, version) =>
        onSnapshot(() => {
          const search = read.search(filter, options)
          return selectFew<R>(
            filter,
            options,
            most =>
              findFresh(search, most, version) ?? selectFirst<R>(search, most, columns, version),
          )
        }),
      pages: (filter, nowMs) =>
        readPages<R>(
          ...([read, read.search(filter, { nowMs, addressBits: 32 }), columns] as const),
          ...([filter.count, { nextMark }] as const),
        ),
    }
  }

  const { cityNames } = read
  const records = selectorOf<Row>(ROW_COLUMNS, freshest.find)
  const endpoints = selectorOf<EndpointRow>(ENDPOINT_COLUMNS, freshest.find)
  return {
    records,
    endpoints,
    cityNames,
    /** As `records.findQuickly`. */
    findQuickly(filter: Filter, options: FindOptions, version: number): Found | null {
      const rows = records.findQuickly(filter, options, version)
      return rows && { rows, cityNames, areKept: freshest.holds(rows) }
    },
    /** Finds all that match, however many they are. */
    finder: {
      find: (filter: Filter, options: FindOptions): Found => ({
        rows: records.findAll(filter, options),
        cityNames,
        areKept: false,
      }),
      findEndpoints: endpoints.findAll,
    },
  }
}
