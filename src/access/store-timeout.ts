/**
 * The longest that one request waits for a store that can hang, in all its steps together (contract I4).
 * Work that takes longer goes on; the request does not wait for its end.
 */
import type { Awaitable } from '../lib/awaitable.ts'
import { rejectAfter } from '../lib/clock.ts'

/** The bound of a store; `failure` makes the error of a request that has waited too long. */
export type WaitBound = { msMax: number; elapsedMs: () => number; failure: () => Error }

/** How long a request has waited for the store so far, in milliseconds. */
export type Waits = { waitedMs: number }

export function createStoreTimeout(bound: WaitBound | undefined) {
  if (bound === undefined) {
    const asIs = <T>(_waits: Waits, work: Awaitable<T>): Awaitable<T> => work
    return { within: asIs, measure: asIs }
  }
  const { msMax, elapsedMs, failure } = bound
  /** Counts how long `work` takes. */
  async function measure<T>(waits: Waits, work: Awaitable<T>): Promise<T> {
    const startMs = elapsedMs()
    try {
      return await work
    } finally {
      waits.waitedMs += elapsedMs() - startMs
    }
  }
  /** Also rejects with `failure` when `work` takes longer than is left. */
  const within = <T>(waits: Waits, work: Awaitable<T>): Awaitable<T> =>
    work instanceof Promise
      ? measure(waits, rejectAfter(work, Math.max(0, msMax - waits.waitedMs), failure))
      : work
  return { within, measure }
}
