/** Compares the request that the judge saw with the one sent: how anonymous is the proxy (contract H3)? Pure. */
import { canonicalIp } from '../lib/ip.ts'
import { printable } from '../lib/redact.ts'
import { ANONS, type Anon } from '../proxies/proxy.ts'
import type { Measured } from './ports.ts'

export type Header = readonly [name: string, value: string]

/** The headers of a request to the judge. The proxy added any other header that arrives. */
export const headersFor = (host: string, userAgent: string): readonly Header[] => [
  ['Host', host],
  ['User-Agent', userAgent],
  ['Accept', '*/*'],
  ['Accept-Encoding', 'identity'],
  ['Cache-Control', 'no-cache'],
  ['Connection', 'close'],
]

/** The addresses in a text, canonical; IPv4 in any of its forms in IPv6 is IPv4. */
export function addressesIn(text: string): string[] {
  const quads = text.match(/(?<!\d|\d\.)\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)/g) ?? []
  const groups = text.match(/(?<![\da-f:.])[\da-f]{0,4}:[\da-f:]{1,39}(?![\da-f:.])/gi) ?? []
  return [
    ...quads.map(quad => quad.split('.').map(Number).join('.')), // some write leading zeros
    ...groups.map(canonicalIp).filter(ip => ip !== null),
  ]
}

/** What the judge saw; `changed` are the headers that differ from `sent`. */
type Seen = {
  isOwn: (ip: string) => boolean
  peer: string
  headers: readonly Header[]
  changed: readonly Header[]
  sent: ReadonlyMap<string, string>
}

const USER_AGENT = 'user-agent'
const isNamed =
  (wanted: string) =>
  ([name]: Header): boolean =>
    name.toLowerCase() === wanted

/** From worst to best. Each function returns the name of the evidence, if there is any. */
const EVIDENCE: readonly (readonly [Anon, (seen: Seen) => string | undefined])[] = [
  ['transparent', ({ peer, isOwn }) => (isOwn(peer) ? 'peer' : undefined)],
  [
    'transparent', // any header may contain our address; `Host` is the judge, which may be at our address
    ({ changed, isOwn }) =>
      changed.find(header => !isNamed('host')(header) && addressesIn(header[1]).some(isOwn))?.[0],
  ],
  [
    'anonymous', // Via, X-Forwarded-For, Proxy-Connection, and any other
    ({ changed, sent }) => changed.find(([name]) => !sent.has(name.toLowerCase()))?.[0],
  ],
  [
    'anonymous',
    ({ headers, changed }) =>
      changed.some(isNamed(USER_AGENT)) || !headers.some(isNamed(USER_AGENT))
        ? 'User-Agent'
        : undefined,
  ],
]

type Level = Pick<Measured, 'anon' | 'because'>

/** Headers by name in lower case. */
export const sentOf = (headers: readonly Header[]): ReadonlyMap<string, string> =>
  new Map(headers.map(([name, value]) => [name.toLowerCase(), value]))

/** `own` are our addresses, canonical. */
export function classify(
  { peer, headers }: { peer: string; headers: readonly Header[] },
  sent: ReadonlyMap<string, string>,
  own: ReadonlySet<string>,
): Level {
  const changed = headers.filter(([name, value]) => sent.get(name.toLowerCase()) !== value)
  const seen: Seen = { peer, headers, changed, sent, isOwn: ip => own.has(ip) }
  for (const [anon, find] of EVIDENCE) {
    const because = find(seen)
    if (because !== undefined) return { anon, because: printable(because).slice(0, 40) }
  }
  return { anon: 'elite', because: '' }
}

/** The worst of one or more levels. */
export const worstOf = (levels: readonly Level[]): Level =>
  levels.reduce((worst, level) =>
    ANONS.indexOf(level.anon) < ANONS.indexOf(worst.anon) ? level : worst,
  )
