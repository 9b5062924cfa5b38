/** Owns running jobs beside requests: again and again, or in slices until nothing is left. */
import type { Awaitable } from '../lib/turn-batch.ts'

/** A job that is running until it is stopped. */
export type Job = { stop(): void }

/** Calls `work` every `everyMs`. */
export function repeat(work: () => void, everyMs: number): Job {
  const timer = setInterval(work, everyMs)
  return { stop: () => clearInterval(timer) }
}

/**
 * Calls `work` now and every `everyMs`, and again in a later turn of the event loop while it says
 * that more remains. A failure ends the round: the store's supervisor has reported it.
 */
export function repeatInSlices(work: () => Awaitable<boolean>, everyMs: number): Job {
  let isStopped = false
  const round = async (): Promise<void> => {
    if (!isStopped && (await isTrue(work))) setTimeout(round, 1)
  }
  void round()
  const { stop } = repeat(() => void round(), everyMs)
  return {
    stop() {
      isStopped = true
      stop()
    },
  }
}

/** What `ask` says; false when it fails, because a supervisor has reported that. */
export async function isTrue(ask: () => Awaitable<boolean>): Promise<boolean> {
  try {
    return await ask()
  } catch {
    return false
  }
}
