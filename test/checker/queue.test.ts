/** Tests of the order of checks (contract H4). The limits are tested in `checker.test.ts`. */
import { describe, expect, test } from 'bun:test'
import { createQueue, neededRate } from '../../src/checker/queue.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

test('the needed rate leaves a quarter for others', () => {
  expect(neededRate(240, 1)).toBeNull()
  expect(neededRate(241, 1)).toBe(2)
  expect(neededRate(24_000, 50)).toBe(134)
})

describe('the queue starts working proxies first; at least a quarter of the rest are raw', () => {
  const SOURCES = ['living', 'down', 'raw', 'idle'] as const
  type Counts = { readonly [S in (typeof SOURCES)[number]]: number }

  /** The first letters of the sources of the addresses that are checked, second by second, sorted. */
  function sourcesOf(counts: Counts, perSecond: number, seconds = 1): string[] {
    // Each address is in a network of its own.
    const idsOf = (source: (typeof SOURCES)[number]): number[] =>
      Array.from(
        { length: counts[source] },
        (_, n) => (SOURCES.indexOf(source) * 1000 + n) * 2 ** 32,
      )
    const queue = createQueue({
      store: {
        add: () => 0,
        due: (source, _, visit) => void idsOf(source).every(visit),
        idle: (_, count) => idsOf('idle').slice(0, count),
      },
      list: { version: () => '', page: () => [] },
      ...{ now: () => T0, perSecond, inFlightMax: 1000, once: false, accepts: () => true },
    })
    return Array.from({ length: seconds }, () => {
      queue.refill(T0)
      let letters = ''
      for (let n = 0; n < 8; n += 1) {
        queue.addCredit(SECOND_MS)
        for (let id = queue.next(T0); id !== null; id = queue.next(T0)) {
          letters += SOURCES[Math.floor(id / 2 ** 32 / 1000)]?.[0]
          queue.start(id, T0)
        }
      }
      return [...letters].sort().join('')
    })
  }

  test.each([
    [{ living: 9, down: 9, raw: 9 }, 'llllllll'],
    [{ living: 4, down: 9, raw: 9 }, 'dddllllr'],
    [{ living: 0, down: 9, raw: 9 }, 'ddddddrr'],
    [{ living: 0, down: 3, raw: 9 }, 'dddrrrrr'],
    [{ living: 0, down: 9, raw: 1 }, 'dddddddr'],
    [{ living: 0, down: 9, raw: 0 }, 'dddddddd'],
    [{ living: 1, down: 1, raw: 1 }, 'diiiiilr'],
  ])('%p: %s', (due, letters) => expect(sourcesOf({ ...due, idle: 9 }, 8)).toEqual([letters]))

  test('each fourth address is raw when one starts at a time', () => {
    const letters = sourcesOf({ living: 0, down: 9, raw: 9, idle: 0 }, 1, 8).join('')
    expect(letters).toBe('dddrdddr')
  })
})
