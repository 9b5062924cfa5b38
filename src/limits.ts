/**
 * Owns the exact windows and daily counts (contract B3, B6): pure judgement over what a subject
 * has used, which is read and written through `UsageStore`. Knows nothing of keys or plans.
 */
import { DAY_MS, SECOND_MS, utcDay } from './time.ts'

/** What one subject has used: its last admissions, oldest first, and its requests of one UTC day. */
export type Usage = { admissions: number[]; day: number; requests: number }

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
  /** Runs `work` in one immediate transaction; what it wrote is durable once this returns. */
  transaction<T>(work: () => T): T
  read(subject: string): Usage | null
  write(subject: string, usage: Usage): void
  /** The networks `subject` has used on `day`. */
  networks(subject: string, day: number): ReadonlySet<string>
  addNetworks(subject: string, day: number, networks: Iterable<string>): void
}

/** What a subject that was never seen has used. */
export const NOTHING: Usage = { admissions: [], day: 0, requests: 0 }

/** Whole seconds to wait for a moment that lies `ms` ahead. */
export const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/**
 * Judges one meter. Time is the later of the clock and the last admission, so that a clock that
 * steps back never admits more; waits are counted on the clock itself (contract B3).
 */
function judge(meter: Meter, usage: Usage, nowMs: number) {
  const { window, daily } = meter
  const atMs = Math.max(nowMs, usage.admissions.at(-1) ?? nowMs)
  const counted = window
    ? usage.admissions.filter(admission => admission > atMs - window.ms).slice(-window.limit)
    : []
  const today = utcDay(atMs)
  const requests = usage.day === today ? usage.requests : 0
  const windowFull = window !== null && counted.length >= window.limit
  const dayFull = daily !== null && requests >= daily
  const windowOpensAtMs = window ? (counted[0] ?? atMs - window.ms) + window.ms : nowMs
  const midnightMs = (today + 1) * DAY_MS
  const waitMs = Math.max(
    windowFull ? windowOpensAtMs - nowMs : 0,
    dayFull ? midnightMs - nowMs : 0,
  )
  return { windowFull, dayFull, waitMs, atMs, counted, today, requests }
}

/** How full a meter's limits are, without using them. */
export function gaugesOf({ window, daily }: Meter, usage: Usage, nowMs: number): Gauge[] {
  const { counted, requests, today } = judge({ subject: '', window, daily }, usage, nowMs)
  const gauges: Gauge[] = []
  if (window) {
    const oldest = counted[0]
    gauges.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND_MS,
      remaining: window.limit - counted.length,
      resetSeconds: oldest === undefined ? 0 : wholeSeconds(oldest + window.ms - nowMs),
    })
  }
  if (daily !== null) {
    gauges.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, daily - requests),
      resetSeconds: wholeSeconds((today + 1) * DAY_MS - nowMs),
    })
  }
  return gauges
}

/**
 * Judges a request against all its meters and, when every one admits it, records it in all
 * (all or nothing). Call inside `store.transaction`.
 */
export function admitOne(store: UsageStore, meters: readonly Meter[], nowMs: number): Verdict {
  const states = meters.map(meter => {
    const usage = store.read(meter.subject) ?? NOTHING
    return { meter, usage, ...judge(meter, usage, nowMs) }
  })
  const refused = states.some(({ windowFull }) => windowFull)
    ? 'window'
    : states.some(({ dayFull }) => dayFull)
      ? 'daily'
      : null
  const after = states.map(state => (refused ? state.usage : record(state)))
  if (!refused) {
    for (const [i, { meter }] of states.entries()) store.write(meter.subject, after[i] ?? NOTHING)
  }
  return {
    refused,
    retryAfterSeconds: wholeSeconds(Math.max(...states.map(({ waitMs }) => waitMs))),
    gauges: states.flatMap(({ meter }, i) => gaugesOf(meter, after[i] ?? NOTHING, nowMs)),
    atMs: Math.max(...states.map(({ atMs }) => atMs)),
  }
}

/** A usage after one more admission: the log keeps no more than the window can ask for. */
function record(state: { meter: Meter; usage: Usage } & ReturnType<typeof judge>): Usage {
  const keep = state.meter.window?.limit ?? 1
  return {
    admissions: [...state.usage.admissions, state.atMs].slice(-keep),
    day: state.today,
    requests: state.requests + 1,
  }
}

/** How long a meter's window alone would still refuse, in milliseconds. */
export const windowWaitMs = (store: UsageStore, meter: Meter, nowMs: number): number =>
  judge({ ...meter, daily: null }, store.read(meter.subject) ?? NOTHING, nowMs).waitMs
