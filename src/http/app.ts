/**
 * Owns the HTTP service: request ids, client addresses, header fields, errors and the access log of
 * every request. What each path replies is in `routes.ts`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import type { AuthThrottle } from '../access/auth-throttle.ts'
import { clientBucket } from '../access/entitlements.ts'
import type { AnswerUse } from '../access/history.ts'
import { ApiError, type ErrorCode } from '../api/errors.ts'
import { type Refused, refused } from '../api/handler.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { accessLine } from './access-log.ts'
import type { ClientIp } from './client-ip.ts'
import { errorReply, lengthOf, type Reply, responseOf } from './reply.ts'
import { createRoutes, methodNotAllowed, notFound, type Route, type RouteParts } from './routes.ts'

export type HttpParts = RouteParts & {
  clock: Clock
  log: Log
  /** Form of error bodies. */
  errors: 'json' | 'text'
  clientIp: ClientIp
  /** Counts the records of an answer and a refusal because of a limit; nothing waits for it. */
  note: (use: AnswerUse) => void
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
  const { clock, log, errors, clientIp, throttle, note } = parts
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  /** Runs a route and turns what it ends with into a logged `Response`. */
  function respond(
    path: string,
    route: Route,
    isHead: boolean,
    { request }: { request: Request },
  ): Awaitable<Response> {
    const elapsedMs = stopwatch()
    const nowMs = clock()
    const id = nextId()
    let foundIp: string | null = null
    const ip = (): string => {
      foundIp ??= clientIp(
        app.server?.requestIP(request)?.address ?? null,
        request.headers.get('x-forwarded-for'),
      )
      return foundIp
    }
    if (log.hasLines) ip() // the connection may be closed by the time the line is written

    const write = (status: number, keyId: string | null, records: number, bytes: number): void => {
      const refused = status === 429 ? 1 : 0
      if (keyId !== null && records + refused > 0) note({ keyId, records, refused, nowMs })
      if (!log.hasLines) return
      const ms = Math.round(elapsedMs() * 1000) / 1000
      const entry = { time: formatInstant(nowMs), id, method: request.method, path, status, keyId }
      log.line(accessLine({ ...entry, records, bytes, ms, client: ip() }))
    }
    const send = (reply: Reply): Response => {
      const { status, keyId, body, records } = reply
      const response = responseOf(reply, id, isHead)
      if (body.kind === 'stream') {
        void body.sent.then(sent => write(status, keyId, sent.records, sent.bytes))
      } else write(status, keyId, records, isHead ? 0 : lengthOf(body))
      return response
    }
    const end = (routed: Reply | Refused): Awaitable<Response> => {
      if (routed.kind === 'reply') return send(routed)
      const { error, cause } = routed
      // The supervisor of a database reports its failures once, not at every request.
      if (error.status >= 500 && !(cause instanceof StoreError)) {
        log.say(`request ${id} failed: ${explain(cause)}`)
      }
      const reply = errorReply(routed, errors, nowMs)
      if (!WRONG_KEY.has(error.code)) return send(reply)
      return throttle.failed(clientBucket(ip()), nowMs).then(() => send(reply))
    }
    try {
      return route({ request, isHead, ip, nowMs }, end)
    } catch (thrown) {
      return end(refused(thrown))
    }
  }

  // normalize would drop unknown parameters silently; ours are read from the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  for (const [path, route] of Object.entries(createRoutes(parts))) {
    // Bound, because Elysia reads the source of a function to decide whether it is asynchronous,
    // and would wrap an arrow function that returns a call in two more promises.
    app
      .all(path, respond.bind(null, path, methodNotAllowed, false))
      .get(path, respond.bind(null, path, route, false))
      // Of its own: Elysia would read the whole body to compute its length.
      .head(path, respond.bind(null, path, route, true))
  }
  return app.onError(({ request }) =>
    respond(UNKNOWN_PATH, notFound, request.method === 'HEAD', { request }),
  )
}

/** An internal failure, for the operator: its message when it was expected, else its stack. */
const explain = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return thrown instanceof ApiError ? thrown.message : (thrown.stack ?? thrown.message)
}
