/**
 * The table of metrics: every family that is shown, in this order (contract G4). No label holds a key,
 * its id, a path that has no route, or anything else that clients choose.
 */
import { type ErrorCode, STATUS } from '../api/errors.ts'
import type { Admissions } from '../api/handler.ts'
import type { CacheCounts } from '../api/response-cache.ts'
import type { FeedState } from '../feeds/store.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../proxies/filter.ts'
import { type Breakdown, freshRows } from '../proxies/stats.ts'
import { BOUNDS_SECONDS, type Histogram } from './histogram.ts'
import type { DatabaseState, ReplicationState } from './observed.ts'
import type { ProcessState } from './process.ts'
import { type AllTraffic, type RouteTraffic, statusOf } from './traffic.ts'

/** All that one scrape shows, as of one moment. */
export type Reading = {
  nowMs: number
  traffic: AllTraffic
  admissions: Admissions
  cache: CacheCounts
  /** `null` while the list cannot be read. */
  extent: { rows: number; newestMs: number | null } | null
  breakdown: Breakdown | null
  /** Each with the label that names it. Sources are masked, so two feeds may have the same one. */
  feeds: readonly { source: string; state: FeedState }[]
  databases: readonly DatabaseState[]
  replication: ReplicationState | null
  freeBytes: number | null
  process: ProcessState
  lags: Histogram
  build: { readonly [label: string]: string }
}

type Labels = { readonly [label: string]: string | number }
export type Sample = {
  value: number
  labels?: Labels
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

/** A value that is `null` while it is not known has no sample. */
const sampleOf = (value: number | null | undefined, labels: Labels = {}): Sample[] =>
  value === null || value === undefined ? [] : [{ value, labels }]

type Value = (reading: Reading) => number | null | undefined
const single =
  (type: 'counter' | 'gauge') =>
  (name: string, help: string, value: Value): Family => {
    return { name, type, labels: [], help, read: reading => sampleOf(value(reading)) }
  }
const counter = single('counter')
const gauge = single('gauge')

/** The samples of a histogram: its buckets hold what is in those below them, too. */
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

/** The codes of refusals because of a limit. */
const LIMIT_CODES = (Object.keys(STATUS) as ErrorCode[]) // of the table itself
  .filter(code => STATUS[code] === 429)

/** Seconds since an instant in Unix seconds, at least 0: a check may lie in the future. */
const ageOf = ({ nowMs }: Reading, seconds: number | null | undefined): number | null =>
  seconds === null || seconds === undefined ? null : Math.max(0, toSeconds(nowMs) - seconds)

/** A family with a sample of each feed that has a value. */
const perFeed = (
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  valueOf: (state: FeedState) => number | null,
): Family => ({
  ...{ name, type, labels: ['source'], help },
  read: ({ feeds }) => feeds.flatMap(({ source, state }) => sampleOf(valueOf(state), { source })),
})

/** A family with a sample of each database. */
const perDatabase = (
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  valueOf: (database: DatabaseState) => number,
): Family => ({
  ...{ name, type, labels: ['database'], help },
  read: ({ databases }) =>
    databases.flatMap(state => sampleOf(valueOf(state), { database: state.name })),
})

export const FAMILIES: readonly Family[] = [
  {
    name: 'proxylist_http_requests_total',
    type: 'counter',
    labels: ['route', 'status', 'code'],
    help: 'Requests that were answered, by route, status and error code.',
    read: reading =>
      routesOf(reading).flatMap(({ path: route, outcomes }) =>
        Array.from(outcomes, ([outcome, { count: value }]) => {
          const status = statusOf(outcome)
          const code = typeof outcome === 'string' ? { code: outcome } : {}
          return { labels: { route, status, ...code }, value }
        }),
      ),
  },
  {
    name: 'proxylist_http_request_duration_seconds',
    type: 'histogram',
    labels: ['route'],
    help: 'Time until the reply was ready, or its stream began; without the delay of wrong keys.',
    read: reading =>
      routesOf(reading).flatMap(({ path: route, durations }) => samplesOf(durations, { route })),
  },
  gauge(
    'proxylist_http_requests_in_flight',
    'Requests that wait for their reply.',
    ({ traffic: { begun, ended } }) => begun - ended,
  ),
  {
    name: 'proxylist_http_sent_bytes_total',
    type: 'counter',
    labels: ['route'],
    help: 'Bytes of bodies that connections were given; of streams, before compression.',
    read: reading =>
      routesOf(reading).map(({ path: route, bytes }) => ({ labels: { route }, value: bytes })),
  },
  counter(
    'proxylist_sent_records_total',
    'Records in answers that connections were given.',
    reading => sum(routesOf(reading).map(({ records }) => records)),
  ),
  counter(
    'proxylist_streams_total',
    'Long answers that began to be sent.',
    ({ traffic: { streams } }) => streams.begun,
  ),
  counter(
    'proxylist_streams_truncated_total',
    'Long answers that ended before their last record: the client left, or it took too long.',
    ({ traffic: { streams } }) => streams.truncated,
  ),
  gauge(
    'proxylist_streams_under_way',
    'Long answers that are being sent.',
    ({ traffic: { streams } }) => streams.begun - streams.ended,
  ),
  {
    name: 'proxylist_admissions_total',
    type: 'counter',
    labels: ['kind'],
    help: 'Requests that the limits admitted, by kind of key: regular, temp or demo.',
    read: ({ admissions: { givenBack: _, ...kinds } }) =>
      Object.entries(kinds).map(([kind, value]) => ({ labels: { kind }, value })),
  },
  counter(
    'proxylist_admissions_given_back_total',
    'Admitted requests that could not be answered and do not count.',
    ({ admissions }) => admissions.givenBack,
  ),
  {
    name: 'proxylist_refusals_total',
    type: 'counter',
    labels: ['code'],
    help: 'Requests refused because of a limit (429), by error code.',
    read: reading =>
      LIMIT_CODES.map(code => {
        const counts = routesOf(reading).map(({ outcomes }) => outcomes.get(code)?.count ?? 0)
        return { labels: { code }, value: sum(counts) }
      }),
  },
  counter(
    'proxylist_cache_hits_total',
    'Answers that the response cache had.',
    ({ cache }) => cache.hits,
  ),
  counter(
    'proxylist_cache_misses_total',
    'Answers that had to be found.',
    ({ cache }) => cache.misses,
  ),
  counter(
    'proxylist_cache_evictions_total',
    'Entries of the response cache that made room for others.',
    ({ cache }) => cache.evictions,
  ),
  gauge('proxylist_cache_entries', 'Entries of the response cache.', ({ cache }) => cache.entries),
  gauge('proxylist_cache_bytes', 'Memory of the response cache.', ({ cache }) => cache.bytes),
  gauge(
    'proxylist_cache_max_bytes',
    'Most memory of the response cache (--cache-bytes).',
    ({ cache }) => cache.bytesMax,
  ),
  gauge('proxylist_list_rows', 'Proxies in the list.', ({ extent }) => extent?.rows),
  {
    name: 'proxylist_list_rows_by_type',
    type: 'gauge',
    labels: ['type'],
    help: 'Proxies in the list by type, counted every 15 s at most.',
    read: ({ breakdown }) =>
      (breakdown?.types ?? []).map(({ type, count }) => ({ labels: { type }, value: count })),
  },
  gauge(
    'proxylist_list_fresh_rows',
    `Proxies checked within ${DEFAULT_AGE_MAX_SECONDS} s, the default of time; counted likewise.`,
    ({ breakdown }) => breakdown && freshRows(breakdown),
  ),
  gauge(
    'proxylist_list_newest_check_age_seconds',
    'Age of the newest check; missing while the list is empty.',
    reading => {
      const newestMs = reading.extent?.newestMs ?? null
      return ageOf(reading, newestMs && toSeconds(newestMs))
    },
  ),
  gauge(
    'proxylist_list_median_check_age_seconds',
    'Half of the proxies were checked more recently than this; missing while the list is empty.',
    reading => ageOf(reading, reading.breakdown?.median),
  ),
  perFeed(
    'gauge',
    'proxylist_feed_last_success_timestamp_seconds',
    'When the feed was last fetched and read, in Unix seconds; missing until then.',
    ({ lastSuccessAt }) => lastSuccessAt && lastSuccessAt / SECOND_MS,
  ),
  perFeed(
    'gauge',
    'proxylist_feed_rows',
    'Usable rows of the feed at its last import.',
    ({ rows }) => rows,
  ),
  perFeed(
    'gauge',
    'proxylist_feed_rejected_rows',
    'Rejected rows of the feed at its last import.',
    ({ rejected }) => rejected,
  ),
  perFeed(
    'counter',
    'proxylist_feed_attempts_total',
    'Attempts at the feed, by all servers on the data directory.',
    ({ attempts }) => attempts,
  ),
  perFeed(
    'gauge',
    'proxylist_feed_consecutive_failures',
    'Failures of the feed in a row; 0 after a success.',
    ({ failures }) => failures,
  ),
  perDatabase(
    'gauge',
    'proxylist_database_up',
    'Whether the database works, as far as is known; while it does not, requests get 503.',
    ({ works }) => Number(works),
  ),
  perDatabase(
    'counter',
    'proxylist_database_failures_total',
    'Failures of the database, in requests and in the check every second.',
    ({ failures }) => failures,
  ),
  {
    name: 'proxylist_database_size_bytes',
    type: 'gauge',
    labels: ['database', 'file'],
    help: 'Sizes of the files of a database: main, and its write-ahead log, wal.',
    read: ({ databases }) =>
      databases.flatMap(({ name: database, bytes, walBytes }) => [
        ...sampleOf(bytes, { database, file: 'main' }),
        ...sampleOf(walBytes, { database, file: 'wal' }),
      ]),
  },
  gauge(
    'proxylist_data_free_bytes',
    'Free bytes on the disk of the data directory.',
    ({ freeBytes }) => freeBytes,
  ),
  gauge(
    'proxylist_replication_lag_seconds',
    'Seconds since the copies of list, keys and plans were last known to be the newest.',
    ({ replication }) => replication?.lagSeconds,
  ),
  gauge(
    'proxylist_replication_list_version',
    'Version of the copy of the list; missing until the first one is made.',
    ({ replication }) => replication?.listVersion,
  ),
  gauge(
    'proxylist_replication_runs_jobs',
    'Whether this node runs retention and feeds, which one node runs for all.',
    ({ replication }) => replication && Number(replication.runsJobs),
  ),
  {
    name: 'proxylist_event_loop_lag_seconds',
    type: 'histogram',
    labels: [],
    help: 'How late a timer fired, ten times a second, since the first scrape.',
    read: ({ lags }) => samplesOf(lags),
  },
  counter(
    'process_cpu_seconds_total',
    'Processor time of the process.',
    ({ process }) => process.cpuSeconds,
  ),
  gauge(
    'process_resident_memory_bytes',
    'Resident memory of the process.',
    ({ process }) => process.residentBytes,
  ),
  gauge(
    'process_start_time_seconds',
    'When the process started, in Unix seconds.',
    ({ process }) => process.startSeconds,
  ),
  gauge(
    'process_open_fds',
    'Open file descriptors, connections among them.',
    ({ process }) => process.openFds,
  ),
  gauge(
    'process_max_fds',
    'Most file descriptors that the process may open.',
    ({ process }) => process.maxFds,
  ),
  {
    name: 'proxylist_build_info',
    type: 'gauge',
    labels: ['version', 'commit', 'bun', 'sqlite'],
    help: 'Always 1; its labels are the versions of the program and of what is built into it.',
    read: ({ build }) => [{ labels: build, value: 1 }],
  },
]
