/** Tests of services through a proxy (contract H3): a page must have the expected text, a mail server its banner. */
import { isIPv4 } from 'node:net'
import { expect } from '../config/parsers.ts'
import { SERVICES, type Service, serviceName } from '../proxies/proxy.ts'
import { portOf } from './judge-client.ts'
import { done, failed, type HttpResponse, MORE, type ParseResult, type Reader } from './response.ts'

/** A page of a service. The service works through a proxy that brings this status and text. */
type PageTarget = {
  kind: 'page'
  service: Service
  url: URL
  host: string
  port: number
  status: number
  /** A text that the body must contain, and one that it must not contain; `''`: any. */
  match: string
  not: string
}
type MailTarget = { kind: 'mail'; service: 'smtp'; host: string; port: number }
export type Target = PageTarget | MailTarget

const FORM =
  'NAME=URL,status=200,match=TEXT,not=TEXT in this order, with a URL of http or https without user, password and # (write %2C for a comma)'
const TARGET = /^([^=]*)=(.*?)(?:,status=([1-5]\d\d))?(?:,match=(.+?))?(?:,not=(.+))?$/s

const PAGE_SERVICES = SERVICES.filter(service => service !== 'smtp')

/** Parses a target. `provider` is the name of the provider's own service; its spaces may be underscores. */
function readTarget(given: string, provider: string): PageTarget {
  const nameOf = (service: Service): string => serviceName(service, provider)
  const [, name = '', href = '', status = 200, match = '', not = ''] = TARGET.exec(given) ?? []
  const wanted = name.toLowerCase().replaceAll('_', ' ')
  const service = PAGE_SERVICES.find(each => nameOf(each) === wanted)
  if (service === undefined) expect(`one of ${PAGE_SERVICES.map(nameOf).join(', ')} before the =`)
  const url = URL.parse(href)
  const isPage = url !== null && /^https?:$/.test(url.protocol) && url.hash === ''
  if (!isPage || url.username !== '' || url.password !== '' || /, *\w+=/.test(href)) expect(FORM)
  if (url.hostname.startsWith('[')) expect('a name or an IPv4 address in a URL')
  if (url.protocol === 'https:' && isIPv4(url.hostname)) {
    expect('a name in a URL of https: certificates have names')
  }
  const at = { host: url.hostname, port: portOf(url) }
  return { kind: 'page', service, url, ...at, status: Number(status), match, not }
}

/** Parses targets of pages, one a line, and one for each service. */
export function readTargets(given: string, provider: string): PageTarget[] {
  const lines = given.split('\n').filter(line => line !== '')
  const targets = lines.map(line => readTarget(line, provider))
  const services = new Set(targets.map(({ service }) => service))
  return services.size === targets.length ? targets : expect('one target for each service')
}

/** Parses `HOST:PORT` of a mail server. IPv6 is not possible through SOCKS4. */
export function readSmtpTarget(given: string): MailTarget {
  const [, host = '', port] = /^([a-z\d.-]{1,253}):(\d{1,5})$/i.exec(given) ?? []
  const number = Number(port)
  return host !== '' && number >= 1 && number <= 65535
    ? { kind: 'mail', service: 'smtp', host, port: number }
    : expect('HOST:25, a mail server that you may use')
}

export const pageMatches = (
  { status, match, not }: PageTarget,
  response: HttpResponse,
): boolean => {
  const text = response.body.toString()
  return response.status === status && text.includes(match) && (not === '' || !text.includes(not))
}

const BANNER_BYTES_MAX = 2048

/** Reads the banner of a mail server; its last line begins with `220 `. */
export function createBannerReader(): Reader<true> {
  let banner = ''
  return {
    push(bytes): ParseResult<true> {
      banner += bytes.toString('latin1')
      if (/^(?:220-[^\n]*\n)*220[ \r][^\n]*\n/.test(banner)) return done(true)
      if (!'220'.startsWith(banner.slice(0, 3))) return failed('proxy error', 'no 220')
      return banner.length > BANNER_BYTES_MAX ? failed('too long', 'no end of the banner') : MORE
    },
    end: () => failed('closed', ''),
  }
}
