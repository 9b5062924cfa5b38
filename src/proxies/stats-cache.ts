/**
 * When statistics are made (contract F4): only when somebody asks, one at a time, at most every 15
 * seconds, and only when the list has changed or the ages in them are no longer true.
 */

import type { Awaitable } from '../lib/awaitable.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'

/** Statistics are as they are for so long, whatever happens to the list. */
const FRESH_MS = 15 * SECOND_MS
/** Those of a list that has not changed are made again after so long: checks have grown older. */
const UNCHANGED_MS = MINUTE_MS
/** While newer ones are made the former ones are served, up to this age; then requests wait. */
const FORMER_MS = 2 * MINUTE_MS
/** Time between a failure and the next attempt: what `Retry-After` says. */
export const RETRY_MS = SECOND_MS

/** Whether less than `ms` have passed since an instant: of a clock that has stepped back, nobody knows. */
const isWithin = (atMs: number, nowMs: number, ms: number): boolean =>
  nowMs >= atMs && nowMs - atMs < ms

/** What the last attempt has become: statistics of a version of the list, or a failure. */
type Made<T> = { value: T; version: string; atMs: number }
type Failed = { error: unknown; atMs: number }

const isFresh = <T>(made: Made<T>, version: string, nowMs: number): boolean =>
  isWithin(made.atMs, nowMs, made.version === version ? UNCHANGED_MS : FRESH_MS)

/**
 * Returns a function that gives the statistics to a request of the instant `nowMs`. `version` is that of
 * the list, and throws when the list must not be shown.
 */
export function createStatsCache<T>(
  make: (nowMs: number) => Promise<T>,
  version: () => string,
): (nowMs: number) => Awaitable<T> {
  let made: Made<T> | null = null
  let making: Promise<T> | null = null
  let failed: Failed | null = null

  async function attempt(listVersion: string, nowMs: number): Promise<T> {
    try {
      const value = await make(nowMs)
      made = { value, version: listVersion, atMs: nowMs }
      failed = null
      return value
    } catch (error) {
      failed = { error, atMs: nowMs }
      throw error
    }
  }

  /** The attempt in progress, or a new one; it fails at once soon after one that failed. */
  function newer(listVersion: string, nowMs: number): Promise<T> {
    if (making !== null) return making
    if (failed !== null && isWithin(failed.atMs, nowMs, RETRY_MS))
      return Promise.reject(failed.error)
    making = attempt(listVersion, nowMs).finally(() => {
      making = null
    })
    return making
  }

  return nowMs => {
    const listVersion = version()
    if (made !== null && isFresh(made, listVersion, nowMs)) return made.value
    const next = newer(listVersion, nowMs)
    if (made === null || !isWithin(made.atMs, nowMs, FORMER_MS)) return next
    next.catch(() => {}) // the former ones are served: nobody waits
    return made.value
  }
}
