/** Holds drawing at random: no position twice, all of them as likely, and which matches are young enough. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { countFirst, draw, matchesOf } from '../../src/proxies/draw.ts'
import { randomOf } from '../support/random.ts'

const IDS = Float64Array.from({ length: 1_000_003 }, (_, at) => at)
const sizes = fc.record({ size: fc.nat({ max: 300 }), count: fc.nat({ max: 400 }) })

describe('a draw', () => {
  test('has as many different positions as requested, or all', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), ({ size, count }, seed) => {
        const drawn = draw(IDS, size, count, randomOf(seed, 'draw'))
        expect(drawn.length).toBe(Math.min(size, count))
        expect(new Set(drawn).size).toBe(drawn.length)
        for (const at of drawn) expect(at).toBeLessThan(size)
      }),
    )
  })

  test('gives every choice in every order equally often', () => {
    const random = randomOf(7, 'uniform')
    const ROUNDS = 60_000
    const seen = new Map<string, number>()
    for (let round = 0; round < ROUNDS; round += 1) {
      const choice = draw(IDS, 5, 3, random).join()
      seen.set(choice, (seen.get(choice) ?? 0) + 1)
    }
    expect(seen.size).toBe(5 * 4 * 3)
    const expected = ROUNDS / 60
    const chiSquare = [...seen.values()].reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0)
    expect(chiSquare).toBeLessThan(98.3) // 59 degrees of freedom: a thousandth of uniform draws
  })
})

describe('the fresh part of a list', () => {
  test('is counted as if row by row', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 30 })), fc.nat({ max: 32 }), (ages, most) => {
        const inOrder = ages.toSorted((a, b) => a - b)
        const expected = ages.filter(age => age <= most).length
        expect(countFirst(inOrder.length, at => (inOrder[at] ?? 0) <= most)).toBe(expected)
      }),
    )
  })

  test('comes first in the matches, which keep the order of their rows', () => {
    const matches = matchesOf([
      [7, 1000, 5, 1, 0],
      [9, 990, 1, 8, 0],
      [8, 990, 2, 2, 0],
    ])
    expect(matches).toEqual({
      ids: new Float64Array([7, 9, 8]),
      checkedAt: new Uint32Array([1000, 990, 990]),
    })
  })
})
