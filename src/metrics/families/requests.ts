/** Owns the metrics of requests, of what the limits decide, and of the response cache. */
import { type ErrorCode, STATUS } from '../../api/errors.ts'
import { type Family, histogramSamples, one, type Reading, type Sample } from '../family.ts'
import { type RouteTraffic, statusOf } from '../traffic.ts'

const perRoute = (
  { traffic: { routes } }: Reading,
  samples: (route: RouteTraffic) => readonly Sample[],
): Sample[] => Array.from(routes.values()).flatMap(samples)

export const requestFamilies: readonly Family[] = [
  {
    name: 'proxylist_http_requests_total',
    type: 'counter',
    labels: ['route', 'status', 'code'],
    help: 'Requests that were answered, by route, status and error code.',
    read: reading =>
      perRoute(reading, ({ path: route, outcomes }) =>
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
      perRoute(reading, ({ path: route, durations }) => histogramSamples(durations, { route })),
  },
  {
    name: 'proxylist_http_requests_in_flight',
    type: 'gauge',
    labels: [],
    help: 'Requests that wait for their reply.',
    read: ({ traffic: { begun, ended } }) => one(begun - ended),
  },
  {
    name: 'proxylist_http_sent_bytes_total',
    type: 'counter',
    labels: ['route'],
    help: 'Bytes of bodies that connections were given; of streams, before compression.',
    read: reading =>
      perRoute(reading, ({ path: route, bytes }) => [{ labels: { route }, value: bytes }]),
  },
  {
    name: 'proxylist_sent_records_total',
    type: 'counter',
    labels: [],
    help: 'Records in answers that connections were given.',
    read: ({ traffic: { routes } }) =>
      one(Array.from(routes.values()).reduce((sum, { records }) => sum + records, 0)),
  },
  {
    name: 'proxylist_streams_total',
    type: 'counter',
    labels: [],
    help: 'Long answers that began to be sent.',
    read: ({ traffic: { streams } }) => one(streams.begun),
  },
  {
    name: 'proxylist_streams_truncated_total',
    type: 'counter',
    labels: [],
    help: 'Long answers that ended before their last record: the client left, or it took too long.',
    read: ({ traffic: { streams } }) => one(streams.truncated),
  },
  {
    name: 'proxylist_streams_under_way',
    type: 'gauge',
    labels: [],
    help: 'Long answers that are being sent.',
    read: ({ traffic: { streams } }) => one(streams.begun - streams.ended),
  },
]

/** The codes of refusals because of a limit. */
const LIMIT_CODES = (Object.keys(STATUS) as ErrorCode[]) // of the table itself
  .filter(code => STATUS[code] === 429)

export const accessFamilies: readonly Family[] = [
  {
    name: 'proxylist_admissions_total',
    type: 'counter',
    labels: ['kind'],
    help: 'Requests that the limits admitted, by kind of key: regular, temp or demo.',
    read: ({ admissions: { givenBack: _, ...kinds } }) =>
      Object.entries(kinds).map(([kind, value]) => ({ labels: { kind }, value })),
  },
  {
    name: 'proxylist_admissions_given_back_total',
    type: 'counter',
    labels: [],
    help: 'Admitted requests that could not be answered and do not count.',
    read: ({ admissions }) => one(admissions.givenBack),
  },
  {
    name: 'proxylist_refusals_total',
    type: 'counter',
    labels: ['code'],
    help: 'Requests refused because of a limit (429), by error code.',
    read: ({ traffic: { routes } }) =>
      LIMIT_CODES.map(code => {
        const counts = Array.from(routes.values(), ({ outcomes }) => outcomes.get(code)?.count ?? 0)
        return { labels: { code }, value: counts.reduce((sum, count) => sum + count, 0) }
      }),
  },
]

export const cacheFamilies: readonly Family[] = [
  {
    name: 'proxylist_cache_hits_total',
    type: 'counter',
    labels: [],
    help: 'Answers that the response cache had.',
    read: ({ cache }) => one(cache.hits),
  },
  {
    name: 'proxylist_cache_misses_total',
    type: 'counter',
    labels: [],
    help: 'Answers that had to be found.',
    read: ({ cache }) => one(cache.misses),
  },
  {
    name: 'proxylist_cache_evictions_total',
    type: 'counter',
    labels: [],
    help: 'Entries of the response cache that made room for others.',
    read: ({ cache }) => one(cache.evictions),
  },
  {
    name: 'proxylist_cache_entries',
    type: 'gauge',
    labels: [],
    help: 'Entries of the response cache.',
    read: ({ cache }) => one(cache.entries),
  },
  {
    name: 'proxylist_cache_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory of the response cache.',
    read: ({ cache }) => one(cache.bytes),
  },
  {
    name: 'proxylist_cache_max_bytes',
    type: 'gauge',
    labels: [],
    help: 'Most memory of the response cache (--cache-bytes).',
    read: ({ cache }) => one(cache.bytesMax),
  },
]
