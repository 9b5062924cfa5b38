/**
 * The table of metrics, in the order of the text (contract G4). No label holds anything that clients choose, such as
 * a key, its id, or a path without a route.
 */
import { type ErrorCode, STATUS } from '../api/errors.ts'
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
import type { ProcessState } from './process.ts'
import { type AdmissionCounts, type AllTraffic, type RouteTraffic, statusOf } from './traffic.ts'

/** Everything that one scrape shows, at one moment. */
export type Reading = {
  nowMs: number
  traffic: AllTraffic
  admissions: AdmissionCounts
  cache: CacheCounts
  /** `null` while the list cannot be read. */
  list: ListChecks | null
  breakdown: Breakdown | null
  /** Each with a label of its own. */
  feeds: readonly { source: string; state: FeedState }[]
  /** `null`: none ever ran. */
  checker: CheckerStatus | null
  databases: readonly DatabaseState[]
  attention: readonly Attention[] | null
  replication: ReplicationState | null
  freeBytes: number | null
  process: ProcessState
  lags: Histogram
  build: { readonly [label: string]: string }
}

export type Labels = { readonly [label: string]: string | number }
export type Sample = {
  value: number
  labels?: Labels
  /** Of a histogram: the end of its name. */
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

/** A family. Names that any process has begin with `process_`; all others get our prefix. */
const family = (type: Type, name: string, help: string, labels: string[], read: Read): Family => {
  return {
    name: name.startsWith('process_') ? name : `proxylist_${name}`,
    type,
    labels,
    help,
    read,
  }
}

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

/** A value of the checker's status. */
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

const LIMIT_CODES = (Object.keys(STATUS) as ErrorCode[]) // of the table itself
  .filter(code => STATUS[code] === 429)

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
    'Time until a reply was ready, or its stream began.',
    ['route'],
    reading =>
      routesOf(reading).flatMap(({ path: route, durations }) => samplesOf(durations, { route })),
  ),
  gauge(
    'http_requests_in_flight',
    'Requests that wait for their reply.',
    r => r.traffic.begun - r.traffic.ended,
  ),
  family(
    'counter',
    'http_sent_bytes_total',
    'Body bytes given to connections; of streams, before compression.',
    ['route'],
    reading =>
      routesOf(reading).map(({ path: route, bytes }) => ({ labels: { route }, value: bytes })),
  ),
  counter('sent_records_total', 'Records given to connections.', r =>
    sum(routesOf(r).map(({ records }) => records)),
  ),
  counter('streams_total', 'Long answers begun.', r => r.traffic.streams.begun),
  counter(
    'streams_truncated_total',
    'Long answers that ended early.',
    r => r.traffic.streams.truncated,
  ),
  gauge(
    'streams_under_way',
    'Long answers being sent.',
    r => r.traffic.streams.begun - r.traffic.streams.ended,
  ),
  family(
    'counter',
    'admissions_total',
    'Admitted requests; kind is regular, temp or demo.',
    ['kind'],
    ({ admissions: { refunded: _, ...kinds } }) =>
      Object.entries(kinds).map(([kind, value]) => ({ labels: { kind }, value })),
  ),
  counter(
    'admissions_given_back_total',
    'Admitted requests that failed and do not count.',
    r => r.admissions.refunded,
  ),
  family('counter', 'refusals_total', 'Requests refused by a limit (429).', ['code'], reading =>
    LIMIT_CODES.map(code => {
      const counts = routesOf(reading).map(({ outcomes }) => outcomes.get(code)?.count ?? 0)
      return { labels: { code }, value: sum(counts) }
    }),
  ),
  counter('cache_hits_total', 'Answers from the response cache.', r => r.cache.hits),
  counter('cache_misses_total', 'Answers that had to be found.', r => r.cache.misses),
  counter('cache_evictions_total', 'Cache entries evicted for others.', r => r.cache.evictions),
  gauge('cache_entries', 'Entries of the response cache.', r => r.cache.entries),
  gauge('cache_bytes', 'Memory of the response cache.', r => r.cache.bytes),
  gauge('cache_max_bytes', 'Most memory of the cache (--cache-bytes).', r => r.cache.bytesMax),
  family(
    'gauge',
    'attention',
    'Whether something needs attention, see proxylist help console: 1, else 0.',
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
    'Proxies in the list by type, counted every 15 s at most.',
    ['type'],
    ({ breakdown }) =>
      (breakdown?.types ?? []).map(({ type, count }) => ({ labels: { type }, value: count })),
  ),
  gauge(
    'list_fresh_rows',
    `Proxies checked within ${DEFAULT_AGE_MAX_SECONDS} s, counted likewise.`,
    r => r.breakdown && freshRows(r.breakdown),
  ),
  gauge(
    'list_newest_check_age_seconds',
    'Age of the newest check; missing while the list is empty.',
    r => ageOf(r, r.list?.newest),
  ),
  gauge(
    'list_median_check_age_seconds',
    'Median age of checks; missing while the list is empty.',
    r => ageOf(r, r.breakdown?.median),
  ),
  perFeed(
    'gauge',
    'feed_last_success_timestamp_seconds',
    'Last success of the feed, in Unix seconds; missing until then.',
    ({ lastSuccessAt }) => lastSuccessAt && lastSuccessAt / SECOND_MS,
  ),
  perFeed('gauge', 'feed_rows', 'Usable rows of the feed at its last import.', f => f.rows),
  perFeed(
    'gauge',
    'feed_rejected_rows',
    'Rejected rows of the feed at its last import.',
    f => f.rejected,
  ),
  perFeed(
    'counter',
    'feed_attempts_total',
    'Attempts at the feed, by all servers.',
    f => f.attempts,
  ),
  perFeed('gauge', 'feed_consecutive_failures', 'Failures of the feed in a row.', f => f.failures),
  ofChecker(
    'written_timestamp_seconds',
    'When the checker last wrote its status, in Unix seconds; missing where none ever ran.',
    ({ at }) => at / SECOND_MS,
  ),
  ofChecker('judge_up', 'Whether its judge answers; while not, nothing is checked.', s =>
    Number(s.judgeProblem === null),
  ),
  family(
    'gauge',
    'checker_candidates',
    'Addresses that it knows: living, down, or raw, which were never alive.',
    ['queue'],
    ({ checker }) =>
      Object.entries(checker?.queues ?? {}).map(([queue, value]) => ({ labels: { queue }, value })),
  ),
  family(
    'counter',
    'checker_checks_total',
    'Checks since its start, by what came of them: alive, deferred, or why they failed.',
    ['result'],
    ({ checker }) => {
      if (checker === null) return []
      const { alive, deferred, failures } = checker
      const failed = Object.keys(CHECK_REASONS).map(reason => [reason, 0] as const)
      const counts = { alive, deferred, ...Object.fromEntries(failed), ...failures }
      return Object.entries(counts).map(([result, value]) => ({ labels: { result }, value }))
    },
  ),
  ofChecker(
    'coverage_ratio',
    'Share of the living that were found alive within 10 minutes; missing without any.',
    s => s.coverage,
  ),
  ofChecker('lag_seconds', 'How late the check of a living one is, at most.', s => s.lagSeconds),
  counter(
    'checker_bytes_total',
    'Bytes that it sent and received since its start.',
    r => r.checker?.bytes,
  ),
  perDatabase(
    'gauge',
    'database_up',
    'Whether the database works; else requests get 503.',
    ({ works }) => Number(works),
  ),
  perDatabase(
    'counter',
    'database_failures_total',
    'Failures of the database, in requests and checks.',
    ({ failures }) => failures,
  ),
  family(
    'gauge',
    'database_size_bytes',
    'Size of a database: main file, and write-ahead log (wal).',
    ['database', 'file'],
    ({ databases }) =>
      databases.flatMap(({ name: database, bytes, walBytes }) => [
        ...sampleOf(bytes, { database, file: 'main' }),
        ...sampleOf(walBytes, { database, file: 'wal' }),
      ]),
  ),
  gauge('data_free_bytes', 'Free bytes on the disk of the data directory.', r => r.freeBytes),
  gauge(
    'replication_lag_seconds',
    'Seconds since the copies of the node were known to be the newest.',
    r => r.replication?.lagSeconds,
  ),
  gauge(
    'replication_list_version',
    'Version of the copy of the list.',
    r => r.replication?.listVersion,
  ),
  gauge(
    'replication_runs_jobs',
    'Whether this node runs retention and feeds for all.',
    r => r.replication && Number(r.replication.runsJobs),
  ),
  family(
    'histogram',
    'event_loop_lag_seconds',
    'How late a timer fired, ten times a second.',
    [],
    ({ lags }) => samplesOf(lags),
  ),
  counter('process_cpu_seconds_total', 'Processor time of the process.', r => r.process.cpuSeconds),
  gauge(
    'process_resident_memory_bytes',
    'Resident memory of the process.',
    r => r.process.residentBytes,
  ),
  gauge(
    'process_start_time_seconds',
    'When the process started, in Unix seconds.',
    r => r.process.startSeconds,
  ),
  gauge(
    'process_open_fds',
    'Open file descriptors, connections among them.',
    r => r.process.openFds,
  ),
  gauge('process_max_fds', 'Most open file descriptors allowed.', r => r.process.maxFds),
  family(
    'gauge',
    'build_info',
    'Always 1; its labels are versions.',
    ['version', 'commit', 'bun', 'sqlite'],
    ({ build }) => [{ labels: build, value: 1 }],
  ),
]
