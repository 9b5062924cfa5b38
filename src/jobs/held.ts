/**
 * Owns jobs that one server runs for several: they run here as long as this server holds a lock, which
 * another one gets when this one ends.
 */
import { SECOND_MS } from '../lib/time.ts'
import { type Job, type OnFailure, repeat } from './runner.ts'

const EXAMINE_EVERY_MS = SECOND_MS / 4

/** Starts jobs when `isHeld` becomes true, and stops them when it becomes false. */
export function whileHeld(
  isHeld: () => boolean,
  start: () => Promise<readonly Job[]>,
  onFailure: OnFailure,
  everyMs = EXAMINE_EVERY_MS,
): Job {
  let jobs: readonly Job[] | null = null
  let isStarting = false
  let isStopped = false

  function stopJobs(): void {
    for (const job of jobs ?? []) job.stop()
    jobs = null
  }

  /** When this fails, it is tried again. */
  async function startJobs(): Promise<void> {
    isStarting = true
    try {
      jobs = await start()
      if (isStopped) stopJobs()
    } catch (failure) {
      onFailure(failure)
    } finally {
      isStarting = false
    }
  }

  function examine(): void {
    if (isStarting) return
    if (!isHeld()) stopJobs()
    else if (jobs === null) void startJobs()
  }

  examine()
  const { stop } = repeat(examine, everyMs)
  return {
    stop() {
      isStopped = true
      stop()
      stopJobs()
    },
  }
}
