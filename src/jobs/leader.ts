/** Jobs that only the leader runs: the server that holds a lock. When it ends, another server gets the lock. */
import { SECOND_MS } from '../lib/time.ts'
import { type Job, type OnFailure, repeat } from './runner.ts'

const CHECK_EVERY_MS = SECOND_MS / 4
/** The checks of `isLeader` between two attempts to start jobs, 5 s. */
const RETRY_AFTER = 20

/** Starts jobs when `isLeader` becomes true, and stops them when it becomes false. A failed start is tried again. */
export function whileLeader(
  isLeader: () => boolean,
  start: () => Promise<readonly Job[]>,
  onFailure: OnFailure,
  every: typeof repeat = repeat,
): Job {
  let jobs: readonly Job[] | null = null
  let isStarting = false
  let isStopped = false
  let checksToWait = 0

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
      checksToWait = RETRY_AFTER
      onFailure(failure)
    } finally {
      isStarting = false
    }
  }

  function check(): void {
    if (isStarting) return
    let isHeld = false
    try {
      isHeld = isLeader()
    } catch (failure) {
      onFailure(failure)
    }
    if (!isHeld) {
      stopJobs()
      checksToWait = 0
    } else if (checksToWait > 0) checksToWait -= 1
    else if (jobs === null) void startJobs()
  }

  check()
  const { stop } = every(check, CHECK_EVERY_MS)
  return {
    stop() {
      isStopped = true
      stop()
      stopJobs()
    },
  }
}
