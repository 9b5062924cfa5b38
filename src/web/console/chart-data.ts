/** What charts show: gaps, sums of stacked series, sparklines, the axis, days of use. Pure. */

import type { Day, History, Values } from '../../admin/wire.ts'
import { DAY_MS, formatDay, utcDay } from '../../lib/time.ts'

/** Columns of one length: Unix seconds, then the series. */
export type Columns = { at: readonly number[]; series: readonly Values[] }

/** A distance between two points from this many times the usual one on is a gap. */
const GAP = 1.5

/**
 * Adds a point without values where points are missing, so that no line is drawn across the time
 * in which the server was down.
 */
export function withGaps(
  { at, series }: Columns,
  everySeconds: number,
): { at: number[]; series: (number | null)[][] } {
  const indexes: (number | null)[] = []
  const times: number[] = []
  for (const [index, time] of at.entries()) {
    const before = at[index - 1]
    if (before !== undefined && time - before > everySeconds * GAP) {
      indexes.push(null)
      times.push(before + everySeconds)
    }
    indexes.push(index)
    times.push(time)
  }
  const pick = (values: Values): (number | null)[] =>
    indexes.map(index => (index === null ? null : (values[index] ?? null)))
  return { at: times, series: series.map(pick) }
}

/**
 * Each series added to those before it. A value that is missing counts as nothing, and a point
 * where all are missing stays without a value.
 */
export function stack(series: readonly Values[]): (number | null)[][] {
  const length = series[0]?.length ?? 0
  const sums: (number | null)[] = Array.from({ length }, () => null)
  return series.map(values => {
    for (let index = 0; index < length; index++) {
      const value = values[index] ?? null
      if (value !== null) sums[index] = (sums[index] ?? 0) + value
    }
    return [...sums]
  })
}

/** The outcomes of requests in the order in which they are stacked. */
export const OUTCOMES = ['ok', 'not_found', 'rejected', 'refused', 'failed'] as const

/** Requests per second at each point; `null` where nothing is known. */
export const totals = (history: History): (number | null)[] =>
  stack(OUTCOMES.map(name => history[name])).at(-1) ?? []

/** The mean of the values that are there, or `null`. */
export function mean(values: Values): number | null {
  const present = values.filter(value => value !== null)
  return present.length === 0 ? null : present.reduce((a, b) => a + b, 0) / present.length
}

/** The greatest of the values that are there, or `null`. */
export function greatest(values: Values): number | null {
  const present = values.filter(value => value !== null)
  return present.length === 0 ? null : Math.max(...present)
}

/** At most `most` values: means of runs of equal length. */
export function thin(values: Values, most: number): (number | null)[] {
  const run = Math.ceil(values.length / most)
  if (run <= 1) return [...values]
  return Array.from({ length: Math.ceil(values.length / run) }, (_, index) =>
    mean(values.slice(index * run, (index + 1) * run)),
  )
}

/** How the values of one span of time become one. */
export type Merge = (values: Values) => number | null

/** One point per `seconds`, at the start of each such span that has a point. */
export function coarsen(
  { at, series }: Columns,
  seconds: number,
  merges: readonly Merge[],
): { at: number[]; series: (number | null)[][] } {
  const spans = new Map<number, number[]>()
  for (const [index, time] of at.entries()) {
    const start = Math.floor(time / seconds) * seconds
    const indexes = spans.get(start)
    if (indexes) indexes.push(index)
    else spans.set(start, [index])
  }
  const merged = series.map((values, number) =>
    [...spans.values()].map(indexes => {
      const merge = merges[number] ?? mean
      return merge(indexes.map(index => values[index] ?? null))
    }),
  )
  return { at: [...spans.keys()], series: merged }
}

/** The lines and the areas of a sparkline as SVG path data; both are interrupted at gaps. */
export function sparkPaths(
  values: Values,
  width: number,
  height: number,
): { line: string; area: string } {
  const most = Math.max(...values.map(value => value ?? 0), 1e-9)
  const step = width / Math.max(1, values.length - 1)
  const round = (n: number): number => Math.round(n * 10) / 10
  const runs: [x: number, y: number][][] = []
  let run: [number, number][] = []
  for (const [index, value] of values.entries()) {
    if (value === null) run = []
    else {
      if (run.length === 0) runs.push(run)
      run.push([round(index * step), round(height - 1 - (value / most) * (height - 3))])
    }
  }
  // A single point is as wide as the distance to the next one would be.
  for (const points of runs) {
    const [[x, y] = [0, 0], next] = points
    if (next === undefined) points.push([round(Math.min(width, x + step)), y])
  }
  const trace = (points: readonly (readonly number[])[]): string =>
    `M${points.map(point => point.join(' ')).join('L')}`
  const line = runs.map(trace).join('')
  const area = runs
    .map(points => `${trace(points)}L${points.at(-1)?.[0]} ${height}L${points[0]?.[0]} ${height}Z`)
    .join('')
  return { line, area }
}

/** Round numbers from 1 to 10, and in how many parts an axis up to each is divided. */
const ROUND = [
  [1, 5],
  [1.5, 3],
  [2, 4],
  [3, 3],
  [4, 4],
  [5, 5],
  [6, 3],
  [8, 4],
  [10, 5],
] as const

/** The numbers of an axis from 0 up to the least round number from which all can be seen. */
export function ticksUpTo(most: number): number[] {
  const power = most > 0 ? 10 ** Math.floor(Math.log10(most)) : 1
  const [factor, parts] = ROUND.find(([each]) => each * power >= most) ?? [10, 5]
  return Array.from({ length: parts + 1 }, (_, index) => (factor * power * index) / parts)
}

/** Places of values without a neighbour: a line needs two of them. */
export const lonely = (values: Values): number[] =>
  values.flatMap((value, index) => {
    const hasNeighbour = [index - 1, index + 1].some(each => (values[each] ?? null) !== null)
    return value === null || hasNeighbour ? [] : [index]
  })

const HOUR_SECONDS = 3600

/** What a chart shows of time: the last day, or what is known of it, an hour at least. */
export const spanOf = (first: number, last: number): [from: number, to: number] => [
  Math.max(last - 24 * HOUR_SECONDS, Math.min(first, last - HOUR_SECONDS)),
  last,
]

/** A chart of hours has a point for each minute, one of a day for five: more are noise. */
export const pointSeconds = (first: number, last: number): number =>
  last - first <= 4 * HOUR_SECONDS ? 60 : 300

/** The last value that is there, or `null`. */
export const latest = (values: Values): number | null =>
  values.findLast(value => value !== null) ?? null

/** Fewer days would be drawn as a few wide columns. */
const LEAST_DAYS = 30

/** The days until today, at least a month of them; those without use are there too. */
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
