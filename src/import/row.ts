/**
 * Owns reading a row of an imported file (contract D2): its members become a proxy, or the reason
 * why they do not. Pure; knows nothing of file formats or of what is stored.
 */

import { canonicalIp, parseDigits } from '../lib/ip.ts'
import { parseInstant, parseTimecheck, toSeconds } from '../lib/time.ts'
import {
  type Address,
  ANONS,
  type IncomingProxy,
  type ProxyType,
  parseAddress,
  parsePort,
  SERVICE_SETS,
  SERVICES,
  type Service,
  TYPES,
} from '../proxies/proxy.ts'
import { underscored } from './columns.ts'

/** A row's members as its format has them: strings from CSV, any JSON value from JSON. */
export type RawRow = { readonly [member: string]: unknown }

/** What applies to every row of an import. */
export type RowDefaults = {
  /** Type of rows without one. */
  type: ProxyType | undefined
  /** The time of the import, Unix milliseconds. */
  nowMs: number
  /** Name of the provider's own service. */
  provider: string
}

export type RowResult =
  | { ok: true; proxy: IncomingProxy }
  | { ok: false; field: string; reason: string }

/** A check may be this many seconds in the future, because clocks differ. */
export const FUTURE_SECONDS_MAX = 300
const CITY_LENGTH_MAX = 200

class BadField extends Error {
  readonly field: string
  constructor(field: string, reason: string) {
    super(reason)
    this.field = field
  }
}
const bad = (field: string, reason: string): never => {
  throw new BadField(field, reason)
}

/** A value as trimmed text; `''` when unknown. */
function textOf(value: unknown, field: string): string {
  if (typeof value === 'string') return value.trim()
  if (value === undefined || value === null) return ''
  return typeof value === 'number' ? String(value) : bad(field, 'must be a text')
}

/** A value as a number from 0 to `max`; `null` when unknown. */
function numberOf(value: unknown, field: string, max: number, accepts: string): number | null {
  let number = Number.NaN
  if (typeof value === 'number') number = value
  else {
    const text = textOf(value, field)
    if (text === '') return null
    number = decimalOf(text)
  }
  return number >= 0 && number <= max ? number : bad(field, `must be ${accepts}`)
}

/** The number of a text such as `12`, `0.5` or `5e-7`, NaN for any other. */
function decimalOf(text: string): number {
  const integer = parseDigits(text, 15)
  if (integer >= 0) return integer
  return /^\d{1,15}(?:\.\d{1,15})?(?:e-\d{1,2})?$/.test(text) ? Number(text) : Number.NaN
}

function choiceOf<T extends string>(value: unknown, field: string, list: readonly T[]): T | '' {
  const text = textOf(value, field)
  if (text === '') return ''
  for (const item of list) if (item === text) return item // as nearly all are written
  const lower = text.toLowerCase()
  return list.find(item => item === lower) ?? bad(field, `must be one of ${list.join(', ')}`)
}

/** The address from `ip` (with its port or with `port`), or from the key it is listed under. */
function addressOf(row: RawRow, listedAs: string | undefined): Address {
  const ip = textOf(row.ip, 'ip')
  const port = textOf(row.port, 'port')
  const given = ip === '' ? (listedAs ?? '') : ip.includes(':') ? ip : joined(ip, port, listedAs)
  const address = parseAddress(given)
  if (!address) return bad('ip', 'must be an IPv4 address with a port, a.b.c.d:port')
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

function cityOf(value: unknown, field: string): string {
  const text = textOf(value, field)
  const fits = text.length <= CITY_LENGTH_MAX && !/[\u0000-\u001f\u007f,]/.test(text)
  return fits ? text : bad(field, `must be a name of up to ${CITY_LENGTH_MAX} characters, no comma`)
}

const INSTANT = 'must be an ISO 8601 time or Unix seconds'
const TIMECHECK = 'must be YYYY-MM-DD HH:MM:SS (UTC+2)'

/** Unix seconds of the check: `checked_at`, else `timecheck`, else the time of the import. */
function checkedAtOf({ checked_at, timecheck }: RawRow, nowMs: number): number {
  const now = toSeconds(nowMs)
  const instant = textOf(checked_at, 'checked_at')
  const local = textOf(timecheck, 'timecheck')
  const field = instant === '' ? 'timecheck' : 'checked_at'
  if (instant === '' && local === '') return now
  const seconds =
    instant === ''
      ? (parseTimecheck(local) ?? bad(field, TIMECHECK))
      : (unixSecondsOf(instant) ?? bad(field, INSTANT))
  if (seconds < 0) return bad(field, 'must not lie before 1970')
  return seconds <= now + FUTURE_SECONDS_MAX
    ? seconds
    : bad(field, `lies more than ${FUTURE_SECONDS_MAX / 60} minutes in the future`)
}

function unixSecondsOf(text: string): number | null {
  const seconds = parseDigits(text, 12)
  if (seconds >= 0) return seconds
  if (/^\d{1,12}\.\d{1,9}$/.test(text)) return Math.floor(Number(text))
  const ms = parseInstant(text)
  return ms === null ? null : toSeconds(ms)
}

const FLAGS = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
])

/** A value as true or false; `null` when unknown. */
function flagOf(value: unknown, field: string): boolean | null {
  if (value === true || value === 'true') return true // as nearly all are written
  if (value === false || value === 'false') return false
  if (value === undefined || value === null) return null
  const word = typeof value === 'object' ? 'an object' : String(value).trim().toLowerCase()
  return word === '' ? null : (FLAGS.get(word) ?? bad(field, 'must be true or false'))
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
 * Reads one row. `listedAs` is its key when the row is a value of a JSON object.
 * Ping (seconds) is rounded to milliseconds, speed to bytes a second, works down to a percent.
 */
export function readRow(row: RawRow, defaults: RowDefaults, listedAs?: string): RowResult {
  try {
    const { ip, port } = addressOf(row, listedAs)
    const type = choiceOf(row.type, 'type', TYPES) || defaults.type
    if (!type) bad('type', `is required: ${TYPES.join(', ')} (or give --type)`)
    const ping = numberOf(row.ping, 'ping', INTEGER_MAX / 1000, 'a number of seconds, at least 0')
    const speed = numberOf(row.speed, 'speed', INTEGER_MAX, 'bytes per second, at least 0')
    const works = numberOf(row.works, 'works', 100, 'a number from 0 to 100')
    const proxy: IncomingProxy = {
      ip,
      port,
      type: type as ProxyType, // `bad` has thrown otherwise
      ipOut: ipOutOf(row.ip_out),
      anon: choiceOf(row.anon, 'anon', ANONS),
      speed: speed === null ? null : Math.round(speed),
      pingMs: ping === null ? null : Math.round(ping * 1000),
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
