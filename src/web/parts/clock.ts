/** Owns the clocks of pages. */

/** Milliseconds since the page began; never steps back. */
export const nowMs = (): number => performance.now()

/** The current instant in Unix milliseconds, as far as the browser's clock is right. */
export const unixMs = (): number => Date.now()
