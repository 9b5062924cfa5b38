/** Turning proxies into rows and back, for tests that look at the values of a proxy. */
import { ANONS, type Proxy, SERVICES, type Service } from '../../src/proxies/proxy.ts'
import {
  type CityName,
  type CityNames,
  type EndpointRow,
  type Found,
  type Row,
  toRow,
  UNKNOWN,
  UNKNOWN_PING,
} from '../../src/proxies/row.ts'
import { typeBits } from '../../src/proxies/types.ts'
import { T0 } from './fixtures.ts'

/** A proxy of which all is known. */
export const berlin: Proxy = {
  ip: '185.162.7.9',
  port: 8080,
  ipOut: '185.162.40.1',
  types: typeBits(['http']),
  anon: 'elite',
  speed: 1_250_000,
  pingMs: 532,
  checkedAt: T0 / 1000 - 30,
  country: 'DE',
  city: 'Берлин',
  cityEn: 'Berlin',
  works: 97,
  services: new Set(['telegram', 'google'] as const),
}

export type Endpoint = Pick<Proxy, 'ip' | 'port' | 'types' | 'checkedAt'>

const dotted = (bits: number): string =>
  [24, 16, 8, 0].map(shift => Math.floor(bits / 2 ** shift) % 256).join('.')

/** The endpoint of a row. */
export const endpointOf = ([id, checkedAt, , types]: EndpointRow): Endpoint => ({
  ip: dotted(Math.floor(id / 65536)),
  port: id % 65536,
  types,
  checkedAt,
})

/** The proxy of a row. */
export function proxyOf(row: Row, cityNames: CityNames): Proxy {
  const [, , pingMs, , country, anon, works, speed, services, city, ipOut] = row
  const { name, nameEn } = cityNames(city)
  const letter = (bits: number): string => '?ABCDEFGHIJKLMNOPQRSTUVWXYZ'[bits] ?? '?'
  return {
    ...endpointOf(row),
    ipOut: typeof ipOut === 'number' ? dotted(ipOut) : ipOut,
    anon: ANONS[anon - 1] ?? '',
    speed: speed === UNKNOWN ? null : speed,
    pingMs: pingMs === UNKNOWN_PING ? null : pingMs,
    country: country === 0 ? '' : letter(country >> 5) + letter(country & 31),
    city: name,
    cityEn: nameEn,
    works: works === UNKNOWN ? null : works,
    services: new Set<Service>(SERVICES.filter((_, n) => services & (1 << n))),
  }
}

/** The proxies of rows. */
export const proxiesOf = ({ rows, cityNames }: Omit<Found, 'areKept'>): Proxy[] =>
  rows.map(row => proxyOf(row, cityNames))

/** Proxies as a list would give them; each has a city of its own. */
export function foundOf(proxies: readonly Proxy[]): Found {
  const unknown: CityName = { name: '', nameEn: '' }
  const names = [unknown, ...proxies.map(({ city, cityEn }) => ({ name: city, nameEn: cityEn }))]
  return {
    rows: proxies.map((proxy, i) => toRow(proxy, i + 1)),
    cityNames: id => names[id] ?? unknown,
    areKept: false,
  }
}
