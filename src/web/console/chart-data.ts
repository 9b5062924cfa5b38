/** Pure functions of the charts: stacked sums, SVG paths, days of use. */
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

/** The end of an axis: 1, 2, 4, 6, 8 or 10 times a power of ten, so that its half is short, too. */
export function roundUp(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 4, 6, 8, 10].map(digit => digit * unit).find(end => end >= value) ?? 0
}

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
  // A point alone has no length: it is drawn one step wide.
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

/** The last known value, or `null`. */
export const latest = (values: Values): number | null =>
  values.findLast(value => value !== null) ?? null

/** Fewer days would make a few wide columns. */
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
