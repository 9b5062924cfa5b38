/**
 * The longest that one request waits for a store that can hang, in all its steps together (contract I4).
 * Work that takes longer goes on; the request does not wait for its end.
 */
import type { Awaitable } from '../lib/awaitable.ts'
import { inTime } from '../lib/clock.ts'

/** The bound of a store; `failure` makes the error of a request that has waited too long. */
export type WaitBound = { msMax: number; elapsedMs: () => number; failure: () => Error }

/** How long a request has waited for the store so far, in milliseconds. */
export type Waits = { waitedMs: number }

/** Without a bound, nothing is measured. */
export function createStoreTimeout(bound: WaitBound | undefined) {
  /** Counts how long `work` takes. */
  async function measure<T>(waits: Waits, work: Promise<T>): Promise<T> {
    if (bound === undefined) return work
    const startMs = bound.elapsedMs()
    try {
      return await work
    } finally {
      waits.waitedMs += bound.elapsedMs() - startMs
    }
  }
  /** Also rejects with `failure` when `work` takes longer than is left. */
  async function within<T>(waits: Waits, work: Awaitable<T>): Promise<T> {
    if (bound === undefined || !(work instanceof Promise)) return work
    const { msMax, failure } = bound
    return measure(waits, inTime(work, Math.max(0, msMax - waits.waitedMs), failure))
  }
  return { within, measure }
}
