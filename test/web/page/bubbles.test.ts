/** Countries on the map: circles that do not cover each other, labels with room. */
import { describe, expect, test } from 'bun:test'
import { placeBubbles } from '../../../src/web/page/model/bubbles.ts'
import { CENTERS, landPath, VIEW } from '../../../src/web/page/model/world.ts'
import { pageRows } from '../page-rows.ts'

const counts = new Map<string, number>()
for (const { country } of pageRows(18_400)) counts.set(country, (counts.get(country) ?? 0) + 1)
const everywhere = new Map([...CENTERS.keys()].map((code, i) => [code, 1 + ((i * 37) % 900)]))

describe.each([
  ['a usual list', counts, 0.5],
  ['a list with every country', everywhere, 0.5],
] as const)('%s', (_, given, overlapMax) => {
  const bubbles = placeBubbles(given)

  test('has a circle for each country that has a place', () => {
    const placed = [...given].filter(([code, n]) => n > 0 && CENTERS.has(code))
    expect(bubbles).toHaveLength(placed.length)
  })

  test('has no circle under another, and no label under a circle', () => {
    for (const [i, a] of bubbles.entries()) {
      for (const b of bubbles.slice(i + 1)) {
        const overlap = a.r + b.r - Math.hypot(a.x - b.x, a.y - b.y)
        expect(`${a.code} ${b.code} ${overlap > overlapMax}`).toBe(`${a.code} ${b.code} false`)
      }
    }
  })
})

test('an empty list has no circles, but the land', () => {
  expect(placeBubbles(new Map())).toEqual([])
  expect(landPath().match(/M/g)?.length).toBeGreaterThan(2000)
})

test('every country is within the map that is shown', () => {
  for (const [code, [x, y]] of CENTERS) {
    const isIn = x > VIEW.x && x < VIEW.x + VIEW.width && y > VIEW.y && y < VIEW.y + VIEW.height
    expect([code, isIn]).toEqual([code, true])
  }
})
