/**
 * Owns the written form of an answer (spec 2.1, 2.2, 4.1; contract A5–A7): proxies and output
 * options to text. Pure; knows nothing of HTTP headers or of how the proxies were found.
 */
import { maskIp } from './ip.ts'
import { cityIn, type Filter, type Lang, type Output, type Proxy, type Service } from './proxy.ts'
import { formatInstant, formatTimecheck } from './time.ts'

type Value = string | number | boolean | null
type Member = { name: string; value: (proxy: Proxy, view: View) => Value | undefined }
/** What of the request decides how a record looks. */
type View = { lang: Lang; splitIp: boolean }

const service = (name: string, which: Service): Member => ({
  name,
  value: proxy => proxy.services.has(which),
})

/** The members of a record in the order of spec 2.1. `undefined` leaves a member out. */
const membersOf = (provider: string): Member[] => [
  { name: 'ip', value: (proxy, { splitIp }) => (splitIp ? proxy.ip : addressOf(proxy)) },
  { name: 'port', value: ({ port }, { splitIp }) => (splitIp ? String(port) : undefined) },
  { name: 'ip_out', value: proxy => proxy.ipOut },
  { name: 'type', value: proxy => proxy.type },
  { name: 'anon', value: proxy => proxy.anon },
  { name: 'speed', value: proxy => proxy.speed },
  { name: 'ping', value: ({ pingMs }) => (pingMs === null ? null : pingMs / 1000) },
  { name: 'timecheck', value: proxy => formatTimecheck(proxy.checkedAt) },
  { name: 'country', value: proxy => proxy.country },
  { name: 'city', value: (proxy, { lang }) => cityIn(lang, proxy) },
  { name: 'works', value: ({ works }) => (works === null ? '' : String(works)) },
  service('smtp', 'smtp'),
  service('telegram', 'telegram'),
  service('avito', 'avito'),
  service('google', 'google'),
  service(provider, 'provider'),
]

/** Names of all record members, in order; `provider` is what the provider's service is called. */
export const memberNames = (provider: string): string[] =>
  membersOf(provider).map(({ name }) => name)

export const addressOf = ({ ip, port }: Pick<Proxy, 'ip' | 'port'>): string => `${ip}:${port}`

/** A proxy as `demo` shows it: the last two octets of both addresses hidden (contract B4). */
export const maskProxy = (proxy: Proxy): Proxy => ({
  ...proxy,
  ip: maskIp(proxy.ip),
  ipOut: maskIp(proxy.ipOut),
})

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
    ip: filter.address && addressOf(filter.address),
    service: list(services),
    count: filter.count,
    lang: filter.lang,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
}

/** Writes answers for one name of the provider's service. `nowMs` dates the envelope. */
export function createRenderer(provider: string) {
  const members = membersOf(provider)

  function record(proxy: Proxy, chosen: readonly Member[], view: View): object {
    const values = chosen.map(({ name, value }) => [name, value(proxy, view)])
    return Object.fromEntries(values.filter(([, value]) => value !== undefined))
  }

  function renderJson(proxies: readonly Proxy[], filter: Filter, output: Output, nowMs: number) {
    const { fields, splitIp } = output
    const chosen = fields ? members.filter(({ name }) => fields.includes(name)) : members
    const records = proxies.map(proxy => record(proxy, chosen, { lang: filter.lang, splitIp }))
    const data =
      output.shape === 'array'
        ? records
        : Object.fromEntries(proxies.map((proxy, i) => [addressOf(proxy), records[i]]))
    const body = output.wrap
      ? {
          status: 'ok',
          count: records.length,
          timestamp: formatInstant(nowMs),
          filters: describeFilter(filter, provider),
          data,
        }
      : data
    return JSON.stringify(body, null, output.pretty ? 2 : undefined)
  }

  function renderTxt(proxies: readonly Proxy[], { typePrefix }: Output): string {
    const line = (proxy: Proxy) => `${typePrefix ? `${proxy.type}://` : ''}${addressOf(proxy)}\n`
    return proxies.map(line).join('')
  }

  return (proxies: readonly Proxy[], filter: Filter, output: Output, nowMs: number): string =>
    output.kind === 'json' ? renderJson(proxies, filter, output, nowMs) : renderTxt(proxies, output)
}

export type Renderer = ReturnType<typeof createRenderer>
