/**
 * Owns turning a filter into SQL: its conditions, and which index finds its rows in the order of
 * the answer. What the filters mean is in the contract, A4.
 */

import { ageClock } from '../../lib/time.ts'
import { createMatcher, type Filter, type Sort } from '../../proxies/filter.ts'
import { ANONS, servicesToBits, TYPES } from '../../proxies/proxy.ts'
import { countryToNumber, idOf, type Row } from '../../proxies/row.ts'

export type Bound = number | string
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

/** `column in (?, …)`; the list is padded to a power of two, to keep the statements few. */
function oneOf(column: string, values: readonly Bound[], not = ''): Condition {
  const size = 2 ** Math.ceil(Math.log2(Math.max(1, values.length)))
  const padding = new Array<Bound>(size - values.length).fill(values[0] ?? UNUSED)
  const marks = new Array(size).fill('?').join(',')
  return { sql: `${column} ${not}in (${marks})`, values: [...values, ...padding] }
}
/** No column holds it: an empty list matches nothing. */
const UNUSED = -2

/** Keeps the first two octets of the address in an id, and the port. */
const ADDRESS_16 = 0xffff0000ffff

/** The conditions of a filter by name; `false` where the filter has none. */
function conditionsOf(filter: Filter, addressBits: 32 | 16, cityIds: readonly number[]) {
  const { types, anons, pingMaxMs, speedMin, worksMin, countries, services, address } = filter
  const bits = servicesToBits(new Set(services))
  const except = filter.countryMode === 'except' ? 'not ' : ''
  const has = (values: readonly unknown[]): boolean => values.length > 0
  return {
    type:
      has(types) &&
      oneOf(
        'type',
        types.map(type => TYPES.indexOf(type)),
      ),
    anon:
      has(anons) &&
      oneOf(
        'anon',
        anons.map(anon => 1 + ANONS.indexOf(anon)),
      ),
    ping: pingMaxMs !== null && { sql: 'ping_ms <= ?', values: [pingMaxMs] },
    speed: speedMin !== null && { sql: 'speed >= ?', values: [speedMin] },
    works: worksMin !== null && { sql: 'works >= ?', values: [worksMin] },
    country: has(countries) && oneOf('country', countries.map(countryToNumber), except),
    city: has(filter.cities) && oneOf('city', cityIds),
    port: filter.port !== null && equals('id & 65535', filter.port),
    address:
      address !== null && equals(addressBits === 16 ? `id & ${ADDRESS_16}` : 'id', idOf(address)),
    services: bits > 0 && { sql: 'services & ? = ?', values: [bits, bits] },
  }
}

type Conditions = ReturnType<typeof conditionsOf>
type Choice = Path & { decides: keyof Conditions | null }

/** The most selective path to the rows of a filter. */
function choosePath(filter: Filter, addressBits: 32 | 16, cityIds: readonly number[]): Choice {
  const { address, port, countries } = filter
  if (address !== null && addressBits === 32) {
    return { index: null, branches: [equals('id', idOf(address))], decides: 'address' }
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
  const conditions = conditionsOf(filter, addressBits, cityIds)
  const { decides, ...path } = choosePath(filter, addressBits, cityIds)
  const all = Object.values(conditions).filter(condition => condition !== false)
  const decided = decides === null ? false : conditions[decides]
  return {
    path,
    since: { sql: 'checked_at >= ?', values: [ageClock(nowMs) - filter.ageMaxSeconds] },
    rest: all.filter(condition => condition !== decided),
    all,
    order: filter.sort === null || filter.sort === 'random' ? 'checked' : filter.sort,
    createMatcher: () => createMatcher(filter, addressBits, cityIds),
  }
}
