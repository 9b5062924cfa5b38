/** Owns the overview of the console: what the service does now, and its last 24 hours. */
import { VERSION } from '../config/version.ts'
import { formatInstant, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { type History, MEASURES, type Measure, type Sample } from './history.ts'
import { wireName } from './route.ts'
import { createSampler, type Levels, type SamplerParts } from './sampler.ts'

/** The list as the overview shows it; `fresh` rows are those that a query without `time` finds. */
export type Figures = {
  rows: number
  fresh: number
  newestMs: number | null
  types: readonly { type: string; count: number }[]
}

export type OverviewParts = Pick<SamplerParts, 'traffic' | 'clock' | 'elapsedMs'> & {
  history: Pick<History, 'add' | 'until'>
  /** Counted beside the requests. */
  figures: () => Promise<Figures>
  keys: (nowMs: number) => Awaitable<{ total: number; usedToday: number }>
  /** Why requests cannot be answered, as a sentence without names of files; `null`: they can. */
  problem: () => Awaitable<string | null>
  rssBytes: () => number
  dataBytes: () => number
}

const NO_FIGURES: Figures = { rows: 0, fresh: 0, newestMs: null, types: [] }

/** How long figures of the list are shown before they are counted again. */
const FIGURES_MS = 15 * SECOND_MS

/** Counts figures at most every 15 seconds, and once for all who ask meanwhile. */
function createFigures(count: () => Promise<Figures>, elapsedMs: () => number) {
  let counted: { atMs: number; figures: Promise<Figures | null> } | null = null
  return async (): Promise<Figures | null> => {
    if (counted === null || elapsedMs() - counted.atMs >= FIGURES_MS) {
      counted = { atMs: elapsedMs(), figures: count().catch(() => null) }
    }
    const figures = await counted.figures
    if (figures === null) counted = null
    return figures
  }
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

/** `tick` is to be called every second; `read` is the document of the overview. */
export function createOverview(parts: OverviewParts) {
  const { history, keys, problem, clock, elapsedMs } = parts
  const figures = createFigures(parts.figures, elapsedMs)
  const startedMs = elapsedMs()
  const keyCount = async () => keys(clock())

  async function levels(): Promise<Levels> {
    const list = await figures()
    const count = await keyCount().catch(() => null)
    return {
      rows: list?.rows ?? null,
      fresh: list?.fresh ?? null,
      keys: count?.usedToday ?? null,
      rssBytes: parts.rssBytes(),
    }
  }
  const sampler = createSampler({ ...parts, levels })

  return {
    tick: sampler.tick,
    async read() {
      const nowMs = clock()
      const { rows, fresh, newestMs, types } = (await figures()) ?? NO_FIGURES
      const { perSecond, refusedShare, p50Ms, p99Ms } = sampler.recent()
      const count = await keyCount().catch(() => ({ total: 0, usedToday: 0 }))
      const found = await problem()
      const newestSeconds =
        newestMs === null ? null : Math.max(0, Math.floor((nowMs - newestMs) / SECOND_MS))
      return {
        version: VERSION,
        now: formatInstant(nowMs),
        uptime_seconds: Math.floor((elapsedMs() - startedMs) / SECOND_MS),
        ready: found === null,
        problem: found,
        list: { rows, fresh, newest_seconds: newestSeconds, types },
        requests: {
          ...{ per_second: perSecond, refused_share: refusedShare },
          ...{ p50_ms: p50Ms, p99_ms: p99Ms },
        },
        keys: { total: count.total, used_today: count.usedToday },
        process: { rss_bytes: parts.rssBytes(), data_bytes: parts.dataBytes() },
        history: describeHistory(history.until(Math.floor(nowMs / MINUTE_MS))),
      }
    },
  }
}
