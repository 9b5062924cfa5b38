/** The clocks that the program is given, and the stopwatch. */
import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileClock, stopwatch } from '../../src/lib/clock.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

test('a file clock follows its file at every call', () => {
  const file = join(temporaryDirectory(), 'clock')
  const clock = fileClock(file)
  for (const ms of [T0, T0 + 5000, T0 - 5000]) {
    writeFileSync(file, `${ms}\n`)
    expect(clock()).toBe(ms)
  }
})

test('a stopwatch never runs backwards', () => {
  const elapsedMs = stopwatch()
  const first = elapsedMs()
  expect(first).toBeGreaterThanOrEqual(0)
  expect(elapsedMs()).toBeGreaterThanOrEqual(first)
})
