/**
 * Owns what the values of a row may be, whatever file it comes from: each reader returns a value,
 * or throws `BadField` with the reason. Which member holds what is in `columns.ts`.
 */
import { parseDigits } from '../../lib/ip.ts'
import { parseInstant, parseTimecheck, toSeconds } from '../../lib/time.ts'
import { ANONS, type Anon, type ProxyType, TYPES } from '../../proxies/proxy.ts'

/** A row's members as its format has them: strings from CSV, any JSON value from JSON. */
export type RawRow = { readonly [member: string]: unknown }

/** Whether a value from JSON is an object, neither `null` nor an array. */
export const isRecord = (value: unknown): value is RawRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value is rejected, and why. */
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

/** A value as trimmed text; `''` when unknown. */
export function textOf(value: unknown, field: string): string {
  if (typeof value === 'string') return value.trim()
  if (value === undefined || value === null) return ''
  return typeof value === 'number' ? String(value) : bad(field, 'must be a text')
}

/** A value as a number from 0 to `max`; `null` when unknown. `unit` may follow it in a text. */
export function numberOf(
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

const PING_MS_MAX = 999_999_999_999_999
/** Where the unit is not known, more than this many seconds are more likely milliseconds. */
const PING_SECONDS_LIKELY = 60
const PING = 'a number of seconds, at least 0'

/**
 * The unit of `ping` where the value names none: seconds, milliseconds, or `unknown`, which is
 * taken for seconds and rejected where that is unlikely.
 */
export type PingUnit = 's' | 'ms' | 'unknown'

/** Milliseconds of a ping such as `0.5`, `500ms` or `0.5 s`; `null` when unknown. */
export function pingMsOf(value: unknown, unit: PingUnit): number | null {
  const named = typeof value === 'string' && !/\d$/.test(value) ? NAMED_UNIT.exec(value) : null
  const inMs = named === null ? unit === 'ms' : named[2]?.toLowerCase() === 'ms'
  const factor = inMs ? 1 : 1000
  const number = numberOf(named?.[1] ?? value, 'ping', PING_MS_MAX / factor, PING)
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
export function anonOf(value: unknown): Anon | '' {
  if (typeof value === 'string') for (const anon of ANONS) if (anon === value) return anon
  const text = typeof value === 'number' ? bad('anon', ANON) : textOf(value, 'anon')
  return text === '' ? '' : (ANON_WORDS.get(text.toLowerCase()) ?? bad('anon', ANON))
}
const ANON = `must be one of ${ANONS.join(', ')}`

/** The type of a word of a line, if it is one. */
export const typeWord = (word: string): ProxyType | undefined => TYPE_WORDS.get(word.toLowerCase())
/** The level of anonymity of a word of a line, if it is one. */
export const anonWord = (word: string): Anon | undefined => ANON_WORDS.get(word.toLowerCase())

const FLAGS = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['false', false],
  ['0', false],
  ['no', false],
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
export function timecheckOf(text: string): number {
  const field = 'timecheck'
  if (isSerial(timeNumber(text))) return bad(field, SERIAL_DATE)
  return parseTimecheck(text) ?? bad(field, otherForm(text, TIMECHECK))
}
