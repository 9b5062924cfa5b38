/** The overview of the console: figures of now, and of each minute in the last 24 hours. */
import type { CheckerStatus } from '../checker/ports.ts'
import { VERSION } from '../config/version.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstant, MINUTE_MS, SECOND_MS, toSeconds } from '../lib/time.ts'
import type { Attention } from '../metrics/attention.ts'
import { quantileOf } from '../metrics/histogram.ts'
import type { Observed } from '../metrics/observed.ts'
import type { Traffic } from '../metrics/traffic.ts'
import { freshRows } from '../proxies/stats.ts'
import { invalid, wireName } from './route.ts'

/** The ranges of the charts: their length and the time between two points, in minutes. */
export const RANGES = { '1h': { minutes: 60, step: 1 }, '24h': { minutes: 1440, step: 5 } } as const
export type Range = keyof typeof RANGES
const isRange = (name: string): name is Range => Object.hasOwn(RANGES, name)

/** How many minutes are kept. */
export const MINUTES = RANGES['24h'].minutes

const OUTCOMES = ['ok', 'notFound', 'rejected', 'refused', 'failed'] as const
/** Measured besides requests; a value is `null` while it is unknown. */
const LEVELS = ['rows', 'fresh'] as const
type Levels = readonly (number | null)[]

/** One minute, numbered from 1970-01-01: the requests of each outcome, the buckets of their durations, and `LEVELS`. */
export type Sample = {
  minute: number
  counts: readonly number[]
  durations: readonly number[]
  levels: Levels
}

const added = (columns: readonly (readonly number[])[]): number[] =>
  (columns[0] ?? []).map((_, i) => columns.reduce((sum, column) => sum + (column[i] ?? 0), 0))

function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter(value => value !== null)
  return known.length === 0 ? null : Math.round(known.reduce((a, b) => a + b) / known.length)
}

const startOf = (minute: number, step: number): number => Math.floor(minute / step) * step

export type History = ReturnType<typeof createHistory>

/** The samples of the last 24 hours. After a jump of the clock, old samples are out of range or overwritten. */
export function createHistory() {
  const slots = new Map<number, Sample>()
  return {
    add: (sample: Sample): void => void slots.set(sample.minute % MINUTES, sample),
    /** The samples from one minute up to another, which is excluded. */
    between: (from: number, to: number): Sample[] =>
      [...slots.values()]
        .filter(({ minute }) => minute >= from && minute < to)
        .sort((a, b) => a.minute - b.minute),
  }
}

const round = (value: number): number => Math.round(value * 1000) / 1000

function quantileMs(counts: readonly number[], quantile: number): number | null {
  const seconds = quantileOf(counts, quantile)
  return seconds === null ? null : round(seconds * SECOND_MS)
}

/** Minutes as one point: requests per second, the quantiles that the histogram of /metrics gives, mean levels. */
function pointOf(samples: readonly Sample[]): { [measure: string]: number | null } {
  const counts = added(samples.map(({ counts }) => counts))
  const durations = added(samples.map(({ durations }) => durations))
  const seconds = (samples.length * MINUTE_MS) / SECOND_MS
  return {
    ...Object.fromEntries(OUTCOMES.map((name, i) => [name, round((counts[i] ?? 0) / seconds)])),
    ...{ p50Ms: quantileMs(durations, 0.5), p99Ms: quantileMs(durations, 0.99) },
    ...Object.fromEntries(
      LEVELS.map((name, i) => [name, mean(samples.map(({ levels }) => levels[i] ?? null))]),
    ),
  }
}

/** The points of a range up to the minute `now`, as the columns of the response. They begin with the first sample. */
export function describeHistory({ between }: Pick<History, 'between'>, range: Range, now: number) {
  const { minutes, step } = RANGES[range]
  const last = startOf(now, step)
  const samples = between(last - minutes + step, last + step)
  const first = startOf(samples[0]?.minute ?? last + step, step)
  const length = (last + step - first) / step
  const at = Array.from({ length }, (_, i) => first + i * step)
  const byPoint = Map.groupBy(samples, ({ minute }) => startOf(minute, step))
  const points = at.map(minute => {
    const found = byPoint.get(minute)
    return found === undefined ? {} : pointOf(found)
  })
  const columns = [...OUTCOMES, 'p50Ms', 'p99Ms', ...LEVELS].map(measure => [
    wireName(measure),
    points.map(point => point[measure] ?? null),
  ])
  const seconds = MINUTE_MS / SECOND_MS
  return {
    ...{ range, every_seconds: step * seconds, at: at.map(minute => minute * seconds) },
    ...Object.fromEntries(columns),
  }
}

type SamplerParts = {
  history: Pick<History, 'add'>
  traffic: () => Traffic
  /** Never rejects. */
  levels: () => Promise<Levels>
  clock: () => number
}

/** Returns a function to call every second. It adds a sample when a whole minute has ended. */
export function createSampler({ history, traffic, levels, clock }: SamplerParts) {
  const minuteNow = (): number => Math.floor(clock() / MINUTE_MS)
  let minute = minuteNow()
  /** The counters when the minute began; `null` in the first one. */
  let begun: Traffic | null = null

  return async function tick(): Promise<void> {
    const over = minute
    minute = minuteNow()
    if (minute === over) return
    const [from, to] = [begun, traffic()]
    begun = to
    if (from === null) return
    const counts = OUTCOMES.map(outcome => to[outcome] - from[outcome])
    const durations = to.durations.map((n, i) => n - (from.durations[i] ?? 0))
    history.add({ minute: over, counts, durations, levels: await levels() })
  }
}

type OverviewParts = Pick<SamplerParts, 'traffic' | 'clock'> & {
  elapsedMs: () => number
  history: Pick<History, 'add' | 'between'>
  observed: Pick<Observed, 'checks' | 'breakdown' | 'databases' | 'space' | 'checker'>
  keys: (nowMs: number) => Awaitable<{ total: number; usedToday: number }>
  /** Why the server is not ready, as a sentence without file names; `null` when it is. */
  problem: () => Awaitable<string | null>
  attention: () => Promise<readonly Attention[]>
  rssBytes: () => number | null
}

const describeChecker = ({ at, ...status }: CheckerStatus) => ({
  at: formatInstant(at),
  queues: status.queues,
  ...{ checked: status.checked, alive: status.alive, deferred: status.deferred },
  ...{ failures: status.failures, per_second: status.rate, coverage: status.coverage },
  ...{ lag_seconds: status.lagSeconds, bytes: status.bytes },
})

/** The checker's status; `null` when none ever ran, or when it cannot be read (reported elsewhere). */
const readChecker = (read: () => Awaitable<CheckerStatus | null>) =>
  Promise.try(read).then(
    status => status && describeChecker(status),
    () => null,
  )

/** Call `tick` every second. `state` answers every view, `read` the overview. */
export function createOverview(parts: OverviewParts) {
  const { history, observed, problem, clock, elapsedMs } = parts
  const startedMs = elapsedMs()
  /** `fresh` is `null` until the current list is counted. @throws StoreError */
  async function list(nowMs: number) {
    const counted = await observed.breakdown(nowMs)
    const { rows, newest } = observed.checks()
    return {
      rows,
      fresh: counted.rows === rows ? freshRows(counted) : null,
      newest_seconds: newest === null ? null : toSeconds(nowMs) - newest,
    }
  }

  async function levels(): Promise<Levels> {
    const counted = await Promise.try(observed.breakdown, clock()).catch(() => null)
    return counted ? [counted.rows, freshRows(counted)] : [null, null]
  }

  /** Readiness and what needs attention. */
  async function state() {
    const [found, attention] = await Promise.all([problem(), parts.attention()])
    return {
      version: VERSION,
      now: formatInstant(clock()),
      uptime_seconds: Math.floor((elapsedMs() - startedMs) / SECOND_MS),
      ready: found === null,
      problem: found,
      attention,
    }
  }

  return {
    tick: createSampler({ ...parts, levels }),
    state,
    /** The overview with the charts of a range; `''` is 24 h, or 1 h until there is more than that. */
    async read(given: string) {
      if (given !== '' && !isRange(given)) {
        const names = Object.keys(RANGES).join(', ')
        throw invalid(`range must be one of ${names}`)
      }
      const nowMs = clock()
      const { total = 0, usedToday = 0 } =
        (await Promise.try(parts.keys, nowMs).catch(() => null)) ?? {}
      const dataBytes = observed
        .databases()
        .reduce((sum, { bytes, walBytes }) => sum + (bytes ?? 0) + (walBytes ?? 0), 0)
      const minute = Math.floor(nowMs / MINUTE_MS) - 1 // the last full minute
      const isYoung = history.between(0, minute - RANGES['1h'].minutes).length === 0
      return {
        list: await list(nowMs).catch(() => null),
        keys: { total, used_today: usedToday },
        checker: await readChecker(observed.checker),
        process: {
          ...{ rss_bytes: parts.rssBytes(), data_bytes: dataBytes },
          free_bytes: observed.space()?.freeBytes ?? null,
        },
        history: describeHistory(history, given || (isYoung ? '1h' : '24h'), minute),
      }
    },
  }
}
