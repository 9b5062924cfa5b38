/** Counters of requests since the start of the process. Plain numbers cost a request nanoseconds. */
import type { Caller } from '../access/key.ts'
import type { Sent } from '../api/answer.ts'
import { type ErrorCode, STATUS } from '../api/errors.ts'
import { createHistogram, type Histogram, observe } from './histogram.ts'

/** The outcome of a request: an error code, or the status if it is no error. */
export type CodeOrStatus = ErrorCode | number

export type RouteTraffic = {
  readonly path: string
  /** Answered requests by outcome. A stream counts when its body begins. */
  readonly outcomes: Map<CodeOrStatus, { count: number }>
  /** Time until the reply was ready, or the body of a stream began. */
  readonly durations: Histogram
  /** Written to connections; a stream counts when it ends, before compression. */
  records: number
  bytes: number
}

/** Admitted requests by kind of key, and refunded requests. */
export type AdmissionCounts = { [kind in Caller['kind']]: number } & { refunded: number }

export type AllTraffic = {
  readonly routes: ReadonlyMap<string, RouteTraffic>
  begun: number
  ended: number
  streams: { begun: number; ended: number; truncated: number }
}

export type Traffic = {
  /** 200, 404, 429, 5xx, and other 4xx. */
  ok: number
  notFound: number
  refused: number
  failed: number
  rejected: number
  records: number
  bytes: number
  /** Durations in each bucket of `BOUNDS_SECONDS`, and longer ones; see `quantileOf`. */
  durations: readonly number[]
}

export const statusOf = (outcome: CodeOrStatus): number =>
  typeof outcome === 'number' ? outcome : STATUS[outcome]

/** Codes of 5xx. They start at 0, so that Prometheus sees the first failure as an increase. */
const FAILURES = (Object.keys(STATUS) as ErrorCode[]) // of the table itself
  .filter(code => STATUS[code] >= 500)

export type Counters = ReturnType<typeof createCounters>

export function createCounters() {
  const routes = new Map<string, RouteTraffic>()
  const streams = { begun: 0, ended: 0, truncated: 0 }
  const all: AllTraffic = { routes, begun: 0, ended: 0, streams }

  /** The counters of a route. Call it once for each route. */
  function route(path: string): RouteTraffic {
    const known = routes.get(path)
    if (known !== undefined) return known
    const outcomes = new Map([200, ...FAILURES].map(outcome => [outcome, { count: 0 }]))
    const fresh = { path, outcomes, durations: createHistogram(), records: 0, bytes: 0 }
    routes.set(path, fresh)
    return fresh
  }

  return {
    all,
    route,

    /** Counts a request whose reply is ready, `seconds` after it arrived. */
    count(of: RouteTraffic, outcome: CodeOrStatus, seconds: number): void {
      all.ended += 1
      const ended = of.outcomes.get(outcome)
      if (ended === undefined) of.outcomes.set(outcome, { count: 1 })
      else ended.count += 1
      observe(of.durations, seconds)
    },

    /** Counts a stream whose body begins. Call the returned function when it ends. */
    beginStream(of: RouteTraffic): (sent: Sent) => void {
      streams.begun += 1
      return ({ records, bytes, isTruncated }) => {
        streams.ended += 1
        if (isTruncated) streams.truncated += 1
        of.records += records
        of.bytes += bytes
      }
    },

    traffic(path: string): Traffic {
      const { outcomes, durations, records, bytes } = route(path)
      const sums = { ok: 0, notFound: 0, refused: 0, failed: 0, rejected: 0 }
      for (const [outcome, { count }] of outcomes) sums[classOf(statusOf(outcome))] += count
      return { ...sums, records, bytes, durations: Array.from(durations.counts) }
    },
  }
}

function classOf(status: number): 'ok' | 'notFound' | 'refused' | 'failed' | 'rejected' {
  if (status < 400) return 'ok'
  if (status === 404) return 'notFound'
  if (status === 429) return 'refused'
  return status >= 500 ? 'failed' : 'rejected'
}
