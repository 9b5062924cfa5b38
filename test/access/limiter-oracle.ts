/**
 * What the limits must decide (contract B2 to B6), written from the contract alone: every
 * admission is remembered for ever, and a request is decided by counting them. Shares no code with
 * the program.
 */
import type { Limits } from '../support/fixtures.ts'

const SECOND_MS = 1_000
const DAY_MS = 86_400_000

/** The UTC day of an instant, counted from 1970. */
const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)
const midnightAfter = (ms: number): number => (dayOf(ms) + 1) * DAY_MS
const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/** Who asks. */
export type Caller =
  | { kind: 'regular'; id: string; plan: Pick<Limits, 'burst' | 'daily' | 'subnets' | 'clients'> }
  | { kind: 'temp'; id: string }
  | { kind: 'demo'; id: string }

/** A subject and its limits. */
export type Rule = {
  subject: string
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

const twice = (subject: string, name: string, seconds: number): Rule => ({
  subject,
  window: { name, limit: 2, ms: seconds * SECOND_MS },
  daily: null,
})

/** The limits of a request; `bucket` is what a limit by client address counts the client as. */
export function rulesOf(caller: Caller, bucket: string): Rule[] {
  if (caller.kind === 'demo') return [twice(`demo:${bucket}`, 'demo', 60)]
  const subject = `key:${caller.id}`
  if (caller.kind === 'temp') {
    return [twice(subject, 'key', 3600), twice(`temp:${bucket}`, 'address', 3600)]
  }
  const { burst, daily } = caller.plan
  const window = burst && {
    ...{ name: 'burst', limit: burst.requests, ms: burst.seconds * SECOND_MS },
  }
  return [{ subject, window, daily }]
}

/** The bucket of a plainly written address: IPv4 itself, of IPv6 the /64. */
export function bucketOf(ip: string): string {
  if (!ip.includes(':')) return ip
  const [head = ''] = ip.split('::')
  const groups = [...head.split(':'), '0', '0', '0', '0'].slice(0, 4)
  return `${groups.join(':')}::/64`
}
/** The network that a quota of callers counts: of IPv4 the /16, of IPv6 the /64. */
const networkOf = (ip: string): string =>
  ip.includes(':') ? bucketOf(ip) : ip.split('.', 2).join('.')

/** Every admission of a subject, in order, and which of them were given back. */
type History = { at: number[]; gone: Set<number> }
const emptyHistory = (): History => ({ at: [], gone: new Set() })

/** How full a limit is. `resetSeconds`: until an admission stops counting. */
type LimitStatus = {
  name: string
  quota: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

type Decision =
  /** `atMs`: the instant that the request counts at; `instants`: that for each of its rules. */
  | { kind: 'admitted'; limits: LimitStatus[]; atMs: number; instants: number[] }
  /** `retryAfterSeconds`: until the same request is admitted, at least 1. */
  | { kind: 'refused'; limits: LimitStatus[]; by: 'window' | 'daily'; retryAfterSeconds: number }

/** The fewest whole seconds, at least 1, after which something is so; then it stays so. */
function secondsUntil(isSo: (seconds: number) => boolean): number {
  let most = 1
  while (!isSo(most)) most *= 2
  let least = most >> 1
  while (most - least > 1) {
    const middle = (least + most) >> 1
    if (isSo(middle)) most = middle
    else least = middle
  }
  return most
}

/** How many of some instants, the latest first, are less than `ms` before an instant. */
function countWithin(instants: readonly number[], ms: number, atMs: number): number {
  const older = instants.findIndex(instant => atMs - instant >= ms)
  return older < 0 ? instants.length : older
}

/**
 * What a rule counts after a history. An admission that was given back does not count; only time does not go back
 * behind it.
 */
function countFor(rule: Rule, { at, gone }: History, nowMs: number) {
  const { window, daily } = rule
  /** The instant at which a request counts that comes so many seconds later. */
  const after = (seconds: number): number =>
    Math.max(nowMs + seconds * SECOND_MS, at.at(-1) ?? nowMs)
  const atMs = after(0)
  /** The admissions in the window, the latest first; not more than a plan that was lowered allows. */
  const counted: number[] = []
  for (let n = at.length - 1; window && n >= 0 && atMs - (at[n] ?? 0) < window.ms; n -= 1) {
    if (counted.length === window.limit) break
    if (!gone.has(n)) counted.push(at[n] ?? 0)
  }
  let today = 0
  for (let n = at.length - 1; n >= 0 && dayOf(at[n] ?? 0) === dayOf(atMs); n -= 1) {
    if (!gone.has(n)) today += 1
  }
  const isDayOver = (seconds: number): boolean => dayOf(after(seconds)) > dayOf(atMs)
  return {
    ...{ rule, atMs, after, counted, today, isDayOver },
    isWindowFull: (seconds = 0): boolean =>
      window !== null && countWithin(counted, window.ms, after(seconds)) >= window.limit,
    isDayFull: (seconds = 0): boolean => daily !== null && today >= daily && !isDayOver(seconds),
  }
}

/**
 * The limits of a rule, with `more` admissions than were counted. When more is left is not computed but
 * looked for: the first second at which fewer are counted.
 */
function statusesOf(
  { rule, atMs, after, counted, today, isDayOver }: ReturnType<typeof countFor>,
  more: 0 | 1,
): LimitStatus[] {
  const { window, daily } = rule
  const statuses: LimitStatus[] = []
  if (window) {
    const { name, limit, ms } = window
    const instants = more === 1 ? [atMs, ...counted] : counted
    const used = instants.length
    const isLess = (seconds: number): boolean => countWithin(instants, ms, after(seconds)) < used
    const resetSeconds = used === 0 ? 0 : secondsUntil(isLess)
    const windowSeconds = ms / SECOND_MS
    statuses.push({ name, quota: limit, windowSeconds, remaining: limit - used, resetSeconds })
  }
  if (daily !== null) {
    statuses.push({
      ...{ name: 'daily', quota: daily, windowSeconds: DAY_MS / SECOND_MS },
      ...{ remaining: Math.max(0, daily - today - more), resetSeconds: secondsUntil(isDayOver) },
    })
  }
  return statuses
}

/**
 * Decides a request after the histories of its rules: every rule admits it, or none counts it. A full window is named
 * before a full day (contract A2).
 */
function decide(rules: readonly Rule[], histories: readonly History[], nowMs: number): Decision {
  const counted = rules.map((rule, i) => countFor(rule, histories[i] ?? emptyHistory(), nowMs))
  const isFull = (seconds: number): boolean =>
    counted.some(each => each.isWindowFull(seconds) || each.isDayFull(seconds))
  const instants = counted.map(each => each.atMs)
  if (!isFull(0)) {
    const limits = counted.flatMap(each => statusesOf(each, 1))
    const atMs = Math.max(...instants)
    return { kind: 'admitted', limits, atMs, instants }
  }
  const by = counted.some(each => each.isWindowFull()) ? 'window' : 'daily'
  const limits = counted.flatMap(each => statusesOf(each, 0))
  const retryAfterSeconds = secondsUntil(seconds => !isFull(seconds))
  return { kind: 'refused', limits, by, retryAfterSeconds }
}

/** The field RateLimit. */
export const rateLimitOf = (statuses: readonly LimitStatus[]): string =>
  statuses
    .map(({ name, remaining, resetSeconds }) => `"${name}";r=${remaining};t=${resetSeconds}`)
    .join(', ')

/** The quotas of networks that an answer consumes: of the proxies it shows, and of its caller. */
function networksOf(caller: Caller, served: readonly string[], callerNetwork: string) {
  if (caller.kind !== 'regular') return []
  const { subnets, clients } = caller.plan
  return [
    { subject: `key:${caller.id}:served`, quota: subnets, networks: served },
    { subject: `key:${caller.id}:callers`, quota: clients, networks: [callerNetwork] },
  ].flatMap(({ quota, ...set }) => (quota === null ? [] : [{ ...set, quota }]))
}

/** The name that RateLimit has for the quota of a subject of `networksOf`. */
const quotaName = (subject: string): string => (subject.endsWith(':served') ? 'subnets' : 'clients')

/** The name of a day's set of networks. */
const setName = (subject: string, day: number): string => `${subject} ${day}`

/** A limiter that decides and remembers. */
export function createLimiterOracle() {
  const histories = new Map<string, History>()
  const sets = new Map<string, ReadonlySet<string>>()
  function lookUp(caller: Caller, ip: string) {
    const rules = rulesOf(caller, bucketOf(ip))
    const its = rules.map(({ subject }) => histories.get(subject) ?? emptyHistory())
    return { rules, its }
  }

  return {
    admit(caller: Caller, ip: string, nowMs: number): Decision {
      const { rules, its } = lookUp(caller, ip)
      const decision = decide(rules, its, nowMs)
      if (decision.kind === 'refused') return decision
      for (const [i, history] of its.entries()) {
        history.at.push(decision.instants[i] ?? nowMs)
        histories.set(rules[i]?.subject ?? '', history)
      }
      return decision
    },

    /** Gives an admitted request back: it counts no more. */
    refund(caller: Caller, ip: string, instants: readonly number[]): void {
      const { its } = lookUp(caller, ip)
      for (const [i, { at, gone }] of its.entries()) {
        const n = at.findLastIndex((ms, place) => ms === instants[i] && !gone.has(place))
        if (n >= 0) gone.add(n)
      }
    },

    /** Gives a subject a fresh start; an instant that lies ahead counts no more (contract B10). */
    reset(subject: string, nowMs: number): void {
      const latestMs = histories.get(subject)?.at.at(-1)
      if (latestMs === undefined) return
      histories.set(subject, { at: [Math.min(latestMs, nowMs)], gone: new Set([0]) })
      for (const name of [...sets.keys()]) if (name.startsWith(`${subject}:`)) sets.delete(name)
    },

    /** The status of the limits of a caller, those of networks last. */
    limits(caller: Caller, ip: string, nowMs: number): LimitStatus[] {
      const { rules, its } = lookUp(caller, ip)
      const windows = rules.flatMap((rule, i) =>
        statusesOf(countFor(rule, its[i] ?? emptyHistory(), nowMs), 0),
      )
      const atMs = Math.max(nowMs, its[0]?.at.at(-1) ?? nowMs)
      const networks = networksOf(caller, [], '').map(({ subject, quota }) => ({
        name: quotaName(subject),
        quota,
        windowSeconds: DAY_MS / SECOND_MS,
        remaining: Math.max(0, quota - (sets.get(setName(subject, dayOf(atMs)))?.size ?? 0)),
        resetSeconds: wholeSeconds(midnightAfter(atMs) - nowMs),
      }))
      return [...windows, ...networks]
    },

    /** Adds an answer's networks; `null`, or the size of the day's set that they do not fit in. */
    consume(caller: Caller, ip: string, served: readonly number[], atMs: number): number | null {
      const quotas = networksOf(caller, served.map(String), networkOf(ip)).map(set => {
        const name = setName(set.subject, dayOf(atMs))
        const used = sets.get(name) ?? new Set<string>()
        return { ...set, name, used, after: used.union(new Set(set.networks)) }
      })
      const full = quotas.find(({ quota, after }) => after.size > quota)
      if (full) return full.used.size
      for (const { name, after } of quotas) sets.set(name, after)
      return null
    },
  }
}
export type LimiterOracle = ReturnType<typeof createLimiterOracle>
