/**
 * Owns what a node knows of usage without a round trip: which subjects have a full limit, as the
 * database said, and up to when that is certain. Knows nothing of SQL.
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
import { type ClockReading, type DatabaseClock, reachedAt } from './clock.ts'

/** Admissions of subjects of a kind with a full limit that a node remembers: of 50,000 on plan `standard`. */
const ADMISSIONS_MAX = 500_000
/** A subject without admissions takes as much memory as so many. */
const SUBJECT_SIZE = 5

/**
 * A subject with a full limit: its usage, and from which instant to which nothing about it changes. When
 * the database's clock steps back to before that, the window counts what it did not count any more. When
 * it steps back from after that, others may have been admitted: so the stopwatch ends it, too.
 */
type Full = { rule: LimitRule; usage: Usage; sinceMs: number; untilMs: number; endsAtMs: number }

export const nameOf = ({ kind, id }: Subject): string => `${kind} ${id}`

/** Whether two rules of a subject have the same limits. */
export const hasSameLimits = (one: LimitRule, two: LimitRule): boolean =>
  one === two ||
  (one.daily === two.daily &&
    one.window?.limit === two.window?.limit &&
    one.window?.ms === two.window?.ms)

/**
 * Up to when a rule certainly refuses, with the same status of its limits; `null`: it does not refuse.
 * Of the admissions that count only the oldest is known: when it counts no more, the rest is unknown.
 */
function fullUntil({ window, daily }: LimitRule, usage: Usage, nowMs: number): number | null {
  const atMs = Math.max(nowMs, usage.latestMs)
  const counted = window === null ? 0 : Math.min(window.limit, usage.admissions.length)
  const isWindowFull = window !== null && counted >= window.limit
  const isDayFull = daily !== null && usage.requests >= daily
  if (!isWindowFull && !isDayFull) return null
  const oldestMs = usage.admissions[usage.admissions.length - counted]
  const windowEndMs =
    window === null || oldestMs === undefined ? Number.POSITIVE_INFINITY : oldestMs + window.ms
  const dayEndMs = daily === null ? Number.POSITIVE_INFINITY : (utcDay(atMs) + 1) * DAY_MS
  return Math.min(windowEndMs, dayEndMs)
}

export type KnownUsage = ReturnType<typeof createKnownUsage>

const createFull = () =>
  createBoundedMap<string, Full>(
    ADMISSIONS_MAX,
    undefined,
    ({ usage }) => SUBJECT_SIZE + usage.admissions.length,
  )

export function createKnownUsage(clock: DatabaseClock) {
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
        const known = full[kind].peek(id)
        if (known === undefined || !hasSameLimits(known.rule, rule)) return null
        if (latestMs < known.sinceMs || latestMs >= known.untilMs) return null
        if (atMs >= known.endsAtMs) return null
        usages.push(known.usage)
      }
      let next = 0
      const read = (): Usage | null => usages[next++] ?? null
      return admit({ read, record() {} }, { rules, nowMs: clock.earliest(atMs) })
    },

    /** Changes whenever something is forgotten. */
    generation: (): number => generation,

    /**
     * Remembers the usage of a subject after a call, if it is full; not when something was forgotten
     * since the generation when the call was sent: it may have been decided before that.
     */
    learn(rule: LimitRule, usage: Usage, told: ClockReading & { generation: number }): void {
      if (told.generation !== generation) return
      const { kind, id } = rule.subject
      const sinceMs = told.nowMs
      const untilMs = fullUntil(rule, usage, sinceMs)
      if (untilMs === null) return void full[kind].delete(id)
      const endsAtMs = reachedAt(untilMs, told)
      full[kind].set(id, { rule, usage, sinceMs, untilMs, endsAtMs })
    },

    forget({ kind, id }: SubjectsOfKind): void {
      generation += 1
      if (id === null) full[kind].clear()
      else full[kind].delete(id)
    },
  }
}
