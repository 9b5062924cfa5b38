/** The resources of the process, and the lag of its event loop. */
import { readdirSync, readFileSync } from 'node:fs'
import { PROCESS_START_MS, type SetTimer } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import { createHistogram, type Histogram, observe } from './histogram.ts'

export type ProcessState = {
  cpuSeconds: number
  /** `null`: unknown on this system, or no file can be opened. Only Linux has all. */
  residentBytes: number | null
  startSeconds: number
  /** Open file descriptors, and the most there may be. */
  openFds: number | null
  maxFds: number | null
}

/** Returns what `read` returns; `null` when it fails. */
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

export function readProcess(): ProcessState {
  const { user, system } = process.cpuUsage()
  return {
    cpuSeconds: (user + system) / 1e6, // from microseconds
    residentBytes: residentBytes(),
    startSeconds: PROCESS_START_MS / SECOND_MS,
    openFds: attempt(() => readdirSync('/proc/self/fd').length - 1), // less the one that it reads
    maxFds: attempt(() => fdsMax(readFileSync('/proc/self/limits', 'utf8'))),
  }
}

/** How often the event loop is measured. */
export const EVERY_MS = 100

/** A monotonic clock and timers. */
export type Timing = { elapsedMs: () => number; later: SetTimer }

/** Measures how late a timer fires, from now on. A loop that is blocked for a second counts once. */
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
