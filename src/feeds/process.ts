/**
 * The process in which a server attempts a feed: this very program. A process of its own takes no time
 * of the requests, gives its memory back, and can be killed at any moment. What it needs comes as one
 * line of JSON on stdin, because a command line and an environment can be read by others, and secrets
 * are in feeds and in the URL of a database; what became of the attempt goes to stdout, as JSON, too.
 */
import { foreignEnvironment } from '../config/environment.ts'
import type { Settings } from '../config/settings.ts'
import { spawnProgram } from '../config/subprocess.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import type { Outcome } from './attempt.ts'
import type { Feed } from './feed.ts'
import type { FeedState } from './store.ts'

/** The command of such a process, which has no help. */
export const FEED_PROCESS = 'attempt-feed'

/** What an attempt needs, besides the feed and its state. */
export type FeedProcessSettings = Settings<
  'data' | 'database' | 'databaseTimeout' | 'geoip' | 'providerService'
>
type Task = { feed: Feed; before: FeedState; settings: FeedProcessSettings }

/**
 * Attempts a feed in a process, which is killed when `signal` is aborted.
 * @throws the reason of `signal` then.
 */
export async function attemptInProcess(task: Task, signal: AbortSignal): Promise<Outcome> {
  const failed = (error: string): Outcome => ({ kind: 'failed', error, retryAfterMs: null })
  let child: ReturnType<typeof spawnProgram<'pipe'>>
  try {
    child = spawnProgram([FEED_PROCESS], 'pipe', foreignEnvironment())
  } catch (error) {
    return failed(`its process could not be started (${messageOf(error)})`)
  }
  const kill = (): void => child.kill('SIGKILL')
  signal.addEventListener('abort', kill)
  try {
    // Stdin stays open: when it ends, the server has ended, and its attempts with it.
    child.stdin.write(`${JSON.stringify(task)}\n`)
    child.stdin.flush()
    const [stdout, stderr, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    signal.throwIfAborted()
    if (code === 0) return JSON.parse(stdout) as Outcome // of this program
    const lastLine = (stderr.trim().split('\n').at(-1) ?? '').replace(/^proxylist: /, '')
    return failed(lastLine || `its process ended with ${child.signalCode ?? `status ${code}`}`)
  } finally {
    signal.removeEventListener('abort', kill)
  }
}

/**
 * Reads from stdin what the process is to do, attempts the feed, and returns the line for stdout. The
 * signal of `attempt` is aborted when the server has ended, or with `signal`.
 */
export async function runTask(
  stdin: ReadableStream<Uint8Array>,
  attempt: (task: Task, signal: AbortSignal) => Promise<Outcome>,
  signal: AbortSignal,
): Promise<string> {
  const ended = new AbortController()
  const reader = stdin.getReader()
  const decoder = new TextDecoder()
  let text = ''
  while (!text.includes('\n')) {
    const { value, done } = await reader.read()
    if (done)
      throw new CommandError('a server starts this command, which reads a feed from stdin', 2)
    text += decoder.decode(value, { stream: true })
  }
  const end = (): void => ended.abort(new CommandError('the server has ended'))
  void reader.read().then(end, end)
  const task = JSON.parse(text) as Task // of this program
  return `${JSON.stringify(await attempt(task, AbortSignal.any([signal, ended.signal])))}\n`
}
