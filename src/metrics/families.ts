/** The table of metrics (contract G4). No label has a value that clients choose, such as a key or its id. */
import type { CacheCounts } from '../api/response-cache.ts'
import { REASONS as CHECK_REASONS, type CheckerStatus } from '../checker/ports.ts'
import type { FeedState } from '../feeds/store.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../proxies/filter.ts'
import type { ListChecks } from '../proxies/freshness.ts'
import { type Breakdown, freshRows } from '../proxies/stats.ts'
import { type Attention, REASONS } from './attention.ts'
import { BOUNDS_SECONDS, type Histogram } from './histogram.ts'
import type { DatabaseState, ReplicationState } from './observed.ts'
import type { readProcess } from './process.ts'
import { type AdmissionCounts, type AllTraffic, type RouteTraffic, statusOf } from './traffic.ts'

export type Reading = {
  nowMs: number
  traffic: AllTraffic
  admissions: AdmissionCounts
  cache: CacheCounts
  /** `null` while the list cannot be read. */
  list: ListChecks | null
  breakdown: Breakdown | null
  feeds: readonly { source: string; state: FeedState }[]
  /** `null`: no checker has run. */
  checker: CheckerStatus | null
  databases: readonly DatabaseState[]
  attention: readonly Attention[] | null
  replication: ReplicationState | null
  freeBytes: number | null
  process: ReturnType<typeof readProcess>
  lags: Histogram
  build: { readonly [label: string]: string }
}

export type Labels = { readonly [label: string]: string | number }
export type Sample = {
  value: number
  labels?: Labels
  /** The end of the name, in a histogram. */
  end?: '_bucket' | '_sum' | '_count'
}

type Type = 'counter' | 'gauge' | 'histogram'
type Read = (reading: Reading) => readonly Sample[]
type Family = {
  name: string
  type: Type
  labels: readonly string[]
  help: string
  read: Read
}

/** Standard names begin with `process_`; all others get our prefix. */
const family = (type: Type, name: string, help: string, labels: string[], read: Read): Family => ({
  name: name.startsWith('process_') ? name : `proxylist_${name}`,
  ...{ type, labels, help, read },
})

/** An unknown value has no sample. */
const sampleOf = (value: number | null | undefined, labels: Labels = {}): Sample[] =>
  value === null || value === undefined ? [] : [{ value, labels }]

type Value = (reading: Reading) => number | null | undefined
const single = (type: Type) => (name: string, help: string, value: Value) =>
  family(type, name, help, [], reading => sampleOf(value(reading)))
const counter = single('counter')
const gauge = single('gauge')

const perFeed = (type: Type, name: string, help: string, value: (s: FeedState) => number | null) =>
  family(type, name, help, ['source'], ({ feeds }) =>
    feeds.flatMap(({ source, state }) => sampleOf(value(state), { source })),
  )

const ofChecker = (name: string, help: string, value: (s: CheckerStatus) => number | null) =>
  gauge(`checker_${name}`, help, ({ checker }) => checker && value(checker))

const perDatabase = (type: Type, name: string, help: string, value: (s: DatabaseState) => number) =>
  family(type, name, help, ['database'], ({ databases }) =>
    databases.map(state => ({ value: value(state), labels: { database: state.name } })),
  )

/** The samples of a histogram. Each bucket includes the ones below it. */
function samplesOf({ counts, sumSeconds }: Histogram, labels: Labels = {}): Sample[] {
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

const routesOf = ({ traffic }: Reading): RouteTraffic[] => Array.from(traffic.routes.values())
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

/** Seconds since an instant in Unix seconds, at least 0: a check may lie in the future. */
const ageOf = ({ nowMs }: Reading, seconds: number | null | undefined): number | null =>
  seconds === null || seconds === undefined ? null : Math.max(0, toSeconds(nowMs) - seconds)

export const FAMILIES: readonly Family[] = [
  family(
    'counter',
    'http_requests_total',
    'Answered requests.',
    ['route', 'status', 'code'],
    reading =>
      routesOf(reading).flatMap(({ path: route, outcomes }) =>
        Array.from(outcomes, ([outcome, { count: value }]) => {
          const status = statusOf(outcome)
          const code = typeof outcome === 'string' ? { code: outcome } : {}
          return { labels: { route, status, ...code }, value }
        }),
      ),
  ),
  family(
    'histogram',
    'http_request_duration_seconds',
    'Time to the reply, or to the start of its stream.',
    ['route'],
    reading =>
      routesOf(reading).flatMap(({ path: route, durations }) => samplesOf(durations, { route })),
  ),
  gauge(
    'http_requests_in_flight',
    'Requests without a reply.',
    ({ traffic: t }) => t.begun - t.ended,
  ),
  family(
    'counter',
    'http_sent_bytes_total',
    'Body bytes written to connections; streams count before compression.',
    ['route'],
    reading =>
      routesOf(reading).map(({ path: route, bytes }) => ({ labels: { route }, value: bytes })),
  ),
  counter('sent_records_total', 'Records written to connections.', r =>
    sum(routesOf(r).map(({ records }) => records)),
  ),
  counter('streams_total', 'Long answers begun.', r => r.traffic.streams.begun),
  counter('streams_truncated_total', 'Long answers cut short.', r => r.traffic.streams.truncated),
  family(
    'counter',
    'admissions_total',
    'Admitted requests; kind is regular, temp or demo.',
    ['kind'],
    ({ admissions: { refunded: _, ...kinds } }) =>
      Object.entries(kinds).map(([kind, value]) => ({ labels: { kind }, value })),
  ),
  counter('admissions_given_back_total', 'Refunded requests.', r => r.admissions.refunded),
  counter('cache_hits_total', 'Answers from the response cache.', r => r.cache.hits),
  counter('cache_misses_total', 'Answers not in the response cache.', r => r.cache.misses),
  counter('cache_evictions_total', 'Evicted cache entries.', r => r.cache.evictions),
  gauge('cache_entries', 'Entries of the response cache.', r => r.cache.entries),
  gauge('cache_bytes', 'Memory of the response cache.', r => r.cache.bytes),
  gauge('cache_max_bytes', 'Memory limit of the cache (--cache-bytes).', r => r.cache.bytesMax),
  family(
    'gauge',
    'attention',
    '1 while the reason needs attention, else 0; see proxylist help console.',
    ['reason'],
    ({ attention }) =>
      attention === null
        ? []
        : REASONS.map(reason => ({
            labels: { reason },
            value: Number(attention.some(each => each.reason === reason)),
          })),
  ),
  gauge('list_rows', 'Proxies in the list.', r => r.list?.rows),
  family(
    'gauge',
    'list_rows_by_type',
    'Proxies by type, counted at most every 15 s. A proxy with several types counts for each.',
    ['type'],
    ({ breakdown }) =>
      (breakdown?.types ?? []).map(({ type, count }) => ({ labels: { type }, value: count })),
  ),
  gauge(
    'list_fresh_rows',
    `Proxies checked within ${DEFAULT_AGE_MAX_SECONDS} s.`,
    r => r.breakdown && freshRows(r.breakdown),
  ),
  gauge('list_newest_check_age_seconds', 'Age of the newest check.', r => ageOf(r, r.list?.newest)),
  gauge('list_median_check_age_seconds', 'Median age.', r => ageOf(r, r.breakdown?.median)),
  perFeed(
    'gauge',
    'feed_last_success_timestamp_seconds',
    'Unix time of the last success.',
    f => f.lastSuccessAt && f.lastSuccessAt / SECOND_MS,
  ),
  perFeed('gauge', 'feed_rows', 'Usable rows in the last import of the feed.', f => f.rows),
  perFeed('gauge', 'feed_consecutive_failures', 'Consecutive failures.', f => f.failures),
  ofChecker('written_timestamp_seconds', 'Unix time of its last status.', s => s.at / SECOND_MS),
  ofChecker('judge_up', '1 while the judge answers.', s => Number(s.judgeProblem === null)),
  family(
    'gauge',
    'checker_candidates',
    'Addresses in the queues living, down and raw (never alive).',
    ['queue'],
    ({ checker }) =>
      Object.entries(checker?.queues ?? {}).map(([queue, value]) => ({ labels: { queue }, value })),
  ),
  family(
    'counter',
    'checker_checks_total',
    'Checks since the start of the checker: alive, deferred, or the reason of the failure.',
    ['result'],
    ({ checker }) => {
      if (checker === null) return []
      const { alive, deferred, failures } = checker
      const failed = Object.keys(CHECK_REASONS).map(reason => [reason, 0] as const)
      const counts = { alive, deferred, ...Object.fromEntries(failed), ...failures }
      return Object.entries(counts).map(([result, value]) => ({ labels: { result }, value }))
    },
  ),
  ofChecker('coverage_ratio', 'Share of the living that are fresh.', s => s.coverage),
  ofChecker('lag_seconds', 'Longest delay of a due check of a living proxy.', s => s.lagSeconds),
  counter('checker_bytes_total', 'Bytes that checks took.', r => r.checker?.bytes),
  perDatabase('gauge', 'database_up', '1 while the database works.', s => Number(s.works)),
  perDatabase('counter', 'database_failures_total', 'Failures of the database.', s => s.failures),
  family(
    'gauge',
    'database_size_bytes',
    'Size of the main file and of the write-ahead log (wal).',
    ['database', 'file'],
    ({ databases }) =>
      databases.flatMap(({ name: database, bytes, walBytes }) => [
        ...sampleOf(bytes, { database, file: 'main' }),
        ...sampleOf(walBytes, { database, file: 'wal' }),
      ]),
  ),
  gauge('data_free_bytes', 'Free bytes on the disk of the data directory.', r => r.freeBytes),
  gauge('replication_lag_seconds', 'Age of the copies.', r => r.replication?.lagSeconds),
  gauge('replication_list_version', 'Version of the list.', r => r.replication?.listVersion),
  gauge(
    'replication_runs_jobs',
    '1 if this node leads.',
    r => r.replication && Number(r.replication.runsJobs),
  ),
  family('histogram', 'event_loop_lag_seconds', 'Delay of a timer.', [], ({ lags }) =>
    samplesOf(lags),
  ),
  counter('process_cpu_seconds_total', 'Processor time of the process.', r => r.process.cpuSeconds),
  gauge('process_resident_memory_bytes', 'Resident memory.', r => r.process.residentBytes),
  gauge('process_start_time_seconds', 'Unix time of the start.', r => r.process.startSeconds),
  gauge('process_open_fds', 'Open file descriptors.', r => r.process.openFds),
  gauge('process_max_fds', 'Limit of open file descriptors.', r => r.process.maxFds),
  family(
    'gauge',
    'build_info',
    'Always 1; its labels are versions.',
    ['version', 'commit', 'bun', 'sqlite'],
    ({ build }) => [{ labels: build, value: 1 }],
  ),
]
