/**
 * Measuring what the charts of the console show: requests by the differences of their counters,
 * over a minute for the history and over some seconds for now. Time goes by the stopwatch, because the
 * clock may jump.
 */
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { quantileOf } from '../metrics/histogram.ts'
import type { Traffic } from '../metrics/traffic.ts'
import type { History, Sample } from './history.ts'

/** Calls of `tick`, one a second, between two marks of the traffic, and how many marks are kept. */
const MARK_EVERY = 5
const MARKS = 4

/** The counters of requests at an instant of the stopwatch. */
type Mark = { atMs: number; traffic: Traffic }

/** Requests of a while: per second by outcome, their refused share, and quantiles of durations. */
export type Rates = ReturnType<typeof ratesBetween>

const round = (value: number): number => Math.round(value * 1000) / 1000

function quantileMs(counts: readonly number[], quantile: number): number | null {
  const seconds = quantileOf(counts, quantile)
  return seconds === null ? null : round(seconds * SECOND_MS)
}

/** What happened between two marks. */
export function ratesBetween(from: Mark, to: Mark) {
  const seconds = Math.max(to.atMs - from.atMs, 1) / SECOND_MS
  const [a, b] = [from.traffic, to.traffic]
  const count = (outcome: 'ok' | 'notFound' | 'rejected' | 'refused' | 'failed'): number =>
    Math.max(0, b[outcome] - a[outcome])
  const counts = {
    ok: count('ok'),
    notFound: count('notFound'),
    rejected: count('rejected'),
    refused: count('refused'),
    failed: count('failed'),
  }
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0)
  const durations = b.durations.map((n, i) => n - (a.durations[i] ?? 0))
  return {
    ok: round(counts.ok / seconds),
    notFound: round(counts.notFound / seconds),
    rejected: round(counts.rejected / seconds),
    refused: round(counts.refused / seconds),
    failed: round(counts.failed / seconds),
    perSecond: round(all / seconds),
    refusedShare: all === 0 ? 0 : round(counts.refused / all),
    p50Ms: quantileMs(durations, 0.5),
    p99Ms: quantileMs(durations, 0.99),
  }
}

/** What is measured besides requests; `null` is not known. */
export type Levels = Pick<Sample, 'rows' | 'fresh' | 'keys' | 'rssBytes'>

export type SamplerParts = {
  history: Pick<History, 'add'>
  traffic: () => Traffic
  /** Never rejects. */
  levels: () => Promise<Levels>
  clock: () => number
  elapsedMs: () => number
}

/** Samples the service; `tick` is to be called every second. */
export function createSampler({ history, traffic, levels, clock, elapsedMs }: SamplerParts) {
  const mark = (): Mark => ({ atMs: elapsedMs(), traffic: traffic() })
  const minuteNow = (): number => Math.floor(clock() / MINUTE_MS)
  let minute = minuteNow()
  let begun = mark()
  let marks = [begun]
  let ticks = 0

  return {
    /** Resolves once a minute that is over has its sample. */
    async tick(): Promise<void> {
      ticks += 1
      if (ticks % MARK_EVERY === 0) marks = [...marks, mark()].slice(-MARKS)
      const over = minute
      minute = minuteNow()
      if (minute === over) return
      const before = begun
      begun = mark()
      const { perSecond, refusedShare, ...rates } = ratesBetween(before, begun)
      history.add({ minute: over, ...rates, ...(await levels()) })
    },
    /** The requests of the last 15 to 20 seconds, or since the start. */
    recent(): Rates {
      const now = mark()
      return ratesBetween(marks[0] ?? now, now)
    },
  }
}
