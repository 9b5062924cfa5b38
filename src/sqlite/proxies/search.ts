/**
 * A filter, compiled to SQL: its conditions (contract A4), which index finds its rows in the order of the
 * answer, the SQL that all selects have in common, and running it.
 */
import type { Database, Statement } from 'bun:sqlite'
import { createBoundedMap } from '../../lib/bounded-map.ts'
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
import { createCities } from './cities.ts'

export type Condition = { sql: string; values: readonly Bound[] }

/** How rows are found: an index, and the exact value that leads to each branch of it. */
export type Path = { index: string | null; branches: readonly Condition[] }

/** A filter, compiled to SQL. */
export type Search = {
  path: Path
  /** The oldest check, Unix seconds; every index but the primary key is ordered by it. */
  since: Condition
  /** All other conditions, and those of them that the path has not decided yet. */
  all: readonly Condition[]
  rest: readonly Condition[]
  /** The order of the rows; a random one is made of rows that are in order. */
  order: Exclude<Sort, 'random'>
  /** Creates what decides of a row in memory whether all other conditions hold. */
  createMatcher: () => (row: Row) => boolean
}

/** Most values that get a branch each; more of them are compared row by row. */
const BRANCHES_MAX = 4

const equals = (expression: string, value: Bound): Condition => ({
  sql: `${expression} = ?`,
  values: [value],
})

/** A path, and the parameter whose condition it decides. */
type Choice = Path & { decides: 'ip' | 'city' | 'port' | 'country' | null }

/** The most selective path to the rows of a filter. */
function choosePath(filter: Filter, addressBits: 32 | 16, cityIds: readonly number[]): Choice {
  const { address, port, countries } = filter
  if (address !== null && addressBits === 32) {
    return { index: null, branches: [equals('id', idOf(address))], decides: 'ip' }
  }
  if (filter.cities.length > 0 && cityIds.length <= BRANCHES_MAX) {
    const branches = cityIds.map(id => equals('city', id))
    return { index: 'proxies_by_city', branches, decides: 'city' }
  }
  const anyPort = port ?? address?.port
  if (anyPort !== undefined && anyPort !== null) {
    const branches = [equals('id & 65535', anyPort)]
    return { index: 'proxies_by_port', branches, decides: port === null ? null : 'port' }
  }
  const isFew = countries.length > 0 && countries.length <= BRANCHES_MAX
  if (isFew && filter.countryMode === 'include') {
    const branches = countries.map(country => equals('country', countryToNumber(country)))
    return { index: 'proxies_by_country', branches, decides: 'country' }
  }
  return { index: 'proxies_by_age', branches: [{ sql: 'true', values: [] }], decides: null }
}

/** Turns a filter into SQL. With `addressBits` 16, addresses are compared by two octets. */
export function searchOf(
  filter: Filter,
  addressBits: 32 | 16,
  cityIds: readonly number[],
  nowMs: number,
): Search {
  const { decides, ...path } = choosePath(filter, addressBits, cityIds)
  const { countryMode } = filter
  const { all, rest } = conditionsOf(filter, { addressBits, cityIds, countryMode }, decides)
  return {
    path,
    since: { sql: 'checked_at >= ?', values: [ageClock(nowMs) - filter.ageMaxSeconds] },
    all,
    rest,
    order: filter.sort === null || filter.sort === 'random' ? 'checked' : filter.sort,
    createMatcher: () => matcherOf(all),
  }
}

/** Index entries that a quick select may read in each branch: a few milliseconds. */
export const SCAN_MAX = 20_000
/** Most records of a quick select. */
export const QUICK_RECORDS_MAX = 1_000
/** Prepared statements in memory; each takes about 11 KB. */
const STATEMENTS_MAX = 500

/** The columns of an endpoint. */
export const ENDPOINT_COLUMNS = ROW_COLUMNS.slice(0, 4)

export type Columns = readonly string[]

/** The order of indexes, and of answers that are not asked for in another one (contract A4). */
export const ORDER = 'checked_at desc, ping_ms, id'

/** An order by what rows hold, best first; `checked` is `ORDER`. */
export type RowOrder = Exclude<Sort, 'random'>
type Compare<R> = (a: R, b: R) => number

/** Compares rows as `ORDER` does; an unknown ping is stored as the largest number. */
export const inOrder: Compare<EndpointRow> = (
  [idA, checkA, pingA]: EndpointRow,
  [idB, checkB, pingB]: EndpointRow,
): number => checkB - checkA || pingA - pingB || idA - idB

/** Each order in SQL; ties are in `ORDER`. What is unknown is stored as a value that comes last. */
const ORDERS: { [O in RowOrder]: string } = {
  checked: ORDER,
  ping: 'ping_ms, checked_at desc, id',
  speed: `speed desc, ${ORDER}`,
  works: `works desc, ${ORDER}`,
}

/** Compares rows as each order of SQL does. */
export const COMPARE: { [O in RowOrder]: Compare<Row> } = {
  checked: inOrder,
  ping: (a, b) => a[AT.pingMs] - b[AT.pingMs] || inOrder(a, b),
  speed: (a, b) => b[AT.speed] - a[AT.speed] || inOrder(a, b),
  works: (a, b) => b[AT.works] - a[AT.works] || inOrder(a, b),
}

/** The columns that a select in an order needs at least: SQLite sorts branches by what it selects. */
export const columnsFor = (order: RowOrder, columns: Columns): Columns =>
  order === 'speed' || order === 'works' ? ROW_COLUMNS : columns

export const joined = (conditions: readonly Condition[]): string =>
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
export const fullSql = (
  columns: Columns,
  branches: readonly (readonly Condition[])[],
  index: string | null = null,
  order: RowOrder = 'checked',
): string =>
  `${branches
    .map(
      branch =>
        `select ${columnsFor(order, columns).join(', ')} from proxies ${indexedBy(index)} where ${joined(branch)}`,
    )
    .join(' union all ')} order by ${ORDERS[order]} limit ?`

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

  /** The ids of the cities that a filter names. */
  function cityIds(filter: Filter): number[] {
    if (filter.cities.length > 0) cities.refresh()
    return cities.idsMatching(filter.cities, filter.lang)
  }

  return {
    cityNames: cities.nameOf,
    cityIds,
    /** A filter, compiled to SQL. */
    search: (filter: Filter, { addressBits, nowMs }: FindOptions): Search =>
      searchOf(filter, addressBits, cityIds(filter), nowMs),
    all: <R extends EndpointRow>(sql: string, values: readonly Bound[]): R[] =>
      prepared(sql).values(...values) as unknown as R[], // values() is untyped
    /** The first number of the first row. */
    number: (sql: string, values: readonly Bound[]): number | undefined =>
      (prepared(sql).values(...values) as unknown as number[][])[0]?.[0],
  }
}
export type Reader = ReturnType<typeof createReader>
