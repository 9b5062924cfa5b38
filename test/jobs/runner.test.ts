/** Jobs in the background, with timers moved by hand: when work is called, and called no more. */
import { afterEach, beforeEach, describe, expect, jest, test } from 'bun:test'
import { type Job, repeat, repeatInSlices } from '../../src/jobs/runner.ts'
import type { Awaitable } from '../../src/lib/awaitable.ts'
import { StoreError } from '../../src/lib/errors.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'

const EVERY_MS = MINUTE_MS

beforeEach(() => {
  jest.useFakeTimers()
  reported.length = 0
})
afterEach(() => void jest.useRealTimers())

/** Lets `ms` pass: timers fire, and what they begin settles. */
async function pass(ms: number): Promise<void> {
  await settled()
  jest.advanceTimersByTime(ms)
  await settled()
}
/** Waits for what was promised, which takes a few microtasks. */
async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

const KINDS = ['at once', 'later'] as const
type Outcome = boolean | Error
/** Work that gives these outcomes in order, then `false`; as a store at once, or one that waits. */
function workOf(kind: (typeof KINDS)[number], ...outcomes: readonly Outcome[]) {
  let calls = 0
  const give = (): boolean => {
    const outcome = outcomes[calls++] ?? false
    if (outcome instanceof Error) throw outcome
    return outcome
  }
  return {
    calls: () => calls,
    work: (): Awaitable<boolean> => (kind === 'at once' ? give() : Promise.resolve().then(give)),
  }
}
const FIRST_MS = 10_000
/** What was reported as a failure that no supervisor reports. */
const reported: unknown[] = []
const report = (failure: unknown): void => void reported.push(failure)
const inSlices = (work: () => Awaitable<boolean>): Job => repeatInSlices(work, EVERY_MS, report)

test('repeat calls at every interval, not before, until it is stopped', async () => {
  let calls = 0
  const job = repeat(() => void calls++, EVERY_MS)
  expect(calls).toBe(0)
  await pass(EVERY_MS - 1)
  expect(calls).toBe(0)
  await pass(1)
  expect(calls).toBe(1)
  await pass(3 * EVERY_MS)
  expect(calls).toBe(4)
  job.stop()
  await pass(3 * EVERY_MS)
  expect(calls).toBe(4)
})

const LOCKED = new StoreError('locked')
const HALF = EVERY_MS / 2
/** A step that stops the job. */
const STOP = Number.NaN
/** What work gives, and how often it was called after each step of so many milliseconds. */
const SLICES: readonly [what: string, gives: Outcome[], after: number[], calls: number[]][] = [
  ['is called now, and once an interval', [], [0, EVERY_MS - 1, 1], [1, 1, 2]],
  ['is called in later turns while more remains', [true, true], [0, 1, 1, HALF], [1, 2, 3, 3]],
  ['starts again at the next interval', [false, true], [EVERY_MS, 1, HALF], [2, 3, 3]],
  ['goes on after the first call fails', [LOCKED, true], [1, HALF, HALF - 1, 1], [1, 1, 2, 3]],
  ['goes on after a later one fails', [true, LOCKED], [1, HALF, HALF - 1], [2, 2, 3]],
  ['is not called after it is stopped', [], [EVERY_MS, STOP, 5 * EVERY_MS], [2, 2, 2]],
  ['ends while more remains', [true, true, true], [1, STOP, 5 * EVERY_MS], [2, 2, 2]],
]

describe.each(KINDS)('work in slices that answers %s', kind => {
  test.each(SLICES)('%s', async (_, gives, after, expected) => {
    const { work, calls } = workOf(kind, ...gives)
    const job = inSlices(work)
    const seen: number[] = []
    for (const ms of after) {
      if (Number.isNaN(ms)) job.stop()
      else await (ms === 0 ? settled() : pass(ms))
      seen.push(calls())
    }
    expect(seen).toEqual(expected)
    job.stop()
  })
})

test('work may begin later', async () => {
  let calls = 0
  const job = repeatInSlices(() => calls++ < 0, EVERY_MS, report, FIRST_MS)
  await pass(FIRST_MS - 1)
  expect(calls).toBe(0)
  await pass(1)
  expect(calls).toBe(1)
  job.stop()
})

test('a failure of a store is left to its supervisor; any other is reported', async () => {
  for (const failure of [new StoreError('locked'), new TypeError('a slip of ours')]) {
    const job = inSlices(workOf('later', failure).work)
    await pass(1)
    job.stop()
  }
  expect(reported).toEqual([new TypeError('a slip of ours')])
})
