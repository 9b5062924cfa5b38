/**
 * Refusals without a round trip: which subjects have a full limit, as the database said, and until when
 * that is certain by its clock, which a node follows with its stopwatch. Knows nothing of SQL.
 */
import {
  admit,
  type Decision,
  type LimitRule,
  type Subject,
  type SubjectsOfKind,
  type Usage,
} from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'

/** How much faster the database's clock may run than the stopwatch. */
const DRIFT = 1.0005

/** The database's clock in the answer to a call, and when that was sent by the stopwatch. */
type ClockReading = { nowMs: number; sentMs: number }

export type DatabaseClock = ReturnType<typeof createDatabaseClock>

/** The database's clock between two calls; `elapsedMs` is the stopwatch of this machine. */
export function createDatabaseClock(elapsedMs: () => number) {
  let reading: ClockReading = { nowMs: 0, sentMs: 0 }
  /** What the clock showed at least when the last answer arrived. */
  let arrived = { leastMs: 0, atMs: 0 }

  /** An upper bound of the database's clock at `atMs` of the stopwatch. */
  const latest = (atMs: number): number => reading.nowMs + 1 + (atMs - reading.sentMs) * DRIFT

  const leastAt = (atMs: number): number => arrived.leastMs + atMs - arrived.atMs

  return {
    elapsedMs,
    latest,

    /** A lower bound of it, in whole milliseconds: no retry is announced too early. */
    earliest: (atMs: number): number => Math.floor(leastAt(atMs)),

    /**
     * Sets the clock by an answer that has just arrived. One that was long under way says less than those
     * before it, unless the clock was set back.
     */
    set(read: ClockReading): void {
      const atMs = elapsedMs()
      const knownMs = leastAt(atMs)
      reading = read
      const isSetBack = knownMs > latest(atMs)
      arrived = { leastMs: isSetBack ? read.nowMs : Math.max(knownMs, read.nowMs), atMs }
    },
  }
}

/** Admissions of subjects of a kind with a full limit that a node remembers: of 50,000 on plan `standard`. */
const ADMISSIONS_MAX = 500_000
/** A subject without admissions takes as much memory as so many. */
const SUBJECT_SIZE = 5

/**
 * A subject whose limit is full from `sinceMs` to before `untilMs` of the database's clock, and no longer
 * than to `endsAtMs` of the stopwatch. A clock that is set back may show the same time twice: before
 * `sinceMs`, admissions count that do not at `sinceMs`; and once the time was over, others may have been
 * admitted, so the stopwatch ends it for good.
 */
type Full = { rule: LimitRule; usage: Usage; sinceMs: number; untilMs: number; endsAtMs: number }

export const nameOf = ({ kind, id }: Subject): string => `${kind} ${id}`

export const hasSameLimits = (one: LimitRule, two: LimitRule): boolean =>
  one === two ||
  (one.daily === two.daily &&
    one.window?.limit === two.window?.limit &&
    one.window?.ms === two.window?.ms)

/**
 * Until when a rule certainly refuses, with the same status of its limits; `null`: it does not refuse.
 * Of the admissions that count only the oldest is known: when it counts no more, the rest is unknown.
 */
function fullUntil({ window, daily }: LimitRule, usage: Usage, nowMs: number): number | null {
  const atMs = Math.max(nowMs, usage.latestMs)
  const counted = window === null ? 0 : Math.min(window.limit, usage.admissions.length)
  const isWindowFull = window !== null && counted >= window.limit
  const isDayFull = daily !== null && usage.requests >= daily
  if (!isWindowFull && !isDayFull) return null
  const oldestMs = usage.admissions[usage.admissions.length - counted] ?? Number.POSITIVE_INFINITY
  const windowEndMs = oldestMs + (window?.ms ?? 0)
  const dayEndMs = daily === null ? Number.POSITIVE_INFINITY : (utcDay(atMs) + 1) * DAY_MS
  return Math.min(windowEndMs, dayEndMs)
}

export type RefusalCache = ReturnType<typeof createRefusalCache>

const sizeOf = ({ usage }: Full): number => SUBJECT_SIZE + usage.admissions.length
const createFull = () => createBoundedMap<string, Full>(ADMISSIONS_MAX, undefined, sizeOf)

export function createRefusalCache(clock: DatabaseClock) {
  const full = { key: createFull(), demo: createFull(), temp: createFull() }
  let generation = 0

  return {
    /** Refuses a request that the database would certainly refuse; `null`: it has to be asked. */
    refuse(rules: readonly LimitRule[]): Decision | null {
      const atMs = clock.elapsedMs()
      const latestMs = clock.latest(atMs)
      const usages: Usage[] = []
      for (const rule of rules) {
        const { kind, id } = rule.subject
        // What was learnt last stays longest: looking it up costs less when that changes no order.
        const its = full[kind].peek(id)
        if (its === undefined || !hasSameLimits(its.rule, rule)) return null
        if (latestMs < its.sinceMs || latestMs >= its.untilMs) return null
        if (atMs >= its.endsAtMs) return null
        usages.push(its.usage)
      }
      let next = 0
      const read = (): Usage | null => usages[next++] ?? null
      return admit({ read, record() {} }, { rules, nowMs: clock.earliest(atMs) })
    },

    /** Changes whenever something is forgotten. */
    generation: (): number => generation,

    /**
     * Remembers the usage of a subject after a call, if it is full; not when something was forgotten
     * since the call was sent (`generation`): it may have been decided before that.
     */
    learn(rule: LimitRule, usage: Usage, call: ClockReading & { generation: number }): void {
      if (call.generation !== generation) return
      const { kind, id } = rule.subject
      const { nowMs: sinceMs, sentMs } = call
      const untilMs = fullUntil(rule, usage, sinceMs)
      if (untilMs === null) return void full[kind].delete(id)
      const endsAtMs = sentMs + (untilMs - sinceMs - 1) / DRIFT // the earliest that the clock can be there
      full[kind].set(id, { rule, usage, sinceMs, untilMs, endsAtMs })
    },

    forget({ kind, id }: SubjectsOfKind): void {
      generation += 1
      if (id === null) full[kind].clear()
      else full[kind].delete(id)
    },
  }
}
