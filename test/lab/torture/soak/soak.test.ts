/** Telling growth from noise, which decides a soak. */
import { expect, test } from 'bun:test'
import { growthOf } from './soak.ts'

/** Samples every two seconds for five minutes. */
const growth = (bytes: (atSeconds: number) => number) =>
  growthOf(
    Array.from({ length: 150 }, (_, n) => ({ atSeconds: n * 2, bytes: bytes(n * 2) })),
    sample => sample.bytes,
  )

test('growth counts only in the second half, when the server is warm', () => {
  expect(growth(at => Math.min(at, 120))).toEqual({ level: 120, perHour: 0 })
})

test('growth is seen under a larger sawtooth', () => {
  const saw = (at: number): number => (at % 30) * 1000
  expect(growth(at => saw(at) + at).perHour).toBeCloseTo(3600, 6)
  expect(growth(saw).perHour).toBeCloseTo(0, 6)
})
