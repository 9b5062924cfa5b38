/** Reads values of lists (contract D3a): `''` or `null` if unknown, `undefined` if not understood. Pure. */
import { canonicalIp, parseDigits } from '../lib/ip.ts'
import { INTEGER_MAX } from '../lib/parameter.ts'
import { isPrintable } from '../lib/redact.ts'
import { parseInstant, toSeconds } from '../lib/time.ts'
import { ANONS, type Anon, type ProxyType, TYPES } from '../proxies/proxy.ts'
import { typeBits } from '../proxies/types.ts'
import { readCountry } from './countries.ts'

/** Any value from JSON, or a string from a table. */
type Value = unknown
type Read<T> = T | undefined

/** The longest text of a value, in characters. */
const TEXT_LENGTH_MAX = 1000

/** Words for an unknown value. */
const UNKNOWN = new Set(
  '|unknown|n/a|na|none|null|nil|-|--|—|?|not available|undefined|неизвестно'.split('|'),
)

/** Whether a value is a scalar other than the words for unknown. */
export const isGiven = (value: Value): boolean =>
  typeof value === 'string'
    ? !UNKNOWN.has(value.trim().toLowerCase())
    : typeof value === 'number' || typeof value === 'boolean'

/** The text in an array of one text, and any other value as it is. */
const unlisted = (value: Value): Value =>
  Array.isArray(value) && value.length === 1 && typeof value[0] === 'string' ? value[0] : value

/** A value as trimmed text; `''` without a value. */
export function readText(given: Value): Read<string> {
  const value = unlisted(given)
  if (typeof value === 'string') return value.length > TEXT_LENGTH_MAX ? undefined : value.trim()
  if (value === undefined || value === null) return ''
  return typeof value === 'number' ? String(value) : undefined
}

/** Letters and digits in lower case: `High-Anonymous` and `high_anonymous` are one word. */
export const normalise = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')

const TYPE_WORD = /^(https?|socks)(?:v?([45]))?(?:a|h|proxy)?$/

/** The type of a word such as `HTTP`, `socks5h` or `SOCKS v4`. */
export function typeOfWord(word: string): ProxyType | undefined {
  const [, name = '', version = ''] = TYPE_WORD.exec(normalise(word)) ?? []
  return TYPES.find(type => type === name + version)
}

/** The types in a text or an array of texts, see `proxies/types.ts`; 0 without one. */
export function readTypes(value: Value): Read<number> {
  for (let n = 0; n < TYPES.length; n += 1) if (TYPES[n] === value) return 1 << n
  if (value === undefined) return 0
  const texts = (Array.isArray(value) ? value : [value]).map(readText)
  const words = texts.flatMap(text => (text ?? '').split(/[\s,;/|+&]+/).filter(Boolean))
  if (words.length === 0) return texts.includes(undefined) ? undefined : 0
  return typeBits(words.map(typeOfWord).filter(type => type !== undefined)) || undefined
}

/** Protocols in the lists of other tools. */
const OTHER_PROTOCOL =
  /^(?:ssr?|shadowsocksr?|vmess|vless|trojan|hysteria2?|hy2|tuic|wireguard|snell|ssh|anytls|mieru|ftp|socks)$/i
/** Whether a word names a protocol that is not served. Beside `type` socks4 or socks5, `socks` is fine. */
export const isOtherProtocol = (word: string, type = ''): boolean =>
  OTHER_PROTOCOL.test(word) && !(type.startsWith('socks') && /^socks$/i.test(word))

/** Words for the levels of anonymity, normalised. */
const ANON_WORDS = new Map<string, Anon>()
for (const [anon, words] of Object.entries({
  elite:
    'elite high highanonymous highanonymity highlyanonymous highanon anonymoushigh hia ha level1 l1 h superelite высокая',
  anonymous: 'anonymous anon anm medium average distorting distorted level2 l2 a средняя',
  transparent: 'transparent noa no low notanonymous nonanonymous none level3 l3 n trans нет низкая',
})) {
  for (const word of words.split(' ')) {
    for (const end of ['', 'proxy', 'server']) ANON_WORDS.set(word + end, anon as Anon) // a key of the object above
  }
}
/** The levels 1 to 4 of hidemy.name and its mirrors, by index. */
const ANON_GRADES = ['', 'transparent', 'anonymous', 'anonymous', 'elite'] as const

/** A level of anonymity. */
export function readAnon(value: Value): Read<Anon | ''> {
  if (typeof value === 'string') for (const anon of ANONS) if (anon === value) return anon
  if (typeof value === 'boolean') return value ? 'anonymous' : ''
  const text = readText(value)
  if (text === undefined || text === '') return text
  return /^[1-4]$/.test(text) ? ANON_GRADES[Number(text)] : ANON_WORDS.get(normalise(text))
}

/** The level of a phrase of at least three letters. In a text, a single letter may mean anything. */
export const anonOfPhrase = (phrase: string): Anon | undefined =>
  phrase.length > 2 && phrase !== 'none' ? ANON_WORDS.get(normalise(phrase)) : undefined

/** The level of a word in a text, unless the word has other meanings too. */
export const anonOfWord = (word: string): Anon | undefined =>
  /^(?:low|high|average|medium)$/i.test(word) ? undefined : anonOfPhrase(word)

const TRUE = new Set(['true', '1', 'yes', 'y', '+', '✓', '✔', 'да'])
const FALSE = new Set(['false', '0', 'no', 'n', '-', 'нет'])

/** True or false; `null` without a value. */
export function readFlag(value: Value): Read<boolean | null> {
  if (value === true || value === 'true') return true // most common, and fast
  if (value === false || value === 'false') return false
  const word = readText(value)?.toLowerCase()
  if (word === '') return null
  return TRUE.has(word ?? '?') ? true : FALSE.has(word ?? '?') ? false : undefined
}

/** Words for a proxy that failed its last check, normalised. */
const DEAD = new Set(
  `dead fail failed failure failing bad offline down notworking inactive banned unhealthy broken
    unavailable unreachable timeout timedout disabled expired invalid error closed stopped`.split(
    /\s+/,
  ),
)
export const isDeadWord = (word: string): boolean => DEAD.has(normalise(word))

/** A number such as `12`, `0.5` or `5e-7`, NaN for any other text. */
function decimalOf(text: string): number {
  const integer = parseDigits(text, 15)
  if (integer >= 0) return integer
  return /^\d{1,15}(?:\.\d{1,15})?(?:e-\d{1,2})?$/.test(text) ? Number(text) : Number.NaN
}

/** A number, and the unit behind it; `null` without a value. */
function readQuantity(value: Value): Read<{ number: number; unit: string } | null> {
  if (typeof value === 'number') return value >= 0 ? { number: value, unit: '' } : undefined
  const text = readText(value)
  if (text === undefined || text === '') return text === '' ? null : undefined
  const [, digits = '', unit = ''] = /^([\d.]+(?:e-\d+)?)\s*([\p{L}%/]*)$/iu.exec(text) ?? []
  const number = decimalOf(digits)
  return number >= 0 ? { number, unit } : undefined
}

/** The unit of pings without one. `guess`: over 60 is milliseconds, a fraction is seconds, and the rest is unclear. */
export type PingUnit = 's' | 'ms' | 'guess'
/** A longer ping is not understood: its unit must be another one. */
const PING_SECONDS_MAX = 60

/** Milliseconds of a ping such as `0.5`, `500ms` or `0.5 s`. */
export function readPing(value: Value, unit: PingUnit): Read<number | null> {
  if (typeof value === 'number' && unit === 's') return inMilliseconds(value, 1000)
  const read = readQuantity(value)
  if (!read) return read
  const { number } = read
  const named = read.unit.toLowerCase()
  if (/^(?:ms|msec|milliseconds?|мс)$/.test(named)) return inMilliseconds(number, 1)
  if (/^(?:s|sec|secs|seconds?|с|сек)$/.test(named)) return inMilliseconds(number, 1000)
  if (named !== '') return undefined
  if (unit !== 'guess') return inMilliseconds(number, unit === 's' ? 1000 : 1)
  if (number > PING_SECONDS_MAX) return inMilliseconds(number, 1)
  return Number.isInteger(number) ? undefined : inMilliseconds(number, 1000)
}

function inMilliseconds(number: number, factor: number): Read<number> {
  const ms = number * factor
  return ms >= 0 && ms <= PING_SECONDS_MAX * 1000 ? Math.round(ms) : undefined
}

const PREFIXES: { readonly [prefix: string]: number } = { '': 1, k: 1e3, m: 1e6, g: 1e9 }

/** The bytes of a unit such as `KB/s`, `Mbps` or `kbps`. A lower-case b is a bit. */
function bytesOfUnit(unit: string): number | undefined {
  const found = /^([kmg]?)(i?)(bits?|bytes?|b)(?:\/s|\/sec|ps|persec|persecond|s)?$/i.exec(unit)
  if (found === null) return undefined
  const [, prefix = '', binary = '', base = ''] = found
  const isBit = base === 'b' || /^bit/i.test(base)
  const factor = (PREFIXES[prefix.toLowerCase()] ?? 1) * (binary === '' ? 1 : 1.024)
  return isBit ? factor / 8 : factor
}

/** Bytes a second. `unit` is for values without one; with `''`, these are unknown. */
export function readSpeed(value: Value, unit: string): Read<number | null> {
  if (typeof value === 'number' && unit === 'bytes') {
    return value >= 0 && value <= INTEGER_MAX ? Math.round(value) : undefined
  }
  const read = readQuantity(value)
  if (!read) return read
  const named = read.unit || unit
  if (named === '') return null
  const factor = bytesOfUnit(named)
  const speed = factor === undefined ? Number.NaN : Math.round(read.number * factor)
  return speed <= INTEGER_MAX ? speed : undefined
}

/** A percentage, rounded down. `isShare`: values up to 1 are shares, so that 0.5 is 50 %. */
export function readWorks(value: Value, isShare: boolean): Read<number | null> {
  const digits = typeof value === 'string' && !isShare ? parseDigits(value, 3) : -1
  if (digits >= 0 && digits <= 100) return digits // most common, and fast
  const read = readQuantity(value)
  if (!read) return read
  if (read.unit !== '' && read.unit !== '%') return undefined
  const isOne = typeof value === 'string' && /^1\.0+$/.test(value.trim())
  const isPart = read.unit === '' && read.number <= 1 && (isShare || isOne)
  const percent = isPart ? read.number * 100 : read.number
  return percent <= 100 ? Math.floor(percent + 1e-9) : undefined
}

/** A country as an upper-case code. */
export function readCountryValue(value: Value): Read<string> {
  const text = readText(value)
  if (text === undefined || text === '' || /^\d/.test(text)) return text === '' ? '' : undefined
  return readCountry(text) ?? undefined
}

/** The longest name of a city, in characters. */
export const CITY_LENGTH_MAX = 200
/** A spreadsheet would run a name as a formula if it begins with such a sign, also after a `;`. */
const FORMULA = /(?:^|;)\s*[=+\-@]/
/** Whether the list may hold a name. */
export const isCityName = (text: string): boolean =>
  text.length <= CITY_LENGTH_MAX && isPrintable(text) && !FORMULA.test(text)

/** A name without commas, which separate names in a query. */
export const withoutCommas = (name: string): string =>
  name
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
    .join(' ')

/** The name of a city. */
export function readCity(value: Value): Read<string> {
  const given = readText(value)
  if (given === undefined || given === '' || given === '-') return given && ''
  const text = given.includes(',') ? withoutCommas(given) : given
  return isCityName(text) ? text : undefined
}

/** An IP address in canonical form. */
export function readIp(value: Value): Read<string> {
  const text = readText(value)
  return text === undefined || text === '' ? text : (canonicalIp(text) ?? undefined)
}

/** From this number on, a time is in milliseconds: in seconds it would be the year 5138. */
const MILLISECONDS_MIN = 1e11
/** Unix seconds of the year 2000. No check is older. */
export const YEAR_2000 = 946_684_800

const SPAN = /(\d+(?:\.\d+)?)\s*(s|m|h|d|w|с|м|ч|д)[\p{L}.]*/gu
const SPAN_SECONDS: { readonly [unit: string]: number } = {
  ...{ s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, с: 1, м: 60, ч: 3600, д: 86_400 },
}
const RELATIVE = /^(?:about |over |~\s*)?((?:\d+(?:\.\d+)?\s*\p{L}+\.?[\s,]*)+)(?:ago|назад)?$/u
/** Seconds of a text such as `2 minutes ago`; `null` for other texts. */
function secondsAgo(text: string): number | null {
  const lower = text.toLowerCase()
  if (/^(?:just )?now$|^только что$/.test(lower)) return 0
  const [, span] = RELATIVE.exec(lower.replace(/^an? /, '1 ')) ?? []
  if (span === undefined || /\d\s*mo/.test(span)) return null
  let seconds = 0
  for (const [, n, unit = ''] of span.matchAll(SPAN))
    seconds += Number(n) * (SPAN_SECONDS[unit] ?? 0)
  return seconds > 0 || /^0/.test(span) ? Math.floor(seconds) : null
}

/** Unix milliseconds of `2026/11/28 10:00`, `28.11.2026 10:00`, or a date with the name of its month. UTC by default. */
function parseOtherDate(text: string): number | null {
  const iso = text
    .replace(/^(\d{4})\/(\d\d)\/(\d\d)\b/, '$1-$2-$3')
    .replace(/^(\d\d)\.(\d\d)\.(\d{4})\b/, '$3-$2-$1')
  if (iso !== text) return parseInstant(iso)
  if (!/\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\d{4}/i.test(text))
    return null
  const ms = Date.parse(/GMT|UTC|Z$|[+-]\d\d:?\d\d$/.test(text) ? text : `${text} UTC`)
  return Number.isNaN(ms) ? null : ms
}

/** Unix seconds of a check, in UTC by default. With `null`, times relative to `atMs` are not understood. */
export function readTime(value: Value, atMs: number | null): Read<number | null> {
  const text = readText(value)
  if (text === undefined || text === '') return text === '' ? null : undefined
  const number = /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : Number.NaN
  if (number >= MILLISECONDS_MIN) return toSeconds(number)
  if (number >= YEAR_2000 || (number >= 0 && atMs === null)) return Math.floor(number)
  if (number >= 0) return Number.isInteger(number) ? toSeconds(atMs ?? 0) - number : undefined
  const ms = parseInstant(text) ?? parseOtherDate(text)
  if (ms !== null) return toSeconds(ms)
  const ago = atMs === null ? null : secondsAgo(text)
  return ago === null ? undefined : toSeconds(atMs ?? 0) - ago
}
