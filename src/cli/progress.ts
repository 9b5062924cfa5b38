/** Owns how long work shows how far it is: a bar on a terminal, and nothing elsewhere. */
import { SingleBar } from 'cli-progress'
import { stopwatch } from '../lib/clock.ts'

/** Work shorter than this shows nothing, in milliseconds. */
const QUIET_MS = 1000

/**
 * A bar of cli-progress in `format`, full at `total`. An update draws it once the work has taken
 * longer than `QUIET_MS`; `clear` takes it off, for a message or for good.
 */
export function createProgress(format: string, total: number) {
  const elapsedMs = stopwatch()
  const bar = process.stderr.isTTY
    ? new SingleBar({ format, stream: process.stderr, clearOnComplete: true, linewrap: true })
    : null
  let isShown = false
  return {
    update(value: number, payload: { [name: string]: number } = {}): void {
      if (bar === null) return
      if (isShown) bar.update(value, payload)
      else if (elapsedMs() > QUIET_MS) {
        bar.start(total, value, payload)
        isShown = true
      }
    },
    clear(): void {
      if (isShown) bar?.stop()
      isShown = false
    },
  }
}
