/** Turns one row of a file into a proxy, or into the reason why it is rejected (contract D2, D2b). Pure. */
import { parseTimecheck, toSeconds } from '../lib/time.ts'
import { FUTURE_SECONDS_MAX } from '../proxies/freshness.ts'
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
import { typeBits } from '../proxies/types.ts'
import { addressesIn } from './address.ts'
import { underscored } from './names.ts'
import type { Context, RawRow } from './reader.ts'
import { withAddressNotes } from './text.ts'
import {
  CITY_LENGTH_MAX,
  isGiven,
  isOtherProtocol,
  readAnon,
  readCity,
  readCountryValue,
  readFlag,
  readIp,
  readPing,
  readSpeed,
  readText,
  readTime,
  readTypes,
  readWorks,
  YEAR_2000,
} from './values.ts'

class BadField extends Error {
  readonly field: string
  constructor(field: string, reason: string) {
    super(reason)
    this.field = field
  }
}
/** Rejects the current row. `field`: the field at fault, or `SKIPPED`. @throws BadField */
export function rejectRow(field: string, reason: string): never {
  throw new BadField(field, reason)
}
export const rejectOther = (protocol: string): never =>
  rejectRow('type', `is ${protocol.toLowerCase()}; only http, https, socks4 and socks5 are served`)
/** The field of a row that its source marks as dead. The row is skipped instead of rejected. */
export const SKIPPED = ''

export type Defaults = {
  type: ProxyType | undefined
  /** Whether to accept a row without a known type, for the checker. */
  isTypeOptional?: boolean
  /** The time of the import, Unix milliseconds. */
  nowMs: number
  /** Times such as "2 minutes ago" count from here. Unix milliseconds; `nowMs` if missing. */
  atMs?: number
  provider: string
  pingUnit?: 's' | 'ms' | undefined
}

/** Is called with an optional value that is not understood, and with the values that its field accepts. */
export type OnUnread = (field: string, value: unknown, accepts: string) => void

type RowResult =
  /** `isTypeAssumed`: the type is from `Defaults`. */
  | { kind: 'good'; proxy: IncomingProxy; isTypeAssumed: boolean }
  | { kind: 'rejected'; field: string; reason: string }
  | { kind: 'skipped'; reason: string }

export const ACCEPTS: { readonly [field: string]: string } = {
  ...{ type: `one of ${TYPES.join(', ')}`, types: `a list of ${TYPES.join(', ')}` },
  anon: `one of ${ANONS.join(', ')}`,
  speed: 'bytes per second, at least 0',
  ping: 'up to 60 seconds, such as 0.5; for milliseconds write 500ms or give --ping-unit ms',
  works: 'a number from 0 to 100',
  country: 'a country code or name',
  city: `a name of up to ${CITY_LENGTH_MAX} characters that does not begin with = + - or @`,
  ip_out: 'an IP address',
  timecheck: 'YYYY-MM-DD HH:MM:SS (UTC+2)',
  checked_at: 'an ISO 8601 time, YYYY-MM-DD HH:MM:SS, or Unix seconds or milliseconds',
}
const FLAG = 'true or false'

/** Why an address cannot be used. The first match counts. */
const UNREADABLE: readonly (readonly [form: RegExp, reason: string])[] = [
  [
    /^\w+:\/\/\S*@|^[^\s@]+@|^(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}[:@]/,
    'has a user and a password, which are not supported',
  ],
  [/^(?:\w+:\/\/)?(?:\d{1,3}\.){3}\d{1,3}$/, 'has no port: a.b.c.d:port is needed'],
  [
    /(?:^|[\s/[])(?:[\da-f]{1,4}:){3,}|::/i,
    'is an IPv6 address: only IPv4 addresses are supported',
  ],
  [/[a-z\d-]+\.[a-z]{2,}:\d/i, 'is a hostname: only IPv4 addresses are supported'],
]
const ADDRESS_FORM = 'must be an IPv4 address with a port, a.b.c.d:port'
const CREDENTIALS = UNREADABLE[0]?.[1] ?? ''

/** Networks in which no proxy can be reached: this network, link-local, multicast and reserved. */
const UNUSABLE = /^(?:0|169\.254|22[4-9]|2[3-5]\d)\./
const UNUSABLE_ADDRESS =
  'cannot be used: it is in 0.0.0.0/8, 169.254.0.0/16, 224.0.0.0/4 or 240.0.0.0/4'

/** The address from `ip`, which holds the port or stands beside `port`. */
function addressOf(row: RawRow): Address {
  const ip = readText(row.ip) ?? ''
  const port = readText(row.port) ?? ''
  const hasPort = ip.includes(':')
  const given = hasPort || port === '' ? ip : `${ip}:${port}`
  const address = parseAddress(given) ?? onlyAddressIn(given)
  if (address === null) return rejectAddress(given)
  if (UNUSABLE.test(address.ip)) return rejectRow('ip', UNUSABLE_ADDRESS)
  if (hasPort && port !== '' && parsePort(port) !== address.port) {
    return rejectRow('port', 'must be an integer from 1 to 65535, the same as in ip')
  }
  return address
}

function onlyAddressIn(text: string): Address | null {
  const [first, ...more] = addressesIn(text)
  return first === undefined || more.length > 0 || /[^\s@]@\d/.test(text) ? null : first
}

function rejectAddress(given: string): never {
  const [, scheme = ''] = /^(\w+):\/\//.exec(given) ?? []
  if (isOtherProtocol(scheme)) rejectOther(scheme)
  const [, reason = ADDRESS_FORM] = UNREADABLE.find(([form]) => form.test(given)) ?? []
  return rejectRow('ip', reason)
}

const NO_SERVICES: ReadonlySet<Service> = new Set()

/** The services that are true in a row, and the services that it names. */
function servicesOf(row: RawRow, provider: string, onUnread: OnUnread) {
  const providerColumn = row[provider] === undefined ? underscored(provider) : provider
  let granted = 0
  let stated = 0
  let bit = 1
  for (const service of SERVICES) {
    const field = service === 'provider' ? providerColumn : service
    const flag = readFlag(row[field])
    if (flag === undefined) onUnread(field, row[field], FLAG)
    else if (flag !== null) stated |= bit
    if (flag === true) granted |= bit
    bit <<= 1
  }
  return {
    services: SERVICE_SETS[granted] ?? NO_SERVICES,
    servicesStated: SERVICE_SETS[stated] ?? NO_SERVICES,
  }
}

const IN_FUTURE = `lies more than ${FUTURE_SECONDS_MAX / 60} minutes in the future`

/** Unix seconds of the check: from `checked_at`, `timecheck`, the list, or the time of the import, in this order. */
function checkedAtOf(row: RawRow, nowMs: number, ofList: number | undefined, onUnread: OnUnread) {
  const now = toSeconds(nowMs)
  const isOurs = readText(row.checked_at) === ''
  const field = isOurs ? 'timecheck' : 'checked_at'
  const text = readText(row.timecheck)
  const local = text === '' ? null : parseTimecheck(text ?? '')
  const seconds = isOurs ? local : (readTime(row.checked_at, null) ?? null)
  if (seconds === null) {
    if (text !== '' || !isOurs) onUnread(field, row[field], ACCEPTS[field] ?? '')
    return ofList !== undefined && ofList >= YEAR_2000 && ofList <= now ? ofList : now
  }
  if (seconds < YEAR_2000) return rejectRow(field, 'lies before the year 2000')
  return seconds <= now + FUTURE_SECONDS_MAX ? seconds : rejectRow(field, IN_FUTURE)
}

/** Whether a value is not one of the words for unknown. */
const isWritten = (value: unknown): boolean => typeof value === 'object' || isGiven(value)

/** The types in both fields of a row, else the types of its list or of the import. */
function typesOf(row: RawRow, defaults: Defaults, context: Context, onUnread: OnUnread) {
  let stated = 0
  let bad: string | undefined
  for (const field of ['type', 'types']) {
    const types = readTypes(row[field])
    if (types === undefined && isWritten(row[field])) bad ??= field
    stated |= types ?? 0
  }
  stated ||= context.types ?? 0
  const isAssumed = stated === 0
  if (isAssumed && defaults.type !== undefined) stated = typeBits([defaults.type])
  if (stated === 0 && !defaults.isTypeOptional) {
    if (bad !== undefined) rejectRow(bad, `must be ${ACCEPTS[bad]}`)
    rejectRow('type', `is required: ${TYPES.join(', ')} (or give --type)`)
  }
  if (bad !== undefined) onUnread(bad, row[bad], ACCEPTS[bad] ?? '')
  return { types: stated, isAssumed }
}

/** Returns a row under our names, with values as we write them. @throws BadField */
export type Translate = (row: RawRow, defaults: Defaults, onUnread: OnUnread) => RawRow

/** Reads one row, after `translate`. Values that are not understood are left out, and passed to `onUnread`. */
export function readRow(
  given: RawRow,
  defaults: Defaults,
  context: Context = {},
  translate: Translate | null = null,
  onUnread: OnUnread = () => {},
): RowResult {
  /** Returns the value that was read, or else `unknown`, after a note. */
  function orUnread<T>(field: string, value: unknown, read: T | undefined, unknown: T): T {
    if (read !== undefined) return read
    if (isWritten(value)) onUnread(field, value, ACCEPTS[field] ?? '')
    return unknown
  }
  try {
    const row = withAddressNotes(translate === null ? given : translate(given, defaults, onUnread))
    if (row.password === true) rejectRow('ip', CREDENTIALS)
    const isOther = typeof row.type === 'string' && isOtherProtocol(row.type, defaults.type)
    if (isOther) rejectOther(String(row.type))
    const { ip, port } = addressOf(row)
    const { types, isAssumed } = typesOf(row, defaults, context, onUnread)
    const proxy: IncomingProxy = {
      ip,
      port,
      types,
      ipOut: orUnread('ip_out', row.ip_out, readIp(row.ip_out), ''),
      anon: orUnread('anon', row.anon, readAnon(row.anon), '') || (context.anon ?? ''),
      speed: orUnread('speed', row.speed, readSpeed(row.speed, 'bytes'), null),
      pingMs: orUnread('ping', row.ping, readPing(row.ping, defaults.pingUnit ?? 's'), null),
      checkedAt: checkedAtOf(row, defaults.nowMs, context.checked_at, onUnread),
      country:
        orUnread('country', row.country, readCountryValue(row.country), '') ||
        (context.country ?? ''),
      city: orUnread('city', row.city, readCity(row.city), ''),
      cityEn: orUnread('city', row.city_en, readCity(row.city_en), ''),
      works: orUnread('works', row.works, readWorks(row.works, false), null),
      ...servicesOf(row, defaults.provider, onUnread),
    }
    return { kind: 'good', proxy, isTypeAssumed: isAssumed }
  } catch (error) {
    // An unexpected error costs only this row.
    if (!(error instanceof BadField))
      return { kind: 'rejected', field: 'row', reason: 'cannot be read' }
    const { field, message: reason } = error
    return field === SKIPPED ? { kind: 'skipped', reason } : { kind: 'rejected', field, reason }
  }
}
