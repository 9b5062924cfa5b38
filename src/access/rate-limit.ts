/**
 * Owns the exact windows and daily counts (contract B3, B6): pure judgement over what a subject
 * has used, which is read and written through `UsageStore`. Knows nothing of keys or plans.
 */
import { DAY_MS, SECOND_MS, utcDay } from '../lib/time.ts'

/** What one subject has used: its last admissions, oldest first, and its requests of one UTC day. */
export type Usage = { admissions: number[]; day: number; requests: number }

/** One admission; `requests` are those of the subject on the UTC day of `atMs`, with this one. */
export type Admission = { atMs: number; requests: number }

/** A subject (a key, or a client address) and what it is held to. */
export type Meter = {
  subject: string
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

/** How full one limit is, for the RateLimit header fields. `resetSeconds`: until it has more. */
export type Gauge = {
  name: string
  quota: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

export type Verdict = {
  refused: 'window' | 'daily' | null
  /** The smallest whole number of seconds after which the same request is admitted, at least 1. */
  retryAfterSeconds: number
  gauges: Gauge[]
  /** The instant the admission counts at (see B3 on clocks that step back). */
  atMs: number
}

export interface UsageStore {
  /**
   * Runs `work`, which is given this store, in one immediate transaction; what it wrote is durable
   * once this returns.
   */
  transaction<T>(work: (store: UsageStore) => T): T
  read(subject: string): Usage | null
  /** Records an admission; it and the `kept - 1` before it are all that counts from now on. */
  record(subject: string, admission: Admission, kept: number): void
  /** The networks `subject` has used on `day`. */
  networks(subject: string, day: number): ReadonlySet<string>
  addNetworks(subject: string, day: number, networks: Iterable<string>): void
}

/** What a subject that was never seen has used. */
export const NOTHING: Usage = { admissions: [], day: 0, requests: 0 }

/** Whole seconds to wait for a moment that lies `ms` ahead. */
export const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/** What a meter says of a request. */
type Judgement = {
  meter: Meter
  nowMs: number
  /** The instant the request counts at. */
  atMs: number
  /** Admissions in the window, and the oldest of them. */
  counted: number
  oldestMs: number
  today: number
  requests: number
  windowFull: boolean
  dayFull: boolean
  /** How long the limits would still refuse. */
  waitMs: number
}

/**
 * Judges one meter. Time is the later of the clock and the last admission, so that a clock that
 * steps back never admits more; waits are counted on the clock itself (contract B3).
 */
function judge(meter: Meter, usage: Usage, nowMs: number): Judgement {
  const { window, daily } = meter
  const { admissions } = usage
  const atMs = Math.max(nowMs, admissions.at(-1) ?? nowMs)
  const counted = window === null ? 0 : countWithin(admissions, atMs - window.ms, window.limit)
  const oldestMs = admissions[admissions.length - counted] ?? atMs
  const today = utcDay(atMs)
  const requests = usage.day === today ? usage.requests : 0
  const windowFull = window !== null && counted >= window.limit
  const dayFull = daily !== null && requests >= daily
  const windowWaitMs = windowFull ? oldestMs + window.ms - nowMs : 0
  const dayWaitMs = dayFull ? (today + 1) * DAY_MS - nowMs : 0
  const waitMs = Math.max(windowWaitMs, dayWaitMs)
  return { meter, nowMs, atMs, counted, oldestMs, today, requests, windowFull, dayFull, waitMs }
}

/** How many of the last `limit` admissions are later than `sinceMs`; they are in order. */
function countWithin(admissions: readonly number[], sinceMs: number, limit: number): number {
  const { length } = admissions
  let counted = 0
  while (counted < limit && (admissions[length - 1 - counted] ?? sinceMs) > sinceMs) counted += 1
  return counted
}

/** Adds how full a meter's limits are; `more` is 1 when the judged request was recorded. */
function addGauges(gauges: Gauge[], judged: Judgement, more: 0 | 1): void {
  const { meter, counted, oldestMs, requests, today, nowMs } = judged
  const { window, daily } = meter
  if (window) {
    const used = counted + more
    gauges.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND_MS,
      remaining: window.limit - used,
      resetSeconds: used === 0 ? 0 : wholeSeconds(oldestMs + window.ms - nowMs),
    })
  }
  if (daily !== null) {
    gauges.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, daily - requests - more),
      resetSeconds: wholeSeconds((today + 1) * DAY_MS - nowMs),
    })
  }
}

/** How full a meter's limits are, without using them. */
export function gaugesOf(meter: Meter, usage: Usage, nowMs: number): Gauge[] {
  const gauges: Gauge[] = []
  addGauges(gauges, judge(meter, usage, nowMs), 0)
  return gauges
}

/**
 * Judges a request against all its meters and, when every one admits it, records it in all
 * (all or nothing). Call inside `store.transaction`.
 */
export function admitOne(store: UsageStore, meters: readonly Meter[], nowMs: number): Verdict {
  const judgements: Judgement[] = []
  for (const meter of meters) {
    judgements.push(judge(meter, store.read(meter.subject) ?? NOTHING, nowMs))
  }
  const refused = refusalOf(judgements)
  const verdict: Verdict = { refused, retryAfterSeconds: 1, gauges: [], atMs: nowMs }
  for (const judged of judgements) {
    addGauges(verdict.gauges, judged, refused === null ? 1 : 0)
    if (refused === null) record(store, judged)
    verdict.retryAfterSeconds = Math.max(verdict.retryAfterSeconds, wholeSeconds(judged.waitMs))
    verdict.atMs = Math.max(verdict.atMs, judged.atMs)
  }
  return verdict
}

/** What refuses a request; a full window comes before a full day (contract A2). */
function refusalOf(judgements: readonly Judgement[]): Verdict['refused'] {
  if (judgements.some(({ windowFull }) => windowFull)) return 'window'
  return judgements.some(({ dayFull }) => dayFull) ? 'daily' : null
}

/** Records one more admission; of those before, the window still counts `counted`. */
function record(store: UsageStore, { meter, atMs, counted, requests }: Judgement): void {
  store.record(meter.subject, { atMs, requests: requests + 1 }, counted + 1)
}

/** How long a meter's window alone would still refuse, in milliseconds. */
export const windowWaitMs = (store: UsageStore, meter: Meter, nowMs: number): number =>
  judge({ ...meter, daily: null }, store.read(meter.subject) ?? NOTHING, nowMs).waitMs
