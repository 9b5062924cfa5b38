/**
 * How long one request waits for a store that can hang, in all that it asks of it one after the
 * other (contract I4). What takes longer goes on; the request does not wait for its end.
 */
import { inTime } from '../lib/clock.ts'

/** The bound of a store; `failure` makes what a request fails with. */
export type WaitBound = { msMax: number; elapsedMs: () => number; failure: () => Error }

/** How long a request has waited for the store so far, in milliseconds. */
export type Waits = { waitedMs: number }

export type StoreTimeout = ReturnType<typeof createStoreTimeout>

/** The longest a request waits for a store; without a bound nothing is measured. */
export function createStoreTimeout(bound: WaitBound | undefined) {
  if (bound === undefined) {
    return {
      begin: () => 0,
      since: (_beganMs: number) => 0,
      within: <T>(_waits: Waits, work: Promise<T>): Promise<T> => work,
    }
  }
  const { msMax, elapsedMs, failure } = bound

  /** How long the request has waited since `begin` returned `beganMs`. */
  const since = (beganMs: number): number => elapsedMs() - beganMs

  return {
    begin: elapsedMs,
    since,
    /** What `work` resolves to. @throws what `failure` returns when that takes longer than is left. */
    async within<T>(waits: Waits, work: Promise<T>): Promise<T> {
      const beganMs = elapsedMs()
      try {
        return await inTime(work, Math.max(0, msMax - waits.waitedMs), failure)
      } finally {
        waits.waitedMs += since(beganMs)
      }
    },
  }
}
