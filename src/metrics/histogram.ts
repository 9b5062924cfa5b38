/** Histograms of durations: their buckets, counting one duration, and quantiles of many. Pure. */

/** Upper bounds of the buckets, in seconds; a last one takes what is longer. */
export const BOUNDS_SECONDS = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
] as const

/** How many durations are in each bucket, not in those below it, and their sum in seconds. */
export type Histogram = { readonly counts: Float64Array; sumSeconds: number }

export const createHistogram = (): Histogram => ({
  counts: new Float64Array(BOUNDS_SECONDS.length + 1),
  sumSeconds: 0,
})

/** Counts a duration. From the shortest on, because nearly all are short. */
export function observe(histogram: Histogram, seconds: number): void {
  let at = 0
  while (at < BOUNDS_SECONDS.length && seconds > (BOUNDS_SECONDS[at] ?? 0)) at += 1
  histogram.counts[at] = (histogram.counts[at] ?? 0) + 1
  histogram.sumSeconds += seconds
}

/**
 * A quantile (0 to 1) of the durations in these buckets, in seconds, as Prometheus estimates it: they
 * lie evenly in their bucket, and those of the last one at its lower bound. `null` without any.
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
