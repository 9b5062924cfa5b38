/** Asks the judge (contract H2): through a proxy for a check, or directly for a self-check. */
import { isIPv4 } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Resolve } from '../feeds/fetch.ts'
import {
  ANSWER_BYTES_MAX,
  type Answer,
  type Keys,
  mintToken,
  readAnswer,
  SELF,
} from '../judge/protocol.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf, orAborted } from '../lib/errors.ts'
import { isInternal } from '../lib/ip.ts'
import { type Address, addressText, type ProxyType } from '../proxies/proxy.ts'
import { classify, type Header, headersFor } from './classify.ts'
import { type Call, type Destination, type DialContext, dial } from './dial.ts'
import {
  createResponseReader,
  done,
  failed,
  type HttpResponse,
  type ParseResult,
  reasonOfStatus,
} from './response.ts'

/** A listener of the judge. */
export type Site = {
  origin: string
  destination: Destination
  headers: readonly Header[]
  /** The authorities of its certificate; `null`: no TLS. */
  tls: SecureContext | null
}

/** In the judge's refusal of a token whose time is wrong. */
const TIME = /\r\ntime: (\d{1,15})\b/i

/** The text of a request; `target` is a path, or a URL for http proxies. */
export const requestOf = (target: string, headers: readonly Header[]): string =>
  `GET ${target} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`

type JudgeRequest = {
  /** The judge's clock. */
  clock: Clock
  to: Address
  /** `none` asks without a proxy. */
  type: ProxyType | 'none'
  size: number
  /** Called with the judge's time when it refuses the time of the token. */
  onTime?: (judgeMs: number) => void
}

export function judgeCall(
  { origin, destination, headers, tls }: Site,
  keys: Keys,
  { clock, to, type, size, onTime }: JudgeRequest,
): Call<Answer> {
  const bodyMax = ANSWER_BYTES_MAX + size

  function answerOf({ status, head, body }: HttpResponse, token: string): ParseResult<Answer> {
    if (status !== 200) {
      const judgeMs = TIME.exec(head)?.[1]
      if (judgeMs !== undefined) onTime?.(Number(judgeMs))
      return failed(reasonOfStatus(status), `status ${status}`)
    }
    const answer = readAnswer(keys, token, body)
    if (answer === 'altered' && body.length > bodyMax)
      return failed('too long', 'after the payload')
    if (typeof answer === 'string') return failed(answer, '')
    // A proxy turns the URL of a request into a path. A forwarder does not change the request.
    const isForwarded = type === 'http' && answer.form === 'absolute'
    return isForwarded ? failed('forwarder', '') : done(answer)
  }

  function open() {
    const address = type === 'none' ? SELF : addressText(to)
    const kind = tls === null ? 'plain' : 'tls'
    const token = mintToken(keys, { timeMs: clock(), address, kind, size })
    const reader = createResponseReader(bodyMax, false)
    const read = (parsed: ParseResult<HttpResponse>): ParseResult<Answer> =>
      parsed.kind === 'done' ? answerOf(parsed.value, token) : parsed
    return {
      request: requestOf(`${type === 'http' ? origin : ''}/${token}`, headers),
      reader: { push: (bytes: Buffer) => read(reader.push(bytes)), end: () => read(reader.end()) },
    }
  }
  return { to, type, destination, tls, open }
}

// -----------------------------------------------------------------------------------------------
// The self-check

export type JudgeOptions = DialContext & {
  /** A clock that never steps. */
  clock: Clock
  /** The URL for TLS has a host name, because certificates do. */
  judge: { plain: URL; tls: URL | null }
  authorities: SecureContext
  keys: Keys
  /** Addresses of this machine, canonical. The self-check adds the one that the judge sees. */
  ownAddresses: readonly string[]
  resolve: Resolve
  allowsPrivate: boolean
}

/** The judge, as the last successful self-check found it. */
export type JudgeState = {
  plain: Site
  tls: Site | null
  /** Our addresses. */
  own: ReadonlySet<string>
  /** The judge's clock minus ours. */
  offsetMs: number
  /** When the judge started, by our clock. If our clock was wrong, this is now: earlier tokens failed. */
  startedMs: number
}

export const portOf = (url: URL): number =>
  Number(url.port) || (url.protocol === 'https:' ? 443 : 80)

/** Sentences for the judge's operator, by the error code or the reason of a failure. */
const PROBLEMS: { readonly [what: string]: string } = {
  CERT_HAS_EXPIRED: 'has an expired certificate',
  CERT_NOT_YET_VALID: 'has a certificate that is not valid yet: is a clock wrong?',
  timeout: 'cannot be reached: the connection timed out',
  refused: 'refuses connections (is it running?)',
  unreachable: 'cannot be reached: there is no route to its address',
  intercepted:
    'has a certificate for another name, or from an unknown authority: see --judge-ca (read at the start)',
  'proxy error': 'does not speak TLS at this port',
  altered: 'sends no page, or a changed one: upgrade judge and checker to the same version',
  'not the judge': 'is not a judge: another program answers there',
  'not a proxy':
    'refuses our token: it has another secret, or is not a judge; both need the same --judge-secret',
}

/** Asks the judge directly. `offsetMs` is the last known offset of its clock. @throws Error with a sentence */
export async function checkJudge(
  options: JudgeOptions,
  offsetMs: number,
  signal: AbortSignal,
  deadlineMs: number,
): Promise<JudgeState> {
  const { judge, clock, keys, ownAddresses, allowsPrivate } = options
  let offset = offsetMs
  let wasRefused = false

  async function locate(url: URL): Promise<Site> {
    const host = url.hostname
    const addresses = isIPv4(host) ? [host] : await orAborted(options.resolve(host), signal)
    const ip = addresses.find(isIPv4)
    if (ip === undefined) throw new Error('has a name without an IPv4 address: does DNS work?')
    if (!allowsPrivate && isInternal(ip)) {
      throw new Error(`has a private address (${ip}), which requires --allow-private`)
    }
    const tls = url.protocol === 'https:' ? options.authorities : null
    const headers = headersFor(url.host, options.userAgent)
    const destination = { host, ip, port: portOf(url) }
    return { origin: url.origin, destination, tls, headers }
  }

  /** Returns the answer of a listener, and its time by our clock. Learns the judge's clock from a refusal. */
  async function ask(site: Site, triesLeft = 2): Promise<{ answer: Answer; atMs: number }> {
    const startMs = clock()
    let refusedMs: number | null = null
    const call = judgeCall(site, keys, {
      ...{ clock: () => clock() + offset, to: site.destination, type: 'none', size: 0 },
      onTime(judgeMs) {
        refusedMs = judgeMs
      },
    })
    const dialed = await dial(call, options, deadlineMs)
    if (dialed.kind === 'localFailure') throw new Error(`was not asked: ${dialed.why}`)
    const atMs = startMs + dialed.firstMs / 2
    if (dialed.kind === 'done') return { answer: dialed.value, atMs }
    if (refusedMs !== null && triesLeft > 0) {
      wasRefused = true
      offset = Math.round(refusedMs - atMs)
      return ask(site, triesLeft - 1)
    }
    const { reason, detail } = dialed
    throw new Error(PROBLEMS[detail] ?? PROBLEMS[reason] ?? `does not answer (${detail || reason})`)
  }

  async function find(url: URL) {
    try {
      const site = await locate(url)
      const found = await ask(site)
      const { anon, because } = classify(found.answer, site.headers, new Set())
      if (anon !== 'elite') throw new Error(`is behind a proxy, which changes ${because}`)
      return { site, ...found }
    } catch (error) {
      throw new Error(`the judge at ${url.origin} ${messageOf(error)}`)
    }
  }

  const plain = await find(judge.plain)
  offset = Math.round(plain.answer.time - plain.atMs)
  const tls = judge.tls && (await find(judge.tls))
  const peers = [plain.answer.peer, ...(tls === null ? [] : [tls.answer.peer])]
  // A private address of this machine may also be in use in the proxy's network.
  const own = new Set([...ownAddresses, ...peers].filter(ip => allowsPrivate || !isInternal(ip)))
  const startedMs = wasRefused ? clock() : plain.answer.started - offset
  return { plain: plain.site, tls: tls?.site ?? null, own, offsetMs: offset, startedMs }
}
