/**
 * Owns what the limits must decide (contract B2 to B6), written from the contract alone: every
 * admission is remembered for ever, and a request is decided by counting them. Shares no code with
 * the program.
 */
import type { Limits } from './fixtures.ts'

const SECOND_MS = 1_000
const DAY_MS = 86_400_000

/** The UTC day of an instant, counted from 1970. */
export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)
const midnightAfter = (ms: number): number => (dayOf(ms) + 1) * DAY_MS
const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/** Who asks. */
export type Caller =
  | { kind: 'regular'; id: string; plan: Omit<Limits, 'count'> }
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

/** Every admission of a subject, in order. */
export type History = {
  at: number[]
  /** Place of each admission in a journal. */
  seq: number[]
  /** Admissions of the same UTC day up to this one. */
  nth: number[]
}

export const emptyHistory = (): History => ({ at: [], seq: [], nth: [] })

export function record(history: History, atMs: number, seq = history.at.length): void {
  const last = history.at.length - 1
  const isSameDay = last >= 0 && dayOf(history.at[last] ?? 0) === dayOf(atMs)
  history.at.push(atMs)
  history.seq.push(seq)
  history.nth.push(isSameDay ? (history.nth[last] ?? 0) + 1 : 1)
}

/** How full a limit is. `resetSeconds`: until an admission stops counting. */
type LimitStatus = {
  name: string
  quota: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

type Decision =
  /** `atMs`: the instant that the request counts at. */
  | { kind: 'admitted'; limits: LimitStatus[]; atMs: number }
  /** `retryAfterSeconds`: until the same request is admitted, at least 1. */
  | { kind: 'refused'; limits: LimitStatus[]; by: 'window' | 'daily'; retryAfterSeconds: number }

/** A decision, and the instant that the request counts at for each of its rules. */
export type Decided = { decision: Decision; instants: number[] }

/** What a rule counts after the first `count` admissions of a history. */
function countFor(rule: Rule, { at, nth }: History, count: number, nowMs: number) {
  const { window, daily } = rule
  const lastMs = at[count - 1] ?? nowMs
  const atMs = Math.max(nowMs, lastMs)
  let inWindow = 0
  while (window && inWindow < count && atMs - (at[count - 1 - inWindow] ?? 0) < window.ms) {
    inWindow += 1
  }
  const today = dayOf(lastMs) === dayOf(atMs) ? (nth[count - 1] ?? 0) : 0
  const isWindowFull = window !== null && inWindow >= window.limit
  const isDayFull = daily !== null && today >= daily
  // The limit-th last admission must be as old as the window is long.
  const windowEndMs = isWindowFull ? (at[count - window.limit] ?? 0) + window.ms : nowMs
  const dayEndMs = isDayFull ? midnightAfter(atMs) : nowMs
  const opensAtMs = Math.max(windowEndMs, dayEndMs)
  const oldestMs = at[count - inWindow] ?? atMs
  return { rule, atMs, inWindow, oldestMs, today, isWindowFull, isDayFull, opensAtMs }
}
type Counted = ReturnType<typeof countFor>

/** The limits of a rule, with `more` admissions than were counted. */
function statusesOf(counted: Counted, nowMs: number, more: 0 | 1): LimitStatus[] {
  const { rule, atMs, inWindow, oldestMs, today } = counted
  const { window, daily } = rule
  const statuses: LimitStatus[] = []
  if (window) {
    const used = inWindow + more
    statuses.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND_MS,
      remaining: window.limit - used,
      resetSeconds: used === 0 ? 0 : wholeSeconds(oldestMs + window.ms - nowMs),
    })
  }
  if (daily !== null) {
    statuses.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, daily - today - more),
      resetSeconds: wholeSeconds(midnightAfter(atMs) - nowMs),
    })
  }
  return statuses
}

/**
 * Decides a request after the first `counts` admissions of each history: every rule admits it, or
 * none counts it. A full window is named before a full day (contract A2).
 */
export function decide(
  rules: readonly Rule[],
  histories: readonly History[],
  counts: readonly number[],
  nowMs: number,
): Decided {
  const counted = rules.map((rule, i) =>
    countFor(rule, histories[i] ?? emptyHistory(), counts[i] ?? 0, nowMs),
  )
  const isWindowFull = counted.some(each => each.isWindowFull)
  const isDayFull = counted.some(each => each.isDayFull)
  const by = isWindowFull ? 'window' : isDayFull ? 'daily' : null
  const instants = counted.map(each => each.atMs)
  const limits = counted.flatMap(each => statusesOf(each, nowMs, by === null ? 1 : 0))
  if (by === null) {
    return { decision: { kind: 'admitted', limits, atMs: Math.max(...instants) }, instants }
  }
  const opensAtMs = Math.max(...counted.map(each => each.opensAtMs))
  const retryAfterSeconds = wholeSeconds(opensAtMs - nowMs)
  return { decision: { kind: 'refused', limits, by, retryAfterSeconds }, instants }
}

/** The field RateLimit. */
export const rateLimitOf = (statuses: readonly LimitStatus[]): string =>
  statuses
    .map(({ name, remaining, resetSeconds }) => `"${name}";r=${remaining};t=${resetSeconds}`)
    .join(', ')

/** Admissions of a history that break its rule, or come before the one they follow. */
export function overAdmissions({ window, daily }: Rule, { at, nth }: History): number {
  let over = 0
  for (let n = 0; n < at.length; n += 1) {
    const first = window ? at[n - window.limit] : undefined
    const isOverWindow = window !== null && first !== undefined && (at[n] ?? 0) - first < window.ms
    const isOverDay = daily !== null && (nth[n] ?? 0) > daily
    const isBackwards = n > 0 && (at[n] ?? 0) < (at[n - 1] ?? 0)
    if (isOverWindow || isOverDay || isBackwards) over += 1
  }
  return over
}

/** The quotas of networks that an answer consumes: of the proxies it shows, and of its caller. */
export function networksOf(caller: Caller, served: readonly string[], callerNetwork: string) {
  if (caller.kind !== 'regular') return []
  const { subnets, clients } = caller.plan
  return [
    { subject: `key:${caller.id}:served`, quota: subnets, networks: served },
    { subject: `key:${caller.id}:callers`, quota: clients, networks: [callerNetwork] },
  ].flatMap(({ quota, ...set }) => (quota === null ? [] : [{ ...set, quota }]))
}

/** The name of a day's set of networks. */
export const setName = (subject: string, day: number): string => `${subject} ${day}`

/** A limiter that decides and remembers. */
export function createLimiterOracle() {
  const histories = new Map<string, History>()
  const sets = new Map<string, ReadonlySet<string>>()
  function lookUp(caller: Caller, ip: string) {
    const rules = rulesOf(caller, bucketOf(ip))
    const its = rules.map(({ subject }) => histories.get(subject) ?? emptyHistory())
    return { rules, its, counts: its.map(({ at }) => at.length) }
  }

  return {
    admit(caller: Caller, ip: string, nowMs: number): Decision {
      const { rules, its, counts } = lookUp(caller, ip)
      const { decision, instants } = decide(rules, its, counts, nowMs)
      for (const [i, history] of decision.kind === 'admitted' ? its.entries() : []) {
        record(history, instants[i] ?? nowMs)
        histories.set(rules[i]?.subject ?? '', history)
      }
      return decision
    },

    /** The status of the limits of a caller. */
    limits(caller: Caller, ip: string, nowMs: number): LimitStatus[] {
      const { rules, its, counts } = lookUp(caller, ip)
      return rules.flatMap((rule, i) => {
        const counted = countFor(rule, its[i] ?? emptyHistory(), counts[i] ?? 0, nowMs)
        return statusesOf(counted, nowMs, 0)
      })
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
