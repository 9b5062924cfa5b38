/** How much of the main thread selects may take (src/api/cache/select-budget.ts, contract B9). */
import { expect, test } from 'bun:test'
import { createSelectBudgets } from '../../src/api/cache/select-budget.ts'

const key = (id: string) => ({ id, isTrial: false, downloads: 4 })
const address = (id: string) => ({ id, isTrial: true, downloads: 1 })
type Share = ReturnType<typeof key>

function createWorld() {
  let nowMs = 0
  const { hasTime, spend } = createSelectBudgets(() => nowMs)
  return {
    pass: (ms: number) => {
      nowMs += ms
    },
    /** Selects for as long as there is time, `ms` each; gives how long that went on. */
    selectAll(shareOf: (n: number) => Share, ms: number, most = 1000): number {
      const sinceMs = nowMs
      for (let n = 0; n < most && hasTime(shareOf(n)); n += 1) {
        spend(shareOf(n), () => {
          nowMs += ms
        })
      }
      return nowMs - sinceMs
    },
    hasTime,
    spend,
  }
}

test('no key selects for long at once, and others still can', () => {
  const { selectAll, hasTime } = createWorld()
  expect(selectAll(() => key('greedy'), 2)).toBeLessThanOrEqual(40)
  expect(hasTime(key('greedy'))).toBe(false)
  expect(hasTime(key('other'))).toBe(true)
})

test('no crowd of addresses selects for long at once, and keys still can', () => {
  const { selectAll, hasTime } = createWorld()
  expect(selectAll(n => address(`192.0.2.${n}`), 2)).toBeLessThanOrEqual(14)
  expect(hasTime(address('198.51.100.1'))).toBe(false)
  expect(hasTime(key('paying'))).toBe(true)
})

test('addresses together take a tenth of the time, however many they are', () => {
  const { selectAll, pass } = createWorld()
  let usedMs = 0
  for (let ms = 0; ms < 10_000; ms += 10) {
    usedMs += selectAll(n => address(`${ms}.${n}`), 3)
    pass(10)
  }
  expect(usedMs).toBeGreaterThan(900)
  expect(usedMs).toBeLessThan(1300)
})

test('a select that takes very long is paid for', () => {
  const { selectAll, pass, hasTime } = createWorld()
  expect(selectAll(() => address('192.0.2.1'), 200)).toBe(200)
  pass(1_600)
  expect(hasTime(address('192.0.2.2'))).toBe(false)
  pass(200)
  expect(hasTime(address('192.0.2.2'))).toBe(true)
})

test('a select that fails is paid for, too', () => {
  const { pass, spend, hasTime } = createWorld()
  const fail = (): never => {
    pass(100)
    throw new Error('broken')
  }
  expect(() => spend(key('a'), fail)).toThrow('broken')
  expect(hasTime(key('a'))).toBe(false)
})
