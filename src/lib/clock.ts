/**
 * Clocks and timers. The only file of the program that reads a clock, besides `proxylist.now_ms()` in SQL, that
 * of a shared database: everything else receives a `Clock`, so that tests move time by hand.
 */
import { readFileSync } from 'node:fs'

/** Returns the current instant in Unix milliseconds. May step back: callers must not assume order. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/** A clock that reads Unix milliseconds from `file` at every call. Only tests of the binary use it. */
export const fileClock =
  (file: string): Clock =>
  () =>
    Number(readFileSync(file, 'utf8'))

/** When this process started, in Unix milliseconds. */
export const PROCESS_START_MS = performance.timeOrigin

/** Starts a monotonic stopwatch; the returned function returns the milliseconds since then. */
export function stopwatch(): () => number {
  const start = performance.now()
  return () => performance.now() - start
}

/** A clock that begins with the time of another one, and never steps as that may do. */
export function steadyClock(clock: Clock): Clock {
  const start = clock()
  const elapsed = stopwatch()
  return () => start + Math.round(elapsed())
}

/** Calls `run` after `ms` milliseconds, never at once. Returns a function that cancels the call. */
export type SetTimer = (run: () => void, ms: number) => () => void

export const timerLater: SetTimer = (run, ms) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Calls `run` every `ms` milliseconds. Returns a function that ends this. */
export type Every = (run: () => void, ms: number) => () => void

export const timerEvery: Every = (run, ms) => {
  const timer = setInterval(run, ms).unref()
  return () => clearInterval(timer)
}

/** Settles as `promise` does, or resolves to `null` after `ms` milliseconds. */
export function withTimeout<T>(
  promise: Promise<T>,
  ms: number,
  later = timerLater,
): Promise<T | null> {
  const { promise: passed, resolve } = Promise.withResolvers<null>()
  const cancel = later(() => resolve(null), ms)
  return Promise.race([promise, passed]).finally(cancel)
}

/** Resolves as `work` does; rejects when its time is over, `null` for any, and then calls `onLate`. */
export function rejectAfter<T>(
  work: Promise<T>,
  ms: number | null,
  late: () => Error,
  onLate = (): void => {},
) {
  if (ms === null) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    reject(late()) // first: what `onLate` closes fails, and says less
    onLate()
  }, ms)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
