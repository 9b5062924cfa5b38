/**
 * Bounds how long one request waits for a store that can hang, over all its steps (contract I4). Late work continues,
 * but the request fails.
 */
import type { Awaitable } from '../lib/awaitable.ts'
import { rejectAfter } from '../lib/clock.ts'

/** The bound of a store; `failure` returns the error of a request that has waited too long. */
export type WaitBound = { msMax: number; elapsedMs: () => number; failure: () => Error }

/** How long a request has waited for the store so far, in milliseconds. */
export type Waits = { waitedMs: number }

export function createStoreTimeout(bound: WaitBound | undefined) {
  if (bound === undefined) {
    const asIs = <T>(_waits: Waits, work: Awaitable<T>): Awaitable<T> => work
    return { within: asIs, measure: asIs }
  }
  const { msMax, elapsedMs, failure } = bound
  /** Adds the time that `work` takes. */
  async function measure<T>(waits: Waits, work: Awaitable<T>): Promise<T> {
    const startMs = elapsedMs()
    try {
      return await work
    } finally {
      waits.waitedMs += elapsedMs() - startMs
    }
  }
  /** Also rejects with `failure` if `work` takes longer than the remaining time. */
  const within = <T>(waits: Waits, work: Awaitable<T>): Awaitable<T> =>
    work instanceof Promise
      ? measure(waits, rejectAfter(work, Math.max(0, msMax - waits.waitedMs), failure))
      : work
  return { within, measure }
}
