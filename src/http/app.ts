/**
 * Owns the HTTP service: request ids, client addresses, header fields, errors and the access log of
 * every request. What each path replies is in `routes.ts`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import type { AuthThrottle } from '../access/auth-throttle.ts'
import { clientBucket } from '../access/entitlements.ts'
import { ApiError, type ErrorCode } from '../api/errors.ts'
import { type Refused, refused } from '../api/handler.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import { accessLine } from './access-log.ts'
import type { ClientIp } from './client-ip.ts'
import { completeHeaders } from './headers.ts'
import { errorReply, lengthOf, type Reply } from './reply.ts'
import {
  createRoutes,
  type Incoming,
  notFoundRoute,
  type Route,
  type RouteParts,
} from './routes.ts'

export type HttpParts = RouteParts & {
  clock: Clock
  log: Log
  /** Form of error bodies. */
  errors: 'json' | 'text'
  clientIp: ClientIp
  /** Delays refusals to clients that send many wrong keys. */
  throttle: AuthThrottle
}

export type HttpApp = ReturnType<typeof createHttpApp>

/** The codes of refusals because of a wrong key. */
const WRONG_KEY: ReadonlySet<ErrorCode> = new Set(['INVALID_KEY', 'TEMP_KEY_INVALID'])
/** Logged instead of a path without a route, which may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

/** The service as an Elysia application, not listening yet. */
export function createHttpApp(parts: HttpParts) {
  const { clock, log, errors, clientIp, throttle } = parts
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  /** Runs a route and turns its reply or failure into a logged `Response`. */
  async function respond(request: Request, path: string, route: Route): Promise<Response> {
    const elapsedMs = stopwatch()
    const nowMs = clock()
    const id = nextId()
    const peer = app.server?.requestIP(request)?.address ?? null
    const ip = clientIp(peer, request.headers.get('x-forwarded-for'))
    const reply = await replyOf(route, { request, ip, nowMs }, id)
    const { status, keyId, limits, body } = reply
    const isHead = request.method === 'HEAD'
    const write = (records: number, bytes: number): void => {
      if (!log.hasLines) return
      log.line(
        accessLine({
          time: formatInstant(nowMs),
          id,
          method: request.method,
          path,
          status,
          keyId,
          records,
          bytes,
          ms: Math.round(elapsedMs() * 1000) / 1000,
          client: ip,
        }),
      )
    }
    if (body.kind === 'stream') void body.sent.then(sent => write(sent.records, sent.bytes))
    else write(reply.records, isHead ? 0 : lengthOf(body))
    const headers = completeHeaders(id, limits, reply.headers)
    if (isHead && body.kind === 'unsent-stream') headers['transfer-encoding'] = 'chunked'
    else if (isHead) headers['content-length'] = String(lengthOf(body))
    return new Response(isHead ? null : contentOf(reply), { status, headers })
  }

  async function replyOf(route: Route, incoming: Incoming, id: string): Promise<Reply> {
    let routed: Reply | Refused
    try {
      routed = await route(incoming)
    } catch (thrown) {
      routed = refused(thrown)
    }
    if (routed.kind === 'reply') return routed
    const { error, cause } = routed
    // The supervisor of a database reports its failures once, not at every request.
    if (error.status >= 500 && !(cause instanceof StoreError)) {
      log.say(`request ${id} failed: ${explain(cause)}`)
    }
    const { ip, nowMs } = incoming
    if (WRONG_KEY.has(error.code)) await throttle.failed(clientBucket(ip), nowMs)
    return errorReply(routed, errors, nowMs)
  }

  // normalize would drop unknown parameters silently; ours are read from the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  for (const [path, route] of Object.entries(createRoutes(parts))) {
    const handle = ({ request }: { request: Request }) => respond(request, path, route)
    // A route of its own for HEAD: Elysia would read the whole body to compute its length.
    app.all(path, handle).head(path, handle)
  }
  return app.onError(({ request }) => respond(request, UNKNOWN_PATH, notFoundRoute))
}

/** The content of a body as `Response` accepts it. */
function contentOf({ body }: Reply) {
  if (body.kind === 'whole') return body.content
  return body.kind === 'stream' ? body.stream : null
}

/** An internal failure, for the operator: its message when it was expected, else its stack. */
const explain = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return thrown instanceof ApiError ? thrown.message : (thrown.stack ?? thrown.message)
}
