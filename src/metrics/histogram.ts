/** Histograms of durations, and their quantiles. Pure. */

/** Upper bounds of the buckets, in seconds. One more bucket holds longer durations. */
export const BOUNDS_SECONDS = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
] as const

/** The number of durations in each bucket, not cumulative, and the sum of all. */
export type Histogram = { readonly counts: Float64Array; sumSeconds: number }

export const createHistogram = (): Histogram => ({
  counts: new Float64Array(BOUNDS_SECONDS.length + 1),
  sumSeconds: 0,
})

/** Counts a duration. It searches from the shortest bucket, because nearly all are short. */
export function observe(histogram: Histogram, seconds: number): void {
  let at = 0
  while (at < BOUNDS_SECONDS.length && seconds > (BOUNDS_SECONDS[at] ?? 0)) at += 1
  histogram.counts[at] = (histogram.counts[at] ?? 0) + 1
  histogram.sumSeconds += seconds
}

/**
 * A quantile (0 to 1) in seconds; `null` without durations. As in Prometheus, durations are spread evenly over their
 * bucket; those in the last bucket count as its lower bound.
 */
export function quantileOf(counts: ArrayLike<number>, quantile: number): number | null {
  const buckets = Array.from(counts)
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const rank = quantile * total
  let below = 0
  for (const [at, count] of buckets.entries()) {
    const lower = BOUNDS_SECONDS[at - 1] ?? 0
    const upper = BOUNDS_SECONDS[at]
    if (upper === undefined) return lower
    if (count > 0 && below + count >= rank)
      return lower + ((rank - below) / count) * (upper - lower)
    below += count
  }
  return null
}
