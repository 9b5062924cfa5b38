/**
 * The time that ages of usage are measured from (src/access/passed-time.ts): it is never so late that
 * something of the last day is forgotten, wherever the clock steps.
 */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createPassedTime } from '../../src/access/passed-time.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

const anyLook = fc.record({
  afterMs: fc.constantFrom(MINUTE_MS, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, DAY_MS),
  times: fc.constantFrom(1, 1, 5, 200),
  stepMs: fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -3 * DAY_MS, max: 3 * DAY_MS }) },
  ),
  isStart: fc.nat({ max: 5 }).map(n => n === 0),
})

type Look = typeof anyLook extends fc.Arbitrary<infer L> ? L : never

/** Looks at the clock, with restarts; returns how often a step ahead was believed. */
function look(steps: readonly Look[]): number {
  let [elapsedMs, nowMs, storedMs, believed] = [0, T0, T0, 0]
  let passedTime = createPassedTime(() => elapsedMs)
  const looks: { elapsedMs: number; nowMs: number }[] = []
  const lookOnce = (afterMs: number): void => {
    elapsedMs += afterMs
    nowMs += afterMs
    looks.push({ elapsedMs, nowMs })
    const { timeMs, isNew } = passedTime(nowMs, storedMs)
    if (isNew) storedMs = timeMs
    const latest = looks
      .filter(look => elapsedMs - look.elapsedMs <= DAY_MS)
      .map(look => look.nowMs + elapsedMs - look.elapsedMs)
    expect(timeMs).toBeLessThanOrEqual(Math.min(...latest))
    if (timeMs === nowMs && nowMs > T0 + elapsedMs) believed += 1
  }
  for (const { afterMs, times, stepMs, isStart } of steps) {
    nowMs += stepMs
    if (isStart) passedTime = createPassedTime(() => elapsedMs)
    for (let n = 0; n < times; n += 1) lookOnce(afterMs)
  }
  return believed
}

test('it is never later than the clock at any look of the last day, and what has passed since', () => {
  let believed = 0
  const property = fc.property(fc.array(anyLook, { maxLength: 30 }), steps => {
    believed += look(steps)
  })
  fc.assert(property, { numRuns: 300 }) // in 100, none is believed once in 70 times
  expect(believed).toBeGreaterThan(0)
})
