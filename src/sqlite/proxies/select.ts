/**
 * Selects from the list. A quick select reads a bounded part of an index, a few milliseconds, and gives up if that
 * is not enough. The freshest rows of each branch stay in memory until the list changes: most requests want
 * these with new filters, and scanning a thousand of them takes a tenth of the time that SQL takes.
 */
import type { Database } from 'bun:sqlite'
import type { Totals } from '../../api/answer.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { drawFrom, type Matches } from '../../proxies/draw.ts'
import type { Bound, Filter } from '../../proxies/filter.ts'
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
import {
  allOf,
  type Columns,
  type Condition,
  createPages,
  createReader,
  ENDPOINT_COLUMNS,
  firstOfEach,
  fullSql,
  indexedBy,
  inOrder,
  ORDER,
  ORDERS,
  type Pages,
  type Path,
  QUICK_RECORDS_MAX,
  type Reader,
  type Search,
  scanBudget,
  valuesOf,
} from './search.ts'

/** Branches with rows or cutoffs in memory. */
const BRANCHES_MAX = 10_000

/** The matches among the first entries of a branch, in the order of its index. */
const firstSql = (
  columns: Columns,
  index: string | null,
  branch: readonly Condition[],
  rest: readonly Condition[],
): string =>
  `select ${columns.join(', ')} from (
     select ${ROW_COLUMNS.join(', ')} from proxies ${indexedBy(index)} where ${allOf(branch)}
     order by ${ORDER} limit ?
   ) where ${allOf(rest)} limit ?`

/** Creates a select that reads up to `scanMax` entries of each branch. */
export function createQuickSelect(read: Reader, scanMax: number) {
  /** Check times of entry `scanMax` of branches, until the list changes. */
  const cutoffs = createBoundedMap<string, number>(BRANCHES_MAX)
  let cutoffsVersion = 0

  /** A quick select can read all checks of a branch later than this, in Unix seconds. */
  function cutoffOf(index: string | null, branch: Condition, version: number): number {
    if (index === null) return -Infinity
    if (version !== cutoffsVersion) cutoffs.clear()
    cutoffsVersion = version
    const key = `${index} ${branch.values}`
    const known = cutoffs.get(key)
    if (known !== undefined) return known
    const sql = `select checked_at from proxies ${indexedBy(index)} where ${branch.sql}
      order by ${ORDER} limit 1 offset ?`
    const cutoff = read.number(sql, [...branch.values, scanBudget(index, scanMax)]) ?? -Infinity
    cutoffs.set(key, cutoff)
    return cutoff
  }

  /** Up to `most` matches in the order of the index; `near`: the cutoff of each branch. */
  function selectInOrder<R extends EndpointRow>(
    { path: { index, branches }, since, rest }: Search,
    most: number,
    columns: Columns,
    near: readonly number[],
  ): R[] | null {
    const all = (conditions: readonly (readonly Condition[])[]): R[] =>
      read.all<R>(fullSql(columns, conditions, index), [...conditions.flatMap(valuesOf), most])
    const oldest = Number(since.values[0])
    const cutoff = Math.max(...near)
    const nearest = { sql: since.sql, values: [Math.max(oldest, cutoff + 1)] }
    const found = all(branches.map(branch => [branch, nearest, ...rest]))
    if (found.length === most || cutoff < oldest) return found

    // The nearest cutoff hides matches: those of its own second, and older ones of branches that
    // have fewer entries. Now each branch by itself, and as far as it may be read.
    const parts: R[] = []
    for (const [i, branch] of branches.entries()) {
      if ((near[i] ?? oldest) < oldest) {
        parts.push(...all([[branch, since, ...rest]]))
        continue
      }
      const entries = [branch, since]
      const values = [...valuesOf(entries), scanBudget(index, scanMax), ...valuesOf(rest), most]
      const first = read.all<R>(firstSql(columns, index, entries, rest), values)
      if (first.length < most) return null
      parts.push(...first)
    }
    return parts.sort(inOrder).slice(0, most)
  }

  /** Up to `most` matches of all branches, in order; `null` if it would have to read too much. */
  return function selectQuickly<R extends EndpointRow>(
    search: Search,
    most: number,
    columns: Columns,
    version: number,
  ): R[] | null {
    const { path, since, rest, order } = search
    const { index, branches } = path
    if (branches.length === 0) return []
    const near = branches.map(branch => cutoffOf(index, branch, version))
    if (order === 'checked') return selectInOrder<R>(search, most, columns, near)
    // Any row may come first: all of each branch has to be read.
    if (Math.max(...near) >= Number(since.values[0])) return null
    const whole = branches.map(branch => [branch, since, ...rest])
    return read.all<R>(fullSql(columns, whole, index, order), [...whole.flatMap(valuesOf), most])
  }
}

/** So many times `scanMax` rows of a branch may be in memory: after an import, new rows hide the others from SQL. */
const BRANCH_SHARE = 3
/** Most rows in memory; a row takes about 150 bytes. */
const ROWS_MAX = 65_536
/** SQL does the first selects of a branch: holding its rows pays only if they are used again. */
const SELECTS_IN_SQL = 4
/** Pages that one select may read: a few milliseconds. */
const PAGES_MAX = 8

const wholeBranch = (index: string, branch: Condition): Search => ({
  path: { index, branches: [branch] },
  since: { sql: 'checked_at >= ?', values: [Number.MIN_SAFE_INTEGER] },
  all: [],
  rest: [],
  order: 'checked',
  createMatcher: () => () => true,
})

/** The first rows of a branch. Its count of selects is halved whenever the list changes. */
const startBranch = (search: Search, selects: number, unread: Iterator<Row[]>) => ({
  ...{ search, selects, unread, isWhole: false },
  rows: [] as Row[],
})
type Branch = ReturnType<typeof startBranch>

/** Finds matches among the freshest rows, at most the first `rowsMax` of a branch, all of one snapshot. */
export function createHotRows(pages: Pages, dataVersion: () => number, rowsMax: number) {
  const results = new WeakSet<readonly unknown[]>()
  let rowsHeld = 0
  const branches = createBoundedMap<string, Branch>(BRANCHES_MAX, ({ rows }) => {
    rowsHeld -= rows.length
  })
  /** The version of the list that the rows belong to, and SQLite's number of their snapshot. */
  let heldVersion = -1
  let snapshot: number | null = null
  let pagesLeft = 0

  const start = (search: Search, selects: number): Branch =>
    startBranch(search, selects, pages<Row>(search, ROW_COLUMNS, rowsMax))

  /** Drops all rows. Branches that were selected often until `version` are read again at once. */
  function forget(version: number): void {
    for (const [key, branch] of branches.entries()) {
      if (branch.selects < 2) branches.delete(key)
      else Object.assign(branch, start(branch.search, branch.selects >> 1))
    }
    rowsHeld = 0
    heldVersion = version
    snapshot = null
  }

  /** The branch that an index has for a value; `version`: of the list. */
  function branchOf(index: string, branch: Condition, version: number): Branch {
    if (version !== heldVersion) forget(version)
    const key = `${index} ${branch.values}`
    const known = branches.get(key)
    if (known !== undefined) return known
    const fresh = start(wholeBranch(index, branch), 0)
    branches.set(key, fresh)
    return fresh
  }

  /** The next page of a branch. One that fails is read again by the next select, from the start. */
  function nextPage({ unread }: Branch): IteratorResult<Row[]> {
    try {
      return unread.next()
    } catch (failure) {
      forget(-1) // the iterator has ended, and would seem to have read everything
      throw failure
    }
  }

  /** Reads the next page of a branch; returns false when nothing more can be read now. */
  function readMore(branch: Branch): boolean {
    if (branch.isWhole || pagesLeft === 0 || rowsHeld >= ROWS_MAX) return false
    pagesLeft -= 1
    snapshot ??= dataVersion()
    // The version is read once in a turn: since then, another process may have changed the list.
    if (dataVersion() !== snapshot) {
      forget(-1)
      return false
    }
    const page = nextPage(branch)
    if (page.done || page.value.length === 0) {
      branch.isWhole = branch.rows.length < rowsMax
      return false
    }
    for (const row of page.value) branch.rows.push(row)
    rowsHeld += page.value.length
    return true
  }

  /** Up to `most` matches of a branch; `null` when they may lie behind the rows in memory. */
  function findIn(
    branch: Branch,
    matches: (row: Row) => boolean,
    oldest: number,
    most: number,
  ): Row[] | null {
    const { rows } = branch
    const found: Row[] = []
    for (let at = 0; at < rows.length || readMore(branch); at += 1) {
      const row = rows[at]
      if (row === undefined || row[AT.checkedAt] < oldest) return found
      if (matches(row)) found.push(row)
      if (found.length === most) return found
    }
    return branch.isWhole ? found : null
  }

  /** The branches of a search, once they are selected often enough. */
  function selectedOf({ index, branches: values }: Path, version: number): Branch[] | null {
    if (index === null || values.length === 0) return null
    const selected = values.map(value => branchOf(index, value, version))
    for (const branch of selected) branch.selects += 1
    return selected.some(({ selects }) => selects <= SELECTS_IN_SQL) ? null : selected
  }

  function findInAll(search: Search, most: number, version: number): Row[] | null {
    const { path, since, order, createMatcher } = search
    const selected = selectedOf(path, version)
    if (selected === null) return null
    pagesLeft = PAGES_MAX
    const matches = createMatcher()
    // In another order than theirs, the last row of a branch may be the first match.
    const mostOfEach = order === 'checked' ? most : Infinity
    const parts: Row[][] = []
    for (const branch of selected) {
      const part = findIn(branch, matches, Number(since.values[0]), mostOfEach)
      if (part === null) return null
      parts.push(part)
    }
    const [first, ...others] = parts
    if (first && others.length === 0 && order === 'checked') return first
    return parts.flat().sort(ORDERS[order].compare).slice(0, most)
  }

  return {
    /** Up to `most` matches, not to be changed; `null` if SQL has to find them. To be called on a snapshot. */
    find(search: Search, most: number, version: number): Row[] | null {
      const found = findInAll(search, most, version)
      if (found !== null) results.add(found)
      return found
    },
    /** Whether it was `find` that returned these rows. */
    holds: (rows: readonly unknown[]): boolean => results.has(rows),
  }
}

const NEWEST = `select checked_at from proxies indexed by proxies_by_age order by ${ORDER} limit 1`
const SEEKS = {
  country: 'indexed by proxies_by_country where country in (select value from json_each(?))',
  port: 'indexed by proxies_by_port where id & 65535 = ?',
} as const
/** Finds what a list lacks; `version` changes whenever the list does. */
function createLacks(read: Reader, version: () => number) {
  const has = (where: string, value: Bound): boolean =>
    read.number(`select 1 from proxies ${where} limit 1`, [value]) !== undefined

  /** Types of this version of the list. No index leads to a type: not finding one takes 75 ms a million rows. */
  const isThere = new Map<ProxyType, boolean>()
  let typesVersion = -1
  function hasType(type: ProxyType): boolean {
    if (version() !== typesVersion) isThere.clear()
    typesVersion = version()
    const known = isThere.get(type) ?? has('where type = ?', TYPES.indexOf(type))
    isThere.set(type, known)
    return known
  }

  /** See `ProxyReader.lacks`. */
  return ({ types, countries, countryMode, cities, port, lang }: Filter): Lacks => {
    const lacking: Lacking[] = []
    const numbers = JSON.stringify(countries.map(countryToNumber))
    const isIncluded = countries.length > 0 && countryMode === 'include'
    if (types.length > 0 && !types.some(hasType)) lacking.push('type')
    if (isIncluded && !has(SEEKS.country, numbers)) lacking.push('country')
    if (cities.length > 0 && !read.hasCity(cities, lang)) lacking.push('city')
    if (port !== null && !has(SEEKS.port, port)) lacking.push('port')
    return { newestSeconds: read.number(NEWEST, []) ?? null, lacking }
  }
}

/** Whether an answer is in the order of the indexes. */
const isByAge = ({ sort }: Filter): boolean => sort === null || sort === 'checked'

/** The filter of all proxies that a draw is made from. */
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

/** Runs work to its end without its pauses. */
function withoutPause<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** The rows to show when they are masked; `null` when more may follow than were read. */
function shownOf<R extends EndpointRow>(found: R[], count: number | null): R[] | null {
  const shown = [...firstOfEach([found])].flat().slice(0, count ?? found.length)
  return found.length < QUICK_RECORDS_MAX || shown.length === count ? shown : null
}

function* idsOf(pages: Iterable<readonly EndpointRow[]>): Generator<number[]> {
  for (const page of pages) yield page.map(row => row[AT.id])
}

/** A long answer: its pages, read when they are used (an empty one is a pause), and the totals of all of them. */
export type LongAnswer<R> = { pages: Generator<R[]>; totals: () => Generator<void, Totals> }

/** Selects from an open list; `version` changes whenever it does. */
export function createSelect(db: Database, scanMax: number, version: () => number) {
  const read = createReader(db)
  const dataVersion = dataVersionOf(db)
  const { pages, matches, lookUp, ordered } = createPages(read, dataVersion)
  const hotRows = createHotRows(pages, dataVersion, Math.ceil(scanMax * BRANCH_SHARE))
  const selectFirst = createQuickSelect(read, scanMax)
  const { cityNames } = read
  const begin = db.prepare('begin')
  const end = db.prepare('commit')

  /** Runs all statements of `work` on one snapshot: an import may commit between two of them. */
  function onSnapshot<T>(work: () => T): T {
    if (db.inTransaction) return work()
    begin.run()
    try {
      return work()
    } finally {
      end.run()
    }
  }

  /** Selects `columns`, or finds rows in memory that begin with them. */
  function createSelector<R extends EndpointRow>(
    columns: Columns,
    findHot: (search: Search, most: number, version: number) => R[] | null,
  ) {
    /** The first of all rows that look the same when they are masked; for a random order, as many as are wanted. */
    function maskedPages(filter: Filter, search: Search): Iterable<readonly R[]> {
      if (filter.sort === 'random') return ordered<R>(search, filter, columns, 16).pages
      const unlimited = { ...filter, count: null }
      return firstOfEach(
        isByAge(filter) ? pages<R>(search, columns) : ordered<R>(search, unlimited, columns).pages,
      )
    }

    /** All that match when they are masked, found with pauses; to be called on a snapshot. */
    function* findMasked(filter: Filter, nowMs: number): Generator<void, R[]> {
      const most = filter.count ?? Infinity
      const rows: R[] = []
      for (const page of maskedPages(filter, read.search(filter, { nowMs, addressBits: 16 }))) {
        rows.push(...page)
        if (rows.length >= most) break
        yield
      }
      return rows.slice(0, most)
    }

    function findAll(filter: Filter, options: FindOptions): R[] {
      if (options.addressBits === 16) return withoutPause(findMasked(filter, options.nowMs))
      const search = read.search(filter, options)
      if (!isByAge(filter)) return [...ordered<R>(search, filter, columns).pages].flat()
      const conditions = [search.since, ...search.all]
      const values = [...valuesOf(conditions), filter.count ?? -1]
      return read.all<R>(fullSql(columns, [conditions]), values)
    }

    function findFirst(search: Search, most: number): R[] | null {
      const now = version()
      return findHot(search, most, now) ?? selectFirst<R>(search, most, columns, now)
    }

    /** The rows of a full select; `null` when that would take long or find many. */
    function findFew(filter: Filter, options: FindOptions): R[] | null {
      const isMasked = options.addressBits === 16
      const most = isMasked
        ? QUICK_RECORDS_MAX
        : Math.min(filter.count ?? Infinity, QUICK_RECORDS_MAX + 1)
      const found = findFirst(read.search(filter, options), most)
      if (isMasked) return found && shownOf(found, filter.count)
      return found === null || found.length > QUICK_RECORDS_MAX ? null : found
    }

    return {
      findMasked,
      findAll: (filter: Filter, options: FindOptions): R[] =>
        onSnapshot(() => findAll(filter, options)),
      /** All that match; `null` when finding them would take long, or they are many. */
      findQuickly: (filter: Filter, options: FindOptions): R[] | null =>
        onSnapshot(() => {
          if (filter.sort !== 'random') return findFew(filter, options)
          const all = findFew(undrawn(filter), options)
          return all && drawFrom(all, filter.count)
        }),
      /** All that match in pages, to be read on one snapshot. Addresses are compared unmasked. */
      open(filter: Filter, nowMs: number): LongAnswer<R> {
        const search = read.search(filter, { nowMs, addressBits: 32 })
        const { count } = filter
        if (isByAge(filter)) {
          return {
            pages: pages<R>(search, columns, count),
            totals: () => totalsOf(idsOf(pages(search, ENDPOINT_COLUMNS, count))),
          }
        }
        const { pages: inOrder, ids } = ordered<R>(search, filter, columns)
        return {
          pages: inOrder,
          *totals() {
            return yield* totalsOf([yield* ids()])
          },
        }
      },
    }
  }

  const records = createSelector<Row>(ROW_COLUMNS, hotRows.find)
  const endpoints = createSelector<EndpointRow>(ENDPOINT_COLUMNS, hotRows.find)
  return {
    records,
    endpoints,
    cityNames,
    lacks: createLacks(read, version),
    findQuickly(filter: Filter, options: FindOptions): Found | null {
      const rows = records.findQuickly(filter, options)
      return rows && { rows, cityNames, areKept: hotRows.holds(rows) }
    },
    /** All that match, to draw from, found with pauses; to be called on a snapshot. */
    matches: (filter: Filter, options: FindOptions): Generator<void, Matches> =>
      matches(read.search(undrawn(filter), options), options.addressBits),
    /** See `ProxyReader.findByIds`. */
    findByIds(filter: Filter, options: FindOptions, ids: ArrayLike<number>): Found | null {
      const { since, createMatcher } = read.search(filter, options)
      const rows = lookUp<Row>(ROW_COLUMNS, ids)
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
