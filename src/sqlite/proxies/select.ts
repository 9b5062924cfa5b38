/** Selecting from the list: full and quick selects, of whole records or of endpoints, and what a list lacks. */
import type { Database } from 'bun:sqlite'
import type { Totals } from '../../api/answer.ts'
import { drawFrom, type Matches } from '../../proxies/draw.ts'
import type { Filter } from '../../proxies/filter.ts'
import { maskId } from '../../proxies/mask.ts'
import { type ProxyType, TYPES } from '../../proxies/proxy.ts'
import {
  AT,
  countryToNumber,
  type EndpointRow,
  type Found,
  ROW_COLUMNS,
  type Row,
  subnetOf,
} from '../../proxies/row.ts'
import type { FindOptions, Lacking, Lacks } from '../../proxies/store.ts'
import { dataVersionOf } from '../database.ts'
import { createMarks, lookUp, readMatches, readOrdered, readPages, type Source } from './pages.ts'
import { createFreshest, createQuickSelect } from './quick-select.ts'
import {
  type Bound,
  type Columns,
  createReader,
  ENDPOINT_COLUMNS,
  fullSql,
  ORDER,
  QUICK_RECORDS_MAX,
  type Reader,
  type Search,
  valuesOf,
} from './search.ts'

const NEWEST = `select checked_at from proxies indexed by proxies_by_age order by ${ORDER} limit 1`
const SEEKS = {
  country: 'indexed by proxies_by_country where country in (select value from json_each(?))',
  city: 'indexed by proxies_by_city where city in (select value from json_each(?))',
  port: 'indexed by proxies_by_port where id & 65535 = ?',
} as const
/** A type among the first entries by age. */
const TYPE_SCAN = `select 1 from
  (select type from proxies indexed by proxies_by_age order by ${ORDER} limit ?)
  where type in (select value from json_each(?)) limit 1`
const ENTRY_BEHIND = 'select 1 from proxies indexed by proxies_by_age limit 1 offset ?'

/** Looks up what a list lacks; `scanMax`: entries that a bounded scan may read. */
export function createLacks(read: Reader, scanMax: number) {
  const has = (where: string, value: Bound): boolean =>
    read.number(`select 1 from proxies ${where} limit 1`, [value]) !== undefined

  function lacking(filter: Filter): Lacking[] {
    const { countries, countryMode, cities, port } = filter
    const names: Lacking[] = []
    const numbers = JSON.stringify(countries.map(countryToNumber))
    const isIncluded = countries.length > 0 && countryMode === 'include'
    if (isIncluded && !has(SEEKS.country, numbers)) names.push('country')
    const cityIds = JSON.stringify(read.cityIds(filter))
    if (cities.length > 0 && !has(SEEKS.city, cityIds)) names.push('city')
    if (port !== null && !has(SEEKS.port, port)) names.push('port')
    return names
  }

  return {
    /** See `ProxyReader.lacks`. */
    lacks: (filter: Filter): Lacks => ({
      newestSeconds: read.number(NEWEST, []) ?? null,
      lacking: lacking(filter),
    }),
    /** See `ProxyReader.hasType`. `mayScanAll`: however long that takes, and then it is decided. */
    hasType(types: readonly ProxyType[], mayScanAll = false): boolean | null {
      const numbers = JSON.stringify(types.map(type => TYPES.indexOf(type)))
      const most = mayScanAll ? -1 : scanMax
      if (read.number(TYPE_SCAN, [most, numbers]) !== undefined) return true
      const isDecided = mayScanAll || read.number(ENTRY_BEHIND, [scanMax]) === undefined
      return isDecided ? false : null
    },
  }
}

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

/**
 * A long answer: its pages, read as they are used, and what is in all of them, found with pauses.
 * A page may be empty: that is a pause, too.
 */
export type LongAnswer<R> = { pages: Generator<R[]>; totals: () => Generator<void, Totals> }

/** Finds the rows that match, in the order of the filter. */
export type Selector<R> = {
  /** All that match, at most `filter.count`. */
  findAll(filter: Filter, options: FindOptions): R[]
  /** All that match; `null` when finding them would take long, or they are many. `version`: of the list. */
  findQuickly(filter: Filter, options: FindOptions, version: number): R[] | null
  /** All that match in pages, to be read on one snapshot. Addresses are compared unmasked. */
  open(filter: Filter, nowMs: number): LongAnswer<R>
  /** All that match when they are masked, found with pauses; to be called on a snapshot. */
  findMasked(filter: Filter, nowMs: number): Generator<void, R[]>
}

/** Whether an answer is in the order of the indexes. */
const isByAge = ({ sort }: Filter): boolean => sort === null || sort === 'checked'

/** All that a draw is made from. */
const undrawn = (filter: Filter): Filter => ({ ...filter, sort: null, count: null })

/** The number of ids, and the subnets of their addresses. Pauses after each page. */
function* totalsOf(pages: Iterable<Iterable<number>>): Generator<void, Totals> {
  let records = 0
  const subnets = new Set<number>()
  for (const ids of pages) {
    for (const id of ids) {
      records += 1
      subnets.add(subnetOf(id))
    }
    yield
  }
  return { records, subnets: [...subnets] }
}

function* idsOf(pages: Iterable<readonly EndpointRow[]>): Generator<number[]> {
  for (const page of pages) yield page.map(row => row[AT.id])
}

/** What selects read through. */
type Parts = Source & {
  selectFirst: ReturnType<typeof createQuickSelect>
  onSnapshot: ReturnType<typeof createSnapshots>
}

/** All rows, some time or other. */
function createFullSelect<R extends EndpointRow>({ read, nextMark }: Source, columns: Columns) {
  const ordered = (search: Search, filter: Filter, addressBits: FindOptions['addressBits']) =>
    readOrdered<R>({ read, nextMark }, search, filter, columns, addressBits).pages

  /** The rows that are shown when they are masked. */
  function* findMasked(filter: Filter, nowMs: number): Generator<void, R[]> {
    const search = read.search(filter, { nowMs, addressBits: 16 })
    const { sort, count } = filter
    if (sort === 'random') {
      const rows: R[] = []
      for (const page of ordered(search, filter, 16)) {
        rows.push(...page)
        yield
      }
      return rows
    }
    const pages = isByAge(filter)
      ? readPages<R>(read, search, columns, null, { nextMark })
      : ordered(search, { ...filter, count: null }, 32)
    return yield* firstOfEach(pages, count)
  }

  function findAll(filter: Filter, options: FindOptions): R[] {
    if (options.addressBits === 16) return withoutPause(findMasked(filter, options.nowMs))
    const search = read.search(filter, options)
    if (!isByAge(filter)) return [...ordered(search, filter, 32)].flat()
    const conditions = [search.since, ...search.all]
    const values = [...valuesOf(conditions), filter.count ?? -1]
    return read.all<R>(fullSql(columns, [conditions]), values)
  }

  return { findAll, findMasked }
}

/** Selects `columns`, or finds rows in memory that begin with them. */
function createSelector<R extends EndpointRow>(
  { read, nextMark, selectFirst, onSnapshot }: Parts,
  columns: Columns,
  findFresh: (search: Search, most: number, version: number) => R[] | null,
): Selector<R> {
  const { findAll, findMasked } = createFullSelect<R>({ read, nextMark }, columns)

  function findFew(filter: Filter, options: FindOptions, version: number): R[] | null {
    const search = read.search(filter, options)
    return selectFew<R>(
      filter,
      options,
      most => findFresh(search, most, version) ?? selectFirst<R>(search, most, columns, version),
    )
  }

  return {
    findMasked,
    findAll: (filter, options) => onSnapshot(() => findAll(filter, options)),
    findQuickly: (filter, options, version) =>
      onSnapshot(() => {
        if (filter.sort !== 'random') return findFew(filter, options, version)
        const all = findFew(undrawn(filter), options, version)
        return all && drawFrom(all, filter.count)
      }),
    open(filter, nowMs) {
      const search = read.search(filter, { nowMs, addressBits: 32 })
      const { count } = filter
      if (!isByAge(filter)) {
        const { pages, ids } = readOrdered<R>({ read, nextMark }, search, filter, columns, 32)
        const totals = function* (): Generator<void, Totals> {
          return yield* totalsOf([yield* ids()])
        }
        return { pages, totals }
      }
      const endpoints = () =>
        readPages<EndpointRow>(read, search, ENDPOINT_COLUMNS, count, { nextMark })
      return {
        pages: readPages<R>(read, search, columns, count, { nextMark }),
        totals: () => totalsOf(idsOf(endpoints())),
      }
    },
  }
}

/** Selects from an open list; a quick select reads up to `scanMax` entries of each branch. */
export function createSelect(db: Database, scanMax: number) {
  const read = createReader(db)
  const freshest = createFreshest(read, dataVersionOf(db), scanMax)
  const onSnapshot = createSnapshots(db)
  const nextMark = createMarks(read, dataVersionOf(db))
  const selectFirst = createQuickSelect(read, scanMax)
  const parts = { read, nextMark, selectFirst, onSnapshot }
  const records = createSelector<Row>(parts, ROW_COLUMNS, freshest.find)
  const endpoints = createSelector<EndpointRow>(parts, ENDPOINT_COLUMNS, freshest.find)
  const { cityNames } = read
  return {
    records,
    endpoints,
    cityNames,
    ...createLacks(read, scanMax),
    /** As `records.findQuickly`. */
    findQuickly(filter: Filter, options: FindOptions, version: number): Found | null {
      const rows = records.findQuickly(filter, options, version)
      return rows && { rows, cityNames, areKept: freshest.holds(rows) }
    },
    /** All that match, to draw from, found with pauses; to be called on a snapshot. */
    matches: (filter: Filter, options: FindOptions): Generator<void, Matches> =>
      readMatches(parts, read.search(undrawn(filter), options), options.addressBits),
    /** See `ProxyReader.findByIds`. */
    findByIds(filter: Filter, options: FindOptions, ids: ArrayLike<number>): Found | null {
      const { since, createMatcher } = read.search(filter, options)
      const rows = lookUp<Row>(read, ROW_COLUMNS, ids)
      const [matches, oldest] = [createMatcher(), Number(since.values[0])]
      const isRight = rows.every(row => row[AT.checkedAt] >= oldest && matches(row))
      return isRight && rows.length === ids.length ? { rows, cityNames, areKept: false } : null
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
