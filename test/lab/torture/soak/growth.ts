/**
 * Owns what a soak concludes: tables of what was seen, and whether anything grows.
 *
 * Flat means: the least-squares line through the second half, carried on for an hour, rises by
 * no more than a share of the level. The line goes through the lowest value of every half minute:
 * the engine collects its garbage all at once every ten to thirty seconds, and what is still held
 * then is what counts (seen: a saw from 195 to 270 MB, whose low points lie within 5 MB).
 *
 * Five such points 5 MB apart are a slope of about 100 MB an hour at most; an object of 100 bytes
 * kept for each request is 360 MB an hour at 1,000 requests a second. The bound for memory, its
 * level of about 200 MB, lies between. Descriptors: one kept for each import is 720 an hour, for
 * each connection 180,000. Logs and files: what every import writes anew is 3,000 MB an hour.
 */
import { count, median, shown } from '../../bench/table.ts'
import type { Span } from './load.ts'
import type { Sample } from './measures.ts'
import { type Point, slopeOf, troughsOf } from './slope.ts'

/** What clients and server showed at the end of one span. */
export type Look = Sample & Span & { imports: number }

/** Looks in a line of the table, or a multiple of it; and most lines. */
const LOOKS_PER_LINE = 5
const LINES_MAX = 30
/** Looks that give one trough; fewer when there would not be enough troughs for a line. */
const LOOKS_PER_TROUGH = 15
const TROUGHS_MIN = 5
const HOUR_SECONDS = 3600
/** Share of the requests that may be left unsent at the end, by timers that are late. */
const UNSENT_SHARE_MAX = 0.01

type Measure = {
  name: string
  unit: string
  of: (look: Look) => number
  /** What may be added in an hour, as a share of the level. */
  shareMax: number
  /** What may be added in any case: a share of next to nothing would be noise. */
  leastMax?: number
}

const mb = (of: (look: Look) => number) => (look: Look) => of(look) / 1e6

const MEASURES: readonly Measure[] = [
  { name: 'resident memory', unit: 'MB', of: mb(look => look.residentBytes), shareMax: 1 },
  { name: 'open descriptors', unit: '', of: look => look.descriptors, shareMax: 3 },
  { name: 'log of the list', unit: 'MB', of: mb(look => look.listLogBytes), shareMax: 10 },
  { name: 'log of the usage', unit: 'MB', of: mb(look => look.accessLogBytes), shareMax: 3 },
  { name: 'data directory', unit: 'MB', of: mb(look => look.diskBytes), shareMax: 1 },
  { name: 'answer, p50', unit: 'ms', of: look => look.p50Ms, shareMax: 5, leastMax: 5 },
  { name: 'event loop', unit: 'ms', of: look => look.loopMs, shareMax: 5, leastMax: 2 },
]

type Table = [head: string[], lines: string[][]]

/** At most so many lines: the levels at the end of each, the slowest answers and all lists in it. */
export function timeTable(looks: readonly Look[]): Table {
  const head = ['s', ...MEASURES.map(({ name, unit }) => (unit ? `${name}, ${unit}` : name))]
  const step = LOOKS_PER_LINE * Math.ceil(looks.length / (LOOKS_PER_LINE * LINES_MAX))
  const lines: string[][] = []
  for (let at = step; at <= looks.length; at += step) {
    const past = looks.slice(at - step, at)
    const last = past.at(-1)
    if (last === undefined) break
    lines.push([
      String(Math.round(last.atSeconds)),
      ...MEASURES.map(({ of }) => shown(of(last))),
      shown(Math.max(...past.map(look => look.p99Ms))),
      shown(Math.max(...past.map(look => look.maxMs))),
      String(past.reduce((sum, look) => sum + look.downloads, 0)),
      String(last.imports),
    ])
  }
  return [[...head, 'p99, ms', 'max, ms', 'lists', 'imports'], lines]
}

/** The level of a measure in the second half, and how much it grows in an hour. */
export function growthOf(looks: readonly Look[], of: Measure['of']) {
  const half = looks.slice(looks.length >> 1)
  const points: Point[] = half.map(look => ({ atSeconds: look.atSeconds, value: of(look) }))
  const size = Math.min(LOOKS_PER_TROUGH, Math.floor(points.length / TROUGHS_MIN))
  const troughs = troughsOf(points, Math.max(1, size))
  return {
    level: median(troughs.map(({ value }) => value)),
    perHour: slopeOf(troughs) * HOUR_SECONDS,
  }
}

/** What was seen, what it must be, and whether all of it holds. */
export function growthTable(looks: readonly Look[], perSpan: number) {
  const lines = MEASURES.map(({ name, unit, of, shareMax, leastMax = 0 }) => {
    const { level, perHour } = growthOf(looks, of)
    const most = Math.max(leastMax, shareMax * level)
    const sign = perHour < 0 ? '−' : '+'
    return {
      name,
      figure: `${shown(level)} ${unit}`,
      growth: `${sign}${shown(Math.abs(perHour))} ${unit} an hour`,
      bound: `≤ +${shown(most)} ${unit} an hour`,
      holds: perHour <= most,
    }
  })
  const sum = (of: (look: Look) => number): number => looks.reduce((all, l) => all + of(l), 0)
  const odd = looks.flatMap(look => look.odd)
  const sent = sum(look => look.sent)
  const wanted = perSpan * looks.length
  lines.push({
    name: 'answers that should not come',
    figure: `${odd.length} of ${count(sent)}${odd[0] ? ` (${odd[0]})` : ''}`,
    growth: '',
    bound: '0',
    holds: odd.length === 0,
  })
  lines.push({
    name: 'requests answered',
    figure: count(sum(look => look.answered)),
    growth: `and ${count(sum(look => look.downloads))} whole lists`,
    bound: `≥ ${count(Math.ceil(wanted * (1 - UNSENT_SHARE_MAX)))}`,
    holds: sum(look => look.answered) >= wanted * (1 - UNSENT_SHARE_MAX),
  })
  const head = ['what', 'second half', 'slope', 'bound', 'ok']
  const cells = lines.map(({ name, figure, growth, bound, holds }) => [
    ...[name, figure, growth, bound],
    holds ? 'ok' : 'BROKEN',
  ])
  return { table: [head, cells] satisfies Table as Table, holds: lines.every(l => l.holds) }
}
