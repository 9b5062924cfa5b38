/** Pure functions of the charts: stacked sums, SVG paths, axes, days of use. */
import type { Day, History, Values } from '../../admin/api-types.ts'
import { DAY_MS, formatDay, utcDay } from '../../lib/time.ts'

/** Adds each series to the ones before it. A point is `null` only if all values are missing. */
export function stack(series: readonly Values[]): (number | null)[][] {
  const sums: (number | null)[] = (series[0] ?? []).map(() => null)
  return series.map(values => {
    for (const [index, value] of values.entries()) {
      if (value !== null) sums[index] = (sums[index] ?? 0) + value
    }
    return [...sums]
  })
}

/** Outcomes of requests in stacking order. */
export const OUTCOMES = ['ok', 'not_found', 'rejected', 'refused', 'failed'] as const

/** Requests per second at each point; `null` where unknown. */
export const totals = (history: History): Values =>
  stack(OUTCOMES.map(name => history[name])).at(-1) ?? []

export const greatest = (series: readonly Values[]): number =>
  Math.max(0, ...series.flat().map(value => value ?? 0))

/** The view box of a chart. */
export const [WIDTH, HEIGHT] = [1000, 100]

/** The line and the area of values up to `top`, as SVG path data with gaps where values are missing. */
export function pathsOf(values: Values, top: number): { line: string; area: string } {
  const step = WIDTH / Math.max(1, values.length - 1)
  const round = (n: number): number => Math.round(n * 10) / 10
  const runs: [x: number, y: number][][] = []
  let run: [number, number][] = []
  for (const [index, value] of values.entries()) {
    if (value === null) run = []
    else {
      if (run.length === 0) runs.push(run)
      run.push([round(index * step), round(HEIGHT * (1 - value / (top || 1)))])
    }
  }
  // A single point is drawn one step wide.
  for (const points of runs) {
    const [[x, y] = [0, 0], next] = points
    if (next === undefined) points.push([round(x + (x + step > WIDTH ? -step : step)), y])
  }
  const trace = (points: readonly (readonly number[])[]): string =>
    `M${points.map(point => point.join(' ')).join('L')}`
  const area = (points: readonly (readonly number[])[]): string =>
    `${trace(points)}L${points.at(-1)?.[0]} ${HEIGHT}L${points[0]?.[0]} ${HEIGHT}Z`
  return { line: runs.map(trace).join(''), area: runs.map(area).join('') }
}

/** Round axis ends from 1 to 10, and the number of intervals for each. */
const ROUND = [
  ...[[1, 5] as const, [1.5, 3] as const, [2, 4] as const, [3, 3] as const, [4, 4] as const],
  ...[[5, 5] as const, [6, 3] as const, [8, 4] as const, [10, 5] as const],
]

/** The ticks of an axis from 0 to the first round number that is at least `most`. */
export function ticksUpTo(most: number): number[] {
  const power = most > 0 ? 10 ** Math.floor(Math.log10(most)) : 1
  const [factor, parts] = ROUND.find(([each]) => each * power >= most) ?? [10, 5]
  return Array.from({ length: parts + 1 }, (_, index) => (factor * power * index) / parts)
}

const [HOUR, DAY] = [3600, 86_400]
/** Seconds between two labels of the time axis, by range. */
const TICKS = { '1h': HOUR / 6, '24h': 3 * HOUR }

/** The points with a label on the time axis: the first after each round time. `offset`: seconds ahead of UTC. */
export function namedPoints(
  { at, range }: Pick<History, 'at' | 'range'>,
  offset: (unixMs: number) => number,
): { index: number; isDay: boolean }[] {
  const tick = TICKS[range]
  const countOf = (time: number): number => Math.floor((time + offset(time * 1000)) / tick)
  return at.flatMap((time, index) => {
    const before = at[index - 1]
    if (before === undefined || countOf(time) === countOf(before)) return []
    return [{ index, isDay: (countOf(time) * tick) % DAY === 0 }]
  })
}

/** The last known value, or `null`. */
export const latest = (values: Values): number | null =>
  values.findLast(value => value !== null) ?? null

/** A chart of fewer days would have a few wide columns. */
const LEAST_DAYS = 30

/** The days until today, at least 30, including days without use. */
export function daysUntil(nowMs: number, days: readonly Day[]): Day[] {
  const known = new Map(days.map(day => [day.day, day]))
  const today = utcDay(nowMs)
  const first = days[0] === undefined ? today : Math.floor(Date.parse(days[0].day) / DAY_MS)
  const length = Math.max(LEAST_DAYS, today - first + 1)
  return Array.from({ length }, (_, index) => {
    const day = formatDay(today - length + 1 + index)
    return known.get(day) ?? { day, requests: 0, records: 0, refused: 0 }
  })
}
