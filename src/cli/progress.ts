/** The progress bar of long work, which is shown on a terminal only. */
import { SingleBar } from 'cli-progress'
import { stopwatch } from '../lib/clock.ts'

/** Work shorter than this shows nothing, in milliseconds. */
const QUIET_MS = 1000

/**
 * A bar of cli-progress in `format`, full at `total`. An update draws it once the work has taken
 * longer than `QUIET_MS`; `clear` removes it, for a message or at the end.
 */
export function createProgress(format: string, total: number, elapsedMs = stopwatch()) {
  const bar = process.stderr.isTTY
    ? new SingleBar({ format, clearOnComplete: true, linewrap: true })
    : null
  return {
    update(value: number, payload: { [name: string]: number } = {}): void {
      if (bar?.isActive) bar.update(value, payload)
      else if (elapsedMs() > QUIET_MS) bar?.start(total, value, payload)
    },
    clear: (): void => bar?.stop(),
  }
}

/** Shows a progress bar during `work`, which calls `update` with the part of `total` that is done. */
export async function withProgress<T>(
  format: string,
  total: number,
  work: (update: (done: number) => void) => Promise<T>,
): Promise<T> {
  const { update, clear } = createProgress(format, total)
  return work(update).finally(clear)
}
