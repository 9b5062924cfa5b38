/** Slots for streams (contract B9): a semaphore for each key and one for all, first come first served. */
import { ApiError, type ErrorCode } from '../../api/errors.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { type SetTimer, timerLater } from '../../lib/clock.ts'
import { several } from '../../lib/plural.ts'

/** Frees a slot; calls after the first do nothing. */
export type Release = () => void
export type SlotLimits = { total: number; waitMsMax: number; later: SetTimer }
type Waiter = { mayStart: () => boolean; start: () => void; fail: (error: Error) => void }

const refusal = (code: ErrorCode, message: string): ApiError =>
  new ApiError(code, message, { retryAfterSeconds: 1 })

const stopping = (): ApiError =>
  refusal('DB_EXECUTE_FAILED', 'the server is stopping; try again shortly')

export function createStreamSlots(limits: Partial<SlotLimits> = {}) {
  const { total = 64, waitMsMax = 20_000, later = timerLater } = limits
  const running = new Map<string, number>()
  /** In order of arrival. Each of them waits for its key's own slots, or all slots are taken. */
  const waiting = new Set<Waiter>()
  let taken = 0
  let isStopping = false

  function take(key: string): Release {
    running.set(key, (running.get(key) ?? 0) + 1)
    taken += 1
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      const left = (running.get(key) ?? 0) - 1
      if (left > 0) running.set(key, left)
      else running.delete(key)
      taken -= 1
      for (const waiter of waiting) if (waiter.mayStart()) waiter.start()
    }
  }

  return {
    /**
     * Takes one of the slots of a key, at most `limit` of them (`null`: no limit), now or when others are released.
     * @throws ApiError RATE_LIMIT_EXCEEDED when the key's slots stay taken for too long, DB_EXECUTE_FAILED when all do.
     */
    acquire(key: string, limit: number | null): Awaitable<Release> {
      const isAtLimit = (): boolean => limit !== null && (running.get(key) ?? 0) >= limit
      const mayStart = (): boolean => taken < total && !isAtLimit()
      if (mayStart()) return take(key)
      if (isStopping) throw stopping()

      const { promise, resolve, reject } = Promise.withResolvers<Release>()
      function end(settle: () => void): void {
        waiting.delete(waiter)
        cancelTimer()
        settle()
      }
      const waiter: Waiter = {
        mayStart,
        start: () => end(() => resolve(take(key))),
        fail: error => end(() => reject(error)),
      }
      const cancelTimer = later(() => {
        const most = several(limit ?? total, 'long answer')
        waiter.fail(
          isAtLimit()
            ? refusal('RATE_LIMIT_EXCEEDED', `at most ${most} at once; retry after 1 s`)
            : refusal('DB_EXECUTE_FAILED', 'too many long answers at once; try again shortly'),
        )
      }, waitMsMax)
      waiting.add(waiter)
      return promise
    },

    /** Refuses all requests that wait for a slot, and from now on each one that would have to wait. */
    refuseWaiting(): void {
      isStopping = true
      for (const waiter of waiting) waiter.fail(stopping())
    },
  }
}
