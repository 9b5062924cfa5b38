/** Telling growth from noise, which decides a soak. */
import { describe, expect, test } from 'bun:test'
import { growthOf } from './soak.ts'

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
