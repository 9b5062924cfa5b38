/**
 * What a list has nothing of (contract A2): a few seeks in indexes, and for types, which no index
 * leads to, a scan that may be bounded.
 */
import type { Filter } from '../../proxies/filter.ts'
import { type ProxyType, TYPES } from '../../proxies/proxy.ts'
import { countryToNumber } from '../../proxies/row.ts'
import type { Lacking, Lacks } from '../../proxies/store.ts'
import type { Bound } from './filter-sql.ts'
import { ORDER, type Reader } from './reader.ts'

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
