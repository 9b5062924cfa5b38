/** A proxy, and the closed lists that schemas, SQL, rendering and documentation share. Independent of wire names. */
import { ipv4ToNumber, parseDigits } from '../lib/ip.ts'

export const TYPES = ['http', 'https', 'socks4', 'socks5'] as const
export const ANONS = ['transparent', 'anonymous', 'elite'] as const
/** In the order of a record (spec 2.1). The provider's own service is renamed by a setting. */
export const SERVICES = ['smtp', 'telegram', 'avito', 'google', 'provider'] as const
export const LANGS = ['ru', 'en'] as const

export type ProxyType = (typeof TYPES)[number]
export type Anon = (typeof ANONS)[number]
export type Service = (typeof SERVICES)[number]
export type Lang = (typeof LANGS)[number]

/** A text in each language of the documentation. */
export type Text = { readonly [L in Lang]: string }

/** Names of services on the wire; `provider` is the name of the provider's own service. */
export const serviceName = (service: Service, provider: string): string =>
  service === 'provider' ? provider : service
export const serviceNames = (provider: string): string[] =>
  SERVICES.map(service => serviceName(service, provider))

/** All combinations of services by their bits (bit n: `SERVICES[n]`). Rows of an import share them. */
export const SERVICE_SETS: readonly ReadonlySet<Service>[] = Array.from(
  { length: 1 << SERVICES.length },
  (_, bits) => new Set(SERVICES.filter((_, bit) => bits & (1 << bit))),
)
const SET_BITS = new Map(SERVICE_SETS.map((services, bits) => [services, bits]))

export function servicesToBits(services: ReadonlySet<Service>): number {
  const known = SET_BITS.get(services)
  if (known !== undefined) return known
  return [...services].reduce((bits, service) => bits | (1 << SERVICES.indexOf(service)), 0)
}

/** The identity of a proxy: `a.b.c.d:port` in canonical decimal. */
export type Address = { ip: string; port: number }

/** One proxy. `null`, and `''` for strings, mean unknown; services default to false. */
export type Proxy = Address & {
  /** See `types.ts`; 0 for a candidate of the checker without a known type. A file names types without ages. */
  types: number
  /** Unix seconds. */
  checkedAt: number
  /** IPv4 or IPv6 without a port, `''` when unknown. */
  ipOut: string
  anon: Anon | ''
  /** Bytes per second. */
  speed: number | null
  pingMs: number | null
  /** ISO 3166-1 alpha-2 in upper case, `''` when unknown. */
  country: string
  /** Default (Russian) name. */
  city: string
  /** English name, `''` when there is none. */
  cityEn: string
  /** Percent of successful checks, 0–100. */
  works: number | null
  services: ReadonlySet<Service>
}

/** A proxy from a file. Services that it does not state stay unchanged in an update. */
export type IncomingProxy = Proxy & {
  servicesStated: ReadonlySet<Service>
}

/** The members of a row that the checker uses. */
export type CandidateRow = Pick<IncomingProxy, 'ip' | 'port' | 'types' | 'works' | 'checkedAt'>

/** The name of a city in `lang`: English only if there is an English name (spec 2.1 rule 2). */
export const cityIn = (lang: Lang, { name, nameEn }: { name: string; nameEn: string }): string =>
  lang === 'en' && nameEn !== '' ? nameEn : name

/** `a.b.c.d:port` */
export const addressText = ({ ip, port }: Address): string => `${ip}:${port}`

/** Reads `a.b.c.d:port`; `null` unless the address is canonical IPv4 and the port 1–65535. */
export function parseAddress(text: string): Address | null {
  const colon = text.lastIndexOf(':')
  const ip = text.slice(0, colon)
  const port = parsePort(text.slice(colon + 1))
  return colon > 0 && port !== null && ipv4ToNumber(ip) >= 0 ? { ip, port } : null
}

/** A port in plain decimal digits, 1–65535, or `null`. */
export function parsePort(text: string): number | null {
  const port = parseDigits(text, 5)
  return port >= 1 && port <= 65535 ? port : null
}
