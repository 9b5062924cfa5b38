/**
 * Owns reading a row of an imported file (contract D2): its members become a proxy, or the reason
 * why they do not. Pure; knows nothing of file formats or of what is stored.
 */

import { canonicalIp } from '../lib/ip.ts'
import { toSeconds } from '../lib/time.ts'
import {
  type Address,
  type IncomingProxy,
  type ProxyType,
  parseAddress,
  parsePort,
  SERVICE_SETS,
  SERVICES,
  type Service,
  TYPES,
} from '../proxies/proxy.ts'
import { underscored } from './fields/columns.ts'
import {
  anonOf,
  BadField,
  bad,
  CREDENTIALS,
  flagOf,
  instantOf,
  numberOf,
  type PingUnit,
  pingMsOf,
  type RawRow,
  textOf,
  timecheckOf,
  typeOf,
} from './fields/values.ts'

export type { RawRow } from './fields/values.ts'

/** What applies to every row of an import. */
export type RowDefaults = {
  /** Type of rows without one. */
  type: ProxyType | undefined
  /** The time of the import, Unix milliseconds. */
  nowMs: number
  /** Name of the provider's own service. */
  provider: string
  /** The unit of `ping` where a value names none; seconds when left out. */
  pingUnit?: PingUnit | undefined
}

export type RowResult =
  | { ok: true; proxy: IncomingProxy }
  | { ok: false; field: string; reason: string }

/** A check may be this many seconds in the future, because clocks differ. */
export const FUTURE_SECONDS_MAX = 300
const CITY_LENGTH_MAX = 200

/** An address with a user and a password, before it or after it. */
const WITH_CREDENTIALS = /@|^(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}:[^:]*:/

/** The address from `ip` (with its port or with `port`), or from the key it is listed under. */
function addressOf(row: RawRow, listedAs: string | undefined): Address {
  const ip = textOf(row.ip, 'ip')
  const port = textOf(row.port, 'port')
  const given = ip === '' ? (listedAs ?? '') : ip.includes(':') ? ip : joined(ip, port, listedAs)
  const address = parseAddress(given)
  if (!address) {
    const accepts = 'must be an IPv4 address with a port, a.b.c.d:port'
    return bad('ip', WITH_CREDENTIALS.test(given) ? CREDENTIALS : accepts)
  }
  if (port !== '' && parsePort(port) !== address.port) {
    return bad('port', 'must be an integer from 1 to 65535, the same as in ip')
  }
  return address
}

const joined = (ip: string, port: string, listedAs: string | undefined): string => {
  if (port !== '') return `${ip}:${port}`
  return listedAs?.startsWith(`${ip}:`) ? listedAs : ip
}

function ipOutOf(value: unknown): string {
  const text = textOf(value, 'ip_out')
  return text === '' ? '' : (canonicalIp(text) ?? bad('ip_out', 'must be an IP address'))
}

function countryOf(value: unknown): string {
  const text = textOf(value, 'country')
  if (/^[A-Z]{2}$/.test(text)) return text // as nearly all are written
  if (!/^(?:[A-Za-z]{2})?$/.test(text)) return bad('country', 'must be a two-letter country code')
  return text.toUpperCase()
}

/** The name of a city. Commas are left out, because in a query they separate names. */
function cityOf(value: unknown, field: string): string {
  const given = textOf(value, field)
  const text = given.includes(',') ? given.replace(/[\s,]*,[\s,]*/g, ' ').trim() : given
  const fits = text.length <= CITY_LENGTH_MAX && !/[\u0000-\u001f\u007f]/.test(text)
  return fits ? text : bad(field, `must be a name of up to ${CITY_LENGTH_MAX} characters`)
}

/** Unix seconds of the check: `checked_at`, else `timecheck`, else the time of the import. */
function checkedAtOf({ checked_at, timecheck }: RawRow, nowMs: number): number {
  const now = toSeconds(nowMs)
  const instant = textOf(checked_at, 'checked_at')
  const local = textOf(timecheck, 'timecheck')
  const field = instant === '' ? 'timecheck' : 'checked_at'
  if (instant === '' && local === '') return now
  const seconds = instant === '' ? timecheckOf(local) : instantOf(instant)
  if (seconds < 0) return bad(field, 'must not lie before 1970')
  return seconds <= now + FUTURE_SECONDS_MAX
    ? seconds
    : bad(field, `lies more than ${FUTURE_SECONDS_MAX / 60} minutes in the future`)
}

const NONE: ReadonlySet<Service> = new Set()

/** The services that a row sets to true, and all those that it states. */
function servicesOf(row: RawRow, provider: string) {
  let granted = 0
  let stated = 0
  let bit = 1
  for (const service of SERVICES) {
    const field = service === 'provider' ? providerColumn(row, provider) : service
    const flag = flagOf(row[field], field)
    if (flag === true) granted |= bit
    if (flag !== null) stated |= bit
    bit <<= 1
  }
  return {
    services: SERVICE_SETS[granted] ?? NONE,
    servicesStated: SERVICE_SETS[stated] ?? NONE,
  }
}

/** The name under which a row has the provider's service. */
const providerColumn = (row: RawRow, provider: string): string =>
  row[provider] === undefined ? underscored(provider) : provider

const INTEGER_MAX = 999_999_999_999_999

/**
 * Reads one row. `listedAs` is its key when the row is a value of a JSON object; `translate` makes
 * its names ours, and may throw `BadField`.
 * Ping is rounded to milliseconds, speed to bytes a second, works down to a percent.
 */
export function readRow(
  given: RawRow,
  defaults: RowDefaults,
  listedAs?: string,
  translate: ((row: RawRow) => RawRow) | null = null,
): RowResult {
  try {
    const row = translate === null ? given : translate(given)
    const { ip, port } = addressOf(row, listedAs)
    const type = typeOf(row.type) || defaults.type
    if (!type) bad('type', `is required: ${TYPES.join(', ')} (or give --type)`)
    const pingMs = pingMsOf(row.ping, defaults.pingUnit ?? 's')
    const speed = numberOf(row.speed, 'speed', INTEGER_MAX, 'bytes per second, at least 0')
    const works = numberOf(row.works, 'works', 100, 'a number from 0 to 100', '%')
    const proxy: IncomingProxy = {
      ip,
      port,
      type: type as ProxyType, // `bad` has thrown otherwise
      ipOut: ipOutOf(row.ip_out),
      anon: anonOf(row.anon),
      speed: speed === null ? null : Math.round(speed),
      pingMs,
      checkedAt: checkedAtOf(row, defaults.nowMs),
      country: countryOf(row.country),
      city: cityOf(row.city, 'city'),
      cityEn: cityOf(row.city_en, 'city_en'),
      works: works === null ? null : Math.floor(works),
      ...servicesOf(row, defaults.provider),
    }
    return { ok: true, proxy }
  } catch (error) {
    if (!(error instanceof BadField)) throw error
    return { ok: false, field: error.field, reason: error.message }
  }
}
