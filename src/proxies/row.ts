/** The compact form of a proxy: a row of numbers. Between store and answer there is no object for each. */
import { ipv4ToNumber } from '../lib/ip.ts'
import { type Address, ANONS, type Proxy, SERVICE_SETS, servicesToBits } from './proxy.ts'

/** An unknown ping: above every bound of a filter, and sorted last. */
export const UNKNOWN_PING = Number.MAX_SAFE_INTEGER
/** An unknown speed or success rate: below every bound of a filter. */
export const UNKNOWN = -1

/** One proxy. */
export type Row = [
  /** The address: IPv4 as 32 bits, then the port as 16. */
  id: number,
  /** Unix seconds. */
  checkedAt: number,
  /** Milliseconds, or `UNKNOWN_PING`. */
  pingMs: number,
  /** See `types.ts`. */
  types: number,
  /** 0 unknown, else the two letters as 5 bits each. */
  country: number,
  /** 0 unknown, else 1 + position in `ANONS`. */
  anon: number,
  /** Percent, or `UNKNOWN`. */
  works: number,
  /** Bytes per second, or `UNKNOWN`. */
  speed: number,
  /** Bit n stands for `SERVICES[n]`. */
  services: number,
  /** 0 unknown, else the id of its names, see `CityNames`. */
  city: number,
  /** `''` unknown; IPv4 as a number; IPv6 as text. */
  ipOut: number | string,
]

type Names<R extends readonly unknown[]> = { readonly [Position in keyof R]: string }

/** The columns of a stored row, in its order. */
export const ROW_COLUMNS = [
  'id',
  'checked_at',
  'ping_ms',
  'types',
  'country',
  'anon',
  'works',
  'speed',
  'services',
  'city',
  'ip_out',
] as const satisfies Names<Row>

export type RowNumbers = Readonly<Record<Exclude<(typeof ROW_COLUMNS)[number], 'ip_out'>, number>>

/** The values of a row that an answer of bare addresses needs. */
export type EndpointRow = readonly [
  id: number,
  checkedAt: number,
  pingMs: number,
  types: number,
  country: number,
  ...unknown[],
]

/** Positions of values in a row. Reading them one by one is faster than destructuring the row. */
export const AT = {
  id: 0,
  checkedAt: 1,
  pingMs: 2,
  types: 3,
  country: 4,
  anon: 5,
  works: 6,
  speed: 7,
  services: 8,
  city: 9,
  ipOut: 10,
} as const

/** Default and English name of a city. */
export type CityName = { name: string; nameEn: string }
export const NO_CITY: CityName = { name: '', nameEn: '' }
/** Returns the names of a city by its id in the rows of a list. The names of an id never change. */
export type CityNames = (id: number) => CityName

/** Rows of a list, and the names of their cities. */
export type Found = {
  rows: readonly Row[]
  cityNames: CityNames
  /** Whether the store returns the same row objects again, so that a caller may cache values made of them. */
  areKept: boolean
}

const OCTETS = Array.from({ length: 256 }, (_, octet) => String(octet))
const OCTETS_AND_DOT = OCTETS.map(octet => `${octet}.`)

/** The text of an IPv4 address of 32 bits. */
export const ipText = (bits: number): string =>
  `${OCTETS_AND_DOT[bits >>> 24]}${OCTETS_AND_DOT[(bits >>> 16) & 255]}` +
  `${OCTETS_AND_DOT[(bits >>> 8) & 255]}${OCTETS[bits & 255]}`

/** The id of an address, an integer below 2^48. */
export const idOf = ({ ip, port }: Address): number => ipv4ToNumber(ip) * 65536 + port

/** The IPv4 address in an id, as 32 bits. */
export const ipBits = (id: number): number => Math.floor(id / 65536)
export const portOf = (id: number): number => id % 65536
export const toAddress = (id: number): Address => ({ ip: ipText(ipBits(id)), port: portOf(id) })
/** The /16 of the address in an id, as a number below 65,536. */
export const subnetOf = (id: number): number => Math.floor(id / 2 ** 32)

/** Two upper-case letters as one number; 0 for `''`. */
export const countryToNumber = (country: string): number =>
  country === '' ? 0 : (country.charCodeAt(0) - 64) * 32 + country.charCodeAt(1) - 64
export const countryText = (bits: number): string =>
  bits === 0 ? '' : String.fromCharCode((bits >>> 5) + 64, (bits & 31) + 64)

/** The row of a proxy; `city` is the id of its city, 0 when unknown. */
export function toRow(proxy: Proxy, city: number): Row {
  const ipOut = ipv4ToNumber(proxy.ipOut)
  return [
    idOf(proxy),
    proxy.checkedAt,
    proxy.pingMs ?? UNKNOWN_PING,
    proxy.types,
    countryToNumber(proxy.country),
    proxy.anon === '' ? 0 : 1 + ANONS.indexOf(proxy.anon),
    proxy.works ?? UNKNOWN,
    proxy.speed ?? UNKNOWN,
    servicesToBits(proxy.services),
    city,
    ipOut < 0 ? proxy.ipOut : ipOut,
  ]
}

/** The proxy of a row. */
export function toProxy(row: Row, cityNames: CityNames): Proxy {
  const { name, nameEn } = cityNames(row[AT.city])
  const ipOut = row[AT.ipOut]
  const known = (value: number, unknown: number): number | null =>
    value === unknown ? null : value
  return {
    ...toAddress(row[AT.id]),
    types: row[AT.types],
    checkedAt: row[AT.checkedAt],
    ipOut: typeof ipOut === 'number' ? ipText(ipOut) : ipOut,
    anon: ANONS[row[AT.anon] - 1] ?? '',
    speed: known(row[AT.speed], UNKNOWN),
    pingMs: known(row[AT.pingMs], UNKNOWN_PING),
    country: countryText(row[AT.country]),
    city: name,
    cityEn: nameEn,
    works: known(row[AT.works], UNKNOWN),
    services: SERVICE_SETS[row[AT.services]] ?? new Set(),
  }
}
