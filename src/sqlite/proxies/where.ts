/**
 * Owns how a filter becomes conditions in SQL, and which index finds its rows in the order of
 * the answer. What the filters mean is in the contract, A4.
 */

import { toSeconds } from '../../lib/time.ts'
import { ANONS, type Filter, TYPES } from '../../proxies/proxy.ts'
import { countryToNumber, idOf, MASKED_ID, servicesToBits } from './row.ts'

export type Bound = number | string
export type Condition = { sql: string; values: readonly Bound[] }

/** Where to look: an index, and for each branch the exact value that leads to its part of it. */
export type Path = { index: string | null; branches: readonly Condition[] }

/** What a filter asks of SQLite. */
export type Search = {
  path: Path
  /** Oldest check, Unix seconds; every index but the primary key is in order of it. */
  since: Condition
  /** What remains to be judged row by row, and the same with what the path has decided. */
  rest: readonly Condition[]
  all: readonly Condition[]
}

/** Values that are looked up apart and merged; more of them are judged row by row. */
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

/** Every condition a filter puts, by what it is on; absent filters put none. */
function conditionsOf(filter: Filter, masked: boolean, cityIds: readonly number[]) {
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
    address: address !== null && equals(masked ? `id & ${MASKED_ID}` : 'id', idOf(address)),
    services: bits > 0 && { sql: 'services & ? = ?', values: [bits, bits] },
  }
}

type Conditions = ReturnType<typeof conditionsOf>
type Choice = Path & { decides: keyof Conditions | null }

/** The most exact way to the rows of a filter. */
function choosePath(filter: Filter, masked: boolean, cityIds: readonly number[]): Choice {
  const { address, port, countries } = filter
  if (address !== null && !masked) {
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

/** `masked`: an address is compared as `demo` shows it, without the last two octets. */
export function searchOf(
  filter: Filter,
  masked: boolean,
  cityIds: readonly number[],
  nowMs: number,
): Search {
  const conditions = conditionsOf(filter, masked, cityIds)
  const { decides, ...path } = choosePath(filter, masked, cityIds)
  const all = Object.values(conditions).filter(condition => condition !== false)
  const decided = decides === null ? false : conditions[decides]
  return {
    path,
    since: { sql: 'checked_at >= ?', values: [toSeconds(nowMs) - filter.ageMaxSeconds] },
    rest: all.filter(condition => condition !== decided),
    all,
  }
}
