/** Owns how a proxy is stored in a row: addresses, list members and unknown values are numbers. */
import { isIPv4 } from 'node:net'
import {
  type Address,
  ANONS,
  type Endpoint,
  type IncomingProxy,
  type Proxy,
  SERVICES,
  TYPES,
} from '../../proxies/proxy.ts'

/** Stored in place of an unknown ping: above every bound a filter can set, and sorted last. */
export const UNKNOWN_PING = Number.MAX_SAFE_INTEGER
/** Stored in place of an unknown speed or success rate: below every bound. */
export const UNKNOWN = -1

export const ROW_COLUMNS = [
  'id',
  'checked_at',
  'ping_ms',
  'type',
  'anon',
  'works',
  'speed',
  'services',
  'country',
  'city',
  'ip_out',
] as const

/** The columns of a row, in their order. */
export type Row = [
  id: number,
  checkedAt: number,
  pingMs: number,
  type: number,
  anon: number,
  works: number,
  speed: number,
  services: number,
  country: number,
  city: number,
  ipOut: number | string,
]

/** The columns of an endpoint; every wide index holds them. */
export const ENDPOINT_COLUMNS = ROW_COLUMNS.slice(0, 4)
/** The columns of a row that are always read. */
export type EndpointRow = readonly [
  id: number,
  checkedAt: number,
  pingMs: number,
  type: number,
  ...unknown[],
]

/** Default and English name of a city, by its id in a row. */
export type CityName = { name: string; nameEn: string }

const ipToNumber = (ip: string): number => {
  const [a = 0, b = 0, c = 0, d = 0] = ip.split('.').map(Number)
  return ((a * 256 + b) * 256 + c) * 256 + d
}
const numberToIp = (bits: number): string =>
  `${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`

/** The address as one integer below 2^48: IPv4 as 32 bits, then the port as 16. */
export const idOf = ({ ip, port }: Address): number => ipToNumber(ip) * 65536 + port

/** An endpoint from the first columns of its row. */
export const endpointOf = ([id, checkedAt, , type]: EndpointRow): Endpoint => ({
  ip: numberToIp(Math.floor(id / 65536)),
  port: id % 65536,
  type: TYPES[type] ?? 'http',
  checkedAt,
})

/** Two upper-case letters as one number; 0 for `''`. */
export const countryToNumber = (country: string): number =>
  country === '' ? 0 : (country.charCodeAt(0) - 64) * 32 + country.charCodeAt(1) - 64
const numberToCountry = (bits: number): string =>
  bits === 0 ? '' : String.fromCharCode((bits >>> 5) + 64, (bits & 31) + 64)

/** Services as bits: bit n stands for `SERVICES[n]`. */
export const servicesToBits = (services: Proxy['services']): number => {
  let bits = 0
  for (const service of services) bits |= 1 << SERVICES.indexOf(service)
  return bits
}
/** Every combination of services as a set, by its bits. */
const SERVICE_SETS = Array.from(
  { length: 1 << SERVICES.length },
  (_, bits) => new Set(SERVICES.filter((_, bit) => bits & (1 << bit))),
)

/** A proxy from its row. */
export function proxyOf(row: Row, cityOf: (id: number) => CityName): Proxy {
  const [id, checkedAt, pingMs, type, anon, works, speed, services, country, city, ipOut] = row
  const { name, nameEn } = cityOf(city)
  return {
    ip: numberToIp(Math.floor(id / 65536)),
    port: id % 65536,
    ipOut: typeof ipOut === 'number' ? numberToIp(ipOut) : ipOut,
    type: TYPES[type] ?? 'http',
    anon: ANONS[anon - 1] ?? '',
    speed: speed === UNKNOWN ? null : speed,
    pingMs: pingMs === UNKNOWN_PING ? null : pingMs,
    checkedAt,
    country: numberToCountry(country),
    city: name,
    cityEn: nameEn,
    works: works === UNKNOWN ? null : works,
    services: SERVICE_SETS[services] ?? new Set(),
  }
}

/** The row of a proxy; `city` is the id of its city, 0 when unknown. */
export const toRow = (proxy: IncomingProxy, city: number): Row => [
  idOf(proxy),
  proxy.checkedAt,
  proxy.pingMs ?? UNKNOWN_PING,
  TYPES.indexOf(proxy.type),
  proxy.anon === '' ? 0 : 1 + ANONS.indexOf(proxy.anon),
  proxy.works ?? UNKNOWN,
  proxy.speed ?? UNKNOWN,
  servicesToBits(proxy.services),
  countryToNumber(proxy.country),
  city,
  isIPv4(proxy.ipOut) ? ipToNumber(proxy.ipOut) : proxy.ipOut,
]
