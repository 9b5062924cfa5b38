/**
 * Compiles a filter to SQL and reads its rows page by page. No statement stays open between two pages, so other
 * work runs in between; all pages of a search must be read on one snapshot. For an order that no index has (an
 * index costs an import of a million rows a second), the ids are sorted in memory and the rows looked up by id.
 */
import type { Database, Statement } from 'bun:sqlite'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { ageClock } from '../../lib/time.ts'
import { draw, type Matches } from '../../proxies/draw.ts'
import {
  type Bound,
  conditionsOf,
  type Filter,
  matcherOf,
  type Sort,
} from '../../proxies/filter.ts'
import { maskId } from '../../proxies/mask.ts'
import {
  AT,
  countryToNumber,
  type EndpointRow,
  idOf,
  ROW_COLUMNS,
  type Row,
} from '../../proxies/row.ts'
import type { FindOptions } from '../../proxies/store.ts'
import { createCities } from './cities.ts'

export type Condition = { sql: string; values: readonly Bound[] }

/** An index, and the exact values that lead to its branches. */
export type Path = { index: string | null; branches: readonly Condition[] }

/** A filter, compiled to SQL. */
export type Search = {
  path: Path
  /** The oldest check, Unix seconds; every index but the primary key is ordered by it. */
  since: Condition
  /** All other conditions, and the ones that the path does not decide. */
  all: readonly Condition[]
  rest: readonly Condition[]
  /** The order of the rows; `checked` for a random order. */
  order: Exclude<Sort, 'random'>
  /** Creates a test of all other conditions for rows in memory. */
  createMatcher: () => (row: Row) => boolean
}

/** Values that get a branch each; with more of them, the search compares every row. */
const BRANCHES_MAX = 4

const condition = (sql: string, ...values: Bound[]): Condition => ({ sql, values })

/** A path, and the parameter that it decides. */
type Choice = Path & { decides: 'ip' | 'city' | 'port' | 'country' | null }

/** The most selective path to the rows of a filter. */
function choosePath(filter: Filter, addressBits: 32 | 16, cityIds: readonly number[]): Choice {
  const { address, port, countries } = filter
  if (address !== null && addressBits === 32) {
    return { index: null, branches: [condition('id = ?', idOf(address))], decides: 'ip' }
  }
  if (filter.cities.length > 0 && cityIds.length <= BRANCHES_MAX) {
    const branches = cityIds.map(id => condition('city = ?', id))
    return { index: 'proxies_by_city', branches, decides: 'city' }
  }
  const anyPort = port ?? address?.port
  if (anyPort !== undefined && anyPort !== null) {
    const branches = [condition('id & 65535 = ?', anyPort)]
    return { index: 'proxies_by_port', branches, decides: port === null ? null : 'port' }
  }
  const isFew = countries.length > 0 && countries.length <= BRANCHES_MAX
  if (isFew && filter.countryMode === 'include') {
    const branches = countries.map(country => condition('country = ?', countryToNumber(country)))
    return { index: 'proxies_by_country', branches, decides: 'country' }
  }
  return { index: 'proxies_by_age', branches: [condition('true')], decides: null }
}

/** Index entries that a quick select may read in each branch: a few milliseconds. */
export const SCAN_MAX = 20_000
/** Entries of an index that take as long as `entries` with whole rows: by city or port, each row is looked up. */
export const scanBudget = (index: string | null, entries: number): number =>
  /city|port/.test(index ?? '') ? Math.ceil(entries / 20) : entries
export const QUICK_RECORDS_MAX = 1_000
/** Prepared statements in memory; each takes about 11 KB. */
const STATEMENTS_MAX = 500

export const ENDPOINT_COLUMNS = ROW_COLUMNS.slice(0, 4)

export type Columns = readonly string[]

/** The order of the indexes, and the default order of answers (contract A4). */
export const ORDER = 'checked_at desc, ping_ms, id'

/** An order by columns, best first; `checked` is `ORDER`. */
type RowOrder = Search['order']

/** Compares rows as `ORDER` does; an unknown ping is stored as the largest number. */
export const inOrder = (
  [idA, checkA, pingA]: EndpointRow,
  [idB, checkB, pingB]: EndpointRow,
): number => checkB - checkA || pingA - pingB || idA - idB

type Order = { key: string; sql: string; compare: (a: Row, b: Row) => number }

/** Each order as an ascending key, in SQL, and as a comparison; ties are in `ORDER`, unknown values come last. */
export const ORDERS: { readonly [O in RowOrder]: Order } = {
  checked: { key: '-checked_at', sql: ORDER, compare: inOrder },
  ping: {
    key: 'ping_ms',
    sql: 'ping_ms, checked_at desc, id',
    compare: (a, b) => a[AT.pingMs] - b[AT.pingMs] || inOrder(a, b),
  },
  speed: {
    key: '-speed',
    sql: `speed desc, ${ORDER}`,
    compare: (a, b) => b[AT.speed] - a[AT.speed] || inOrder(a, b),
  },
  works: {
    key: '-works',
    sql: `works desc, ${ORDER}`,
    compare: (a, b) => b[AT.works] - a[AT.works] || inOrder(a, b),
  },
}

export const allOf = (conditions: readonly Condition[]): string =>
  conditions.map(({ sql }) => sql).join(' and ') || 'true'
export const valuesOf = (conditions: readonly Condition[]): Bound[] =>
  conditions.flatMap(({ values }) => values)
export const indexedBy = (index: string | null): string =>
  index === null ? '' : `indexed by ${index}`

/**
 * Every row that matches the conditions of a branch, in order. In `ORDER`, SQLite reads several branches
 * together, row by row, each in the order of its index, and stops at the limit; in another one it reads
 * all of them. The branches must not overlap, and `columns` must hold those of the order.
 */
export function fullSql(
  columns: Columns,
  branches: readonly (readonly Condition[])[],
  index: string | null = null,
  order: RowOrder = 'checked',
): string {
  // SQLite sorts branches by what it selects.
  const selected = order === 'speed' || order === 'works' ? ROW_COLUMNS : columns
  const select = `select ${selected.join(', ')} from proxies ${indexedBy(index)} where `
  const all = branches.map(branch => select + allOf(branch)).join(' union all ')
  return `${all} order by ${ORDERS[order].sql} limit ?`
}

/** Runs statements, one prepared statement for each combination of filters present. */
export function createReader(db: Database) {
  const statements = createBoundedMap<string, Statement<EndpointRow, Bound[]>>(
    STATEMENTS_MAX,
    statement => statement.finalize(),
  )
  const cities = createCities(db)

  function prepared(sql: string): Statement<EndpointRow, Bound[]> {
    const known = statements.get(sql)
    if (known) return known
    const statement = db.prepare<EndpointRow, Bound[]>(sql)
    statements.set(sql, statement)
    return statement
  }

  return {
    cityNames: cities.nameOf,
    hasCity: cities.hasRows,
    /** Turns a filter into SQL. With `addressBits` 16, addresses are compared by two octets. */
    search(filter: Filter, { addressBits, nowMs }: FindOptions): Search {
      const { countryMode, sort } = filter
      const { ids, condition: inCities } = cities.named(filter.cities, filter.lang)
      const { decides, ...path } = choosePath(filter, addressBits, ids)
      const { all, rest } = conditionsOf(filter, { addressBits, inCities, countryMode }, decides)
      return {
        path,
        since: condition('checked_at >= ?', ageClock(nowMs) - filter.ageMaxSeconds),
        all,
        rest,
        order: sort === null || sort === 'random' ? 'checked' : sort,
        createMatcher: () => matcherOf(all),
      }
    },
    all: <R extends EndpointRow>(sql: string, values: readonly Bound[]): R[] =>
      prepared(sql).values(...values) as unknown as R[], // values() is untyped
    /** The first number of the first row. */
    number: (sql: string, values: readonly Bound[]): number | undefined =>
      (prepared(sql).values(...values) as unknown as number[][])[0]?.[0],
  }
}
export type Reader = ReturnType<typeof createReader>

/** Reading them takes about a millisecond; the first page shows whether a quick select would do. */
export const PAGE_ROWS = QUICK_RECORDS_MAX + 1

/** The last row of a page; it may have been deleted since. */
type Cursor = EndpointRow

/**
 * The entries after a cursor and up to another, both `null` at the ends of the list, as steps in
 * order. An index leads to the first entry of each step, also where all rows have the same check
 * time or ping: SQLite does not seek to a row value that holds the key. `since` is the oldest check.
 */
function stepsBetween(after: Cursor | null, upTo: Cursor | null, since: number): Condition[] {
  const last = upTo && upTo[AT.checkedAt] >= since ? upTo : null
  const oldest = last ? last[AT.checkedAt] + 1 : since
  if (after === null) return [condition('checked_at >= ?', oldest), ...stepsUpTo(last)]
  const [id, check, ping] = after
  if (last === null || last[AT.checkedAt] < check) {
    return [
      condition(`${SAME_PING} and id > ?`, check, ping, id),
      condition('checked_at = ? and ping_ms > ?', check, ping),
      condition('checked_at >= ? and checked_at < ?', oldest, check),
      ...stepsUpTo(last),
    ]
  }
  const [lastId, , lastPing] = last
  return ping === lastPing
    ? [condition(`${SAME_PING} and id > ? and id <= ?`, check, ping, id, lastId)]
    : [
        condition(`${SAME_PING} and id > ?`, check, ping, id),
        condition('checked_at = ? and ping_ms > ? and ping_ms < ?', check, ping, lastPing),
        condition(`${SAME_PING} and id <= ?`, check, lastPing, lastId),
      ]
}

const SAME_PING = 'checked_at = ? and ping_ms = ?'

/** The entries with the check time of a cursor, up to it. */
const stepsUpTo = (upTo: Cursor | null): Condition[] =>
  upTo === null
    ? []
    : [
        condition('checked_at = ? and ping_ms < ?', upTo[AT.checkedAt], upTo[AT.pingMs]),
        condition(`${SAME_PING} and id <= ?`, upTo[AT.checkedAt], upTo[AT.pingMs], upTo[AT.id]),
      ]

/** The entries of an index among which all matches are, in order, and what else they must match. */
type Entries = { index: string | null; branch: readonly Condition[]; rest: readonly Condition[] }

/** The index whose order is that of all matches: one branch of the path, or all rows by age. */
function entriesOf({ path, all, rest }: Search): Entries {
  const [branch, ...others] = path.branches
  return branch !== undefined && others.length === 0
    ? { index: path.index, branch: [branch], rest }
    : { index: 'proxies_by_age', branch: [], rest: all }
}

/** Entries of an index between two marks: reading them takes a millisecond or two. */
const MARK_ENTRIES = 30_000
const MARKED_MAX = 1_000

/** Marks of a branch in order; `isWhole`: there are no more. */
type Marks = { marks: Cursor[]; isWhole: boolean }

/** Matches beyond those that are wanted are dropped when there are so many of them. */
const SURPLUS = 4 * PAGE_ROWS

/** The first of all rows that look the same when masked, in their pages. */
export function* firstOfEach<R extends EndpointRow>(
  pages: Iterable<readonly R[]>,
): Generator<readonly R[]> {
  const seen = new Set<number>()
  for (const page of pages) {
    yield page.filter(row => seen.size < seen.add(maskId(row[AT.id])).size)
  }
}

type Bits = FindOptions['addressBits']

/** Reads from a list whose `dataVersion` changes when it does. */
export function createPages(
  read: Reader,
  dataVersion: () => number,
  { pageRows = PAGE_ROWS, markEntries = MARK_ENTRIES } = {},
) {
  /** Entries some ten thousand apart, cached until the list changes; a deleted one still works. */
  const marked = createBoundedMap<string, Marks>(MARKED_MAX)
  let markedVersion: number | null = null

  /** The entry of a branch that is about `markEntries` after a cursor. */
  function findMark({ index, branch }: Entries, after: Cursor | null): Cursor | null {
    for (const step of stepsBetween(after, null, Number.MIN_SAFE_INTEGER)) {
      const all = [step, ...branch]
      const [entry] = read.all<EndpointRow>(
        `select ${ENDPOINT_COLUMNS.join(', ')} from proxies ${indexedBy(index)}
         where ${allOf(all)} order by ${ORDER} limit 1 offset ?`,
        [...valuesOf(all), scanBudget(index, markEntries) - 1],
      )
      if (entry !== undefined) return entry
    }
    return null
  }

  function marksOf({ index, branch }: Entries): Marks {
    const version = dataVersion()
    if (version !== markedVersion) marked.clear()
    markedVersion = version
    const key = `${index} ${valuesOf(branch)}`
    const known = marked.get(key) ?? { marks: [], isWhole: false }
    marked.set(key, known)
    return known
  }

  /** Where to stop reading entries of a branch that comes after a cursor; `null`: at the end. */
  function nextMark(entries: Entries, after: Cursor | null): Cursor | null {
    if (entries.index === null) return null // leads to few rows
    const known = marksOf(entries)
    const isAfter = (mark: Cursor): boolean => after === null || inOrder(after, mark) < 0
    while (!known.isWhole && !known.marks.some(isAfter)) {
      const next = findMark(entries, known.marks.at(-1) ?? null)
      if (next === null) known.isWhole = true
      else known.marks.push(next)
    }
    return known.marks.find(isAfter) ?? null
  }

  /** All matches in order, in pages. A page ends at a mark at the latest, so it may be empty. */
  function* pages<R extends EndpointRow>(
    search: Search,
    columns: Columns,
    most: number | null = null,
  ): Generator<R[]> {
    const entries = entriesOf(search)
    const { index, branch, rest } = entries
    const since = Number(search.since.values[0])

    /** Up to `size` matches of these steps. */
    function readSteps(steps: readonly Condition[], size: number): R[] {
      let page: R[] = []
      for (const step of steps) {
        const all = [step, ...branch, ...rest]
        const values = [...valuesOf(all), size - page.length]
        const rows = read.all<R>(fullSql(columns, [all], index), values)
        page = page.length === 0 ? rows : page.concat(rows)
        if (page.length === size) break
      }
      return page
    }

    let remaining = most ?? Infinity
    let after: Cursor | null = null
    while (remaining > 0) {
      const size = Math.min(pageRows, remaining)
      // Without other conditions every entry is a match.
      const mark: Cursor | null = rest.length > 0 ? nextMark(entries, after) : null
      const page = readSteps(stepsBetween(after, mark, since), size)
      yield page
      remaining -= page.length
      after = page.length === size ? (page.at(-1) ?? null) : mark
      if (after === null || after[AT.checkedAt] < since) return
    }
  }

  /** Reads all matches to draw from. Pauses after each page. */
  function* matches(search: Search, addressBits: Bits): Generator<void, Matches> {
    const ids: number[] = []
    const types: number[] = []
    const ages: number[] = []
    let newestSeconds = 0
    const all = pages<EndpointRow>(search, ENDPOINT_COLUMNS)
    for (const page of addressBits === 16 ? firstOfEach(all) : all) {
      for (const row of page) {
        if (ids.length === 0) newestSeconds = row[AT.checkedAt]
        ids.push(row[AT.id])
        types.push(row[AT.type])
        ages.push(newestSeconds - row[AT.checkedAt])
      }
      yield
    }
    return {
      ids: new Float64Array(ids),
      types: new Uint8Array(types),
      agesSeconds: new Uint32Array(ages),
      newestSeconds,
    }
  }

  /**
   * The ids of the first `most` matches in an order that no index has. The sort is stable, so ties stay in the
   * order of contract A4; without a pause, it takes 0.3 s a million rows.
   */
  function* sortedIds(search: Search, most: number): Generator<void, number[]> {
    let found: { id: number; key: number }[] = []
    const firstOf = (all: typeof found) => all.sort((a, b) => a.key - b.key).slice(0, most)
    const columns = [...ENDPOINT_COLUMNS, ORDERS[search.order].key]
    for (const page of pages<[...EndpointRow]>(search, columns)) {
      for (const row of page) {
        found.push({ id: row[AT.id], key: Number(row[ENDPOINT_COLUMNS.length]) })
      }
      if (found.length > 2 * most + SURPLUS) found = firstOf(found)
      yield
    }
    return firstOf(found).map(({ id }) => id)
  }

  /** The rows with these ids, in their order. The outer loop of a cross join is its left side. */
  function lookUp<R extends EndpointRow>(columns: Columns, ids: ArrayLike<number>): R[] {
    const named = columns.map(column => `proxies.${column}`).join(', ')
    const sql = `select ${named} from json_each(?) as wanted cross join proxies on proxies.id = wanted.value`
    return read.all<R>(sql, [JSON.stringify(Array.from(ids))])
  }

  /** An answer in an order that no index has: its pages, of which some are empty, and its ids. */
  function ordered<R extends EndpointRow>(
    search: Search,
    { sort, count }: Filter,
    columns: Columns,
    addressBits: Bits = 32,
  ) {
    let known: Float64Array | null = null
    function* ids(): Generator<void, Float64Array> {
      if (known !== null) return known
      if (sort === 'random') {
        const all = (yield* matches(search, addressBits)).ids
        known = Float64Array.from(draw(all.length, count ?? all.length), at => all[at] ?? 0)
      } else known = new Float64Array(yield* sortedIds(search, count ?? Infinity))
      return known
    }
    function* pagesOfIds(): Generator<R[]> {
      const finding = ids()
      let found = finding.next()
      for (; !found.done; found = finding.next()) yield []
      const all = found.value
      for (let at = 0; at < all.length; at += PAGE_ROWS) {
        yield lookUp<R>(columns, all.subarray(at, at + PAGE_ROWS))
      }
    }
    return { pages: pagesOfIds(), ids }
  }

  return { pages, matches, lookUp, ordered }
}

export type Pages = ReturnType<typeof createPages>['pages']
