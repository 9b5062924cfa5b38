/** Owns what a family of metrics is: a name, a type, labels, and the samples that a reading has of it. */

import type { Admissions } from '../api/handler.ts'
import type { CacheCounts } from '../api/response-cache.ts'
import type { Breakdown } from '../proxies/stats.ts'
import type { ShownFeed } from './feeds.ts'
import { BOUNDS_SECONDS, type Histogram } from './histogram.ts'
import type { DatabaseState, ReplicationState } from './observed.ts'
import type { ProcessState } from './process.ts'
import type { AllTraffic } from './traffic.ts'

/** The content type of the text of all families. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** All that one scrape shows, as of one moment. */
export type Reading = {
  nowMs: number
  traffic: AllTraffic
  admissions: Admissions
  cache: CacheCounts
  /** `null` while the list cannot be read. */
  extent: { rows: number; newestMs: number | null } | null
  breakdown: Breakdown | null
  feeds: readonly ShownFeed[]
  databases: readonly DatabaseState[]
  replication: ReplicationState | null
  freeBytes: number | null
  process: ProcessState
  lags: Histogram
  build: { readonly [label: string]: string }
}

export type Sample = {
  value: number
  labels?: { readonly [label: string]: string | number }
  /** Of a histogram: the end of its name. */
  end?: '_bucket' | '_sum' | '_count'
}

export type Family = {
  name: string
  type: 'counter' | 'gauge' | 'histogram'
  labels: readonly string[]
  help: string
  read: (reading: Reading) => readonly Sample[]
}

/** The samples of a family without labels; none when its value is not known. */
export const one = (value: number | null): Sample[] => (value === null ? [] : [{ value }])

/** The samples of a histogram: its buckets hold what is in those below them, too. */
export function histogramSamples(
  { counts, sumSeconds }: Histogram,
  labels: NonNullable<Sample['labels']> = {},
): Sample[] {
  let count = 0
  const buckets = Array.from(counts, (own, at): Sample => {
    count += own
    const le = BOUNDS_SECONDS[at] ?? '+Inf'
    return { end: '_bucket', labels: { ...labels, le }, value: count }
  })
  return [
    ...buckets,
    { end: '_sum', labels, value: sumSeconds },
    { end: '_count', labels, value: count },
  ]
}
