/** Holds the histogram of durations: which bucket counts one, and the quantiles of many. */
import { describe, expect, test } from 'bun:test'
import {
  BOUNDS_SECONDS,
  createHistogram,
  observe,
  quantileOf,
} from '../../src/metrics/histogram.ts'

const countsOf = (seconds: readonly number[]): number[] => {
  const histogram = createHistogram()
  for (const each of seconds) observe(histogram, each)
  return Array.from(histogram.counts)
}

test('the histogram has the documented buckets', () => {
  expect(BOUNDS_SECONDS.join(' ')).toBe('0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1 5')
})

test.each([
  [0, 0],
  [0.0005, 0],
  [0.00050001, 1],
  [0.3, 9],
  [5, 10],
  [5.1, 11],
  [Number.POSITIVE_INFINITY, 11],
])('%p seconds count in bucket %p, which includes its bound', (seconds, bucket) => {
  expect(countsOf([seconds]).indexOf(1)).toBe(bucket)
})

describe('a quantile', () => {
  test('of nothing is unknown', () => {
    expect(quantileOf(countsOf([]), 0.5)).toBeNull()
  })

  // As histogram_quantile of Prometheus computes them.
  test.each([
    [[0.0001, 0.0001, 0.0001, 0.0001], 0.5, 0.00025],
    [[0.0001, 0.0001, 0.0001, 0.0001], 1, 0.0005],
    [[0.0001, 0.002], 0.5, 0.0005],
    [[0.0001, 0.002], 0.75, 0.00175],
    [[0.0001, 100], 0.99, 5],
    [[0.2], 0.5, 0.175],
  ])('of %p, %p, is %p', (seconds, quantile, expected) => {
    expect(quantileOf(countsOf(seconds), quantile)).toBeCloseTo(expected, 12)
  })
})
