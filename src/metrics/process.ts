/** The resources of the process and the lag of its event loop. */
import { readdirSync, readFileSync } from 'node:fs'
import { PROCESS_START_MS, type SetTimer } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import { createHistogram, type Histogram, observe } from './histogram.ts'

/** Returns the value that `read` returns, or `null` if it throws. */
export function attempt<T>(read: () => T): T | null {
  try {
    return read()
  } catch {
    return null
  }
}

/** The soft limit in the text of /proc/self/limits; `null` when there is none. */
function fdsMax(limits: string): number | null {
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  return soft === undefined ? null : Number(soft)
}

export const residentBytes = (): number | null => attempt(() => process.memoryUsage.rss())

/** The resources of the process. `null` is unknown: only Linux has them all. */
export function readProcess() {
  const { user, system } = process.cpuUsage()
  return {
    cpuSeconds: (user + system) / 1e6, // from microseconds
    residentBytes: residentBytes(),
    startSeconds: PROCESS_START_MS / SECOND_MS,
    openFds: attempt(() => readdirSync('/proc/self/fd').length - 1), // without the one opened to read them
    maxFds: attempt(() => fdsMax(readFileSync('/proc/self/limits', 'utf8'))),
  }
}

export const EVERY_MS = 100

export type Timing = { elapsedMs: () => number; later: SetTimer }

/** Starts to measure how late a timer fires. A loop that is blocked for a second counts once. */
export function watchEventLoop({ elapsedMs, later }: Timing): Histogram {
  const lags = createHistogram()
  function next(): void {
    const dueMs = elapsedMs() + EVERY_MS
    later(() => {
      observe(lags, Math.max(0, elapsedMs() - dueMs) / SECOND_MS)
      next()
    }, EVERY_MS)
  }
  next()
  return lags
}
