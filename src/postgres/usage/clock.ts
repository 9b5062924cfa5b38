/**
 * Owns what a node knows of the database's clock between two calls: it goes on as the stopwatch of
 * this machine does.
 */

/** How much faster the database's clock may run than the stopwatch. */
const DRIFT = 1.0005

/** The database's clock in the answer to a call, and when that was sent by the stopwatch. */
export type ClockReading = { nowMs: number; sentMs: number }

/** When, by the stopwatch, the clock that was read can reach an instant at the earliest. */
export const reachedAt = (ms: number, { nowMs, sentMs }: ClockReading): number =>
  sentMs + (ms - nowMs - 1) / DRIFT

export type DatabaseClock = ReturnType<typeof createDatabaseClock>

/** `elapsedMs` is the stopwatch of this machine. */
export function createDatabaseClock(elapsedMs: () => number) {
  let reading: ClockReading = { nowMs: 0, sentMs: 0 }
  /** What the clock showed at least when the last answer arrived. */
  let arrived = { leastMs: 0, atMs: 0 }

  /** Later than the database's clock can be at `atMs` of the stopwatch. What it does not end, has not ended. */
  const latest = (atMs: number): number => reading.nowMs + 1 + (atMs - reading.sentMs) * DRIFT

  const leastAt = (atMs: number): number => arrived.leastMs + atMs - arrived.atMs

  return {
    elapsedMs,
    latest,

    /** What the database's clock is then, or a little before: nobody is to try again too early. */
    earliest: (atMs: number): number => Math.floor(leastAt(atMs)),

    /**
     * Sets the clock by an answer of the database, which has just arrived. One that was long under way says
     * less than those before it, unless the clock was set back.
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
