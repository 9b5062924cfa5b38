/** Owns the clock of pages. */

/** Milliseconds since the page began; never steps back. */
export const nowMs = (): number => performance.now()
