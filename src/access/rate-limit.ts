/** Exact windows and daily counts (contract B3, B6). Pure decisions, independent of keys, plans and databases. */
import { DAY_MS, SECOND_MS, utcDay } from '../lib/time.ts'

/** The unit that limits count: a key, or a client address of `demo` or `temp_` keys. */
export type Subject = { readonly kind: 'key' | 'demo' | 'temp'; readonly id: string }

/** One subject, or all of a kind when `id` is null. */
export type SubjectsOfKind = { kind: Subject['kind']; id: string | null }

/**
 * The usage of a subject: its last admissions in Unix milliseconds, oldest first. `latestMs` is the instant of the last
 * admission, even if it was refunded: no later one counts before it. `requests` counts the UTC day of `latestMs`.
 */
export type Usage = { admissions: number[]; requests: number; latestMs: number }

export const UNUSED: Usage = { admissions: [], requests: 0, latestMs: 0 }

/** At most `limit` requests in every interval of `ms` milliseconds, and `daily` in a UTC day; `null` is unlimited. */
export type LimitRule = {
  subject: Subject
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

/** A reset clears the admissions of the window, the requests of the day, or both. */
export type UsagePart = 'window' | 'day' | 'all'

/** A request that all of its rules must admit. */
export type Admission = { rules: readonly LimitRule[]; nowMs: number }

/** An admitted request: its rules, and the instant at which it counts for each rule. */
export type Admitted = { rules: readonly LimitRule[]; instants: readonly number[] }

/** The status of one limit, for the RateLimit header fields. */
export type LimitStatus = {
  name: string
  quota: number
  windowSeconds: number
  remaining: number
  /** Seconds until more is left. */
  resetSeconds: number
}

export type Decision =
  /** `instants`: when the request counts for each rule (contract B3, on clocks that step back). `atMs`: the latest. */
  | { kind: 'admitted'; limits: LimitStatus[]; atMs: number; instants: number[] }
  /** `retryAfterSeconds`: the whole seconds until a retry can be admitted, at least 1. */
  | { kind: 'refused'; limits: LimitStatus[]; by: 'window' | 'daily'; retryAfterSeconds: number }

export interface UsageTable {
  /** Called once for each rule of a request, in their order. */
  read(subject: Subject): Usage | null
  /** Records the subject's `requests`-th admission of the day. Windows count only the last `kept` from now on. */
  record(subject: Subject, atMs: number, requests: number, kept: number): void
}

/** Whole seconds until an instant that is `ms` milliseconds ahead, at least 1. */
export const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/** The instant at which a request counts. A clock that steps back never admits more (contract B3). */
export const instantOf = ({ latestMs }: Usage, nowMs: number): number => Math.max(nowMs, latestMs)

type Applied = ReturnType<typeof applyRule>

/** Applies one rule to a request. `waitMs` is measured from the clock, not from `atMs` (contract B3). */
function applyRule(rule: LimitRule, usage: Usage, nowMs: number) {
  const { window, daily } = rule
  const { admissions } = usage
  const atMs = instantOf(usage, nowMs)
  const counted = window === null ? 0 : countWithin(admissions, atMs - window.ms, window.limit)
  const oldestMs = admissions[admissions.length - counted] ?? atMs
  const today = utcDay(atMs)
  const requests = utcDay(usage.latestMs) === today ? usage.requests : 0
  const isWindowFull = window !== null && counted >= window.limit
  const isDayFull = daily !== null && requests >= daily
  const windowWaitMs = isWindowFull ? oldestMs + window.ms - nowMs : 0
  const dayWaitMs = isDayFull ? (today + 1) * DAY_MS - nowMs : 0
  const waitMs = Math.max(windowWaitMs, dayWaitMs)
  return { rule, nowMs, atMs, counted, oldestMs, today, requests, isWindowFull, isDayFull, waitMs }
}

/** How many of the last `limit` admissions are later than `sinceMs`. Admissions are in order. */
function countWithin(admissions: readonly number[], sinceMs: number, limit: number): number {
  const { length } = admissions
  let from = Math.max(0, length - limit)
  let to = length // admissions from here on are later
  while (from < to) {
    const middle = (from + to) >>> 1
    if ((admissions[middle] ?? 0) > sinceMs) to = middle
    else from = middle + 1
  }
  return length - to
}

/** Adds the status of a rule's limits; `more` is 1 if the request was recorded, else 0. */
function addStatus(limits: LimitStatus[], outcome: Applied, more: 0 | 1): void {
  const { rule, counted, oldestMs, requests, today, nowMs } = outcome
  const { window, daily } = rule
  if (window) {
    const used = counted + more
    limits.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND_MS,
      remaining: window.limit - used,
      resetSeconds: used === 0 ? 0 : wholeSeconds(oldestMs + window.ms - nowMs),
    })
  }
  if (daily !== null) {
    limits.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, daily - requests - more),
      resetSeconds: wholeSeconds((today + 1) * DAY_MS - nowMs),
    })
  }
}

/** The status of a rule's limits; counts no request. */
export function limitStatus(rule: LimitRule, usage: Usage, nowMs: number): LimitStatus[] {
  const limits: LimitStatus[] = []
  addStatus(limits, applyRule(rule, usage, nowMs), 0)
  return limits
}

/** Decides a request, and records it if every rule admits it. Call it inside a transaction of the store. */
export function admit(usage: UsageTable, { rules, nowMs }: Admission): Decision {
  const outcomes: Applied[] = []
  let by: 'window' | 'daily' | null = null // a full window comes before a full day (contract A2)
  for (const rule of rules) {
    const outcome = applyRule(rule, usage.read(rule.subject) ?? UNUSED, nowMs)
    outcomes.push(outcome)
    if (outcome.isWindowFull) by = 'window'
    else if (outcome.isDayFull) by ??= 'daily'
  }
  const limits: LimitStatus[] = []
  const instants: number[] = []
  let latestMs = nowMs
  let longestWaitMs = 0
  for (const outcome of outcomes) {
    const { rule, atMs, requests, counted, waitMs } = outcome
    addStatus(limits, outcome, by === null ? 1 : 0)
    if (by === null) usage.record(rule.subject, atMs, requests + 1, counted + 1)
    instants.push(atMs)
    latestMs = Math.max(latestMs, atMs)
    longestWaitMs = Math.max(longestWaitMs, waitMs)
  }
  if (by === null) return { kind: 'admitted', limits, atMs: latestMs, instants }
  return { kind: 'refused', limits, by, retryAfterSeconds: wholeSeconds(longestWaitMs) }
}

/** Refunds an admitted request to all its rules (contract A2); `give` removes one admission. */
export function refund(
  give: (subject: Subject, atMs: number) => void,
  { rules, instants }: Admitted,
): void {
  for (const [i, { subject }] of rules.entries()) {
    const atMs = instants[i]
    if (atMs !== undefined) give(subject, atMs)
  }
}

/** How long the window of a rule will refuse requests, in milliseconds. */
export const windowWaitMs = (rule: LimitRule, usage: Usage, nowMs: number): number =>
  applyRule({ ...rule, daily: null }, usage, nowMs).waitMs
