/**
 * A row of an imported file (contract D2): what its values may be, and how its members become a proxy, or
 * the reason why they do not. Pure; knows nothing of file formats or of what is stored.
 */
import { canonicalIp, parseDigits } from '../lib/ip.ts'
import { INTEGER_MAX } from '../lib/parameter.ts'
import { isPrintable } from '../lib/redact.ts'
import { parseInstant, parseTimecheck, toSeconds } from '../lib/time.ts'
import { FUTURE_SECONDS_MAX } from '../proxies/freshness.ts'
import {
  type Address,
  ANONS,
  type Anon,
  type IncomingProxy,
  type ProxyType,
  parseAddress,
  parsePort,
  SERVICE_SETS,
  SERVICES,
  type Service,
  TYPES,
} from '../proxies/proxy.ts'

/** A row's members as its format has them: strings from CSV, any JSON value from JSON. */
export type RawRow = { readonly [member: string]: unknown }

export const isRecord = (value: unknown): value is RawRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export class BadField extends Error {
  readonly field: string
  constructor(field: string, reason: string) {
    super(reason)
    this.field = field
  }
}
export const bad = (field: string, reason: string): never => {
  throw new BadField(field, reason)
}

/** Why a proxy is rejected that clients would have to log in to. */
export const CREDENTIALS = 'has a user and a password, which are not supported'

/** Longest text of a value: a longer one is read no further. */
const TEXT_LENGTH_MAX = 1000

/** What other tools write as a list even where there is one; of types there may be several. */
const LISTED: ReadonlySet<string> = new Set(['anon', 'country', 'city', 'city_en'])

/** A value of such a field that is a list of one text, as that text. */
export const unlisted = (value: unknown, field: string): unknown =>
  Array.isArray(value) && value.length === 1 && typeof value[0] === 'string' && LISTED.has(field)
    ? value[0]
    : value

/** A value as trimmed text; `''` when unknown. */
export function textOf(given: unknown, field: string): string {
  const value = unlisted(given, field)
  if (typeof value === 'string') {
    if (value.length > TEXT_LENGTH_MAX) bad(field, `is longer than ${TEXT_LENGTH_MAX} characters`)
    return value.trim()
  }
  if (value === undefined || value === null) return ''
  return typeof value === 'number' ? String(value) : bad(field, 'must be a text')
}

/** A value as a number from 0 to `max`; `null` when unknown. `unit` may follow it in a text. */
function numberOf(
  value: unknown,
  field: string,
  max: number,
  accepts: string,
  unit = '',
): number | null {
  let number = Number.NaN
  if (typeof value === 'number') number = value
  else {
    const text = textOf(value, field)
    if (text === '') return null
    number = decimalOf(unit !== '' && text.endsWith(unit) ? text.slice(0, -unit.length) : text)
  }
  return number >= 0 && number <= max ? number : bad(field, `must be ${accepts}${hintOf(value)}`)
}

/** A number as spreadsheets of many countries write it, perhaps with a unit. */
const WITH_COMMA = /^\d+,\d+\s*[a-z%]*$/i
const hintOf = (value: unknown): string =>
  typeof value === 'string' && WITH_COMMA.test(value.trim())
    ? '; it has a comma: decimals need a point, such as 0.5'
    : ''

/** The number of a text such as `12`, `0.5` or `5e-7`, NaN for any other. */
function decimalOf(text: string): number {
  const integer = parseDigits(text, 15)
  if (integer >= 0) return integer
  return /^\d{1,15}(?:\.\d{1,15})?(?:e-\d{1,2})?$/.test(text) ? Number(text) : Number.NaN
}

/** Where the unit is not known, more than this many seconds are more likely milliseconds. */
const PING_SECONDS_LIKELY = 60
const PING = 'a number of seconds, at least 0'

/**
 * The unit of `ping` where the value names none: seconds, milliseconds, or `unknown`, which is
 * taken for seconds and rejected where that is unlikely.
 */
type PingUnit = 's' | 'ms' | 'unknown'

/** Milliseconds of a ping such as `0.5`, `500ms` or `0.5 s`; `null` when unknown. */
function pingMsOf(value: unknown, unit: PingUnit): number | null {
  const named = typeof value === 'string' && !/\d$/.test(value) ? NAMED_UNIT.exec(value) : null
  const inMs = named === null ? unit === 'ms' : named[2]?.toLowerCase() === 'ms'
  const factor = inMs ? 1 : 1000
  const number = numberOf(named?.[1] ?? value, 'ping', INTEGER_MAX / factor, PING)
  if (number === null) return null
  if (named === null && unit === 'unknown' && number > PING_SECONDS_LIKELY) {
    bad('ping', `is over ${PING_SECONDS_LIKELY} s; if it is in milliseconds, give --ping-unit ms`)
  }
  return Math.round(number * factor)
}
const NAMED_UNIT = /^\s*([\d.]+)\s*(ms|s|sec)\s*$/i

const TYPE_WORDS = new Map<string, ProxyType>([
  ...TYPES.map(type => [type, type] as const),
  ['socks4a', 'socks4'],
  ['socks5h', 'socks5'],
])
/** Of several types, the first of these is taken (contract D3a). */
const TYPES_BY_RANK = ['socks5', 'socks4', 'https', 'http'] as const

/** The type of a text, of an array of texts, or of `{type}` objects; `''` when unknown. */
export function typeOf(value: unknown): ProxyType | '' {
  if (typeof value === 'string') for (const type of TYPES) if (type === value) return type
  const items: readonly unknown[] = Array.isArray(value) ? value : [value]
  const words = items.flatMap(item =>
    textOf(isRecord(item) && Array.isArray(value) ? item.type : item, 'type')
      .toLowerCase()
      .split(/[\s,;/|+&]+/)
      .filter(word => word !== ''),
  )
  if (words.length === 0) return ''
  const types = words.map(word => TYPE_WORDS.get(word))
  return (
    TYPES_BY_RANK.find(type => types.includes(type)) ??
    bad('type', `must be one of ${TYPES.join(', ')}`)
  )
}

/** What other tools call the levels of anonymity. */
const ANON_WORDS = new Map<string, Anon>([
  ...ANONS.map(anon => [anon, anon] as const),
  ...['elite proxy', 'high', 'hia', 'high anonymous', 'high anonymity', 'highly anonymous']
    .concat('level 1', 'l1')
    .map(word => [word, 'elite'] as const),
  ...['anonymous proxy', 'anm', 'medium', 'average', 'distorting', 'level 2', 'l2'].map(
    word => [word, 'anonymous'] as const,
  ),
  ...['transparent proxy', 'noa', 'low', 'no', 'level 3', 'l3'].map(
    word => [word, 'transparent'] as const,
  ),
])

/** A level of anonymity; `''` when unknown. */
function anonOf(value: unknown): Anon | '' {
  if (typeof value === 'string') for (const anon of ANONS) if (anon === value) return anon
  const text = typeof value === 'number' ? bad('anon', ANON) : textOf(value, 'anon')
  return text === '' ? '' : (ANON_WORDS.get(text.toLowerCase()) ?? bad('anon', ANON))
}
const ANON = `must be one of ${ANONS.join(', ')}`

/** The type, and the level of anonymity, of a word of a line, if it is one. */
export const typeWord = (word: string): ProxyType | undefined => TYPE_WORDS.get(word.toLowerCase())
export const anonWord = (word: string): Anon | undefined => ANON_WORDS.get(word.toLowerCase())

const FLAGS = new Map([
  ...['true', '1', 'yes'].map(word => [word, true] as const),
  ...['false', '0', 'no'].map(word => [word, false] as const),
])

/** A value as true or false; `null` when unknown. */
export function flagOf(value: unknown, field: string): boolean | null {
  if (value === true || value === 'true') return true // as nearly all are written
  if (value === false || value === 'false') return false
  if (value === undefined || value === null) return null
  const word = typeof value === 'object' ? 'an object' : String(value).trim().toLowerCase()
  return word === '' ? null : (FLAGS.get(word) ?? bad(field, 'must be true or false'))
}

/** A number from here on is a time in milliseconds: in seconds it would be in the year 5138. */
const MILLISECONDS_MIN = 1e11
/** Days since 1900, as spreadsheets count, from 1954 to 2119; as Unix seconds all of one day. */
const SERIAL = { min: 20_000, max: 80_000 }

const INSTANT = 'must be an ISO 8601 time, YYYY-MM-DD HH:MM:SS, or Unix seconds or milliseconds'
const TIMECHECK = 'must be YYYY-MM-DD HH:MM:SS (UTC+2)'
/** What is said of times in a form that cannot be read for certain. */
const UNCERTAIN: readonly (readonly [form: RegExp, sentence: string])[] = [
  [
    /^\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})\b/,
    'must be written YYYY-MM-DD HH:MM:SS: in this form, some write the day first and some the month',
  ],
  [
    /\bago$/i,
    'is relative, and nobody knows to what: ignore it with --map COLUMN=-, where COLUMN is its name',
  ],
]
const SERIAL_DATE =
  "is a spreadsheet's serial date; format the column as YYYY-MM-DD HH:MM:SS and save it again"

/** A number of seconds, milliseconds or days, as a text; NaN for any other text. */
const timeNumber = (text: string): number =>
  /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : Number.NaN

const otherForm = (text: string, accepts: string): string =>
  UNCERTAIN.find(([form]) => form.test(text))?.[1] ?? accepts

const isSerial = (number: number): boolean => number >= SERIAL.min && number < SERIAL.max

/** Unix seconds of a `checked_at`. A time without a zone is UTC. */
export function instantOf(text: string): number {
  const field = 'checked_at'
  const number = timeNumber(text)
  if (isSerial(number)) return bad(field, SERIAL_DATE)
  if (number >= 0) return number < MILLISECONDS_MIN ? Math.floor(number) : toSeconds(number)
  const ms = parseInstant(text)
  return ms === null ? bad(field, otherForm(text, INSTANT)) : toSeconds(ms)
}

/** Unix seconds of a `timecheck`, which is in the form of the API. */
function timecheckOf(text: string): number {
  const field = 'timecheck'
  if (isSerial(timeNumber(text))) return bad(field, SERIAL_DATE)
  return parseTimecheck(text) ?? bad(field, otherForm(text, TIMECHECK))
}

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

type RowResult = { ok: true; proxy: IncomingProxy } | { ok: false; field: string; reason: string }

export const CITY_LENGTH_MAX = 200
/** Whether the list may hold it, however it came there. */
export const isStorableName = (text: string): boolean =>
  text.length <= CITY_LENGTH_MAX && isPrintable(text)
/** What begins otherwise is a formula in a spreadsheet that opens the answer as CSV; many part cells at `;`, too. */
export const isCityName = (text: string): boolean =>
  isStorableName(text) && !/(?:^|;)\s*[=+\-@]/.test(text)

/** An address with a user and a password, before it or after it. */
const WITH_CREDENTIALS = /@|^(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}:[^:]*:/

/** Networks in which nobody can reach a proxy: this network, link-local, multicast and reserved. */
const UNUSABLE = /^(?:0|169\.254|22[4-9]|2[3-5]\d)\./
const UNUSABLE_ADDRESS =
  'is an address that nobody can use, of 0.0.0.0/8, 169.254.0.0/16, 224.0.0.0/4 or 240.0.0.0/4'

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
  if (UNUSABLE.test(address.ip)) return bad('ip', UNUSABLE_ADDRESS)
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

/** A name without commas, because in a query they separate names. */
export const withoutCommas = (name: string): string => {
  const parts = name.split(',').map(part => part.trim())
  return parts.filter(part => part !== '').join(' ')
}

function cityOf(value: unknown, field: string): string {
  const given = textOf(value, field)
  const text = given === '-' ? '' : given.includes(',') ? withoutCommas(given) : given
  return isCityName(text)
    ? text
    : bad(
        field,
        `must be a name of up to ${CITY_LENGTH_MAX} characters, without controls, without = + - or @ at the beginning or after a ;`,
      )
}

/** Why a row is rejected that may be right later, or once the clock is. */
export const IN_FUTURE = `lies more than ${FUTURE_SECONDS_MAX / 60} minutes in the future`

/** Unix seconds of the check: `checked_at`, else `timecheck`, else the time of the import. */
function checkedAtOf({ checked_at, timecheck }: RawRow, nowMs: number): number {
  const now = toSeconds(nowMs)
  const instant = textOf(checked_at, 'checked_at')
  const local = textOf(timecheck, 'timecheck')
  const field = instant === '' ? 'timecheck' : 'checked_at'
  if (instant === '' && local === '') return now
  const seconds = instant === '' ? timecheckOf(local) : instantOf(instant)
  if (seconds < 0) return bad(field, 'must not lie before 1970')
  return seconds <= now + FUTURE_SECONDS_MAX ? seconds : bad(field, IN_FUTURE)
}

const NONE: ReadonlySet<Service> = new Set()

/** The services that a row sets to true, and all those that it states. */
function servicesOf(row: RawRow, provider: string) {
  const providerColumn = row[provider] === undefined ? underscored(provider) : provider
  let granted = 0
  let stated = 0
  let bit = 1
  for (const service of SERVICES) {
    const field = service === 'provider' ? providerColumn : service
    const flag = flagOf(row[field], field)
    if (flag === true) granted |= bit
    if (flag !== null) stated |= bit
    bit <<= 1
  }
  return { services: SERVICE_SETS[granted] ?? NONE, servicesStated: SERVICE_SETS[stated] ?? NONE }
}

/** The provider's service may be written with underscores instead of spaces. */
export const underscored = (provider: string): string => provider.replaceAll(' ', '_')

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
    const stated = typeOf(row.type)
    const type = stated || defaults.type
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
    if (stated === '') proxy.isTypeAssumed = true
    return { ok: true, proxy }
  } catch (error) {
    // Whatever one row makes fail, the others are read.
    if (!(error instanceof BadField)) return { ok: false, field: 'row', reason: 'cannot be read' }
    return { ok: false, field: error.field, reason: error.message }
  }
}

const ENTRY = /^(?:([^:/]*):\/\/)?(.*?)\/?$/s
/** An address with `:` or white space before its port, and what follows. */
const ADDRESS = /^(\d[\d.]*)(?::|\s+)(\d{1,5})(?:[:\s]+(.*))?$/s
/** The notes of spys.me: country, level, whether the outgoing address differs (!), TLS, Google. */
const SPYS = /^([A-Z]{2})-([NAH])!?(-S)?!?(?:\s+([+-]))?$/
const SPYS_ANON: { readonly [level: string]: string } = {
  ...{ N: 'transparent', A: 'anonymous', H: 'elite' },
}

/** Whether a text may be a proxy: it holds an address with a port, perhaps with credentials. */
export const hasAddress = (text: string): boolean =>
  /(?:^|\/\/|@)(?:\d{1,3}\.){3}\d{1,3}(?::|\s+)\d{1,5}(?!\d)/.test(text)

/** The row of an entry. One that is not understood becomes an address, which will be rejected. */
export function entryToRow(entry: string): RawRow {
  const [, type, rest = ''] = ENTRY.exec(entry) ?? []
  const isPlain = rest.indexOf(':') === rest.lastIndexOf(':') && !/\s/.test(rest)
  if (isPlain) return type === undefined ? { ip: rest } : { type, ip: rest } // as nearly all are
  return type === undefined ? noted(rest) : { type, ...noted(rest) }
}

function noted(rest: string): RawRow {
  const [, ip, port, notes = ''] = ADDRESS.exec(rest) ?? []
  if (ip === undefined) return { ip: rest }
  const address = { ip: `${ip}:${port}` }
  const [, country, level, ssl, google] = SPYS.exec(notes) ?? []
  if (level !== undefined) {
    const row = { ...address, country, anon: SPYS_ANON[level], ssl: ssl !== undefined }
    return google === undefined ? row : { ...row, google: google === '+' }
  }
  const row: { [member: string]: string } = address
  for (const note of notes.split(/[:\s]+/).filter(word => word !== '')) {
    const member = memberOf(note)
    if (member === null || row[member] !== undefined) return { ip: rest }
    row[member] = note
  }
  return row
}

/** What a word beside an address says. */
function memberOf(word: string): string | null {
  if (typeWord(word) !== undefined) return 'type'
  if (/^[A-Za-z]{2}$/.test(word)) return 'country'
  return anonWord(word) === undefined ? null : 'anon'
}
