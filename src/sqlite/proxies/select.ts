/** Selects from the list: quickly, for the main thread, or all matches row by row. */
import type { Database } from 'bun:sqlite'
import { LRUCache } from 'lru-cache'
import { draw, type Matches, matchesOf } from '../../proxies/draw.ts'
import type { Bound, Filter } from '../../proxies/filter.ts'
import { maskId } from '../../proxies/mask.ts'
import { type ProxyType, TYPES } from '../../proxies/proxy.ts'
import {
  AT,
  countryToNumber,
  type EndpointRow,
  type Found,
  ipBits,
  ROW_COLUMNS,
  type Row,
} from '../../proxies/row.ts'
import type { EmptyReason, FindOptions, Lacking } from '../../proxies/store.ts'
import { typeBits } from '../../proxies/types.ts'
import { dataVersionOf } from '../database.ts'
import { createCities } from './cities.ts'
import {
  type Columns,
  compileFilter,
  createStatements,
  ENDPOINT_COLUMNS,
  ORDER,
  type Search,
  selectByIds,
  selectMatches,
} from './filter-sql.ts'
import { createHotRows } from './hot-rows.ts'

/** The first rows of a branch that a quick select looks at. */
export const SCAN_MAX = 20_000
/** Most records that are found quickly, and rendered at once. */
export const QUICK_RECORDS_MAX = 1_000

const undrawn = (filter: Filter): Filter => ({ ...filter, sort: null, count: null })

type KeyOf = (row: EndpointRow) => number | string
const maskedOf: KeyOf = row => maskId(row[AT.id])
/** The outgoing address of a proxy, else its own. Needs all columns. */
const exitOf: KeyOf = row => (row as Row)[AT.ipOut] || ipBits(row[AT.id])

const keysOf = ({ unique }: Filter, { addressBits }: FindOptions): readonly KeyOf[] => [
  ...(addressBits === 16 ? [maskedOf] : []),
  ...(unique ? [exitOf] : []),
]

/** Skips rows that share a key with an earlier row. Returns at most `most`. */
function* firstOfEach<R extends EndpointRow>(
  rows: Iterable<R>,
  keys: readonly KeyOf[],
  most: number | null,
): Generator<R> {
  const seen = keys.map(keyOf => ({ keyOf, known: new Set<number | string>() }))
  let size = 0
  for (const row of rows) {
    if (size === most) return
    if (seen.some(({ keyOf, known }) => known.has(keyOf(row)))) continue
    for (const { keyOf, known } of seen) known.add(keyOf(row))
    size += 1
    yield row
  }
}

/** Reads an open list row by row. The caller reads each result on one snapshot. */
export function createLongSelect(db: Database) {
  const statements = createStatements(db)
  const cities = createCities(db)

  /** All that match, up to `filter.count`, in any order but a random one. */
  function rowsOf<R extends EndpointRow>(
    filter: Filter,
    options: FindOptions,
    columns: Columns,
  ): Generator<R> {
    const search = compileFilter(filter, options, cities)
    const keys = keysOf(filter, options)
    const most = keys.length > 0 ? -1 : (filter.count ?? -1)
    const selected = filter.unique ? ROW_COLUMNS : columns
    const rows = statements.each<R>(selectMatches(search, selected, most))
    return keys.length > 0 ? firstOfEach(rows, keys, filter.count) : rows
  }

  const matches = (filter: Filter, options: FindOptions): Matches =>
    matchesOf(rowsOf(undrawn(filter), options, ENDPOINT_COLUMNS))

  function* rowsAt(filter: Filter, options: FindOptions, ids: readonly number[]): Generator<Row> {
    const search = compileFilter(filter, options, cities)
    for (let at = 0; at < ids.length; at += QUICK_RECORDS_MAX) {
      yield* statements.all(selectByIds(search, ids.slice(at, at + QUICK_RECORDS_MAX)))
    }
  }

  function* idsOf(rows: Iterable<EndpointRow>): Generator<number> {
    for (const row of rows) yield row[AT.id]
  }

  return {
    statements,
    cities,
    matches,
    /** All that match: rows to be read once, and their ids. */
    open<R extends EndpointRow>(
      filter: Filter,
      options: FindOptions,
      columns: Columns,
    ): { rows: Generator<R>; ids: () => Iterable<number> } {
      if (filter.sort === 'random') {
        const { ids } = matches(filter, options)
        const drawn = draw(ids, ids.length, filter.count ?? ids.length)
        return { rows: rowsAt(filter, options, drawn) as Generator<Row & R>, ids: () => drawn }
      }
      return {
        rows: rowsOf<R>(filter, options, columns),
        ids: () => idsOf(rowsOf(filter, options, ENDPOINT_COLUMNS)),
      }
    },
  }
}

const NEWEST = `select checked_at from proxies indexed by proxies_by_age order by ${ORDER} limit 1`
const SEEKS = {
  country: 'indexed by proxies_by_country where country in (select value from json_each(?))',
  port: 'indexed by proxies_by_port where id & 65535 = ?',
} as const

/** Selects for the main thread from an open list; `version` changes whenever the list does. */
export function createSelect(db: Database, scanMax: number, version: () => number) {
  const longSelect = createLongSelect(db)
  const { statements, cities, open } = longSelect
  const { all, number } = statements
  const findHot = createHotRows(statements, version, dataVersionOf(db), scanMax)
  const hotResults = new WeakSet<readonly Row[]>()
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

  function findFirst(search: Search, most: number): Row[] | null {
    if (search.index === null) return all(selectMatches(search, ROW_COLUMNS, most)) // one address
    const hot = findHot(search, most)
    if (hot !== null) hotResults.add(hot)
    return hot
  }

  /** All that match; `null` when finding them would take long, or they are many. Not for a random order. */
  function findQuickly(filter: Filter, options: FindOptions): Row[] | null {
    const search = compileFilter(filter, options, cities)
    const count = filter.count ?? Infinity
    const keys = keysOf(filter, options)
    if (keys.length === 0) {
      const found = findFirst(search, Math.min(count, QUICK_RECORDS_MAX + 1))
      return found !== null && found.length > QUICK_RECORDS_MAX ? null : found
    }
    const found = findFirst(search, QUICK_RECORDS_MAX)
    if (found === null) return null
    const shown = [...firstOfEach(found, keys, filter.count)]
    // More of them may follow.
    return found.length === QUICK_RECORDS_MAX && shown.length < count ? null : shown
  }

  const has = (where: string, value: Bound): boolean =>
    number([`select 1 from proxies ${where} limit 1`, [value]]) !== undefined

  /** The types of a version of the list. No index leads to a type: not finding one takes 75 ms a million rows. */
  const types = new LRUCache<string, boolean>({ max: TYPES.length })
  function hasType(type: ProxyType): boolean {
    const key = `${version()} ${type}`
    const known = types.get(key) ?? has('where types & ?', typeBits([type]))
    types.set(key, known)
    return known
  }

  return {
    ...longSelect,
    cityNames: cities.nameOf,
    findQuickly(filter: Filter, options: FindOptions): Found | null {
      const rows = onSnapshot(() => findQuickly(filter, options))
      return rows && { rows, cityNames: cities.nameOf, areKept: hotResults.has(rows) }
    },
    findAll(filter: Filter, options: FindOptions): Found {
      const rows = onSnapshot(() => [...open<Row>(filter, options, ROW_COLUMNS).rows])
      return { rows, cityNames: cities.nameOf, areKept: false }
    },
    findByIds(filter: Filter, options: FindOptions, ids: readonly number[]): Found | null {
      const rows = all(selectByIds(compileFilter(filter, options, cities), ids))
      return rows.length === ids.length ? { rows, cityNames: cities.nameOf, areKept: false } : null
    },
    explainEmpty(filter: Filter): EmptyReason {
      const { countries, countryMode, port, lang } = filter
      const lacking: Lacking[] = []
      const numbers = JSON.stringify(countries.map(countryToNumber))
      const isIncluded = countries.length > 0 && countryMode === 'include'
      if (filter.types.length > 0 && !filter.types.some(hasType)) lacking.push('type')
      if (isIncluded && !has(SEEKS.country, numbers)) lacking.push('country')
      if (filter.cities.length > 0 && !cities.hasRows(filter.cities, lang)) lacking.push('city')
      if (port !== null && !has(SEEKS.port, port)) lacking.push('port')
      return { newestSeconds: number([NEWEST, []]) ?? null, lacking }
    },
  }
}
