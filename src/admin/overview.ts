/**
 * The overview of the console: what the service does now, and its last 24 hours, a sample a minute. Requests
 * are measured by the differences of their counters, over a minute for the charts and over some seconds for
 * now. Time goes by the stopwatch, because the clock may jump.
 */
import { VERSION } from '../config/version.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstant, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Attention } from '../metrics/attention.ts'
import { quantileOf } from '../metrics/histogram.ts'
import type { Observed } from '../metrics/observed.ts'
import type { Traffic } from '../metrics/traffic.ts'
import { freshRows } from '../proxies/stats.ts'
import { readChecker } from './checker.ts'
import { wireName } from './route.ts'

/** Minutes that are kept: 24 hours. */
export const MINUTES = 1440

const OUTCOMES = ['ok', 'notFound', 'rejected', 'refused', 'failed'] as const
type Counts = { [outcome in (typeof OUTCOMES)[number]]: number }

/** What is measured in a minute; `null` is not known. */
const MEASURES = [
  ...OUTCOMES,
  ...(['p50Ms', 'p99Ms', 'rows', 'fresh', 'keys', 'rssBytes'] as const),
]
type Measure = (typeof MEASURES)[number]

/** A minute, counted from 1970-01-01, and what was measured in it. */
export type Sample = { readonly minute: number } & { readonly [M in Measure]: number | null }

/** Where samples are kept over a restart, each in a slot. No method throws. */
type SampleStore = {
  read(): unknown[]
  write(slot: number, sample: Sample): void
  close(): void
}

const slotOf = (minute: number): number => minute % MINUTES

export type History = ReturnType<typeof openHistory>

/**
 * The samples of the last 24 hours. A minute has its slot by its number, so time needs no order: what a
 * clock that jumps has left behind is outside of the window, or overwritten a day later.
 */
export function openHistory(store: SampleStore) {
  const slots = new Map<number, Sample>()
  for (const sample of store.read() as Sample[]) slots.set(slotOf(sample.minute), sample) // as `add` wrote
  return {
    /** Keeps the sample of a minute, in the place of the one a day before. */
    add(sample: Sample): void {
      slots.set(slotOf(sample.minute), sample)
      store.write(slotOf(sample.minute), sample)
    },
    /** The samples of the 24 hours up to a minute, oldest first. */
    upTo: (minute: number): Sample[] =>
      [...slots.values()]
        .filter(sample => sample.minute <= minute && sample.minute > minute - MINUTES)
        .sort((a, b) => a.minute - b.minute),
    close: store.close,
  }
}

/** Calls of `tick`, one a second, between two marks of the traffic, and how many marks are kept. */
const MARK_EVERY = 5
const MARKS = 4

/** The counters of requests at an instant of the stopwatch. */
type Mark = { atMs: number; traffic: Traffic }

/** Requests of a while: per second by outcome, their refused share, and quantiles of durations. */
type Rates = ReturnType<typeof ratesBetween>

const round = (value: number): number => Math.round(value * 1000) / 1000

function quantileMs(counts: readonly number[], quantile: number): number | null {
  const seconds = quantileOf(counts, quantile)
  return seconds === null ? null : round(seconds * SECOND_MS)
}

/** What happened between two marks. */
export function ratesBetween(from: Mark, to: Mark) {
  const seconds = Math.max(to.atMs - from.atMs, 1) / SECOND_MS
  const [a, b] = [from.traffic, to.traffic]
  const each = (of: (outcome: keyof Counts) => number): Counts =>
    Object.fromEntries(OUTCOMES.map(outcome => [outcome, of(outcome)])) as Counts // of all outcomes
  const counts = each(outcome => Math.max(0, b[outcome] - a[outcome]))
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0)
  const durations = b.durations.map((n, i) => n - (a.durations[i] ?? 0))
  return {
    ...each(outcome => round(counts[outcome] / seconds)),
    perSecond: round(all / seconds),
    refusedShare: all === 0 ? 0 : round(counts.refused / all),
    p50Ms: quantileMs(durations, 0.5),
    p99Ms: quantileMs(durations, 0.99),
  }
}

/** What is measured besides requests; `null` is not known. */
type Levels = Pick<Sample, 'rows' | 'fresh' | 'keys' | 'rssBytes'>

type SamplerParts = {
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

type OverviewParts = Pick<SamplerParts, 'traffic' | 'clock' | 'elapsedMs'> & {
  history: Pick<History, 'add' | 'upTo'>
  observed: Pick<Observed, 'extent' | 'breakdown' | 'databases' | 'space' | 'checker'>
  keys: (nowMs: number) => Awaitable<{ total: number; usedToday: number }>
  /** Why requests cannot be answered, as a sentence without names of files; `null`: they can. */
  problem: () => Awaitable<string | null>
  attention: () => Promise<readonly Attention[]>
  rssBytes: () => number | null
}

/**
 * The figures of the list; `fresh` rows are those that a query without `time` finds. The breakdown may be
 * some seconds old, the rest is not.
 */
async function figuresOf({ observed }: OverviewParts, nowMs: number) {
  const breakdown = await observed.breakdown(nowMs)
  return { ...observed.extent(), fresh: freshRows(breakdown), types: breakdown.types }
}

/** The columns of a history as they are written on the wire. */
function describeHistory(samples: readonly Sample[]) {
  const first = samples[0]?.minute ?? 0
  const length = samples.length === 0 ? 0 : (samples.at(-1)?.minute ?? first) - first + 1
  const byMinute = new Map(samples.map(sample => [sample.minute, sample]))
  const minutes = Array.from({ length }, (_, i) => first + i)
  const column = (measure: Measure): (number | null)[] =>
    minutes.map(minute => byMinute.get(minute)?.[measure] ?? null)
  const columns = MEASURES.map(measure => [wireName(measure), column(measure)])
  return {
    every_seconds: MINUTE_MS / SECOND_MS,
    at: minutes.map(minute => minute * (MINUTE_MS / SECOND_MS)),
    ...Object.fromEntries(columns),
  }
}

/** `tick` is to be called every second; `state` and `read` are documents: for every view, and of the overview. */
export function createOverview(parts: OverviewParts) {
  const { history, observed, problem, clock, elapsedMs } = parts
  const startedMs = elapsedMs()
  /** `null` while the database fails. */
  const keys = () => Promise.try(parts.keys, clock()).catch(() => null)
  const figures = (nowMs: number) => figuresOf(parts, nowMs).catch(() => null)

  async function levels(): Promise<Levels> {
    const { rows = null, fresh = null } = (await figures(clock())) ?? {}
    return { rows, fresh, keys: (await keys())?.usedToday ?? null, rssBytes: parts.rssBytes() }
  }
  const sampler = createSampler({ ...parts, levels })

  /** Whether all is well. */
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
    tick: sampler.tick,
    state,
    async read() {
      const nowMs = clock()
      const { rows = 0, fresh = 0, newestMs = null, types = [] } = (await figures(nowMs)) ?? {}
      const { perSecond, refusedShare, p50Ms, p99Ms } = sampler.recent()
      const { total = 0, usedToday = 0 } = (await keys()) ?? {}
      const dataBytes = observed
        .databases()
        .reduce((sum, { bytes, walBytes }) => sum + (bytes ?? 0) + (walBytes ?? 0), 0)
      const newestSeconds =
        newestMs === null ? null : Math.max(0, Math.floor((nowMs - newestMs) / SECOND_MS))
      return {
        ...(await state()),
        list: { rows, fresh, newest_seconds: newestSeconds, types },
        requests: {
          ...{ per_second: perSecond, refused_share: refusedShare },
          ...{ p50_ms: p50Ms, p99_ms: p99Ms },
        },
        keys: { total, used_today: usedToday },
        checker: await readChecker(observed.checker),
        process: {
          ...{ rss_bytes: parts.rssBytes(), data_bytes: dataBytes },
          free_bytes: observed.space()?.freeBytes ?? null,
        },
        history: describeHistory(history.upTo(Math.floor(nowMs / MINUTE_MS))),
      }
    },
  }
}
