/** Every request from its arrival to the access log: id, route, reply, failures, counters. */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import type { AnswerUse } from '../access/history.ts'
import type { Sent } from '../api/answer.ts'
import { ApiError, toApiError } from '../api/errors.ts'
import type { Origins } from '../config/parsers.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Counters, RouteTraffic } from '../metrics/traffic.ts'
import { accessLine } from './access-log.ts'
import type { ClientIp } from './client-ip.ts'
import { createCors } from './cors.ts'
import type { Service } from './listen.ts'
import {
  errorReply,
  lengthOf,
  methodNotAllowed,
  notFound,
  type Reply,
  type RequestContext,
  type Route,
  responseOf,
} from './reply.ts'
import { createRoutes, type RouteParts } from './routes.ts'

type HttpParts = Omit<RouteParts, 'ipOf'> & {
  clock: Clock
  log: Log
  errors: 'json' | 'text'
  clientIp: ClientIp
  /** Counts the records of an answer, and refusals because of a limit. */
  note: (use: AnswerUse) => void
  counters: Counters
  /** Origins whose pages may read answers. Without it, there are no CORS headers, and browsers block other origins. */
  cors: Origins | undefined
}

/** Replaces a path without a route in log and metrics: it may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

/** The service, not listening yet. */
export function createHttpApp(parts: HttpParts): Service {
  const { clock, log, errors, note, clientIp, counters } = parts
  const cors = parts.cors === undefined ? null : createCors(parts.cors)
  const elapsedMs = stopwatch()
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  /** Answers a request. Turns any failure, also one while the response is made, into an error. */
  function respond(
    traffic: RouteTraffic,
    route: Route,
    isHead: boolean,
    { request }: { request: Request },
  ): Awaitable<Response> {
    counters.all.begun += 1
    const r: RequestContext = {
      request,
      isHead,
      id: nextId(),
      nowMs: clock(),
      startMs: elapsedMs(),
      traffic,
      ip: null,
      keyId: null,
      why: '',
      limits: [],
      waitedMs: 0,
    }
    if (log.hasLines) ipOf(r) // now: the address is gone once the connection closes
    try {
      const replied = cors?.preflight(request) ?? route(r)
      return replied instanceof Promise ? sendLater(r, replied) : send(r, replied)
    } catch (failure) {
      return send(r, errorOf(r, failure))
    }
  }

  async function sendLater(r: RequestContext, replied: Promise<Reply | ApiError>) {
    try {
      return send(r, await replied)
    } catch (failure) {
      return send(r, errorOf(r, failure))
    }
  }

  /** Turns a failure into the error for the client, and reports its cause. Stores report their own failures. */
  function errorOf({ id }: RequestContext, failure: unknown): ApiError {
    const error = toApiError(failure)
    if (error.status >= 500 && !(failure instanceof StoreError)) {
      const why = explain(failure)
      log.sayRepeated(`request ${id} failed: ${why}`, why)
    }
    return error
  }

  /** Makes the response; counts and logs the request. */
  function send(r: RequestContext, replied: Reply | ApiError): Response {
    const reply = replied instanceof ApiError ? errorReply(replied, errors, clock()) : replied
    // Before counting: if this throws, the caller sends, counts and logs a 500 instead.
    const fields = cors?.fields(r.request.headers.get('origin')) ?? null
    const response = responseOf(reply, r, clock, fields)
    const seconds = (elapsedMs() - r.startMs) / SECOND_MS
    counters.count(r.traffic, reply.error?.code ?? reply.status, seconds)
    if (reply.body.kind === 'stream') {
      const onEnd = counters.beginStream(r.traffic)
      void reply.body.sent.then(sent => {
        onEnd(sent)
        finish(r, reply, sent)
      })
    } else {
      const bytes = r.isHead ? 0 : lengthOf(reply.body)
      const records = r.isHead ? 0 : reply.records
      r.traffic.records += records
      r.traffic.bytes += bytes
      finish(r, reply, { records, bytes, isTruncated: false })
    }
    return response
  }

  function finish(r: RequestContext, reply: Reply, sent: Sent): void {
    const { keyId, nowMs } = r
    if (log.hasLines) log.line(accessLine(r, reply, sent, elapsedMs()), r.request, reply.error)
    if (keyId === null) return
    note({ keyId, records: sent.records, refused: reply.status === 429 ? 1 : 0, nowMs })
  }

  // Parameters are read from the raw URL: Elysia would drop unknown ones silently.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  function ipOf(r: RequestContext): string {
    const { server } = service
    // `null` on a unix socket or in process, `''` when it cannot be read.
    const peer = server?.requestIP(r.request)?.address ?? (server?.port === undefined ? null : '')
    r.ip ??= clientIp(peer, r.request.headers.get('x-forwarded-for'))
    return r.ip
  }
  const routes = createRoutes({ ...parts, ipOf })
  for (const [path, route] of Object.entries(routes)) {
    const traffic = counters.route(path)
    // Bound, because Elysia reads the source of arrows, and wraps them in two more promises.
    app
      .all(path, respond.bind(null, traffic, methodNotAllowed, false))
      .get(path, respond.bind(null, traffic, route, false))
      // Without this, Elysia answers HEAD by the GET route, and reads the whole body for its length.
      .head(path, respond.bind(null, traffic, route, true))
  }
  const unknown = counters.route(UNKNOWN_PATH)
  app.onError(({ code, error, request }) => {
    const failed: Route = () => {
      throw error // it was thrown outside of all routes
    }
    const route = code === 'UNKNOWN' ? failed : notFound
    return respond(unknown, route, request.method === 'HEAD', { request })
  })
  const getApi = respond.bind(null, counters.route('/api'), routes['/api'], false)
  const service: Service = {
    // Most requests are GET /api, so they skip Elysia's router.
    fetch: request => (isGetApi(request) ? getApi({ request }) : app.fetch(request)),
    server: null,
  }
  return service
}

function isGetApi({ method, url }: Request): boolean {
  return method === 'GET' && url.startsWith('/api?', url.indexOf('/', 'https://'.length))
}

/** An internal failure, for the operator: the message of an expected one, else the stack. */
const explain = (failure: unknown): string => {
  if (!(failure instanceof Error)) return String(failure)
  return failure instanceof ApiError ? failure.message : (failure.stack ?? failure.message)
}
