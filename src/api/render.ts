/**
 * Owns the written form of an answer (spec 2.1, 2.2, 4.1; contract A5–A7): proxies and output
 * options to text. Pure; knows nothing of HTTP headers or of how the proxies were found.
 */
import { formatTimecheck } from '../lib/time.ts'
import type { Filter } from '../proxies/filter.ts'
import {
  addressText,
  cityIn,
  type Endpoint,
  type Lang,
  type Proxy,
  type Service,
} from '../proxies/proxy.ts'

/** How an answer is written. */
export type Output = {
  kind: 'txt' | 'json'
  isDownload: boolean
  hasTypePrefix: boolean
  /** `null`: all members. */
  fields: readonly string[] | null
  splitIp: boolean
  shape: 'array' | 'object'
  wrap: boolean
  pretty: boolean
}

type Value = string | number | boolean | null
/** The options that change how a record looks. */
type View = { lang: Lang; splitIp: boolean }
/** One member of a record: its value as JSON text. `isShown` false leaves it out. */
type Member = {
  name: string
  isShown?: (view: View) => boolean
  json: (proxy: Proxy, view: View) => string
}

/** Text that needs no escaping, as a JSON string. */
const plain = (text: string): string => `"${text}"`
const service = (name: string, which: Service): Member => ({
  name,
  json: proxy => (proxy.services.has(which) ? 'true' : 'false'),
})

/** The members of a record in the order of spec 2.1. */
const membersOf = (provider: string): Member[] => [
  { name: 'ip', json: (proxy, { splitIp }) => plain(splitIp ? proxy.ip : addressText(proxy)) },
  { name: 'port', isShown: ({ splitIp }) => splitIp, json: ({ port }) => `"${port}"` },
  { name: 'ip_out', json: proxy => plain(proxy.ipOut) },
  { name: 'type', json: proxy => plain(proxy.type) },
  { name: 'anon', json: proxy => plain(proxy.anon) },
  { name: 'speed', json: proxy => String(proxy.speed) },
  { name: 'ping', json: ({ pingMs }) => (pingMs === null ? 'null' : String(pingMs / 1000)) },
  { name: 'timecheck', json: proxy => plain(formatTimecheck(proxy.checkedAt)) },
  { name: 'country', json: proxy => plain(proxy.country) },
  { name: 'city', json: (proxy, { lang }) => JSON.stringify(cityIn(lang, proxy)) },
  { name: 'works', json: ({ works }) => (works === null ? '""' : `"${works}"`) },
  service('smtp', 'smtp'),
  service('telegram', 'telegram'),
  service('avito', 'avito'),
  service('google', 'google'),
  service(provider, 'provider'),
]

/** Names of all record members, in order; `provider` is what the provider's service is called. */
export const memberNames = (provider: string): string[] =>
  membersOf(provider).map(({ name }) => name)

/** The filters in effect, spelled so that they can be sent back as a query (contract A6). */
export function describeFilter(filter: Filter, provider: string): { [name: string]: Value } {
  const services = filter.services.map(name => (name === 'provider' ? provider : name))
  const list = (values: readonly string[]) => values.join(',').toLowerCase() || null
  const all: { [name: string]: Value } = {
    type: list(filter.types),
    anon: list(filter.anons),
    ping: filter.pingMaxMs,
    speed: filter.speedMin,
    time: filter.ageMaxSeconds,
    works: filter.worksMin,
    country: list(filter.countries),
    country_mode: filter.countries.length > 0 ? filter.countryMode : null,
    city: list(filter.cities),
    port: filter.port,
    ip: filter.address && addressText(filter.address),
    service: list(services),
    count: filter.count,
    lang: filter.lang,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
}

/**
 * Writes the parts of one answer: `head` (in two chunks when the time goes between them), the
 * records with `separator` between them, and `tail`.
 */
export type Writer<T extends Endpoint> = {
  head: readonly string[]
  record: (proxy: T) => string
  separator: string
  tail: string
}

/** Creates writers for one name of the provider's service. */
export function createWriters(provider: string) {
  const members = membersOf(provider)

  /** The writer of an answer of `count` records. */
  function json(filter: Filter, output: Output, count: number): Writer<Proxy> {
    const [newline, space] = output.pretty ? ['\n', ' '] : ['', '']
    const indent = (depth: number): string => (output.pretty ? newline + '  '.repeat(depth) : '')
    const depth = output.wrap ? 2 : 1
    const [open, close] = output.shape === 'array' ? '[]' : '{}'
    const record = recordWriter(members, filter.lang, output, indent, depth)
    const list = {
      head: [count === 0 ? `${open}` : `${open}${indent(depth)}`],
      record,
      separator: `,${indent(depth)}`,
      tail: count === 0 ? `${close}` : `${indent(depth - 1)}${close}`,
    }
    if (!output.wrap) return list
    const filters = JSON.stringify(describeFilter(filter, provider), null, output.pretty ? 2 : 0)
    const member = (name: string): string => `${indent(1)}"${name}":${space}`
    const before = `{${member('status')}"ok",${member('count')}${count},${member('timestamp')}"`
    const nested = filters.replaceAll('\n', indent(1))
    const after = `",${member('filters')}${nested},${member('data')}${list.head}`
    return { ...list, head: [before, after], tail: `${list.tail}${indent(0)}}` }
  }

  const txt = ({ hasTypePrefix }: Output): Writer<Endpoint> => ({
    head: [''],
    record: hasTypePrefix
      ? proxy => `${proxy.type}://${addressText(proxy)}\n`
      : proxy => `${addressText(proxy)}\n`,
    separator: '',
    tail: '',
  })

  return { json, txt }
}

/** Writes one record as `JSON.stringify` would, at its place in the document. */
function recordWriter(
  members: readonly Member[],
  lang: Lang,
  { fields, splitIp, pretty, shape }: Output,
  indent: (depth: number) => string,
  depth: number,
): Writer<Proxy>['record'] {
  const view = { lang, splitIp }
  const shown = members.filter(
    ({ name, isShown = () => true }) => isShown(view) && (fields?.includes(name) ?? true),
  )
  const colon = pretty ? ': ' : ':'
  const parts = shown.map(({ name, json }, i) => ({
    before: `${i === 0 ? '' : ','}${indent(depth + 1)}${JSON.stringify(name)}${colon}`,
    json,
  }))
  const close = shown.length === 0 ? '}' : `${indent(depth)}}`
  return proxy => {
    let text = shape === 'array' ? '{' : `"${addressText(proxy)}"${colon}{`
    for (const { before, json } of parts) text += before + json(proxy, view)
    return text + close
  }
}

/** The whole answer, in two chunks when the envelope's time goes between them. */
export function renderChunks<T extends Endpoint>(
  { head, record, separator, tail }: Writer<T>,
  proxies: readonly T[],
): readonly string[] {
  const rest = proxies.map(record).join(separator) + tail
  return [...head.slice(0, -1), head.at(-1) + rest]
}
