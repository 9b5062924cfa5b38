/** Telling growth from noise (test/lab/torture/soak/growth.ts), which decides a soak. */
import { describe, expect, test } from 'bun:test'
import { growthOf, type Point, slopeOf, troughsOf } from './growth.ts'

const points = (...values: number[]): Point[] =>
  values.map((value, n) => ({ atSeconds: n * 2, value }))

describe('the slope is that of the least-squares line', () => {
  test.each([
    ['a rising line', points(1, 3, 5, 7), 1],
    ['a falling line', points(7, 5, 3, 1), -1],
    ['a level', points(4, 4, 4), 0],
    ['up and down', points(0, 6, 0, 6), 0.6],
    ['one point', points(9), 0],
    ['none', [], 0],
  ])('%s', (_, series, slope) => expect(slopeOf(series)).toBeCloseTo(slope, 12))
})

describe('the troughs are the lowest points of each run', () => {
  test.each([
    ['one a run', points(5, 3, 4, 9, 7, 8), 3, [3, 7]],
    ['a rest of fewer is left out', points(5, 3, 4, 1), 3, [3]],
    ['runs of one are the points', points(2, 1), 1, [2, 1]],
  ])('%s', (_, series, size, values) => {
    expect(troughsOf(series, size).map(({ value }) => value)).toEqual(values)
  })
})

describe('growth in an hour', () => {
  /** Samples every two seconds for five minutes. */
  const samplesOf = (residentBytes: (atSeconds: number) => number) =>
    Array.from({ length: 150 }, (_, n) => ({
      ...{ atSeconds: n * 2, residentBytes: residentBytes(n * 2) },
      ...{ descriptors: 0, listWalBytes: 0, accessWalBytes: 0, diskBytes: 0, loopMs: 0 },
      ...{ sent: 0, answered: 0, downloads: 0, imports: 0, unexpected: [] },
      ...{ p50Ms: 0, p99Ms: 0, maxMs: 0 },
    }))
  const growth = (residentBytes: (atSeconds: number) => number) =>
    growthOf(samplesOf(residentBytes), sample => sample.residentBytes)

  test('counts the second half only, where a warm server has its level', () => {
    const { level, perHour } = growth(at => Math.min(at, 120))
    expect({ level, perHour }).toEqual({ level: 120, perHour: 0 })
  })

  test('sees a steady leak under a larger sawtooth', () => {
    const saw = (at: number): number => (at % 30) * 1000
    expect(growth(at => saw(at) + at).perHour).toBeCloseTo(3600, 6)
    expect(growth(saw).perHour).toBeCloseTo(0, 6)
  })
})
