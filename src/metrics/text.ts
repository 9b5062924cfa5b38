/**
 * The text of the metrics, in the exposition format of Prometheus, so made that scrapes cost little.
 * Imported at the first scrape. Of prom-client it takes the registry alone: all of it would take 17 ms
 * to load, during which requests wait, and 2.8 MB of the binary.
 */
import type { Gauge } from 'prom-client'
import Registry from 'prom-client/lib/registry.js'
import type { CacheCounts } from '../api/response-cache.ts'
import { BUN_VERSION, COMMIT, SQLITE_VERSION, VERSION } from '../config/version.ts'
import type { FeedState } from '../feeds/store.ts'
import { type Clock, orAfter } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Attention } from './attention.ts'
import { FAMILIES, type Reading } from './families.ts'
import type { Observed } from './observed.ts'
import { attempt, readProcess, type Timing, watchEventLoop } from './process.ts'
import type { AdmissionCounts, AllTraffic } from './traffic.ts'

/** What is counted in the request path. */
export type Counted = {
  traffic: AllTraffic
  admissions: AdmissionCounts
  cacheCounts: () => CacheCounts
}

type MetricsParts = {
  counted: Counted
  observed: Observed
  /** What needs attention; never rejects. */
  attention: () => Promise<readonly Attention[]>
  clock: Clock
  timing: Timing
}

/** How long a text is given to all who scrape, and how long one scrape waits for the list. */
const SHARED_MS = SECOND_MS
export const WAIT_MS_MAX = SECOND_MS

/** Feeds that are shown at most: first those that fail. A scrape takes microseconds for each. */
export const FEEDS_MAX = 200
/** The longest part of a source that is shown. */
export const LABEL_LENGTH_MAX = 200

/** The feeds that are shown, each with a label of its own. */
function shownFeeds(feeds: readonly FeedState[]): Reading['feeds'] {
  const seen = new Map<string, number>()
  const labelled = feeds.map(state => {
    const cut = state.source.slice(0, LABEL_LENGTH_MAX)
    const count = (seen.get(cut) ?? 0) + 1
    seen.set(cut, count)
    return { source: count === 1 ? cut : `${cut} #${count}`, state }
  })
  return labelled.sort((a, b) => b.state.failures - a.state.failures).slice(0, FEEDS_MAX)
}

function textOf(reading: Reading): Promise<string> {
  const registry = new Registry()
  for (const { name, help, type, read } of FAMILIES) {
    const get = async () => {
      const values = read(reading).map(({ value, labels = {}, end = '' }) => {
        return { value, labels, metricName: name + end }
      })
      return { name, help, type, aggregator: 'sum', values }
    }
    // Its own classes count; of one that is only read, the registry needs the name and `get`.
    registry.registerMetric({ name, get } as unknown as Gauge)
  }
  return registry.metrics()
}

/**
 * Returns what writes the metrics. All scrapes within a second share one text. From the first one on,
 * the event loop is measured.
 */
export function createMetricsText(parts: MetricsParts) {
  const { counted, observed, attention, clock, timing } = parts
  const lags = watchEventLoop(timing)
  const build = { version: VERSION, commit: COMMIT, bun: BUN_VERSION, sqlite: SQLITE_VERSION }
  let shared: { text: Promise<string>; atMs: number } | null = null
  const known: Pick<Reading, 'attention'> = { attention: null } // the newest: it may take longer

  async function write(): Promise<string> {
    const nowMs = clock()
    // Left out where it cannot be read, which is reported elsewhere, or one scrape would wait for long.
    const soon = <T>(read: Promise<T>) => orAfter(read, WAIT_MS_MAX, timing.later).catch(() => null)
    const [breakdown, , feeds, checker] = await Promise.all([
      soon(Promise.try(observed.breakdown, nowMs)),
      soon(attention().then(found => Object.assign(known, { attention: found }))),
      (async () => shownFeeds(await observed.feeds()))().catch(() => []),
      soon(Promise.try(observed.checker)),
    ])
    return textOf({
      ...{ nowMs, breakdown, lags, build },
      ...{ traffic: counted.traffic, admissions: counted.admissions },
      cache: counted.cacheCounts(),
      list: attempt(() => observed.checks()),
      ...{ feeds, checker, ...known },
      replication: observed.replication(),
      databases: observed.databases(),
      freeBytes: observed.space()?.freeBytes ?? null,
      process: readProcess(),
    })
  }

  return (): Promise<string> => {
    const nowMs = timing.elapsedMs()
    if (shared === null || nowMs - shared.atMs >= SHARED_MS) {
      const text = write()
      shared = { text, atMs: nowMs }
      text.catch(() => {
        if (shared?.text === text) shared = null
      })
    }
    return shared.text
  }
}
