/**
 * Owns what a node knows of the database's clock between two calls: it goes on as the stopwatch of
 * this machine does.
 */

/** How much faster the database's clock may run than the stopwatch. */
const DRIFT = 1.0005

export type DatabaseClock = ReturnType<typeof createDatabaseClock>

/** `elapsedMs` is the stopwatch of this machine. */
export function createDatabaseClock(elapsedMs: () => number) {
  let nowMs = 0
  let sentMs = 0
  let receivedMs = 0
  return {
    elapsedMs,

    /** Sets the clock by an answer of the database, whose call was sent at `sent` by the stopwatch. */
    set(databaseMs: number, sent: number): void {
      nowMs = databaseMs
      sentMs = sent
      receivedMs = elapsedMs()
    },

    /** Later than the database's clock can be. What it does not end, has not ended. */
    latest: (): number => nowMs + 1 + (elapsedMs() - sentMs) * DRIFT,

    /** What the database's clock is, or a little before: nobody is to try again too early. */
    earliest: (): number => Math.floor(nowMs + elapsedMs() - receivedMs),
  }
}
