/** The overview of the console: what the service does now, and its last 24 hours. */
import { VERSION } from '../config/version.ts'
import { formatInstant, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { Observed } from '../metrics/observed.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../proxies/filter.ts'
import type { Breakdown } from '../proxies/stats.ts'
import { type History, MEASURES, type Measure, type Sample } from './history.ts'
import { wireName } from './route.ts'
import { createSampler, type Levels, type SamplerParts } from './sampler.ts'

export type OverviewParts = Pick<SamplerParts, 'traffic' | 'clock' | 'elapsedMs'> & {
  history: Pick<History, 'add' | 'until'>
  observed: Pick<Observed, 'extent' | 'breakdown' | 'databases'>
  keys: (nowMs: number) => Awaitable<{ total: number; usedToday: number }>
  /** Why requests cannot be answered, as a sentence without names of files; `null`: they can. */
  problem: () => Awaitable<string | null>
  rssBytes: () => number
}

/** What is shown of the list; `fresh` rows are those that a query without `time` finds. */
type Figures = {
  rows: number
  fresh: number
  newestMs: number | null
  types: Breakdown['types']
}

/** The figures of the list. The breakdown may be some seconds old, the rest is not. */
async function figuresOf({ observed }: OverviewParts, nowMs: number): Promise<Figures> {
  const { ages, types } = await observed.breakdown(nowMs)
  const fresh = ages
    .filter(({ seconds }) => seconds !== null && seconds <= DEFAULT_AGE_MAX_SECONDS)
    .reduce((sum, { count }) => sum + count, 0)
  return { ...observed.extent(), fresh, types }
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

const NO_FIGURES: Figures = { rows: 0, fresh: 0, newestMs: null, types: [] }

/** `tick` is to be called every second; `read` is the document of the overview. */
export function createOverview(parts: OverviewParts) {
  const { history, observed, problem, clock, elapsedMs } = parts
  const startedMs = elapsedMs()
  /** `null` while the database fails. */
  const countKeys = async () => parts.keys(clock())
  const keys = () => countKeys().catch(() => null)
  const figures = (nowMs: number) => figuresOf(parts, nowMs).catch(() => null)

  async function levels(): Promise<Levels> {
    const list = await figures(clock())
    const { rows = null, fresh = null } = list ?? {}
    const count = await keys()
    return { rows, fresh, keys: count?.usedToday ?? null, rssBytes: parts.rssBytes() }
  }
  const sampler = createSampler({ ...parts, levels })

  return {
    tick: sampler.tick,
    async read() {
      const nowMs = clock()
      const { rows, fresh, newestMs, types } = (await figures(nowMs)) ?? NO_FIGURES
      const { perSecond, refusedShare, p50Ms, p99Ms } = sampler.recent()
      const { total = 0, usedToday = 0 } = (await keys()) ?? {}
      const found = await problem()
      const dataBytes = observed
        .databases()
        .reduce((sum, { bytes, walBytes }) => sum + (bytes ?? 0) + (walBytes ?? 0), 0)
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
        keys: { total, used_today: usedToday },
        process: { rss_bytes: parts.rssBytes(), data_bytes: dataBytes },
        history: describeHistory(history.until(Math.floor(nowMs / MINUTE_MS))),
      }
    },
  }
}
