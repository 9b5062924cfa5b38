/**
 * Column and member names that lists use for our fields (contract D3a). To support another name, add it to `NAMES`.
 * Values are read in `values.ts`.
 */
import { memberNames } from '../api/render.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError } from '../lib/errors.ts'
import { countryOfCode } from './countries.ts'
import { type Context, underscored } from './row.ts'
import { normalise, readAnon, readCountryValue, readTime, readType, typeOfWord } from './values.ts'

/** Every name that a row of ours may have. `provider`: the name of the provider's service. */
export const knownColumns = (provider: string): ReadonlySet<string> =>
  new Set([...memberNames(provider), underscored(provider), 'city_en', 'checked_at'])

/** Fields by the name of a column or member, as `--map` says; `IGNORED` for those to leave out. */
export type Mapping = ReadonlyMap<string, string>
export const IGNORED = '-'

/** @throws CommandError (usage), beginning with `where`, when a column is mapped to an unknown field. */
export function checkMapping(mapping: Mapping | undefined, provider: string, where = '--map') {
  const known = knownColumns(provider)
  for (const field of mapping?.values() ?? []) {
    if (known.has(field) || field === IGNORED) continue
    const near = nearest(field, [...known])
    const hint =
      near === null ? `the fields are ${[...known].join(', ')}` : `did you mean '${near}'?`
    throw new CommandError(`${where}: no field is called '${field.slice(0, 40)}'; ${hint}`, 2)
  }
}

/** Whether a text looks like a key of proxylist, which no message may show. */
export const mayBeKey = (text: string): boolean => /pl_|temp_/.test(text)

/** Whether a message may show a name. */
export const isShowable = (name: string): boolean =>
  !mayBeKey(name) && /^[\p{L}\d_. ()%/:+-]{1,24}$/u.test(name)

/**
 * The names of each field, the best first. Names are compared without case and punctuation. A nested member is
 * found by its own name or by that of its parents and itself: `geo.country.code` is `country code`.
 * Names that begin with `+` are facts from which fields are made.
 */
const NAMES: { readonly [field: string]: string } = {
  ip: `ip, ip address, ip addr, ipv4, host, hostname, address, addr, server, proxy ip, proxy address, proxy host,
    server ip, host ip, ip port, host port, proxy, endpoint, proxy url, url, uri, ip адрес, адрес, хост, прокси`,
  port: 'port, proxy port, server port, порт',
  type: `protocols type, type, protocol, protocols, types, version, proto, proxy type, proxy types, ptype, scheme, proxy protocol, тип,
    протокол`,
  anon: `anon, anonymity, anonymity level, anon level, anonymous level, types level, proxy level, anonymity type,
    anonymous, is anonymous, level, privacy, анонимность`,
  ping: `ping, response time, resp time, avg resp time, average response time, avg response time, latency,
    avg latency, average latency, median latency, delay, timeout, average timeout, rtt, пинг, задержка,
    отклик`,
  speed: 'speed, download speed, bandwidth, throughput, скорость',
  works: `works, success rate, success ratio, success percent, uptime, up time, working percent, availability,
    reliability, stability, error rate, fail rate, failure rate`,
  country: `country code, country iso code, country iso, iso code, iso country code, countrycode2, country alpha2,
    addr geo iso, geo iso, cc, code, country, country name, country long, addr geo country, страна, location, geo`,
  city: 'city names ru, city, city name, addr geo city, geo city, town, город',
  city_en: 'city_en, city names en',
  ip_out: `ip_out, exit ip, exit address, out ip, outgoing ip, outbound ip, external ip, egress ip, real ip,
    proxy exit ip`,
  timecheck: 'timecheck',
  checked_at: `checked_at, last checked, last check, last check time, last tested, last verified, last seen, last alive,
    last time, last test, last online, last checked at, checked, check time, tested, verified, verified at, tested at,
    last updated, updated at, last update, update time, updated, timestamp, date, проверен, последняя проверка,
    обновлено`,
  smtp: 'smtp',
  telegram: 'telegram',
  avito: 'avito',
  google: 'google, google passed',
  '+http': 'http, is http, supports http',
  '+https': 'https, ssl, is https, tls, supports https, https support, is ssl',
  '+socks4': 'socks4, is socks4, supports socks4',
  '+socks5': 'socks5, is socks5, supports socks5',
  /** False when the list found the proxy dead at its last check. */
  '+alive': `alive, is alive, valid, is valid, working, is working, active, is active, online, is online, available,
    is available, up, is up, success, healthy, is healthy, status, state, last status, health status, proxy status,
    check status, health`,
  '+secret': 'username, user, login, password, pass, passwd',
  '+good': 'checks up, success count, times alive, successes, passed checks, good checks',
  '+bad': 'checks down, fail count, times dead, failures, failed checks, bad checks, failure count',
  '+total': 'check count, total checks, checks total, checks, attempts',
}

/** Members of an envelope that hold the time of the list, beside the names of `checked_at`. */
const LIST_TIMES = /^(?:generated|created|published|fetched)(?:at)?$/

/** `rate: 0.9` means 90 %. Names of failures count what is missing to 100. */
export const SHARES = /rate|ratio|share|stability|reliability/
export const OF_FAILURES = /error|fail/

/** The unit at the end of a name, as in `ping_ms` or `Latency (s)`, by field. */
const UNITS: { readonly [field: string]: RegExp } = {
  ping: /^(.+?)(in)?(ms|msec|millis|milliseconds|s|sec|secs|seconds)$/,
  speed: /^(.+?)(in)?([kmg]?(?:bps|bits?ps|bytes?ps|bytespersec|bytes|bs))$/,
  works: /^(.+?)(in)?(pct|percent|percentage)$/,
  checked_at: /^(.+?)(in)?(at|utc|unix|ts|iso|time|date|seconds|secondsago)$/,
}

/** The rank of a name that the operator has mapped. */
export const MAPPED = -1

export type Meaning = {
  field: string
  /** The position among the names of the field; the lowest wins. */
  rank: number
  /** Normalised name, for its unit and kind. */
  name: string
  unit: string
}

export type Names = {
  /** Finds the field of a member. `path`: normalised names from the root. */
  meaningOf(path: readonly string[]): Meaning | null
  /** The field of a member of the row itself, as it is written. */
  fieldOf(name: string): string | undefined
  provider: string
  hasMapping: boolean
  /** @throws CommandError naming a column or member that the operator has mapped and no row had. */
  requireUsed(): void
  /** The columns that the operator has mapped by number, counted from 1. */
  numbered: readonly number[]
}

/** Deep members such as `asn.stats.speed`, and nested statuses, do not describe the proxy. */
const MEASURED = /^(?:ping|speed|works|\+good|\+bad|\+total)$/

/** Most names in memory: a file may have a new name in each row. */
const CACHED_MAX = 10_000

/** Finds meanings by name. `mapping` wins over the table. */
export function createNames(provider: string, mapping: Mapping = new Map()): Names {
  const table = new Map<string, Meaning>()
  for (const [field, names] of [...Object.entries(NAMES), [provider, provider] as const]) {
    for (const [rank, name] of names.split(',').map(normalise).entries()) {
      if (!table.has(name)) table.set(name, { field, rank, name, unit: '' })
    }
  }
  const numbered: number[] = []
  const unused = new Map<string, string>()
  for (const [given, field] of mapping) {
    unused.set(normalise(given), given)
    const name = normalise(given)
    const known = field === underscored(provider) ? provider : field
    const meaning = { field: known, rank: MAPPED, name, unit: field === 'speed' ? 'bytes' : '' }
    table.set(name, meaning)
    if (!/^\d+$/.test(given)) continue
    numbered.push(Number(given))
    table.set(normalise(`column ${given}`), meaning)
  }

  function byName(name: string): Meaning | null {
    const known = table.get(name)
    if (known?.rank === MAPPED) unused.delete(known.name)
    if (known !== undefined) return known
    for (const [field, pattern] of Object.entries(UNITS)) {
      const [, bare = '', , unit = ''] = pattern.exec(name) ?? []
      const meaning = table.get(bare)
      if (meaning?.field === field) return { ...meaning, name, unit }
    }
    return null
  }

  const cached = new Map<string, Meaning | null>()
  function meaningOf(path: readonly string[]): Meaning | null {
    const key = path.join('.')
    const known = cached.get(key)
    if (known !== undefined) return known
    let meaning: Meaning | null = null
    for (let from = 0; from < path.length && meaning === null; from += 1) {
      meaning = byName(path.slice(from).join(''))
    }
    if (meaning !== null && path.length > 1) {
      const isOther =
        meaning.field === '+alive' || (path.length > 2 && MEASURED.test(meaning.field))
      meaning = isOther ? null : { ...meaning, rank: meaning.rank + 0.5 }
    }
    if (cached.size < CACHED_MAX) cached.set(key, meaning)
    return meaning
  }

  return {
    meaningOf,
    fieldOf: name => (name.startsWith('__') ? undefined : meaningOf([normalise(name)])?.field),
    requireUsed() {
      const [name] = unused.values()
      if (name === undefined) return
      const problem = `no column or member is called '${name.slice(0, 40)}'`
      throw new CommandError(`--map: ${problem}; nothing was imported`)
    },
    ...{ provider, hasMapping: mapping.size > 0, numbered },
  }
}

/** The context of a list under this key: `socks5`, `DE`, `United States`, `elite`. */
export function contextOfKey(key: string, context: Context): Context {
  const type = typeOfWord(key)
  if (type !== undefined) return { ...context, type }
  const isLong = key.length > 3
  const country = /^[A-Z]{2}$/.test(key) ? countryOfCode(key) : isLong && readCountryValue(key)
  if (country) return { ...context, country }
  return isLong ? { ...context, anon: readAnon(key) || context.anon } : context
}

/** Members of an envelope that apply to all its records. */
const OF_LISTS: { readonly [field: string]: (value: unknown) => unknown } = {
  ...{ type: readType, country: readCountryValue, anon: readAnon },
  checked_at: value => readTime(value, null),
}

/** The context of records in an envelope, from a member of it beside them. */
export function contextOfMember(name: string, value: unknown, names: Names, context: Context) {
  const field = LIST_TIMES.test(normalise(name)) ? 'checked_at' : (names.fieldOf(name) ?? '')
  const read = OF_LISTS[field]?.(value)
  return read ? { ...context, [field]: read } : context
}
