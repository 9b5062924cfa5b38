/** Owns reading the browser's clock. */

/** The current instant in Unix milliseconds, as far as the browser's clock is right. */
export const nowMs = (): number => Date.now()
