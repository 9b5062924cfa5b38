/** Parsers of the options in `settings.ts`. Each returns a value or throws `Expected`. */
import { accessSync, constants, statSync } from 'node:fs'
import { type BlockList, isIP } from 'node:net'
import { DEMO_KEY, TEMP_PREFIX } from '../access/key.ts'
import { RuleError } from '../access/manage.ts'
import { memberNames } from '../api/render.ts'
import { messageOf, reasonOf } from '../lib/errors.ts'
import { requireRegular } from '../lib/files.ts'
import { parseRanges } from '../lib/ip.ts'
import { parsePairs } from '../lib/query-string.ts'
import { DAY_MS, parseDuration, parseDurationWithin, parseInstant } from '../lib/time.ts'

/** Where the server listens. `port` is 0 to 65535; 0 stands for any free port. */
export type Listen =
  | { kind: 'unix'; path: string }
  | { kind: 'tcp'; hostname: string; port: number }
type Limit = number | null

/** A string is not accepted. The message describes the accepted values. */
export class Expected extends Error {}
export function expect(what: string): never {
  throw new Expected(what)
}

export const nonEmpty =
  (what: string) =>
  (given: string): string =>
    given === '' ? expect(what) : given
export const readSources = (given: string): string =>
  given.trim() === '' ? expect('a URL or the path of a file or directory') : given
/** Paths of files, one per line or separated by commas. */
export const readFiles = (given: string): string[] =>
  given
    .split(/[\n,]/)
    .map(path => path.trim())
    .filter(path => path !== '')
export const readOneOf = <const T extends readonly string[]>(choices: T, inAnyCase = false) => {
  const read = (given: string): T[number] =>
    choices.find(choice => choice === (inAnyCase ? given.toLowerCase() : given)) ??
    expect(choices.join(' or '))
  return Object.assign(read, { choices })
}

/** Returns a parser of durations such as `90s`, in milliseconds. */
export const durationFrom =
  (leastMs: number, mostMs: number, what: string) =>
  (given: string): number =>
    parseDurationWithin(given, leastMs, mostMs) ?? expect(what)

const BYTE_UNITS = new Map([
  ['', 1],
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
])
/** A size in bytes: up to 12 digits, with an optional KiB, MiB or GiB. */
export const readBytes = (given: string): number => {
  const [, digits, unit = ''] = /^(\d{1,12})([KMG]iB)?$/.exec(given) ?? []
  const bytes = Number(digits) * (BYTE_UNITS.get(unit) ?? 1)
  return digits === undefined ? expect('a number of bytes such as 67108864 or 64MiB') : bytes
}

/** `COLUMN=FIELD`, one per line or separated by commas: lower-case fields by column. */
export const readMapping = (given: string): ReadonlyMap<string, string> =>
  parsePairs(given) ?? expect('COLUMN=FIELD, or COLUMN=-')

const ON = ['1', 'true', 'yes', 'on']
const OFF = ['0', 'false', 'no', 'off']
/** A switch: 1, true, yes, on; or 0, false, no, off. Case does not matter. */
export const readSwitch = (given: string): boolean => {
  const word = given.toLowerCase()
  return ON.includes(word) || (OFF.includes(word) ? false : expect('1 or 0'))
}

export const integerFrom =
  (least: number, most: number) =>
  (given: string): number =>
    /^\d{1,9}$/.test(given) && Number(given) >= least && Number(given) <= most
      ? Number(given)
      : expect(`an integer from ${least} to ${most}`)

const RATE_MAX = 5_000
/** `N/s`, as a number per second. */
export const readRate = (given: string): number => {
  const rate = Number(/^([1-9]\d{0,3})\/s$/.exec(given)?.[1])
  return rate <= RATE_MAX ? rate : expect(`a rate from 1/s to ${RATE_MAX}/s, such as 20/s`)
}

/** Returns a parser for the URL of a judge. With `https:`, the host must be a name. */
export const readJudge =
  (protocol: 'http:' | 'https:') =>
  (given: string): URL => {
    const url = URL.parse(given)
    const isOrigin =
      url?.protocol === protocol && /^[a-z]+:\/\/[^/?#@\s]+\/?$/i.test(given) && url.hostname !== ''
    const isNamed = protocol === 'http:' || isIP(url?.hostname.replace(/[[\]]/g, '') ?? '') === 0
    if (isOrigin && isNamed) return url
    return expect(
      protocol === 'http:'
        ? 'the URL of a judge, such as http://judge.example.com'
        : 'the URL of a judge by a name that its certificate has, such as https://judge.example.com',
    )
  }

const INTEGER = 'an integer of at least 1, or unlimited'
/** An integer from 1 to 999,999,999,999, or `null` for `unlimited`. */
export const readLimit = (given: string): Limit => {
  if (given === 'unlimited') return null
  return /^[1-9]\d{0,11}$/.test(given) ? Number(given) : expect(INTEGER)
}

/** The most requests in a burst window: each request reads the times of all of them. */
const BURST_REQUESTS_MAX = 1_000
/** `REQUESTS/DURATION`: 1 to 1,000 in 1 to 86,400 whole seconds; `null` for `unlimited`. */
export const readBurst = (given: string): { requests: number; seconds: number } | null => {
  const accepted = `REQUESTS/DURATION such as 5/5s (up to ${BURST_REQUESTS_MAX}/24h), or unlimited`
  if (given === 'unlimited') return null
  const [requests = '', duration = ''] = given.split('/', 2)
  const ms = parseDuration(duration)
  if (!/^[1-9]\d{0,3}$/.test(requests) || ms === null || given.split('/').length !== 2) {
    return expect(accepted)
  }
  const fits = Number(requests) <= BURST_REQUESTS_MAX && ms >= 1000 && ms <= DAY_MS
  return fits && ms % 1000 === 0
    ? { requests: Number(requests), seconds: ms / 1000 }
    : expect(accepted)
}

/** `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (all interfaces, hostname `::`). */
export const readTcpListen = (
  given: string,
  accepted = 'HOST:PORT or :PORT',
): Extract<Listen, { kind: 'tcp' }> => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(given)
  const port = Number(match?.[3])
  if (!match || port > 65535) return expect(accepted)
  return { kind: 'tcp', hostname: match[1] ?? (match[2] || '::'), port }
}

const LISTEN = 'HOST:PORT, :PORT or unix:/PATH'
/** As `readTcpListen`, or `unix:/PATH`. */
export const readListen = (given: string): Listen => {
  if (!given.startsWith('unix:')) return readTcpListen(given, LISTEN)
  const path = given.slice('unix:'.length)
  return path === '' ? expect(LISTEN) : { kind: 'unix', path }
}

/** Formats an address for messages. */
export function showListen(where: Listen, scheme = 'http'): string {
  if (where.kind === 'unix') return `unix:${where.path}`
  const { hostname, port } = where
  return `${scheme}://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`
}

export const readAddress = (given: string): string =>
  isIP(given) > 0 && !given.includes('%') ? given : expect('an IPv4 or IPv6 address')

/** IP addresses, one per line or separated by commas. */
export const readAddresses = (given: string): string[] => readFiles(given).map(readAddress)

const CIDRS = 'a comma-separated list of addresses or CIDR ranges, such as 10.0.0.0/8,::1'
export const readRanges = (given: string): BlockList => parseRanges(given) ?? expect(CIDRS)

/** The networks that may use a key, as text; `''` or `any`: all. */
export const readCallers = (given: string): string =>
  given === '' || given === 'any' || parseRanges(given) !== null
    ? given.replace(/^any$|\s/g, '')
    : expect(`any, or ${CIDRS}`)

/** The sites that may read answers in browsers: all, or these origins. */
export type Origins = { kind: 'all' } | { kind: 'some'; list: readonly string[] }

const ORIGINS =
  '* or a comma-separated list of origins (scheme, host and port, without a path), such as https://app.example.com'
/** `*`, or origins separated by commas. Returns origins as browsers send them: lower case, without a default port. */
export const readOrigins = (given: string): Origins => {
  if (given === '*') return { kind: 'all' }
  return { kind: 'some', list: given.split(',').map(part => originOf(part.trim())) }
}

function originOf(given: string): string {
  const isOrigin = /^[a-z][a-z\d+.-]*:\/\/[^/?#@*\\\s]+$/i.test(given)
  if (!isOrigin || !URL.canParse(given)) return expect(ORIGINS)
  // URL has no origin for unknown schemes such as `chrome-extension:`.
  const { origin } = new URL(given)
  return origin === 'null' ? given.toLowerCase() : origin
}

/** Names of columns in statistics that are not members of a record (contract F4). */
const COLUMNS = ['age', 'count']
const NAME = 'a name of lower-case letters, digits, spaces, dots or dashes that is not yet a field'
/** The name of the provider's service: not only digits, and no other member of a record or column of statistics. */
export const readServiceName = (given: string): string => {
  const name = given.toLowerCase().replaceAll('_', ' ')
  const taken = [...memberNames('').map(member => member.replaceAll('_', ' ')), ...COLUMNS]
  const fits = /^(?=.*[^\d])[\p{Ll}\p{Lo}\d][\p{Ll}\p{Lo}\d .-]{0,39}$/u.test(name)
  return fits && !taken.includes(name) && name === name.trim() ? name : expect(NAME)
}

export const EXPIRY = 'a duration such as 30d, a time such as 2027-01-31T00:00:00Z, or never'
/** The end of a key: `ms` milliseconds from now (`in`), or at an instant in Unix milliseconds (`at`). */
export type Expiry = { kind: 'in'; ms: number } | { kind: 'at'; ms: number } | { kind: 'never' }
/** A duration, an ISO 8601 date or time (see `parseInstant`), or never. */
export const readExpiry = (given: string): Expiry => {
  if (given === 'never') return { kind: 'never' }
  const durationMs = parseDuration(given)
  if (durationMs !== null) return { kind: 'in', ms: durationMs }
  return { kind: 'at', ms: parseInstant(given) ?? expect(EXPIRY) }
}

/** The name of a plan: 1 to 40 characters that begin with a letter or digit. */
export const readPlanName = (given: string): string =>
  /^[a-z0-9][a-z0-9._-]{0,39}$/.test(given)
    ? given
    : expect('a name of lower-case letters, digits, dots, dashes or underscores')

/** @throws RuleError unless a plan can have this name. */
export function requirePlanName(name: string, what: string): void {
  try {
    readPlanName(name)
  } catch (error) {
    throw new RuleError('invalid', `${what} must be ${messageOf(error)}`)
  }
}

/** A regular key that the operator chooses, too long to guess (contract B1). */
export const readKey = (given: string): string => {
  const usable = /^[^\s\p{Cc}]{16,256}$/u.test(given)
  const reserved = given === DEMO_KEY || given.startsWith(TEMP_PREFIX)
  return usable && !reserved
    ? given
    : expect('16 to 256 characters without white space, not demo and not starting with temp_')
}

/** The value of `--key` that means stdin. */
export const STDIN = '-'
export const readKeyOption = (given: string): string => (given === STDIN ? STDIN : readKey(given))

/** The label or note of a key: up to 200 characters without control characters. */
export const readLabel = (given: string): string =>
  /^[^\p{Cc}]{0,200}$/u.test(given) ? given : expect('up to 200 printable characters')

/** The name of the service on its pages: 1 to 40 printable characters. */
export const readSiteName = (given: string): string =>
  /^[^\p{Cc}]{1,40}$/u.test(given) && given.trim() === given
    ? given
    : expect('a name of up to 40 printable characters')

/** The URL of a link on a page. Rejects `javascript:`, which would run in the page. */
export const readLink = (given: string): string =>
  isHttpUrl(given) || /^mailto:[^\s@]+@[^\s@]\S*$/i.test(given)
    ? given
    : expect('a URL of http, https or mailto')

export const readHttpUrl = (given: string): string =>
  isHttpUrl(given) ? given : expect('a URL of http or https')

const isHttpUrl = (text: string): boolean =>
  /^https?:\/\/[^\s/]\S*$/i.test(text) && URL.canParse(text)

const DATABASE_URL =
  'a URL such as postgres://USER:PASSWORD@HOST:5432/DATABASE with a host and a database, ' +
  'and / ? # @ % in its parts percent-encoded'
const PROTOCOLS = ['postgres:', 'postgresql:']
const TLS_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']
/** Parameters of a database URL that name files. */
const TLS_FILES = ['sslrootcert', 'sslcert', 'sslkey']

/** Whether a part is not percent-encoded: messages could show the rest of a password as the host. */
function isMisread(given: string, { pathname, search, hash }: URL): boolean {
  try {
    if (decodeURIComponent(given).includes('\0')) return true
  } catch {
    return true
  }
  return /[/@]/.test(pathname.slice(1)) || search.includes('@') || hash !== ''
}

/** Splits a URL of several hosts, `postgres://user@a:5432,b:5432/name`, into one URL for each host. */
export function eachHost(url: string): string[] {
  const [, start = '', hosts = '', rest = ''] =
    /^([^/]*\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  return hosts.includes(',') ? hosts.split(',').map(host => start + host + rest) : [url]
}

/** The URL of a PostgreSQL database, one or several hosts. Errors never repeat it, because it may hold a password. */
export function readDatabase(given: string): string {
  for (const each of eachHost(given)) requireDatabase(each)
  return given
}

/** @throws Expected unless the URL has one host and the name of a database. */
function requireDatabase(given: string): void {
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !PROTOCOLS.includes(url.protocol)) expect(DATABASE_URL)
  const hasHost = (url.hostname !== '' && url.port !== '0') || url.searchParams.has('path')
  if (url.pathname.length < 2 || !hasHost || isMisread(given, url)) expect(DATABASE_URL)
  const mode = url.searchParams.get('sslmode')
  if (mode !== null && !TLS_MODES.includes(mode)) {
    expect(`a URL whose sslmode is one of ${TLS_MODES.join(', ')}`)
  }
  for (const name of TLS_FILES) {
    const file = url.searchParams.get(name)
    try {
      if (file === null) continue
      accessSync(file, constants.R_OK)
      requireRegular(statSync(file))
    } catch (error) {
      expect(`a URL whose ${name} is a file that can be read (${reasonOf(error)})`)
    }
  }
}
