/** Filters as SQL: the index that leads to the rows of a filter, its conditions and its order. */
import type { Database, Statement } from 'bun:sqlite'
import { LRUCache } from 'lru-cache'
import { ageClock } from '../../lib/time.ts'
import {
  type Bound,
  conditionsOf,
  type Filter,
  matcherOf,
  type Sort,
} from '../../proxies/filter.ts'
import {
  AT,
  countryToNumber,
  type EndpointRow,
  idOf,
  ROW_COLUMNS,
  type Row,
} from '../../proxies/row.ts'
import type { FindOptions } from '../../proxies/store.ts'
import type { Cities } from './cities.ts'

export type Condition = { sql: string; values: readonly Bound[] }

/** A filter, compiled to SQL. */
export type Search = {
  /** `null`: the primary key. */
  index: string | null
  /**
   * Hold all matches, each in one branch: the entries of the index with one value of its first column (or all), in
   * the order of answers.
   */
  branches: readonly Condition[]
  /** The oldest check, Unix seconds. */
  oldest: number
  /** All conditions but the age, and the ones that the branches do not decide. */
  all: readonly Condition[]
  rest: readonly Condition[]
  order: Order
  /** Creates a test of `rest` for rows in memory. */
  createMatcher: () => (row: Row) => boolean
}

/** A random order is drawn from the matches in the order `checked`. */
type Order = Exclude<Sort, 'random'>

/** Few values get a branch each; with more of them, the search compares every row. */
const BRANCHES_MAX = 4

const condition = (sql: string, ...values: Bound[]): Condition => ({ sql, values })

/** The way to the rows of a filter, and the parameter that its branches decide. */
type Path = Pick<Search, 'index' | 'branches'> & { decides: string | null }

/** The most selective path to the rows of a filter. */
function choosePath(filter: Filter, addressBits: 32 | 16, cityIds: readonly number[]): Path {
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

/** Compiles a filter. With `addressBits` 16, addresses are compared by two octets. */
export function compileFilter(
  filter: Filter,
  { addressBits, nowMs }: FindOptions,
  cities: Cities,
): Search {
  const { countryMode, sort } = filter
  const { ids, condition: inCities } = cities.named(filter.cities, filter.lang)
  const { decides, ...path } = choosePath(filter, addressBits, ids)
  const { all, rest } = conditionsOf(filter, { addressBits, inCities, countryMode }, decides)
  return {
    ...path,
    oldest: ageClock(nowMs) - filter.ageMaxSeconds,
    all,
    rest,
    order: sort === null || sort === 'random' ? 'checked' : sort,
    createMatcher: () => matcherOf(rest),
  }
}

/** The order of the indexes, and the default order of answers (contract A4). */
export const ORDER = 'checked_at desc, ping_ms, id'

/** Compares rows as `ORDER` does; an unknown ping is stored as the largest number. */
const inOrder = ([idA, checkA, pingA]: Row, [idB, checkB, pingB]: Row): number =>
  checkB - checkA || pingA - pingB || idA - idB

/** Each order in SQL and as a comparison; ties are in `ORDER`, unknown values come last. */
export const ORDERS: {
  readonly [O in Order]: { sql: string; compare: (a: Row, b: Row) => number }
} = {
  checked: { sql: ORDER, compare: inOrder },
  ping: {
    sql: 'ping_ms, checked_at desc, id',
    compare: (a, b) => a[AT.pingMs] - b[AT.pingMs] || inOrder(a, b),
  },
  speed: {
    sql: `speed desc, ${ORDER}`,
    compare: (a, b) => b[AT.speed] - a[AT.speed] || inOrder(a, b),
  },
  works: {
    sql: `works desc, ${ORDER}`,
    compare: (a, b) => b[AT.works] - a[AT.works] || inOrder(a, b),
  },
}

export type Columns = readonly string[]
export const ENDPOINT_COLUMNS = ROW_COLUMNS.slice(0, 5)
const COLUMNS = ROW_COLUMNS.join(', ')

export const allOf = (conditions: readonly Condition[]): string =>
  conditions.map(({ sql }) => sql).join(' and ') || 'true'
export const valuesOf = (conditions: readonly Condition[]): Bound[] =>
  conditions.flatMap(({ values }) => values)
const fromIndex = (index: string | null): string =>
  index === null ? 'from proxies' : `from proxies indexed by ${index}`
const since = (seconds: number): Condition => condition('checked_at >= ?', seconds)

/** A statement and its parameters. */
export type Bind = readonly [sql: string, values: readonly Bound[]]

/**
 * Selects up to `most` matches in order; -1: all. In `ORDER`, SQLite reads several branches together, row by row,
 * and stops at the limit; in another one it sorts all matches.
 */
export function selectMatches(
  { index, branches, oldest, rest, order }: Search,
  columns: Columns,
  most: number,
): Bind {
  // SQLite sorts a union by its selected columns.
  const selected = order === 'speed' || order === 'works' ? ROW_COLUMNS : columns
  const each = branches.map(branch => [branch, since(oldest), ...rest])
  const none = [[condition('false')]]
  const union = (each.length === 0 ? none : each)
    .map(all => `select ${selected.join(', ')} ${fromIndex(index)} where ${allOf(all)}`)
    .join(' union all ')
  return [
    `${union} order by ${ORDERS[order].sql} limit ?`,
    [...each.flatMap(all => valuesOf(all)), most],
  ]
}

/** Selects the next rows of a branch, after the first `from`. */
export const selectPage = (
  { index }: Search,
  branch: Condition,
  from: number,
  size: number,
): Bind => [
  `select ${COLUMNS} ${fromIndex(index)} where ${branch.sql} order by ${ORDER} limit ? offset ?`,
  [...branch.values, size, from],
]

/** Selects the rows with these ids that match, in the order of the ids: a cross join begins at its left side. */
export const selectByIds = ({ all, oldest }: Search, ids: readonly number[]): Bind => [
  `with wanted (row) as materialized (select value from json_each(?))
   select ${COLUMNS} from wanted cross join proxies on id = row
   where checked_at >= ? and ${allOf(all)}`,
  [JSON.stringify(ids), oldest, ...valuesOf(all)],
]

/** Prepared statements in memory; each takes about 11 KB. */
const STATEMENTS_MAX = 500

/** Runs statements, one prepared statement for each combination of filters. */
export function createStatements(db: Database) {
  const prepared = new LRUCache<string, Statement<unknown, Bound[]>>({
    max: STATEMENTS_MAX,
    dispose: statement => statement.finalize(),
  })

  function prepare(sql: string): Statement<unknown, Bound[]> {
    const known = prepared.get(sql)
    if (known) return known
    const statement = db.prepare<unknown, Bound[]>(sql)
    prepared.set(sql, statement)
    return statement
  }

  return {
    all: <R extends EndpointRow = Row>([sql, values]: Bind): R[] =>
      prepare(sql).values(...values) as unknown as R[], // values() is untyped
    /** The first number of the first row. */
    number: ([sql, values]: Bind): number | undefined =>
      (prepare(sql).values(...values) as unknown as number[][])[0]?.[0],
    /** The rows one by one; the statement is open until the last one, or until the iterator is closed. */
    *each<R extends EndpointRow>([sql, values]: Bind): Generator<R> {
      const statement = db.prepare<object, Bound[]>(sql)
      try {
        for (const row of statement.iterate(...values)) yield Object.values(row) as unknown as R
      } finally {
        statement.finalize()
      }
    },
  }
}
export type Statements = ReturnType<typeof createStatements>
