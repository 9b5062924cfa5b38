/**
 * One check of one address (contract H3): which type it speaks, how anonymous it is, how fast, and what works
 * through it.
 */
import { isIPv4 } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Answer } from '../judge/protocol.ts'
import { orAborted } from '../lib/errors.ts'
import { printable } from '../lib/redact.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { ProxyType, Service } from '../proxies/proxy.ts'
import { classify, headersFor, worstOf } from './classify.ts'
import { type Call, type Dialed, dial, type Until } from './dial.ts'
import {
  callOf,
  checkJudge,
  type Found,
  type JudgeOptions,
  requestOf,
  type Site,
} from './judge-client.ts'
import {
  type Attempt,
  type CheckRequest,
  type CheckResult,
  type Measured,
  type Probe,
  REASONS,
  type Reason,
  type SelfCheck,
  type Stopping,
} from './ports.ts'
import { createResponseReader } from './response.ts'
import { createBannerReader, pageMatches, type Target } from './targets.ts'

/** How long a check may take, with all of its connections. */
export const CHECK_MS_MAX = 15 * SECOND_MS

/** Bytes whose time is the speed: the larger ones too when the smaller took less than this. */
const SPEED_BYTES = [64 * 1024, 256 * 1024] as const
const SPEED_FAST_MS = 250
/** Most bytes of a page of a service that are read. */
const PAGE_BYTES_MAX = 256 * 1024
/** How many services are tested at once: as many as an address may have connections. */
export const SERVICES_AT_ONCE = 2
const DETAIL_MAX = 80

/** REASONS is ordered by what a reason tells; from `too long` on a proxy lies, and nothing else it does counts. */
const TELLING = Object.keys(REASONS)
const tells = (reason: Reason): number => TELLING.indexOf(reason)
const isLie = (reason: Reason): boolean => tells(reason) >= tells('too long')
const moreTelling = (one: Reason, other: Reason): Reason =>
  tells(one) < tells(other) ? other : one

/** How each type begins its answers, whatever it was sent. */
const FIRST_BYTE: { readonly [T in ProxyType]: number } = {
  http: 72,
  https: 72,
  socks4: 0,
  socks5: 5,
}
const mayBe = (type: ProxyType, firstByte: number | null): boolean =>
  firstByte === null || FIRST_BYTE[type] === firstByte
/** HTTP first: SOCKS proxies refuse it at once, while HTTP proxies wait for more of SOCKS. */
const ORDER: readonly ProxyType[] = ['http', 'socks5', 'socks4']

/** Ends a check from any part of it. */
class Conclusion extends Error {
  readonly result: { kind: 'dead'; reason: Reason } | { kind: 'deferred'; why: string }
  constructor(result: Conclusion['result']) {
    super()
    this.result = result
  }
}
const dead = (reason: Reason): Conclusion => new Conclusion({ kind: 'dead', reason })
const deferred = (why: string): Conclusion => new Conclusion({ kind: 'deferred', why })

type Tried<T> = Exclude<Dialed<T>, { kind: 'localFailure' }>

/** What came of asking the judge in one way. */
type Asked =
  | { kind: 'done'; site: Site; answer: Answer; firstMs: number; transferMs: number }
  | Extract<Tried<Answer>, { kind: 'failed' }>
type Success = Extract<Asked, { kind: 'done' }>

/** The type in which it answers plainly, if any; else whether it may still be a tunnel. */
type Plain =
  | { type: ProxyType; asked: Success }
  | { type: null; reason: Reason; mayTunnel: boolean }

/** The types in which services are asked: plainly, and for what needs a tunnel; `null`: not at all. */
type Ways = { plain: ProxyType | null; tunnel: ProxyType | null }

/** What a check knows, beside its request: `ips` are the addresses of the targets, by name. */
type JudgeState = Found & { ips: ReadonlyMap<string, string>; publicAuthorities: SecureContext }

export type ProberOptions = Omit<JudgeOptions, 'authorities'> & {
  /** In PEM, who may vouch for the judge, if not the authorities of the system. */
  authorities?: string | undefined
  targets: readonly Target[]
}

/** A check under way. */
type Check = CheckRequest &
  Until & {
    readonly options: ProberOptions
    readonly judge: JudgeState
    readonly attempts: Attempt[]
    bytes: number
    hasRetried: boolean
  }

const isOver = ({ signal, deadlineMs, options }: Check): boolean =>
  signal.aborted || deadlineMs - options.elapsedMs() < 1

/** Connects, and records it; once more in a check after a failure that may have been chance. */
async function attempt<T>(
  check: Check,
  purpose: Attempt['purpose'],
  type: ProxyType,
  call: Call<T>,
  retried: readonly Reason[] = [],
): Promise<Tried<T>> {
  const dialed = await dial(call, check.options, check)
  check.bytes += dialed.bytes
  if (check.signal.aborted) throw deferred('it was stopped')
  if (dialed.kind === 'localFailure') throw deferred(dialed.why)
  const isDone = dialed.kind === 'done'
  check.attempts.push({
    ...{ type, purpose, result: isDone ? 'ok' : dialed.reason, ms: Math.round(dialed.ms) },
    detail: isDone ? '' : printable(dialed.detail).slice(0, DETAIL_MAX),
  })
  if (isDone || check.hasRetried || isOver(check) || !retried.includes(dialed.reason)) return dialed
  check.hasRetried = true
  return attempt(check, purpose, type, call, retried)
}

/** Asks the judge. A lie ends the check. */
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
  const call = callOf(site, options.keys, { clock, to: address, type, size })
  const retried: Reason[] = isExpected ? ['timeout', 'no answer'] : ['timeout']
  const tried = await attempt(check, purpose, type, call, retried)
  if (tried.kind === 'failed') {
    if (isLie(tried.reason)) throw dead(tried.reason)
    return tried
  }
  const { value: told, firstMs, transferMs } = tried
  if (told.kind === 'clock') throw deferred('the clock of the judge has changed')
  return { kind: 'done', site, answer: told.answer, firstMs, transferMs }
}

/** Tries one type after the other; the first byte of an answer steers. */
async function findPlain(check: Check): Promise<Plain> {
  const { known, judge } = check
  const first = known === 'https' || known === null ? 'http' : known
  let left = [first, ...ORDER.filter(type => type !== first)]
  let reason: Reason = 'timeout'
  let mayTunnel = known === 'https'
  while (left[0] !== undefined && !isOver(check)) {
    const [type, ...others] = left
    const asked = await ask(check, 'judge', type, judge.plain)
    if (asked.kind === 'done') return { type, asked }
    if (asked.reason === 'credentials') throw dead('credentials')
    if (!asked.isConnected) return { type: null, reason: asked.reason, mayTunnel: false }
    left = others.filter(other => mayBe(other, asked.firstByte))
    mayTunnel ||= asked.firstByte === FIRST_BYTE.http && asked.reason === 'not a proxy'
    // That it does not understand one type says nothing once it has shown another.
    if (asked.firstByte === null || left.length === 0) reason = moreTelling(reason, asked.reason)
  }
  // A proxy that reaches nobody plainly might have added anything.
  return { type: null, reason, mayTunnel: mayTunnel && reason !== 'proxy error' }
}

/** TLS with the judge through it; `null` when that is not wanted, or cannot be. */
async function findTunnel(check: Check, plain: Plain): Promise<Asked | null> {
  const { known, judge, wantsTls } = check
  const isSocks = plain.type !== null && plain.type !== 'http'
  const wants = plain.type === null ? plain.mayTunnel : wantsTls || (!isSocks && known !== 'http')
  if (judge.tls === null || isOver(check) || !wants) return null
  return ask(check, 'TLS', isSocks ? plain.type : 'https', judge.tls)
}

/** Bytes per second from the first to the last byte; `undefined` when they do not arrive. */
async function measureSpeed(check: Check, type: ProxyType, site: Site) {
  let speed: number | undefined
  for (const size of SPEED_BYTES) {
    const asked = await ask(check, 'speed', type, site, size)
    if (asked.kind === 'failed') return speed
    speed = Math.round((size * SECOND_MS) / Math.max(asked.transferMs, 1))
    if (asked.transferMs >= SPEED_FAST_MS) return speed
  }
  return speed
}

/** Whether a service works; `undefined` when there was no time, or its address is unknown. */
async function testService(check: Check, ways: Ways, target: Target): Promise<boolean | undefined> {
  const { address, judge, options } = check
  const isPlain = target.kind === 'page' && target.url.protocol === 'http:'
  const type = (isPlain ? ways.plain : null) ?? ways.tunnel
  if (type === null) return false
  const { host, port } = target
  const ip = judge.ips.get(host)
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
  const tls = isPlain ? null : { authorities: judge.publicAuthorities, session: null }
  const open = () => ({
    request: requestOf(path, headersFor(target.url.host, options.userAgent)),
    reader: createResponseReader(PAGE_BYTES_MAX, true),
  })
  const tried = await attempt(check, target.service, type, { ...way, tls, open })
  if (isOver(check)) return undefined
  return tried.kind === 'done' && pageMatches(target, tried.value)
}

/** Tests the services, some at once; those that nobody could test are missing. */
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
  await Promise.allSettled(runs) // where one ends the check, the other leaves no connection behind
  await Promise.all(runs)
  return works
}

/** Which type it is. Without a judge over TLS nobody knows better than who said so. */
function typeOf(plain: Plain, hasTls: boolean, { known, judge }: Check): ProxyType {
  if (plain.type !== null && plain.type !== 'http') return plain.type
  return hasTls || (judge.tls === null && known === 'https') ? 'https' : 'http'
}

/** @throws Conclusion unless it is alive. */
async function measure(check: Check): Promise<Measured> {
  const { judge, address } = check
  const isJudge = (site: Site | null): boolean =>
    site?.destination.ip === address.ip && site.destination.port === address.port
  if (isJudge(judge.plain) || isJudge(judge.tls)) throw dead('own address')

  const plain = await findPlain(check)
  const tunnel = await findTunnel(check, plain)
  const hasTls = tunnel?.kind === 'done'
  const answers = [plain.type === null ? null : plain.asked, hasTls ? tunnel : null]
  const successes = answers.filter(asked => asked !== null)
  const [best] = successes
  if (best === undefined) throw dead(reasonOf(plain, tunnel))
  const type = typeOf(plain, hasTls, check)
  const ways = { plain: plain.type, tunnel: type === 'http' ? null : type }
  const levels = successes.map(({ answer, site }) => classify(answer, site.sent, judge.own))

  const speed = check.wantsSpeed && (await measureSpeed(check, plain.type ?? type, best.site))
  const services = check.wantsServices && (await testServices(check, ways))
  return {
    type,
    ...worstOf(levels),
    ipOut: plain.type === null ? '' : plain.asked.answer.peer,
    pingMs: Math.round(best.firstMs),
    ...(speed && { speed }),
    ...(services && { services }),
    ...(tunnel !== null && { hasTls }),
  }
}

/** Why neither way leads to the judge. */
function reasonOf(plain: Plain, tunnel: Asked | null): Reason {
  const reasons = [plain, tunnel].flatMap(tried => (tried && 'reason' in tried ? tried.reason : []))
  return reasons.reduce(moreTelling)
}

/** The probe, and the self-check, which finds the judge: nothing is probed before one has succeeded. */
export function createProber(options: ProberOptions): {
  probe: Probe
  selfCheck: (signal: AbortSignal) => Promise<SelfCheck>
} {
  const { targets, resolve, later, elapsedMs } = options
  const publicAuthorities = createSecureContext()
  // The judge is ours: without the other curves, a handshake takes a fifth less time.
  const authorities = createSecureContext({
    ecdhCurve: 'X25519:P-256',
    ...(options.authorities !== undefined && { ca: options.authorities }),
  })
  const ips = new Map<string, string>()
  let judge: JudgeState | null = null

  /** Finds the addresses of the targets; those that are not found stay as they were. */
  async function locateTargets(signal: AbortSignal): Promise<void> {
    for (const { host } of targets) {
      const addresses = await orAborted(resolve(host), signal).catch(() => [])
      const ip = addresses.find(isIPv4)
      if (ip !== undefined) ips.set(host, ip)
    }
  }

  async function selfCheck(stopping: AbortSignal): Promise<SelfCheck> {
    const late = new AbortController()
    const cancel = later(() => late.abort(), CHECK_MS_MAX)
    const signal = AbortSignal.any([stopping, late.signal])
    try {
      const given = { ...options, authorities }
      const until = { signal, deadlineMs: elapsedMs() + CHECK_MS_MAX }
      const checked = await checkJudge(given, judge?.offsetMs ?? 0, until)
      await locateTargets(signal)
      if ('problem' in checked) return { ok: false, problem: checked.problem }
      judge = { ...checked.found, ips, publicAuthorities }
      return checked.self
    } finally {
      cancel()
    }
  }

  async function probe(request: CheckRequest, signal: Stopping): Promise<CheckResult> {
    if (judge === null) {
      return { kind: 'deferred', why: 'the judge has not answered yet', attempts: [], bytes: 0 }
    }
    const deadlineMs = elapsedMs() + CHECK_MS_MAX
    const state = { attempts: [], bytes: 0, hasRetried: false }
    const check: Check = { ...request, ...state, signal, deadlineMs, options, judge }
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
