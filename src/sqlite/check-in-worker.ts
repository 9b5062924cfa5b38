/**
 * Owns checking a list in a worker: the main thread goes on meanwhile, as a server must, and as a
 * command must that is to end at a signal.
 */
import { CommandError } from '../lib/errors.ts'
import { closeSection, createSection, startTask } from '../lib/worker.ts'
import type { Checked, CheckTask } from './check.worker.ts'

/** How long `stop` waits for a check that is stamping the list, in milliseconds. */
const STOP_MS_MAX = 2_000

/**
 * Checks the list in `file`; `onChecked` is called once, unless the function that it returns is called
 * before. That one waits while the list is being stamped: ended halfway, the stamp would be lost.
 */
export function startCheck(file: string, onChecked: (checked: Checked) => void): () => void {
  const section = createSection()
  const worker = startTask<CheckTask, Checked>(
    'sqlite/check.worker.ts',
    { file, section },
    onChecked,
  )
  return () => {
    closeSection(section, STOP_MS_MAX)
    worker.terminate()
  }
}

/**
 * The problems of the list in `file`; none when it is intact, and then it is stamped.
 * @throws CommandError when it cannot be opened, or the reason of `signal`.
 */
export async function checkInWorker(file: string, signal: AbortSignal): Promise<readonly string[]> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
  const stop = startCheck(file, checked => {
    if (checked.kind === 'checked') resolve(checked.problems)
    else reject(new CommandError(checked.message))
  })
  const keepAlive = setInterval(() => {}, 2 ** 30) // the worker does not
  const abort = (): void => {
    stop()
    reject(signal.reason)
  }
  signal.addEventListener('abort', abort)
  try {
    return await promise
  } finally {
    clearInterval(keepAlive)
    signal.removeEventListener('abort', abort)
  }
}
