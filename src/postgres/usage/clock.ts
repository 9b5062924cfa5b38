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
  let nowMs = 0
  let sentMs = 0
  let receivedMs = 0
  return {
    elapsedMs,

    /** Sets the clock by an answer of the database, which has just arrived. */
    set(reading: ClockReading): void {
      nowMs = reading.nowMs
      sentMs = reading.sentMs
      receivedMs = elapsedMs()
    },

    /** Later than the database's clock can be at `atMs` of the stopwatch. What it does not end, has not ended. */
    latest: (atMs: number): number => nowMs + 1 + (atMs - sentMs) * DRIFT,

    /** What the database's clock is then, or a little before: nobody is to try again too early. */
    earliest: (atMs: number): number => Math.floor(nowMs + atMs - receivedMs),
  }
}
