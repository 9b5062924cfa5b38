/** Bounds how long one request waits for a store that can hang, over all its steps (contract I4). */
import type { Awaitable } from '../lib/awaitable.ts'
import { rejectAfter } from '../lib/clock.ts'

/** The bound of a store; `failure` returns the error of a request that has waited too long. */
export type WaitBound = { msMax: number; elapsedMs: () => number; failure: () => Error }

/** How long a request has waited for the store so far, in milliseconds. */
export type Waits = { waitedMs: number }

/** Returns a function that settles like `work`, or fails if a request has waited too long; `Waits` sums up its steps. */
export function createStoreTimeout(bound: WaitBound | undefined) {
  if (bound === undefined) return <T>(_waits: Waits, work: Awaitable<T>): Awaitable<T> => work
  const { msMax, elapsedMs, failure } = bound
  async function within<T>(waits: Waits, work: Promise<T>): Promise<T> {
    const startMs = elapsedMs()
    try {
      return await rejectAfter(work, Math.max(0, msMax - waits.waitedMs), failure)
    } finally {
      waits.waitedMs += elapsedMs() - startMs
    }
  }
  return <T>(waits: Waits, work: Awaitable<T>): Awaitable<T> =>
    work instanceof Promise ? within(waits, work) : work
}
