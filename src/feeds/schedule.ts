/** Owns when a feed is tried again (contract G1). Pure: the clock and chance are passed in. */
import { HOUR_MS, MINUTE_MS } from '../lib/time.ts'

/** The longest time for which a `Retry-After` is heeded. */
export const RETRY_AFTER_MS_MAX = HOUR_MS
/** After failures the delay grows up to this many intervals, or this time. */
const INTERVALS_MAX = 10
const BACKOFF_MS_MAX = 10 * MINUTE_MS
/** A delay after a failure grows by up to this share of itself, so that servers do not meet. */
const JITTER = 0.1

/** The delay after this many failures in a row, without jitter: never under the interval. */
function backoffMs(everyMs: number, failures: number): number {
  const longest = Math.max(everyMs, Math.min(INTERVALS_MAX * everyMs, BACKOFF_MS_MAX))
  return Math.min(everyMs * 2 ** Math.min(failures - 1, 30), longest)
}

export type Attempt = {
  everyMs: number
  /** Failures in a row, this attempt included; 0 after a success. */
  failures: number
  /** What a `Retry-After` asked for, or `null`. */
  retryAfterMs: number | null
}

/** The delay until the next try, in milliseconds. `random` is from 0 up to 1. */
export function delayMs({ everyMs, failures, retryAfterMs }: Attempt, random: number): number {
  if (failures === 0) return everyMs
  const delay = Math.round(backoffMs(everyMs, failures) * (1 + JITTER * random))
  return Math.max(delay, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MS_MAX))
}

/**
 * Whether a feed is due. A time further ahead than any delay was written by a clock that was wrong:
 * the feed is due then.
 */
export function isDue(nextTryMs: number, everyMs: number, nowMs: number): boolean {
  const longestMs = Math.max(everyMs, BACKOFF_MS_MAX, RETRY_AFTER_MS_MAX) * (1 + JITTER)
  return nextTryMs <= nowMs || nextTryMs > nowMs + longestMs
}
