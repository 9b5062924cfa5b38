/**
 * The places of addresses (contract G2): City and Country databases in the format of MaxMind fill in
 * what a row does not bring.
 */
import { LRUCache } from 'lru-cache'
import { type CityResponse, Reader } from 'mmdb-lib'
import { CommandError } from '../lib/errors.ts'
import { readNamed } from '../lib/files.ts'
import { withoutUnprintable } from '../lib/redact.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import { CITY_LENGTH_MAX, isCityName, withoutCommas } from './values.ts'

/** Where an address is. Names are as a row has them; `''` unknown. */
export type Place = { country: string; city: string; cityEn: string }

type PlaceReader = (ip: string) => Place | null

/** Decoded records in memory; neighbouring addresses share them. */
const RECORDS_MAX = 10_000
/** The kinds of databases that have what we read, as they name themselves. */
const KINDS = /City|Country|Enterprise/

const NOWHERE: Place = { country: '', city: '', cityEn: '' }

/** A name without what a name in the list must not have; one that cannot be one is unknown. */
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

/**
 * The reader of a file's content. It and what it returns
 * @throws CommandError naming the file when it is not a City or Country database, or is damaged.
 */
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

/** What a place says of a proxy that it does not say itself. */
function fill(proxy: IncomingProxy, place: Place): IncomingProxy {
  const country = proxy.country || place.country
  // Where one of the names of the city is given, the other one belongs to it if the city is the same.
  const isTheCity =
    country === place.country &&
    (proxy.city || place.city) === place.city &&
    (proxy.cityEn || place.cityEn) === place.cityEn
  return isTheCity ? { ...proxy, ...place } : { ...proxy, country }
}

export type Placing = (proxy: IncomingProxy) => IncomingProxy

/** Finds places by the outgoing address, else by the address; the first database that knows wins. */
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

/** Opens the databases of `--geoip`. @throws CommandError naming one that cannot be used. */
export async function openGeoip(files: readonly string[]): Promise<Placing> {
  const readers: PlaceReader[] = []
  for (const file of files) readers.push(openPlaces(await readNamed(file), file))
  return createPlacing(readers)
}
