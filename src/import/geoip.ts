/** Fills in missing countries and cities, from City and Country databases in the format of MaxMind (contract G2). */
import { LRUCache } from 'lru-cache'
import { type CityResponse, Reader } from 'mmdb-lib'
import { CommandError } from '../lib/errors.ts'
import { readNamed } from '../lib/files.ts'
import { withoutUnprintable } from '../lib/redact.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import { CITY_LENGTH_MAX, isCityName, withoutCommas } from './values.ts'

/** The place of an address, as in a row. `''` is unknown. */
export type Place = { country: string; city: string; cityEn: string }

type PlaceReader = (ip: string) => Place | null

/** Decoded records in memory. Neighbouring addresses share them. */
const RECORDS_MAX = 10_000
const KINDS = /City|Country|Enterprise/

const NOWHERE: Place = { country: '', city: '', cityEn: '' }

/** A name as the list may hold it; `''` if it must not. */
function nameOf(name: string | undefined): string {
  const text = withoutCommas(withoutUnprintable(name ?? '')).slice(0, CITY_LENGTH_MAX)
  return isCityName(text) ? text : ''
}

function toPlace({ country, city }: CityResponse): Place {
  const code = country?.iso_code ?? ''
  const english = nameOf(city?.names?.en)
  return {
    country: /^[A-Z]{2}$/.test(code) ? code : '',
    city: nameOf(city?.names?.ru) || english,
    cityEn: english,
  }
}

/** @throws CommandError if the file is not a City or Country database. The reader throws one if it is damaged. */
export function openPlaces(content: Buffer, file: string): PlaceReader {
  let reader: Reader<CityResponse>
  try {
    const cache = new LRUCache<string | number, object>({ max: RECORDS_MAX })
    reader = new Reader<CityResponse>(content, { cache })
  } catch {
    throw new CommandError(
      `${file} is not a database in the format of MaxMind (.mmdb), or is cut off`,
    )
  }
  const { databaseType, ipVersion } = reader.metadata
  if (!KINDS.test(databaseType)) {
    throw new CommandError(
      `${file} is a ${databaseType} database; places need a City or a Country database`,
    )
  }
  const places = new WeakMap<object, Place>()
  return ip => {
    if (ipVersion === 4 && ip.includes(':')) return null
    try {
      const found = reader.get(ip)
      if (found === null || typeof found !== 'object') return null
      const known = places.get(found)
      if (known) return known
      const place = toPlace(found)
      places.set(found, place)
      return place
    } catch {
      throw new CommandError(`${file} is damaged`)
    }
  }
}

/** Adds a place to a proxy, without changing its own country and city. */
function fill(proxy: IncomingProxy, place: Place): IncomingProxy {
  const country = proxy.country || place.country
  // A missing name of the city may be added only if both are the same city.
  const isTheCity =
    country === place.country &&
    (proxy.city || place.city) === place.city &&
    (proxy.cityEn || place.cityEn) === place.cityEn
  return isTheCity ? { ...proxy, ...place } : { ...proxy, country }
}

export type Placing = (proxy: IncomingProxy) => IncomingProxy

/** Finds places by the outgoing address, or else by the address. The first database with a place wins. */
export function createPlacing(readers: readonly PlaceReader[]): Placing {
  const placeOf = (ip: string): Place => {
    let best = NOWHERE
    for (const read of readers) {
      const place = read(ip)
      if (place === null) continue
      if (best.country === '') best = { ...best, country: place.country }
      if (best.city === '' && place.city !== '' && place.country === best.country) best = place
      if (best.city !== '') break
    }
    return best
  }
  return proxy => {
    const isComplete = proxy.country !== '' && proxy.city !== '' && proxy.cityEn !== ''
    if (isComplete || readers.length === 0) return proxy
    return fill(proxy, placeOf(proxy.ipOut || proxy.ip))
  }
}

/** Opens the databases of `--geoip`. @throws CommandError naming the file that cannot be used. */
export async function openGeoip(files: readonly string[]): Promise<Placing> {
  const readers: PlaceReader[] = []
  for (const file of files) readers.push(openPlaces(await readNamed(file), file))
  return createPlacing(readers)
}
