/** Distinguishing growth from noise: the troughs of a series, and the line through them. */

/** A measured value, `atSeconds` after the beginning. */
export type Point = { atSeconds: number; value: number }

/**
 * The lowest point of each `size` points; a shorter rest is left out. The troughs show what is
 * held; above them is what waits to be collected or written back.
 */
export function troughsOf(points: readonly Point[], size: number): Point[] {
  const troughs: Point[] = []
  for (let at = 0; at + size <= points.length; at += size) {
    const run = points.slice(at, at + size)
    troughs.push(run.reduce((least, point) => (point.value < least.value ? point : least)))
  }
  return troughs
}

/** Slope of the least-squares line through the points, in units a second; 0 for fewer than two. */
export function slopeOf(points: readonly Point[]): number {
  const mean = (pick: (point: Point) => number): number =>
    points.reduce((sum, point) => sum + pick(point), 0) / points.length
  const [atMean, valueMean] = [mean(p => p.atSeconds), mean(p => p.value)]
  let [covariance, variance] = [0, 0]
  for (const { atSeconds, value } of points) {
    covariance += (atSeconds - atMean) * (value - valueMean)
    variance += (atSeconds - atMean) ** 2
  }
  return variance === 0 ? 0 : covariance / variance
}
