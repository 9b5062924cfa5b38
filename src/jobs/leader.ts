/** Jobs that one server runs for all: the leader, which holds a lock that another one gets when it ends. */
import { SECOND_MS } from '../lib/time.ts'
import { type Job, type OnFailure, repeat } from './runner.ts'

const EXAMINE_EVERY_MS = SECOND_MS / 4
/** How many times it is examined before jobs that could not be started are started again: 5 s. */
const AGAIN_AFTER = 20

/**
 * Starts jobs when `isLeader` becomes true, and stops them when it becomes false. `isLeader` only says what is
 * known; jobs that cannot be started are started again later, while it is true.
 */
export function whileLeader(
  isLeader: () => boolean,
  start: () => Promise<readonly Job[]>,
  onFailure: OnFailure,
  every: typeof repeat = repeat,
): Job {
  let jobs: readonly Job[] | null = null
  let isStarting = false
  let isStopped = false
  let toWait = 0

  function stopJobs(): void {
    for (const job of jobs ?? []) job.stop()
    jobs = null
  }

  async function startJobs(): Promise<void> {
    isStarting = true
    try {
      jobs = await start()
      if (isStopped) stopJobs()
    } catch (failure) {
      toWait = AGAIN_AFTER
      onFailure(failure)
    } finally {
      isStarting = false
    }
  }

  function examine(): void {
    if (isStarting) return
    if (!isLeader()) {
      stopJobs()
      toWait = 0
    } else if (toWait > 0) toWait -= 1
    else if (jobs === null) void startJobs()
  }

  examine()
  const { stop } = every(examine, EXAMINE_EVERY_MS)
  return {
    stop() {
      isStopped = true
      stop()
      stopJobs()
    },
  }
}
