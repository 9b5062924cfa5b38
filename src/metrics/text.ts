/** Writes the metrics in the text format of Prometheus (version 0.0.4). */
import type { CacheCounts } from '../api/response-cache.ts'
import { BUN_VERSION, COMMIT, SQLITE_VERSION, VERSION } from '../config/version.ts'
import type { FeedState } from '../feeds/store.ts'
import { type Clock, withTimeout } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Attention } from './attention.ts'
import { FAMILIES, type Labels, type Reading } from './families.ts'
import type { Observed } from './observed.ts'
import { attempt, readProcess, type Timing, watchEventLoop } from './process.ts'
import type { AdmissionCounts, AllTraffic } from './traffic.ts'

export type Counted = {
  traffic: AllTraffic
  admissions: AdmissionCounts
  cacheCounts: () => CacheCounts
}

type MetricsParts = {
  counted: Counted
  observed: Observed
  /** Reads the reasons for attention; never rejects. */
  attention: () => Promise<readonly Attention[]>
  clock: Clock
  timing: Timing
}

export const WAIT_MS_MAX = SECOND_MS

/** Makes the sources of feeds unique: masking may have made some equal. */
function labelled(feeds: readonly FeedState[]): Reading['feeds'] {
  const seen = new Map<string, number>()
  return feeds.map(state => {
    const { source } = state
    const count = (seen.get(source) ?? 0) + 1
    seen.set(source, count)
    return { source: count === 1 ? source : `${source} #${count}`, state }
  })
}

const escaped = (text: string): string =>
  text.replace(/[\\"\n]/g, found => (found === '\n' ? '\\n' : `\\${found}`))

function labelsText(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(`${value}`)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function textOf(reading: Reading): string {
  let text = ''
  for (const { name, help, type, read } of FAMILIES) {
    text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
    for (const { value, labels, end = '' } of read(reading)) {
      text += `${name}${end}${labelsText(labels)} ${value}\n`
    }
  }
  return text
}

/** Starts to measure the event loop. Returns a function that writes the metrics. */
export function createMetricsText(parts: MetricsParts) {
  const { counted, observed, attention, clock, timing } = parts
  const lags = watchEventLoop(timing)
  const build = { version: VERSION, commit: COMMIT, bun: BUN_VERSION, sqlite: SQLITE_VERSION }
  // The last result: reading it may take longer than a scrape waits.
  let lastAttention: Reading['attention'] = null

  return async (): Promise<string> => {
    const nowMs = clock()
    // Leaves out values that cannot be read in time. Failures are reported elsewhere.
    const soon = <T>(read: Promise<T>) =>
      withTimeout(read, WAIT_MS_MAX, timing.later).catch(() => null)
    const readAttention = async (): Promise<void> => {
      lastAttention = await attention()
    }
    const [breakdown, feeds, checker] = await Promise.all([
      soon(Promise.try(observed.breakdown, nowMs)),
      (async () => labelled(await observed.feeds()))().catch(() => []),
      soon(Promise.try(observed.checker)),
      soon(readAttention()),
    ])
    return textOf({
      ...{ nowMs, breakdown, lags, build },
      ...{ traffic: counted.traffic, admissions: counted.admissions },
      cache: counted.cacheCounts(),
      list: attempt(() => observed.checks()),
      ...{ feeds, checker, attention: lastAttention },
      replication: observed.replication(),
      databases: observed.databases(),
      freeBytes: observed.space()?.freeBytes ?? null,
      process: readProcess(),
    })
  }
}
