/** How anonymous a proxy is: compares the request that the judge saw with the one sent (contract H3). Pure. */
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

type Level = Pick<Measured, 'anon' | 'because'>

/** Finds the worst evidence in the judge's report of a request. `own` are our addresses, canonical. */
export function classify(
  { peer, headers }: { peer: string; headers: readonly Header[] },
  sentHeaders: readonly Header[],
  own: ReadonlySet<string>,
): Level {
  const as = (anon: Anon, because: string): Level => ({
    anon,
    because: printable(because).slice(0, 40),
  })
  if (own.has(peer)) return as('transparent', 'peer')
  const sent = new Map(sentHeaders.map(([name, value]) => [name.toLowerCase(), value]))
  const seen = headers.map(([name, value]) => ({ name, value, key: name.toLowerCase() }))
  const changed = seen.filter(({ key, value }) => sent.get(key) !== value)

  // Any header may contain our address. `Host` is the judge, which may be at our address.
  const naming = changed.find(
    ({ key, value }) => key !== 'host' && addressesIn(value).some(ip => own.has(ip)),
  )
  if (naming !== undefined) return as('transparent', naming.name)

  const added = changed.find(({ key }) => !sent.has(key)) // Via, X-Forwarded-For, Proxy-Connection, …
  if (added !== undefined) return as('anonymous', added.name)

  const agents = seen.filter(({ key }) => key === 'user-agent')
  const isAgentSent = agents.length > 0 && agents.every(agent => !changed.includes(agent))
  return isAgentSent ? as('elite', '') : as('anonymous', 'User-Agent')
}

export const worstOf = (levels: readonly Level[]): Level =>
  levels.reduce((worst, level) =>
    ANONS.indexOf(level.anon) < ANONS.indexOf(worst.anon) ? level : worst,
  )
