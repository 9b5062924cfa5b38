/** An attempt at a feed in a process of its own, see `config/subprocess.ts`. */
import { type ProcessSettings, startTask } from '../config/subprocess.ts'
import type { Outcome } from './attempt.ts'
import type { Feed } from './feed.ts'
import type { FeedState } from './store.ts'

/** The command of such a process, which has no help. It prints the outcome as JSON. */
export const FEED_PROCESS = 'attempt-feed'

export type FeedTask = { feed: Feed; before: FeedState; settings: ProcessSettings }

/**
 * Attempts a feed in a process, which is killed when `signal` is aborted.
 * @throws the reason of `signal` then.
 */
export async function attemptInProcess(task: FeedTask, signal: AbortSignal): Promise<Outcome> {
  const { ended, kill } = startTask(FEED_PROCESS, task)
  signal.addEventListener('abort', kill)
  try {
    const { isDone, stdout, stderr } = await ended
    signal.throwIfAborted()
    if (isDone) return JSON.parse(stdout) as Outcome // of this program
    const lastLine = stderr.trim().split('\n').at(-1) ?? ''
    return { kind: 'failed', error: lastLine.replace(/^proxylist: /, ''), retryAfterMs: null }
  } finally {
    signal.removeEventListener('abort', kill)
  }
}
