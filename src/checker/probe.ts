/** Checks one address (contract H3): finds its type and anonymity, measures its speed, and tests services. */
import { isIPv4 } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Answer } from '../judge/protocol.ts'
import { messageOf, orAborted } from '../lib/errors.ts'
import { printable } from '../lib/redact.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { ProxyType, Service } from '../proxies/proxy.ts'
import { typesOf } from '../proxies/types.ts'
import { classify, headersFor, worstOf } from './classify.ts'
import { type Call, type Dialed, dial } from './dial.ts'
import {
  checkJudge,
  type JudgeOptions,
  type JudgeState,
  judgeCall,
  requestOf,
  type Site,
} from './judge-client.ts'
import {
  type Attempt,
  type CheckRequest,
  type CheckResult,
  type Measured,
  REASONS,
  type Reason,
  type SelfCheck,
} from './ports.ts'
import { createResponseReader } from './response.ts'
import { createBannerReader, pageMatches, type Target } from './targets.ts'

export const CHECK_MS_MAX = 15 * SECOND_MS

/** Payloads that measure the speed. The larger one follows if the smaller one took less than `SPEED_FAST_MS`. */
const SPEED_BYTES = [64 * 1024, 256 * 1024] as const
const SPEED_FAST_MS = 250
const PAGE_BYTES_MAX = 256 * 1024
/** Services tested at once: the limit of connections to an address. */
export const SERVICES_AT_ONCE = 2
const DETAIL_MAX = 80

/** REASONS is in order of significance. The reasons from `too long` on are lies, which end the check. */
const BY_SIGNIFICANCE = Object.keys(REASONS)
const significance = (reason: Reason): number => BY_SIGNIFICANCE.indexOf(reason)
const isLie = (reason: Reason): boolean => significance(reason) >= significance('too long')
const moreSignificant = (one: Reason, other: Reason): Reason =>
  significance(one) < significance(other) ? other : one

/** The first byte of each type's answers, whatever the request. */
const FIRST_BYTE = { http: 72, https: 72, socks4: 0, socks5: 5 } as const
const mayBe = (type: ProxyType, firstByte: number | null): boolean =>
  firstByte === null || FIRST_BYTE[type] === firstByte
/** HTTP first: a SOCKS proxy refuses HTTP at once, but an HTTP proxy waits for more bytes of SOCKS. */
const ORDER: readonly ProxyType[] = ['http', 'socks5', 'socks4']

class Conclusion extends Error {
  readonly result: { kind: 'dead'; reason: Reason } | { kind: 'deferred'; why: string }
  constructor(result: Conclusion['result']) {
    super()
    this.result = result
  }
}
const dead = (reason: Reason): Conclusion => new Conclusion({ kind: 'dead', reason })

type Tried<T> = Exclude<Dialed<T>, { kind: 'localFailure' }>

type Asked = Tried<Answer> & { type: ProxyType; site: Site }

/** The request without TLS that succeeded, or why none did, and whether CONNECT may still work. */
type Plain =
  | Extract<Asked, { kind: 'done' }>
  | { kind: 'failed'; reason: Reason; mayTunnel: boolean }

/** The types for requests to services without a tunnel, and in a tunnel; `null`: the proxy has none. */
type Ways = { plain: ProxyType | null; tunnel: ProxyType | null }

export type ProberOptions = Omit<JudgeOptions, 'authorities'> & {
  /** The authorities of the judge's certificate, in PEM; `undefined`: the system's. */
  authorities?: string | undefined
  targets: readonly Target[]
}

type Check = CheckRequest & {
  readonly options: ProberOptions
  readonly judge: JudgeState
  readonly targetIps: ReadonlyMap<string, string>
  readonly publicAuthorities: SecureContext
  readonly deadlineMs: number
  readonly attempts: Attempt[]
  bytes: number
  hasRetried: boolean
}

const isOver = ({ deadlineMs, options }: Check): boolean => deadlineMs - options.elapsedMs() < 1

/** Connects and records the attempt. Retries once in a check, after the failures in `retried`. */
async function attempt<T>(
  check: Check,
  purpose: Attempt['purpose'],
  type: ProxyType,
  call: Call<T>,
  retried: readonly Reason[] = [],
): Promise<Tried<T>> {
  const dialed = await dial(call, check.options, check.deadlineMs)
  check.bytes += dialed.bytes
  if (dialed.kind === 'localFailure') throw new Conclusion({ kind: 'deferred', why: dialed.why })
  const isDone = dialed.kind === 'done'
  check.attempts.push({
    ...{ type, purpose, result: isDone ? 'ok' : dialed.reason, ms: Math.round(dialed.ms) },
    detail: isDone ? '' : printable(dialed.detail).slice(0, DETAIL_MAX),
  })
  if (isDone || check.hasRetried || isOver(check) || !retried.includes(dialed.reason)) return dialed
  check.hasRetried = true
  return attempt(check, purpose, type, call, retried)
}

/** Asks the judge through the proxy. A lie ends the check. */
async function ask(
  check: Check,
  purpose: 'judge' | 'TLS' | 'speed',
  type: ProxyType,
  site: Site,
  size = 0,
): Promise<Asked> {
  const { address, known, judge, options } = check
  const isExpected = purpose === 'TLS' || (purpose === 'judge' && type === known)
  const clock = (): number => options.clock() + judge.offsetMs
  const call = judgeCall(site, options.keys, { clock, to: address, type, size })
  const retried: Reason[] = isExpected ? ['timeout', 'no answer'] : ['timeout']
  const tried = await attempt(check, purpose, type, call, retried)
  if (tried.kind === 'failed' && isLie(tried.reason)) throw dead(tried.reason)
  return { ...tried, type, site }
}

/** Tries one type after the other. The first byte of an answer rules out types. */
async function findPlain(check: Check): Promise<Plain> {
  const { known, judge } = check
  const first = known === 'https' || known === null ? 'http' : known
  let left = [first, ...ORDER.filter(type => type !== first)]
  let reason: Reason = 'timeout'
  let mayTunnel = known === 'https'
  while (left[0] !== undefined && !isOver(check)) {
    const [type, ...others] = left
    const asked = await ask(check, 'judge', type, judge.plain)
    if (asked.kind === 'done') return asked
    if (asked.reason === 'credentials') throw dead('credentials')
    if (!asked.isConnected) return { ...asked, mayTunnel: false }
    left = others.filter(other => mayBe(other, asked.firstByte))
    mayTunnel ||= asked.firstByte === FIRST_BYTE.http && asked.reason === 'not a proxy'
    // An answer in the protocol of another type says nothing about the reason.
    if (asked.firstByte === null || left.length === 0)
      reason = moreSignificant(reason, asked.reason)
  }
  // A proxy may answer plain requests with its own error. It gets no CONNECT, because TLS hides how it changes requests.
  return { kind: 'failed', reason, mayTunnel: mayTunnel && reason !== 'proxy error' }
}

/** Asks the judge over TLS; `null` if that is not necessary or not possible. */
async function findTunnel(check: Check, plain: Plain): Promise<Asked | null> {
  const { known, judge, wantsTls } = check
  const isSocks = plain.kind === 'done' && plain.type !== 'http'
  const isNeeded =
    plain.kind === 'done' ? wantsTls || (!isSocks && known !== 'http') : plain.mayTunnel
  if (judge.tls === null || isOver(check) || !isNeeded) return null
  return ask(check, 'TLS', isSocks ? plain.type : 'https', judge.tls)
}

/** Failures after which a type may still work. */
const UNDECIDED: readonly (Attempt['result'] | undefined)[] = [
  ...([undefined, 'timeout', 'refused', 'unreachable', 'no answer'] as const),
]

/**
 * Tries the other types that sources named. Returns the types that work, and the undecided ones. It tries no further
 * types, because most ports speak one, and stops at the first undecided one, because each may cost a timeout.
 */
async function findOthers(check: Check, type: ProxyType) {
  const { named, judge, attempts } = check
  const others: ProxyType[] = []
  const undecided: ProxyType[] = []
  for (const other of typesOf(named).filter(other => other !== type)) {
    const isTls = other === 'https' && judge.tls !== null
    const purpose = isTls ? 'TLS' : 'judge'
    const way = other === 'https' && !isTls ? 'http' : other // see `typeOf`
    const isTried = (attempt: Attempt): boolean =>
      attempt.type === way && attempt.purpose === purpose
    if (undecided.length === 0 && !attempts.some(isTried) && !isOver(check)) {
      await ask(check, purpose, way, (isTls && judge.tls) || judge.plain)
    }
    const result = attempts.findLast(isTried)?.result
    if (result === 'ok') others.push(other)
    else if (UNDECIDED.includes(result)) undecided.push(other)
  }
  return { others, undecided }
}

/** Bytes per second from the first to the last byte; `undefined` when the payload does not arrive. */
async function measureSpeed(check: Check, type: ProxyType, site: Site) {
  let speed: number | undefined
  for (const size of SPEED_BYTES) {
    const asked = await ask(check, 'speed', type, site, size)
    if (asked.kind === 'failed') return speed
    const ms = asked.ms - asked.firstMs
    speed = Math.round((size * SECOND_MS) / Math.max(ms, 1))
    if (ms >= SPEED_FAST_MS) return speed
  }
  return speed
}

/** Whether a service works; `undefined` if there is no time left, or the target has no known address. */
async function testService(check: Check, ways: Ways, target: Target): Promise<boolean | undefined> {
  const { address, targetIps, publicAuthorities, options } = check
  const isPlain = target.kind === 'page' && target.url.protocol === 'http:'
  const type = (isPlain ? ways.plain : null) ?? ways.tunnel
  if (type === null) return false
  const { host, port } = target
  const ip = targetIps.get(host)
  if (ip === undefined || isOver(check)) return undefined
  const way = { to: address, type, destination: { host, ip, port } }
  if (target.kind === 'mail') {
    const open = () => ({ request: '', reader: createBannerReader() })
    const call = { ...way, tls: null, open, closingMessage: 'QUIT\r\n' }
    const tried = await attempt(check, target.service, type, call)
    return isOver(check) ? undefined : tried.kind === 'done'
  }
  const { origin, pathname, search } = target.url
  const path = `${type === 'http' ? origin : ''}${pathname}${search}`
  const open = () => ({
    request: requestOf(path, headersFor(target.url.host, options.userAgent)),
    reader: createResponseReader(PAGE_BYTES_MAX, true),
  })
  const tried = await attempt(check, target.service, type, {
    ...way,
    tls: isPlain ? null : publicAuthorities,
    open,
  })
  if (isOver(check)) return undefined
  return tried.kind === 'done' && pageMatches(target, tried.value)
}

/** Tests the services. The result lacks services that could not be tested. */
async function testServices(check: Check, ways: Ways) {
  const works: Partial<Record<Service, boolean>> = {}
  const queue = check.options.targets.values()
  async function run(): Promise<void> {
    for (const target of queue) {
      const result = await testService(check, ways, target)
      if (result !== undefined) works[target.service] = result
    }
  }
  const runs = Array.from({ length: SERVICES_AT_ONCE }, run)
  await Promise.allSettled(runs) // if one ends the check, the other must close its connection first
  await Promise.all(runs)
  return works
}

/** The type to report. Without a judge over TLS, a known `https` stays. */
function typeOf(plain: Plain, hasTls: boolean, { known, judge }: Check): ProxyType {
  if (plain.kind === 'done' && plain.type !== 'http') return plain.type
  return hasTls || (judge.tls === null && known === 'https') ? 'https' : 'http'
}

/** @throws Conclusion unless the proxy is alive. */
async function measure(check: Check): Promise<Measured> {
  const { judge, address } = check
  const isJudge = (site: Site | null): boolean =>
    site?.destination.ip === address.ip && site.destination.port === address.port
  if (isJudge(judge.plain) || isJudge(judge.tls)) throw dead('own address')

  const plain = await findPlain(check)
  const tunnel = await findTunnel(check, plain)
  const successes = [plain, tunnel].filter(asked => asked?.kind === 'done')
  const [best] = successes
  if (best === undefined) throw dead(reasonOf([plain, tunnel]))
  const hasTls = tunnel?.kind === 'done'
  const type = typeOf(plain, hasTls, check)
  const levels = successes.map(({ value, site }) => classify(value, site.headers, judge.own))
  const ways = {
    plain: plain.kind === 'done' ? plain.type : null,
    tunnel: type === 'http' ? null : type,
  }
  const { others, undecided } = await findOthers(check, type)
  const speed = check.wantsSpeed && (await measureSpeed(check, best.type, best.site))
  const services = check.wantsServices && (await testServices(check, ways))
  return {
    type,
    ...(others.length > 0 && { others }),
    ...(undecided.length > 0 && { undecided }),
    ...worstOf(levels),
    ipOut: plain.kind === 'done' ? plain.value.peer : '',
    pingMs: Math.round(best.firstMs),
    ...(speed && { speed }),
    ...(services && { services }),
    ...(tunnel !== null && { hasTls }),
  }
}

/** The most significant reason why no request reached the judge. */
const reasonOf = (ends: readonly (Plain | Asked | null)[]): Reason =>
  ends
    .filter(end => end?.kind === 'failed')
    .map(({ reason }) => reason)
    .reduce(moreSignificant)

/** Creates the probe, and the self-check, which must succeed before the first probe. */
export function createProber(options: ProberOptions) {
  const { targets, resolve, later, elapsedMs, clock } = options
  const publicAuthorities = createSecureContext()
  // With only these curves, a handshake takes a fifth less time.
  const authorities = createSecureContext({
    ecdhCurve: 'X25519:P-256',
    ...(options.authorities !== undefined && { ca: options.authorities }),
  })
  const targetIps = new Map<string, string>()
  let judge: JudgeState | null = null

  /** Looks up the addresses of the targets. A target keeps its address when a lookup fails. */
  async function locateTargets(signal: AbortSignal): Promise<void> {
    for (const { host } of targets) {
      const addresses = await orAborted(resolve(host), signal).catch(() => [])
      const ip = addresses.find(isIPv4)
      if (ip !== undefined) targetIps.set(host, ip)
    }
  }

  async function selfCheck(): Promise<SelfCheck> {
    const late = new AbortController()
    const cancel = later(() => late.abort(), CHECK_MS_MAX)
    try {
      const given = { ...options, authorities }
      const deadlineMs = elapsedMs() + CHECK_MS_MAX
      judge = await checkJudge(given, judge?.offsetMs ?? 0, late.signal, deadlineMs)
      await locateTargets(late.signal)
      return { ok: true, runsForMs: clock() - judge.startedMs }
    } catch (error) {
      return { ok: false, problem: messageOf(error) }
    } finally {
      cancel()
    }
  }

  async function probe(request: CheckRequest): Promise<CheckResult> {
    const state = { attempts: [], bytes: 0, hasRetried: false }
    if (judge === null) return { kind: 'deferred', why: 'the judge has not answered yet', ...state }
    const deadlineMs = elapsedMs() + CHECK_MS_MAX
    const context = { options, judge, targetIps, publicAuthorities, deadlineMs }
    const check: Check = { ...request, ...state, ...context }
    try {
      const measured = await measure(check)
      return { kind: 'alive', measured, attempts: check.attempts, bytes: check.bytes }
    } catch (error) {
      if (!(error instanceof Conclusion)) throw error
      return { ...error.result, attempts: check.attempts, bytes: check.bytes }
    }
  }

  return { probe, selfCheck }
}
