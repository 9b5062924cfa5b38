/** Running work that pauses now and then to its end. */

/** What the work returns. */
export function withoutPause<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}
