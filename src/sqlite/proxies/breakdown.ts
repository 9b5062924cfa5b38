/**
 * Owns counting the list of a server by type, country and age in a worker: of a million rows it takes
 * half a second. What was counted is kept for a while, for all who ask.
 */
import type { Clock } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { SECOND_MS, toSeconds } from '../../lib/time.ts'
import { startTask } from '../../lib/worker.ts'
import type { Breakdown } from '../../proxies/breakdown.ts'
import type { Counted, CountTask } from './breakdown.worker.ts'

/** How long what was counted is kept. */
export const KEPT_MS = 15 * SECOND_MS

/** Counts the list in `file`; `verify` throws a `StoreError` while it must not be used. */
export function createBreakdowns(file: string, clock: Clock, verify: () => void) {
  let known: { breakdown: Promise<Breakdown>; atMs: number } | null = null
  let stop = (): void => {}

  /** Never ends when the server does. */
  function count(nowMs: number): Promise<Breakdown> {
    const { promise, resolve, reject } = Promise.withResolvers<Breakdown>()
    const task: CountTask = { file, nowSeconds: toSeconds(nowMs) }
    const worker = startTask<CountTask, Counted>(
      'sqlite/proxies/breakdown.worker.ts',
      task,
      counted => {
        if (counted.kind === 'counted') return resolve(counted.breakdown)
        known = null // asked again, it is counted again
        reject(new StoreError(counted.message))
      },
    )
    stop = () => worker.terminate()
    return promise
  }

  return {
    /** The list as it was within the last 15 seconds. Rejects with a `StoreError` when it fails. */
    async breakdown(): Promise<Breakdown> {
      verify()
      const nowMs = clock()
      const isRecent = known !== null && Math.abs(nowMs - known.atMs) < KEPT_MS
      if (known === null || !isRecent) known = { breakdown: count(nowMs), atMs: nowMs }
      return known.breakdown
    },
    close: (): void => stop(),
  }
}
