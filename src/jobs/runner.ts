/** Runs work in the background: periodically, or in slices until nothing is left. */
import type { Awaitable } from '../lib/awaitable.ts'
import { messageOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'

export type Job = { stop(): Awaitable<void> }

/** Is called with failures that are not reported elsewhere. */
export type OnFailure = (failure: unknown) => void

/** Reports failures of background work to the operator. */
export const reportTo =
  (log: Pick<Log, 'sayRepeated'>): OnFailure =>
  failure =>
    log.sayRepeated(`background work failed: ${messageOf(failure)}`)

export function repeat(work: () => void, everyMs: number): Job {
  const timer = setInterval(work, everyMs)
  return { stop: () => clearInterval(timer) }
}

/** Calls `work` now, or after `firstMs`, then every `everyMs`, and in a later turn while it returns true. */
export function repeatInSlices(
  work: () => Awaitable<boolean>,
  everyMs: number,
  onFailure: OnFailure,
  firstMs = 0,
): Job {
  let isStopped = false
  const round = async (): Promise<void> => {
    if (!isStopped && (await isTrue(work, onFailure))) setTimeout(round, 1)
  }
  if (firstMs === 0) void round()
  else setTimeout(round, firstMs).unref()
  const { stop } = repeat(() => void round(), everyMs)
  return {
    stop() {
      isStopped = true
      stop()
    },
  }
}

/** Returns the result of `ask`, or false if it fails. A store reports its `StoreError`s. Others go to `onFailure`. */
export async function isTrue(ask: () => Awaitable<boolean>, onFailure: OnFailure) {
  try {
    return await ask()
  } catch (failure) {
    if (!(failure instanceof StoreError)) onFailure(failure)
    return false
  }
}
