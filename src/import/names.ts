/** The names of columns and members that lists use for our fields (contract D3a). */
import { memberNames } from '../api/render.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError } from '../lib/errors.ts'
import { normalise } from './values.ts'

/** Another spelling of the provider's service, with underscores instead of spaces. */
export const underscored = (provider: string): string => provider.replaceAll(' ', '_')

/** The names in our own rows. `provider`: the name of the provider's service. */
export const knownColumns = (provider: string): ReadonlySet<string> =>
  new Set([...memberNames(provider), underscored(provider), 'city_en', 'checked_at'])

/** The fields of columns and members that `--map` names; `IGNORED` leaves a column out. */
export type Mapping = ReadonlyMap<string, string>
export const IGNORED = '-'

/** @throws CommandError (usage) if a column is mapped to an unknown field. The message begins with `where`. */
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

/** Whether a text looks like a key of proxylist. Messages must not show keys. */
export const mayBeKey = (text: string): boolean => /pl_|temp_/.test(text)

/** Whether a message may show a name. */
export const isShowable = (name: string): boolean =>
  !mayBeKey(name) && /^[\p{L}\d_. ()%/:+-]{1,24}$/u.test(name)

/**
 * The names of each field, the best first. Case and punctuation do not matter. A nested member is found by its name,
 * with or without the names of its parents: `geo.country.code` is `country code`. Fields with `+` help to find others.
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
  /** False if the proxy was dead at the last check of the list. */
  '+alive': `alive, is alive, valid, is valid, working, is working, active, is active, online, is online, available,
    is available, up, is up, success, healthy, is healthy, status, state, last status, health status, proxy status,
    check status, health`,
  '+secret': 'username, user, login, password, pass, passwd',
  '+good': 'checks up, success count, times alive, successes, passed checks, good checks',
  '+bad': 'checks down, fail count, times dead, failures, failed checks, bad checks, failure count',
  '+total': 'check count, total checks, checks total, checks, attempts',
}

/** In these members, 0.9 means 90 %. */
export const SHARES = /rate|ratio|share|stability|reliability/
/** In these members, 90 % means that 10 % of the checks succeed. */
export const OF_FAILURES = /error|fail/

/** By field, the unit at the end of a name such as `ping_ms` or `Latency (s)`. */
const UNITS: { readonly [field: string]: RegExp } = {
  ping: /^(.+?)(in)?(ms|msec|millis|milliseconds|s|sec|secs|seconds)$/,
  speed: /^(.+?)(in)?([kmg]?(?:bps|bits?ps|bytes?ps|bytespersec|bytes|bs))$/,
  works: /^(.+?)(in)?(pct|percent|percentage)$/,
  checked_at: /^(.+?)(in)?(at|utc|unix|ts|iso|time|date|seconds|secondsago)$/,
}

export const MAPPED = -1

export type Meaning = {
  field: string
  /** The position among the names of the field. The lowest wins. */
  rank: number
  name: string
  unit: string
}

export type Names = {
  /** The field of a nested member. `path`: the normalised names from the root. */
  meaningOf(path: readonly string[]): Meaning | null
  /** The field of a member of the row itself, by its name as written. */
  fieldOf(name: string): string | undefined
  provider: string
  hasMapping: boolean
  /** @throws CommandError naming a mapped column or member that no row had. */
  requireUsed(): void
  /** The columns that are mapped by number, counted from 1. */
  numbered: readonly number[]
}

/** A deep member such as `asn.stats.speed` does not describe the proxy. */
const MEASURED = /^(?:ping|speed|works|\+good|\+bad|\+total)$/

/** A file may have a new name in each row, which must not fill the memory. */
const CACHED_MAX = 10_000

/** `mapping` wins over `NAMES`. */
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
