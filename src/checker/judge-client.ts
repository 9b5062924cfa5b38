/**
 * The judge as the checker asks it (contract H2): a request to it through a proxy or without, and what counts as
 * its answer; and the self-check, which finds where it stands, learns its clock and our address, and says in a
 * sentence what is wrong with it.
 */
import { isIPv4 } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Resolve } from '../feeds/fetch.ts'
import {
  ANSWER_BYTES_MAX,
  type Answer,
  type Keys,
  mintToken,
  readAnswer,
  readTimeRefusal,
  SELF,
} from '../judge/protocol.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf, orAborted } from '../lib/errors.ts'
import { isInternal } from '../lib/ip.ts'
import { type Address, addressText, type ProxyType } from '../proxies/proxy.ts'
import { classify, type Header, headersFor, sentOf } from './classify.ts'
import { type Call, type Destination, type DialContext, dial, type Trust } from './dial.ts'
import type { SelfCheck } from './ports.ts'
import {
  createResponseReader,
  done,
  failed,
  type HttpResponse,
  type ParseResult,
  type Reader,
  reasonOfStatus,
} from './response.ts'

/** A listener of the judge, and how it is asked. */
export type Site = {
  /** `http://HOST:PORT` */
  origin: string
  destination: Destination
  /** What is sent, and by name. */
  headers: readonly Header[]
  sent: ReadonlyMap<string, string>
  /** `null`: no TLS. A self-check resumes none, and so notices a certificate that has ended. */
  tls: Trust | null
}

/** The judge's answer, or its clock, when it refused the token because of its time. */
type Told = { kind: 'answer'; answer: Answer } | { kind: 'clock'; nowMs: number }

const TIME = /\r\ntime: ([^\r\n]*)\r\n/i

/** The text of a request; `target` is a path, or a URL for http proxies. */
export const requestOf = (target: string, headers: readonly Header[]): string =>
  `GET ${target} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`

/** `clock` is that of the judge. */
type Asking = { clock: Clock; to: Address; type: ProxyType | 'none'; size: number }

/** What asks the judge for a payload of `size` through the proxy `to`; type `none` asks without one. */
export function callOf(
  { origin, destination, headers, tls }: Site,
  keys: Keys,
  { clock, to, type, size }: Asking,
): Call<Told> {
  const bodyMax = ANSWER_BYTES_MAX + size

  function judged({ status, head, body }: HttpResponse, token: string): ParseResult<Told> {
    if (status !== 200) {
      const nowMs = readTimeRefusal(keys, token, TIME.exec(head)?.[1] ?? '')
      if (nowMs !== null) return done({ kind: 'clock', nowMs })
      return failed(reasonOfStatus(status), `status ${status}`)
    }
    const answer = readAnswer(keys, token, body)
    if (answer === 'altered' && body.length > bodyMax)
      return failed('too long', 'after the payload')
    if (typeof answer === 'string') return failed(answer, '')
    // A proxy asks for a path: what arrives as it was sent was never read on its way.
    const isForwarded = type === 'http' && answer.form === 'absolute'
    return isForwarded ? failed('forwarder', '') : done({ kind: 'answer', answer })
  }

  function open() {
    const address = type === 'none' ? SELF : addressText(to)
    const kind = tls === null ? 'plain' : 'tls'
    const token = mintToken(keys, { timeMs: clock(), address, kind, size })
    let reader: Reader<HttpResponse> | undefined // many send nothing that needs one
    const parse = (bytes?: Buffer): ParseResult<Told> => {
      reader ??= createResponseReader(bodyMax, false)
      const parsed = bytes === undefined ? reader.end() : reader.push(bytes)
      return parsed.kind === 'done' ? judged(parsed.value, token) : parsed
    }
    return {
      request: requestOf(`${type === 'http' ? origin : ''}/${token}`, headers),
      reader: { push: parse, end: parse },
    }
  }
  return { to, type, destination, tls, open }
}

// -----------------------------------------------------------------------------------------------
// The self-check

export type JudgeOptions = DialContext & {
  clock: Clock
  judge: { plain: URL; tls: URL | null } // that of TLS by a name, as its certificate is
  /** Who may vouch for the judge. */
  authorities: SecureContext
  keys: Keys
  /** Our addresses, canonical, as far as they are known; the judge tells another. */
  ownAddresses: readonly string[]
  resolve: Resolve
  /** Whether the judge may have a private address. */
  allowsPrivate: boolean
}

/** What the last self-check that succeeded has found, and checks need to know. */
export type Found = {
  plain: Site
  tls: Site | null
  own: ReadonlySet<string>
  offsetMs: number
}

export const portOf = (url: URL): number =>
  Number(url.port) || (url.protocol === 'https:' ? 443 : 80)

/** What is wrong with the judge, for its operator, by what was seen, or else by the reason. */
const PROBLEMS: { readonly [what: string]: string } = {
  CERT_HAS_EXPIRED: 'has a certificate that has ended',
  CERT_NOT_YET_VALID: 'has a certificate that is not valid yet: is a clock wrong?',
  timeout: 'cannot be reached: nobody answers there',
  refused: 'refuses connections (is it running?)',
  unreachable: 'cannot be reached: there is no way to its address',
  intercepted:
    'has a certificate of another name, or of an authority that is not known: see --judge-ca (read at the start)',
  'proxy error': 'does not speak TLS at this port',
  'not the judge': 'is not a judge: another program answers there',
  'not a proxy':
    'refuses our token: it has another secret, or is no judge; both need the same --judge-secret',
}

/** `offsetMs` is what an earlier one has found. */
export async function checkJudge(
  options: JudgeOptions,
  offsetMs: number,
  until: { signal: AbortSignal; deadlineMs: number },
): Promise<{ found: Found; self: Extract<SelfCheck, { ok: true }> } | { problem: string }> {
  const { judge, clock, keys, ownAddresses, allowsPrivate } = options
  let offset = offsetMs

  async function locate(url: URL): Promise<Site> {
    const host = url.hostname
    const addresses = isIPv4(host) ? [host] : await orAborted(options.resolve(host), until.signal)
    const ip = addresses.find(isIPv4)
    if (ip === undefined) throw new Error('has a name without an IPv4 address: does DNS work?')
    if (!allowsPrivate && isInternal(ip)) {
      throw new Error(`has a private address (${ip}), which only --allow-private permits`)
    }
    const { authorities } = options
    const tls = url.protocol === 'https:' ? { authorities, session: null } : null
    const headers = headersFor(url.host, options.userAgent)
    const destination = { host, ip, port: portOf(url) }
    return { origin: url.origin, destination, tls, headers, sent: sentOf(headers) }
  }

  /** The answer of a listener, and our clock less half of the time that it took. */
  async function ask(site: Site, triesLeft = 2): Promise<{ answer: Answer; atMs: number }> {
    const startMs = clock()
    const asking = { clock: () => clock() + offset, to: site.destination, size: 0 }
    const dialed = await dial(callOf(site, keys, { ...asking, type: 'none' }), options, until)
    if (dialed.kind === 'localFailure') throw new Error(`was not asked: ${dialed.why}`)
    if (dialed.kind === 'failed') {
      const { reason, detail } = dialed
      throw new Error(
        PROBLEMS[detail] ?? PROBLEMS[reason] ?? `does not answer (${detail || reason})`,
      )
    }
    const atMs = startMs + dialed.firstMs / 2
    const told = dialed.value
    if (told.kind === 'answer') return { answer: told.answer, atMs }
    if (triesLeft === 0) throw new Error('refuses our tokens: its clock steps')
    offset = Math.round(told.nowMs - atMs)
    return ask(site, triesLeft - 1)
  }

  async function find(url: URL) {
    try {
      const site = await locate(url)
      const asked = await ask(site)
      const { anon, because } = classify(asked.answer, site.sent, new Set())
      if (anon !== 'elite') throw new Error(`stands behind a proxy, which changes ${because}`)
      return { site, ...asked }
    } catch (error) {
      throw new Error(`the judge at ${url.origin} ${messageOf(error)}`)
    }
  }

  try {
    const plain = await find(judge.plain)
    offset = Math.round(plain.answer.time - plain.atMs)
    const tls = judge.tls && (await find(judge.tls))
    const peers = [plain.answer.peer, ...(tls === null ? [] : [tls.answer.peer])]
    // A private address of ours may be one of the proxy's network, too.
    const own = new Set([...ownAddresses, ...peers].filter(ip => allowsPrivate || !isInternal(ip)))
    const found = { plain: plain.site, tls: tls?.site ?? null, own, offsetMs: offset }
    const startedMs = plain.answer.started - offset
    return { found, self: { ok: true, offsetMs: offset, startedMs } }
  } catch (error) {
    return { problem: messageOf(error) }
  }
}
