/**
 * Which failures count (contract H2, H5). One says something of its address only if nothing of ours explains it:
 * the judge answers after it, has answered and run since before the check began, and this program was quick.
 * Until then it waits. Pure: instants are passed in, of the schedule's clock.
 */
import { SECOND_MS } from '../lib/time.ts'
import type { SelfCheck } from './ports.ts'

/** A program that lags for longer misses what others answer in time. */
const LAG_MS_MAX = SECOND_MS / 2
/** A judge whose clock jumps by more refuses what was asked of it before. */
const OFFSET_MS_MAX = 2 * SECOND_MS
/** When a judge began is known as well as the way to it is quick. */
const START_MS = SECOND_MS

export type Span = {
  beganMs: number
  endedMs: number
  /** How long this program lagged meanwhile, at most. */
  lagMs: number
}

export function createConfirmation<Failure extends Span>() {
  let waiting: Failure[] = []
  let problem: { sentence: string; sinceMs: number } | null = null
  let offsetMs: number | null = null
  /** Failures of checks that began before say nothing. */
  let trustedMs = Number.POSITIVE_INFINITY

  return {
    /** What is wrong with the judge; `null` while it answers. */
    problem: () => problem,
    /** Whether checks may begin: the judge has answered, and did so the last time. */
    isOpen: (): boolean => offsetMs !== null && problem === null,
    waiting: (): number => waiting.length,
    failed: (failure: Failure): void => void waiting.push(failure),

    /** A self-check that began at `beganMs` has ended: returns the failures that it decides. */
    judged(
      found: SelfCheck,
      beganMs: number,
      nowMs: number,
    ): { counted: Failure[]; discarded: Failure[] } {
      if (!found.ok) {
        problem = { sentence: found.problem, sinceMs: problem?.sinceMs ?? nowMs }
        trustedMs = Number.POSITIVE_INFINITY
        return { counted: [], discarded: waiting.splice(0) }
      }
      const hasJumped = offsetMs !== null && Math.abs(found.offsetMs - offsetMs) > OFFSET_MS_MAX
      if (hasJumped || trustedMs === Number.POSITIVE_INFINITY) trustedMs = nowMs
      offsetMs = found.offsetMs
      problem = null
      const decided = waiting.filter(({ endedMs }) => endedMs < beganMs)
      waiting = waiting.filter(({ endedMs }) => endedMs >= beganMs)
      const from = Math.max(trustedMs, found.startedMs + START_MS)
      const doesCount = (failure: Failure): boolean =>
        failure.beganMs >= from && failure.lagMs <= LAG_MS_MAX
      return {
        counted: decided.filter(doesCount),
        discarded: decided.filter(failure => !doesCount(failure)),
      }
    },
  }
}
