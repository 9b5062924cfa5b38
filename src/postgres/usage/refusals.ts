/**
 * Refusals without a round trip: a full limit refuses for as long as the database's clock, which the node
 * follows with its stopwatch, is certainly before its end.
 */
import {
  admit,
  type Decision,
  type LimitRule,
  type Subject,
  type Usage,
} from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'

/** How much faster the database's clock may run than the stopwatch. */
const DRIFT = 1.0005

const FULL_MAX = 50_000

/** A full limit. `nowMs`: the database's clock in an answer, which was asked for and came at these times. */
type Full = {
  rule: LimitRule
  usage: Usage
  nowMs: number
  untilMs: number
  askedMs: number
  cameMs: number
}

export const nameOf = ({ kind, id }: Subject): string => `${kind} ${id}`

const hasSameLimits = (one: LimitRule, two: LimitRule): boolean =>
  one === two ||
  (one.daily === two.daily &&
    one.window?.limit === two.window?.limit &&
    one.window?.ms === two.window?.ms)

/**
 * Until when a rule certainly refuses, with the same status of its limits; 0: it does not refuse.
 * Of the admissions that count only the oldest is known: when it counts no more, the rest is unknown.
 */
function fullUntil({ window, daily }: LimitRule, usage: Usage, nowMs: number): number {
  const isWindowFull = window !== null && usage.admissions.length >= window.limit
  const isDayFull = daily !== null && usage.requests >= daily
  if (!isWindowFull && !isDayFull) return 0
  const [oldestMs = Number.POSITIVE_INFINITY] = usage.admissions
  const midnightMs = (utcDay(Math.max(nowMs, usage.latestMs)) + 1) * DAY_MS
  return Math.min(oldestMs + (window?.ms ?? 0), midnightMs)
}

export type RefusalCache = ReturnType<typeof createRefusalCache>

/** `elapsedMs` is the stopwatch of this machine. */
export function createRefusalCache(elapsedMs: () => number) {
  const full = createBoundedMap<string, Full>(FULL_MAX)
  let generation = 0

  return {
    /** Refuses a request that the database would certainly refuse; `null`: it has to be asked. */
    refuse(rules: readonly LimitRule[]): Decision | null {
      const atMs = elapsedMs()
      let nowMs = 0
      const usages: Usage[] = []
      for (const rule of rules) {
        const its = full.peek(nameOf(rule.subject))
        if (its === undefined || !hasSameLimits(its.rule, rule)) return null
        if (its.nowMs + 1 + (atMs - its.askedMs) * DRIFT >= its.untilMs) return null
        nowMs = Math.max(nowMs, Math.floor(its.nowMs + atMs - its.cameMs)) // no retry is announced too early
        usages.push(its.usage)
      }
      const read = (): Usage | null => usages.shift() ?? null
      return admit({ read, record() {} }, { rules, nowMs })
    },

    /** Call it when the database is asked; the result remembers what the answer says, unless `forget` came first. */
    asking() {
      const [askedMs, asOf] = [elapsedMs(), generation]
      return (rule: LimitRule, usage: Usage, nowMs: number): void => {
        if (asOf !== generation) return
        const name = nameOf(rule.subject)
        const untilMs = fullUntil(rule, usage, nowMs)
        if (untilMs === 0) full.delete(name)
        else full.set(name, { rule, usage, nowMs, untilMs, askedMs, cameMs: elapsedMs() })
      }
    },

    /** Forgets all limits: somebody refunded a request, or reset a limit, which is rare. */
    forget(): void {
      generation += 1
      full.clear()
    },
  }
}
