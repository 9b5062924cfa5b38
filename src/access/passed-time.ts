/**
 * The time that ages of usage, and of rows for retention, are measured from: it passes as a stopwatch does, and is never
 * later than the clock, so a clock that is ahead forgets nothing that counts again once it is set back. Stores keep it,
 * for the next start; while none ran, it stood. What it lags behind, usage is kept longer. After a day of the stopwatch,
 * which is as long as the longest window, it is what the clock was at least: then no usage from before counts.
 */
import { stopwatch } from '../lib/clock.ts'
import { DAY_MS, MINUTE_MS } from '../lib/time.ts'

/** How far the stored time may be behind. */
const STORE_EVERY_MS = 10 * MINUTE_MS
/** After so long without a look at the clock the day begins again: it may have been right meanwhile. */
const UNSEEN_MS_MAX = 10 * MINUTE_MS

/** `isNew`: it is to be stored. */
export type PassedTime = (nowMs: number, storedMs: number) => { timeMs: number; isNew: boolean }

export function createPassedTime(elapsedMs = stopwatch()): PassedTime {
  let knownMs = Number.NaN // what is stored; another server may have changed it
  let lookedMs = Number.NEGATIVE_INFINITY
  let dayBeganMs = 0
  // How far ahead of the stopwatch: the time that has passed, and the clock at least since the day began.
  let passed = 0
  let least = 0
  return (nowMs, storedMs) => {
    const elapsed = elapsedMs()
    const ahead = nowMs - elapsed
    if (storedMs !== knownMs) passed = storedMs - elapsed
    if (elapsed - lookedMs > UNSEEN_MS_MAX) [dayBeganMs, least] = [elapsed, ahead]
    lookedMs = elapsed
    least = Math.min(least, ahead)
    if (elapsed - dayBeganMs > DAY_MS) {
      passed = Math.max(passed, least)
      ;[dayBeganMs, least] = [elapsed, ahead]
    }
    passed = Math.min(passed, ahead)
    const timeMs = Math.floor(passed + elapsed)
    const isNew = timeMs < storedMs || timeMs - storedMs >= STORE_EVERY_MS
    knownMs = isNew ? timeMs : storedMs
    return { timeMs, isNew }
  }
}
