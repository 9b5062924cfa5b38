/**
 * Owns selecting from the list: full and quick selects, of whole records or of endpoints. The
 * SQL of a filter is in `filter-sql.ts`.
 */
import type { Database } from 'bun:sqlite'
import type { Filter } from '../../proxies/filter.ts'
import type { Endpoint, Proxy } from '../../proxies/proxy.ts'
import type { FindOptions } from '../../proxies/store.ts'
import { createQuickSelect } from './quick-select.ts'
import { type Columns, createReader, fullSql, valuesOf } from './reader.ts'
import {
  ENDPOINT_COLUMNS,
  type EndpointRow,
  endpointOf,
  proxyOf,
  ROW_COLUMNS,
  type Row,
} from './row.ts'

/** Most records of a quick select. */
export const QUICK_RECORDS_MAX = 1_000

/** The part of an id that counts with 16 address bits: the first two octets, and the port. */
const id16 = (id: number): number => Math.floor(id / 2 ** 32) * 65536 + (id % 65536)

/** Up to `count` rows: the first of those with the same `id16`. */
function firstOfEach<R extends EndpointRow>(rows: Iterable<R>, count: number | null): R[] {
  const first = new Map<number, R>()
  for (const row of rows) {
    const key = id16(row[0])
    if (!first.has(key)) first.set(key, row)
    if (first.size === count) break
  }
  return [...first.values()]
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

/** Finds matches in order: freshest check first, then lowest ping, then address. */
export type Selector<T> = {
  /** All that match, at most `filter.count`. */
  findAll(filter: Filter, options: FindOptions): T[]
  /** The same; `null` when that would take long or find many. `version`: of the list. */
  findQuickly(filter: Filter, options: FindOptions, version: number): T[] | null
  /** The same one by one, read as they are used; all bits of an address count. */
  each(filter: Filter, nowMs: number): Generator<T>
}

/** Selects from an open list; a quick select reads up to `scanMax` entries of each branch. */
export function createSelect(db: Database, scanMax: number) {
  const read = createReader(db)
  const selectFirst = createQuickSelect(read, scanMax)
  const onSnapshot = createSnapshots(db)

  /** The statement of a full select, and its values. */
  function full(filter: Filter, options: FindOptions, columns: Columns, limit: number | null) {
    const { since, all } = read.search(filter, options)
    const conditions = [since, ...all]
    return [fullSql(columns, conditions), [...valuesOf(conditions), limit ?? -1]] as const
  }

  /** The rows of a full select; `null` when that would take long or find many. */
  function quick<R extends EndpointRow>(
    filter: Filter,
    options: FindOptions,
    columns: Columns,
    version: number,
  ): R[] | null {
    const { count } = filter
    const isMasked = options.addressBits === 16
    const most = isMasked ? QUICK_RECORDS_MAX : Math.min(count ?? Infinity, QUICK_RECORDS_MAX + 1)
    const found = selectFirst<R>(read.search(filter, options), most, columns, version)
    if (found === null || found.length > QUICK_RECORDS_MAX) return null
    if (!isMasked) return found
    const shown = firstOfEach(found, count)
    return found.length < most || shown.length === count ? shown : null
  }

  /** Selects `columns` and turns each row into a record. */
  function selectorOf<R extends EndpointRow, T>(
    columns: Columns,
    toRecord: (row: R) => T,
  ): Selector<T> {
    const allRows = (filter: Filter, options: FindOptions): R[] =>
      options.addressBits === 16
        ? firstOfEach(read.each<R>(...full(filter, options, columns, null)), filter.count)
        : read.all<R>(...full(filter, options, columns, filter.count))
    return {
      findAll: (filter, options) => onSnapshot(() => allRows(filter, options).map(toRecord)),
      findQuickly: (filter, options, version) =>
        onSnapshot(() => quick<R>(filter, options, columns, version)?.map(toRecord) ?? null),
      *each(filter, nowMs) {
        const statement = full(filter, { nowMs, addressBits: 32 }, columns, filter.count)
        for (const row of read.each<R>(...statement)) yield toRecord(row)
      },
    }
  }

  return {
    records: selectorOf<Row, Proxy>(ROW_COLUMNS, row => proxyOf(row, read.cityOf)),
    endpoints: selectorOf<EndpointRow, Endpoint>(ENDPOINT_COLUMNS, endpointOf),
  }
}
