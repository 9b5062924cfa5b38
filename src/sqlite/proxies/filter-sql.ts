/**
 * Turning a filter into SQL: its conditions, and which index finds its rows in the order of
 * the answer. What the filters mean is in the contract, A4.
 */

import { ageClock } from '../../lib/time.ts'
import {
  type Bound,
  conditionsOf,
  type Filter,
  matcherOf,
  type Sort,
} from '../../proxies/filter.ts'
import { countryToNumber, idOf, type Row } from '../../proxies/row.ts'

export type { Bound }
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
