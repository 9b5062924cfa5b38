/**
 * What happens to every request: its id, client address, header fields, errors and the access log.
 * What each path replies is in `routes.ts`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import { clientBucket, tenantOf } from '../access/entitlements.ts'
import type { AnswerUse } from '../access/history.ts'
import { ApiError, ERRORS, STATUS } from '../api/errors.ts'
import { type Refused, refused } from '../api/handler.ts'
import type { Origins } from '../config/parsers.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { messageOf, StoreError } from '../lib/errors.ts'
import { createCalls, type Owner } from '../lib/fair-queue.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { CodeOrStatus, Counters, RouteTraffic } from '../metrics/traffic.ts'
import { type Begun, createAccessLog } from './access-log.ts'
import type { ClientIp } from './client-ip.ts'
import { createCors } from './cors.ts'
import { plainKeyOf } from './credentials.ts'
import {
  errorReply,
  type Incoming,
  lengthOf,
  methodNotAllowed,
  notFound,
  plainText,
  type Reply,
  type Route,
  responseOf,
} from './reply.ts'
import { createRoutes, type RouteParts } from './routes.ts'

type HttpParts = RouteParts & {
  clock: Clock
  log: Log
  /** Form of error bodies. */
  errors: 'json' | 'text'
  clientIp: ClientIp
  /** Counts the records of an answer and a refusal because of a limit; nothing waits for it. */
  note: (use: AnswerUse) => void
  /** Counts requests for the metrics. */
  counters: Counters
  /** The pages that may read answers in a browser; without it, browsers decide for themselves. */
  cors: Origins | undefined
}

export type HttpApp = ReturnType<typeof createHttpApp>['service']

/** Paths that tell whether the service works: they do not wait behind a crowd. */
const HEALTH: ReadonlySet<string> = new Set(['/healthz', '/readyz'])
/** Logged and counted instead of a path without a route, which may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

/** Requests that begin in a turn of the event loop, which takes some milliseconds: others wait for no longer. */
const TURN_MAX = 64
/** To read the query of a longer URL takes milliseconds: it has a turn of its own, as has `/key`, which counts for nothing. */
const LONG_URL = 512

type Current = Incoming & Begun & { counted: RouteTraffic; route: Route }

/** The service as an Elysia application, not listening yet. */
export function createHttpApp(parts: HttpParts) {
  const { access, clock, log, errors, note, clientIp, counters } = parts
  const cors = parts.cors === undefined ? null : createCors(parts.cors)
  const elapsedMs = stopwatch()
  const accessLog = createAccessLog(log, elapsedMs)
  const ids = createIds()
  const calls = { ownerOf, call: begin, left: () => null }
  const beginShort = createCalls(TURN_MAX, calls)
  const beginLong = createCalls(1, calls)

  /** Reports an internal failure. The supervisor of a database reports its own, once. */
  function report(id: string, cause: unknown): void {
    if (cause instanceof StoreError) return
    log.sayRepeated(`request ${id} failed: ${explain(cause)}`, `failed: ${messageOf(cause)}`)
  }

  /** Counts what a request that is over has used of its key. */
  function noteUse({ status, keyId }: Reply, records: number, nowMs: number): void {
    if (keyId !== null) note({ keyId, records, refused: status === 429 ? 1 : 0, nowMs })
  }

  function respondWith(current: Current, reply: Reply): Response {
    const { request } = current
    return responseOf(reply, current, clock, cors?.fields(request.headers.get('origin')) ?? null)
  }

  function send(current: Current, reply: Reply, outcome: CodeOrStatus, seconds: number): Response {
    const response = respondWith(current, reply)
    const { body } = reply
    const { nowMs, counted } = current
    if (body.kind === 'stream') {
      accessLog.stream(current, reply, body)
      const streamed = counters.beginStream(counted)
      void body.sent.then(sent => {
        streamed(sent)
        noteUse(reply, sent.records, nowMs)
      })
    } else {
      const bytes = current.isHead ? 0 : lengthOf(body)
      counted.records += reply.records
      counted.bytes += bytes
      accessLog.whole(current, reply, bytes)
      noteUse(reply, reply.records, nowMs)
    }
    counters.count(counted, outcome, seconds)
    return response
  }

  /** For a failure while a reply is made: nothing of it reaches the client. */
  function giveUp(current: Current, thrown: unknown, seconds: number): Response {
    report(current.id, thrown)
    accessLog.whole(current, INTERNAL, current.isHead ? 0 : lengthOf(INTERNAL.body))
    counters.count(current.counted, 'INTERNAL_ERROR', seconds)
    return respondWith(current, INTERNAL)
  }

  /** Ends a request; it never throws. */
  function endWith(current: Current, routed: Reply | Refused): Response {
    const seconds = (elapsedMs() - current.beganMs) / SECOND_MS
    try {
      if (routed.kind === 'reply') return send(current, routed, routed.status, seconds)
      const { error, cause } = routed
      if (error.status >= 500) report(current.id, cause)
      return send(current, errorReply(routed, errors, clock()), error.code, seconds)
    } catch (thrown) {
      return giveUp(current, thrown, seconds)
    }
  }

  /** Runs the route of a request. */
  function begin(current: Current): Awaitable<Response> {
    try {
      const preflight = cors?.preflight(current.request) ?? null
      if (preflight !== null) return endWith(current, preflight)
      return current.route(current, routed => endWith(current, routed))
    } catch (thrown) {
      return endWith(current, refused(thrown))
    }
  }

  /** Whose turn it is: that of a key, of a client address, or of who asks for the health of the service. */
  function ownerOf({ request: { url, headers }, ip, nowMs, path }: Current): Owner {
    if (HEALTH.has(path)) return { id: path, isTrial: false }
    const address = ip() // while the connection is open
    try {
      const record = access.find(plainKeyOf(url, headers), nowMs)
      if (record !== null) return tenantOf(record.caller, address)
    } catch {
      // Keys cannot be read at the moment.
    }
    return { id: clientBucket(address), isTrial: true }
  }

  /** Answers a request with a logged `Response`. */
  function respond(
    counted: RouteTraffic,
    route: Route,
    isHead: boolean,
    { request }: { request: Request },
  ): Awaitable<Response> {
    const nowMs = clock()
    const id = ids.next().value
    let foundIp: string | null = null
    const ip = () => (foundIp ??= clientIp(peerOf(request), request.headers.get('x-forwarded-for')))
    counters.all.begun += 1
    const { path } = counted
    const arrived = { request, isHead, ip, nowMs, id, path, beganMs: elapsedMs() }
    const current = { ...arrived, counted, route }
    if (log.hasLines) ip() // while the connection is open
    const isLong = request.url.length >= LONG_URL || path === '/key'
    return (isLong ? beginLong : beginShort)(current)
  }

  // normalize would drop unknown parameters silently; ours are read from the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  /** The peer's address: `null` on a unix socket or in process, `''` when it cannot be read. */
  const peerOf = (request: Request): string | null => {
    const { server } = app
    return server?.requestIP(request)?.address ?? (server?.port === undefined ? null : '')
  }
  for (const [path, route] of Object.entries(createRoutes(parts))) {
    const counted = counters.route(path)
    // Bound: Elysia reads the source of functions, and would wrap an arrow in two more promises.
    app
      .all(path, respond.bind(null, counted, methodNotAllowed, false))
      .get(path, respond.bind(null, counted, route, false))
      // Of its own: Elysia would read the whole body to compute its length.
      .head(path, respond.bind(null, counted, route, true))
  }
  const unknown = counters.route(UNKNOWN_PATH)
  app.onError(({ code, error, request }) => {
    const failed: Route = () => {
      throw error // outside of all routes
    }
    const route = code === 'UNKNOWN' ? failed : notFound
    return respond(unknown, route, request.method === 'HEAD', { request })
  })
  return { service: app }
}

/** Ids as hyperid makes them, which counts their thousands: to write a new number takes half a microsecond. */
function* createIds(): Generator<string, never> {
  const nextThousand = hyperid({ fixedLength: true, urlSafe: true, maxInt: 9_999_999 })
  const ends = Array.from({ length: 1000 }, (_, n) => String(n).padStart(3, '0'))
  for (;;) {
    const id = nextThousand() // with ten digits, of which three are not needed
    const start = id.slice(0, -10) + id.slice(-7)
    for (const end of ends) yield start + end
  }
}

/** The reply where not even an error body could be made: it depends on nothing. */
const INTERNAL: Reply = {
  ...{ ...plainText('internal error\n'), status: STATUS.INTERNAL_ERROR },
  error: new ApiError('INTERNAL_ERROR', ERRORS.INTERNAL_ERROR.message),
}

/** An internal failure, for the operator: its message when it was expected, else its stack. */
const explain = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return thrown instanceof ApiError ? thrown.message : (thrown.stack ?? thrown.message)
}
