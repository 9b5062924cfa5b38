/**
 * Asks the judge without a proxy: finds where it stands, learns its clock and what our address looks like from
 * there, and says in a sentence what is wrong when it does not answer as it should (contract H2).
 */
import { isIP, isIPv4 } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Resolve } from '../feeds/fetch.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf, orAborted } from '../lib/errors.ts'
import { isInternal } from '../lib/ip.ts'
import { callOf, fieldsOf, type Site } from './ask.ts'
import { classify, headersFor, sentOf } from './classify.ts'
import { type DialContext, dial } from './dial.ts'
import type { Reason, SelfCheck } from './ports.ts'
import { type Answer, type Keys, mintToken, SELF, type TokenKind } from './protocol.ts'

export type JudgeOptions = DialContext & {
  clock: Clock
  judge: { plain: URL; tls: URL | null }
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

/** The port that a URL of http or https names. */
export const portOf = (url: URL): number =>
  Number(url.port) || (url.protocol === 'https:' ? 443 : 80)

/** What is wrong with the judge, for its operator. */
const PROBLEMS: { readonly [R in Reason]?: string } = {
  timeout: 'cannot be reached: nobody answers there',
  refused: 'refuses connections (is it running?)',
  unreachable: 'cannot be reached: there is no way to its address',
  intercepted: 'has a certificate that is not valid for its name: see --judge-ca',
  'proxy error': 'does not speak TLS at this port',
  'not the judge': 'is not a judge: another program answers there',
  'not a proxy':
    'refuses our token: it has another secret, or is no judge; both need the same --judge-secret',
}

/** `found` is what an earlier one has found, whose clock is tried first. */
export async function checkJudge(
  options: JudgeOptions,
  offsetMs: number,
  signal: AbortSignal,
): Promise<{ found: Found; self: Extract<SelfCheck, { ok: true }> } | { problem: string }> {
  const { judge, userAgent, clock, keys, ownAddresses, allowsPrivate } = options
  let offset = offsetMs

  async function locate(url: URL, kind: TokenKind): Promise<Site> {
    const host = url.hostname
    const addresses = isIPv4(host) ? [host] : await orAborted(options.resolve(host), signal)
    const ip = addresses.find(isIPv4)
    if (ip === undefined) throw new Error('has a name without an IPv4 address')
    if (!allowsPrivate && isInternal(ip)) {
      throw new Error(`has a private address (${ip}), which only --allow-private permits`)
    }
    const tls = kind === 'tls' ? options.authorities : null
    if (tls !== null && isIP(host) > 0) throw new Error('needs a name, which its certificate has')
    const destination = { host, ip, port: portOf(url) }
    const headers = headersFor(url.host, userAgent)
    const [fields, sent] = [fieldsOf(headers), sentOf(headers)]
    return { kind, origin: url.origin, destination, tls, fields, sent }
  }

  /** The answer of a listener, and our clock less half of the time that it took. */
  async function ask(site: Site, triesLeft = 2): Promise<{ answer: Answer; atMs: number }> {
    const { kind, destination: to } = site
    const startMs = clock()
    const token = mintToken(keys, { timeMs: startMs + offset, address: SELF, kind, size: 0 })
    const dialed = await dial(
      callOf(site, { keys, token, to, way: 'none', size: 0 }),
      options,
      signal,
    )
    if (dialed.kind === 'short') throw new Error(`was not asked: ${dialed.why}`)
    if (dialed.kind === 'failed') {
      throw new Error(
        PROBLEMS[dialed.reason] ?? `does not answer (${dialed.detail || dialed.reason})`,
      )
    }
    const atMs = startMs + dialed.firstMs / 2
    const told = dialed.value
    if (told.kind === 'answer') return { answer: told.answer, atMs }
    if (triesLeft === 0) throw new Error('refuses our tokens: its clock steps')
    offset = Math.round(told.nowMs - atMs)
    return ask(site, triesLeft - 1)
  }

  /** @throws Error when something stands between us and a listener. */
  function requireDirect(answer: Answer, { sent }: Site): void {
    const { anon, because } = classify(answer, sent, new Set())
    if (anon !== 'elite') throw new Error(`stands behind a proxy, which changes ${because}`)
  }

  async function find(url: URL, kind: TokenKind) {
    try {
      const site = await locate(url, kind)
      const { answer, atMs } = await ask(site)
      requireDirect(answer, site)
      return { site, answer, atMs }
    } catch (error) {
      throw new Error(`the judge at ${url.origin} ${messageOf(error)}`)
    }
  }

  try {
    const plain = await find(judge.plain, 'plain')
    offset = Math.round(plain.answer.time - plain.atMs)
    const tls = judge.tls === null ? null : await find(judge.tls, 'tls')
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
