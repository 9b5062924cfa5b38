/** Clocks and timers. All other code receives a `Clock`, so that tests can set the time. */
import { readFileSync } from 'node:fs'

/** Returns the current instant in Unix milliseconds. It may step back. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/** A clock that reads Unix milliseconds from `file` at every call, for tests of the binary. */
export const fileClock =
  (file: string): Clock =>
  () =>
    Number(readFileSync(file, 'utf8'))

export const PROCESS_START_MS = performance.timeOrigin

/** Starts a monotonic stopwatch; the returned function returns the milliseconds since then. */
export function stopwatch(): () => number {
  const start = performance.now()
  return () => performance.now() - start
}

/** A clock that starts at the time of `clock` and never steps. */
export function steadyClock(clock: Clock): Clock {
  const start = clock()
  const elapsed = stopwatch()
  return () => start + Math.round(elapsed())
}

/** Calls `run` after `ms` milliseconds, never synchronously. Returns a function that cancels the call. */
export type SetTimer = (run: () => void, ms: number) => () => void

export const timerLater: SetTimer = (run, ms) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Calls `run` every `ms` milliseconds. Returns a function that stops this. */
export type Every = (run: () => void, ms: number) => () => void

export const timerEvery: Every = (run, ms) => {
  const timer = setInterval(run, ms).unref()
  return () => clearInterval(timer)
}

/** Settles like `promise`, or resolves to `null` after `ms` milliseconds. */
export function withTimeout<T>(
  promise: Promise<T>,
  ms: number,
  later = timerLater,
): Promise<T | null> {
  const { promise: passed, resolve } = Promise.withResolvers<null>()
  const cancel = later(() => resolve(null), ms)
  return Promise.race([promise, passed]).finally(cancel)
}

/** Settles like `work`, or rejects after `ms` milliseconds and calls `onLate`. */
export function rejectAfter<T>(
  work: Promise<T>,
  ms: number,
  late: () => Error,
  onLate = (): void => {},
) {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    reject(late()) // first: `onLate` may make `work` fail with a less helpful error
    onLate()
  }, ms)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
