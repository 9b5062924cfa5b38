/**
 * Refusals without a round trip: a full limit refuses until its end by the clock of the database, which the node
 * estimates with its stopwatch.
 */
import { LRUCache } from 'lru-cache'
import {
  admit,
  type Decision,
  type LimitRule,
  type Subject,
  type Usage,
} from '../../access/rate-limit.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'

/** How much faster the database's clock may run than the stopwatch. */
const DRIFT = 1.0005

const FULL_MAX = 50_000

/** A full limit. `nowMs`: the clock of the database, in the response to a call from `askedMs` to `cameMs`. */
type Full = {
  rule: LimitRule
  usage: Usage
  nowMs: number
  untilMs: number
  askedMs: number
  cameMs: number
}

export const nameOf = ({ kind, id }: Subject): string => `${kind} ${id}`

/**
 * Until when a rule refuses, with the same status of its limits; 0: it does not refuse. Only the oldest admission that
 * counts is known.
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

export function createRefusalCache(elapsedMs: () => number) {
  const full = new LRUCache<string, Full>({ max: FULL_MAX })
  let generation = 0

  return {
    /** Refuses a request if the database would certainly refuse it; `null`: it must decide. */
    refuse(rules: readonly LimitRule[]): Decision | null {
      const atMs = elapsedMs()
      const found = rules.flatMap(rule => {
        const its = full.peek(nameOf(rule.subject))
        return its && Bun.deepEquals(its.rule, rule) ? [its] : [] // a plan may have changed
      })
      if (found.length < rules.length) return null
      const latestMs = found.map(its => its.nowMs + 1 + (atMs - its.askedMs) * DRIFT)
      if (found.some(({ untilMs }) => Math.max(...latestMs) >= untilMs)) return null
      // The earliest possible time: `retry_after` is never too short.
      const earliestMs = found.map(its => Math.floor(its.nowMs + atMs - its.cameMs))
      const read = (): Usage | null => found.shift()?.usage ?? null
      return admit({ read, record() {} }, { rules, nowMs: Math.max(...earliestMs) })
    },

    /** Call it before a call of the database. The returned function learns the results, unless `forget` was called. */
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

    /** Forgets all limits after a refund or a reset, which are rare. */
    forget(): void {
      generation += 1
      full.clear()
    },
  }
}
