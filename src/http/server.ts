/**
 * Owns the HTTP service: routes, methods, headers, error bodies and the access log.
 * What `/api` answers is in `api.ts`; this file turns it, and every refusal, into a `Response`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import { bodyOf } from '../answers.ts'
import { ApiError, errorBody, isDatabaseFailure, toApiError } from '../error.ts'
import type { Log } from '../log.ts'
import { type Clock, formatInstant, stopwatch } from '../time.ts'
import { type ApiParts, createApi, type Trace } from './api.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding, compress } from './encoding.ts'
import {
  COMMON_HEADERS,
  CONTENT_TYPES,
  type HeaderFields,
  outputHeaders,
  rateLimitHeaders,
} from './headers.ts'

export type ServiceOptions = ApiParts & {
  clock: Clock
  log: Log
  errors: 'json' | 'text'
  /** The client's address, from the peer's (null on a unix socket) and X-Forwarded-For. */
  clientAddress: (peer: string | null, forwardedFor: string | null) => string
  /** Throws when the list cannot be read or usage cannot be written. */
  probe: () => void
}

type Reply = { status: number; headers: HeaderFields; body: string | Uint8Array }
/** A request as routes see it. */
type Incoming = { request: Request; ip: string; nowMs: number; trace: Trace }
type Route = (incoming: Incoming) => Promise<Reply> | Reply

const METHODS = ['GET', 'HEAD']
/** Stands in the log for every path that is not ours: such a path may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

/** The service as an Elysia application, not listening yet. */
export function createService(options: ServiceOptions) {
  const { clock, log, errors, clientAddress } = options
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  /** Runs a route and turns whatever comes of it into a logged `Response`. */
  async function respond(request: Request, path: string, route: Route): Promise<Response> {
    const elapsedMs = stopwatch()
    const nowMs = clock()
    const id = nextId()
    const trace: Trace = { keyId: null, gauges: [], records: 0 }
    const peer = app.server?.requestIP(request)?.address ?? null
    const ip = clientAddress(peer, request.headers.get('x-forwarded-for'))
    const reply = await Promise.resolve({ request, ip, nowMs, trace })
      .then(route)
      .catch((thrown: unknown) => {
        const error = toApiError(thrown)
        if (error.status >= 500) log.say(`request ${id} failed: ${explainFailure(thrown)}`)
        return refusal(error, errors, nowMs)
      })
    log.access({
      time: formatInstant(nowMs),
      id,
      method: request.method,
      path,
      status: reply.status,
      key: trace.keyId,
      records: trace.records,
      bytes: request.method === 'HEAD' ? 0 : Buffer.byteLength(reply.body),
      ms: Math.round(elapsedMs() * 1000) / 1000,
      client: ip,
    })
    const own = { 'x-request-id': id, ...rateLimitHeaders(trace.gauges), ...reply.headers }
    return new Response(reply.body, {
      status: reply.status,
      headers: { ...COMMON_HEADERS, ...own },
    })
  }

  // normalize would drop unknown parameters silently; ours are read from the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  for (const [path, route] of Object.entries(routesOf(options))) {
    app.all(path, ({ request }) => respond(request, path, onlyReading(route)))
  }
  return app.onError(({ request }) => respond(request, UNKNOWN_PATH, nowhere))
}

const routesOf = (options: ServiceOptions): { [path: string]: Route } => ({
  '/api': apiRoute(options),
  '/healthz': () => plainText('ok\n'),
  '/readyz': () => {
    options.probe()
    return plainText('ready\n')
  },
})

function apiRoute(options: ApiParts): Route {
  const answerOf = createApi(options)
  return async ({ request: { url, headers }, ip, nowMs, trace }) => {
    const authorization = headers.get('authorization')
    const { question, answer } = await answerOf({ url, authorization, ip, nowMs }, trace)
    const plain = outputHeaders(question.output)
    const body = bodyOf(answer, nowMs)
    if (body.length < COMPRESS_MIN_BYTES) return { status: 200, headers: plain, body }
    const varying = { ...plain, vary: 'Accept-Encoding' }
    const encoding = chooseEncoding(headers.get('accept-encoding'))
    if (encoding === null) return { status: 200, headers: varying, body }
    const known = answer.compressed.get(encoding)
    const compressed = known ?? (await compress(body, encoding))
    // A body with the time in it is never the same again.
    if (!known && answer.pieces.length === 1) {
      options.answers.keep(question, answer, encoding, compressed)
    }
    return { status: 200, headers: { ...varying, 'content-encoding': encoding }, body: compressed }
  }
}

const plainText = (body: string): Reply => ({
  status: 200,
  headers: { 'content-type': CONTENT_TYPES.txt },
  body,
})

/** A route that answers GET and HEAD; Bun leaves the body of the latter away. */
const onlyReading =
  (route: Route): Route =>
  incoming => {
    if (METHODS.includes(incoming.request.method)) return route(incoming)
    throw new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)
  }

const nowhere: Route = () => {
  throw new ApiError('NOT_FOUND', 'nothing is served here; the list is at /api')
}

/** A refusal as the client sees it: JSON (spec 2.3), or the older variant's text. */
function refusal(error: ApiError, form: 'json' | 'text', nowMs: number): Reply {
  const { retryAfterSeconds } = error.context
  const isText = form === 'text'
  return {
    status: error.status,
    headers: {
      'content-type': isText ? CONTENT_TYPES.txt : CONTENT_TYPES.json,
      ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
      ...(error.code === 'METHOD_NOT_ALLOWED' && { allow: METHODS.join(', ') }),
    },
    body: isText ? `Error: ${error.message}` : errorBody(error, nowMs),
  }
}

/** What the operator reads of a failure: SQLite's sentence, or our own stack. */
const explainFailure = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return isDatabaseFailure(thrown) ? thrown.message : (thrown.stack ?? thrown.message)
}
