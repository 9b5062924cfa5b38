/**
 * Owns the HTTP service: routes, methods, headers, error bodies and the access log.
 * What `/api` answers is in `api.ts`; this file turns it, and every refusal, into a `Response`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import { ApiError, errorBody, isDatabaseFailure, toApiError } from '../error.ts'
import type { Log } from '../log.ts'
import { type Clock, formatInstant, stopwatch } from '../time.ts'
import { type ApiParts, createApi, type Trace } from './api.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding, compress } from './encoding.ts'
import { COMMON_HEADERS, CONTENT_TYPES, outputHeaders, rateLimitHeaders } from './headers.ts'

export type ServiceOptions = ApiParts & {
  clock: Clock
  log: Log
  errors: 'json' | 'text'
  /** The client's address, from the peer's (null on a unix socket) and X-Forwarded-For. */
  clientAddress: (peer: string | null, forwardedFor: string | null) => string
  /** Throws when the list cannot be read or usage cannot be written. */
  probe: () => void
}

type Headers = { [name: string]: string }
type Reply = { status: number; headers: Headers; body: string | Uint8Array }
/** What a route does with a request. */
type Route = (request: Request, ip: string, nowMs: number, trace: Trace) => Promise<Reply> | Reply

const METHODS = ['GET', 'HEAD']

/** The service as an Elysia application, not listening yet. */
export function createService(options: ServiceOptions) {
  const { clock, log, errors, clientAddress, probe } = options
  const answer = createApi(options)
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  const api: Route = async (request, ip, nowMs, trace) => {
    const { url, headers } = request
    const authorization = headers.get('authorization')
    const { text, output } = await answer({ url, authorization, ip, nowMs }, trace)
    const plain = { status: 200, headers: outputHeaders(output), body: text }
    return encoded(plain, headers.get('accept-encoding'))
  }
  const plainText = (status: number, text: string): Reply => ({
    status,
    headers: { 'content-type': CONTENT_TYPES.txt },
    body: text,
  })
  const healthz: Route = () => plainText(200, 'ok\n')
  const readyz: Route = () => {
    probe()
    return plainText(200, 'ready\n')
  }
  const nowhere: Route = () => {
    throw new ApiError('NOT_FOUND', 'nothing is served here; the list is at /api')
  }

  function refusal(thrown: unknown, id: string, nowMs: number): Reply {
    const error = toApiError(thrown)
    if (error.status >= 500) log.say(`request ${id} failed: ${explainFailure(thrown)}`)
    const { retryAfterSeconds } = error.context
    const isText = errors === 'text'
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

  /** Runs a route and turns whatever comes of it into a logged `Response`. */
  async function respond(request: Request, path: string, route: Route): Promise<Response> {
    const elapsedMs = stopwatch()
    const nowMs = clock()
    const id = nextId()
    const trace: Trace = { keyId: null, gauges: [], records: 0 }
    const peer = app.server?.requestIP(request)?.address ?? null
    const ip = clientAddress(peer, request.headers.get('x-forwarded-for'))
    const known = METHODS.includes(request.method) || path === UNKNOWN_PATH
    const run = known ? route : refuseMethod
    const reply = await Promise.resolve()
      .then(() => run(request, ip, nowMs, trace))
      .catch((error: unknown) => refusal(error, id, nowMs))
    log.access({
      time: formatInstant(nowMs),
      id,
      method: request.method,
      path,
      status: reply.status,
      key: trace.keyId,
      records: trace.records,
      bytes: Buffer.byteLength(reply.body),
      ms: Math.round(elapsedMs() * 1000) / 1000,
      client: ip,
    })
    return new Response(reply.body, {
      status: reply.status,
      headers: {
        ...COMMON_HEADERS,
        'x-request-id': id,
        ...rateLimitHeaders(trace.gauges),
        ...reply.headers,
      },
    })
  }

  // normalize would drop unknown parameters silently; the parser of ours must see the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
    .all('/api', ({ request }) => respond(request, '/api', api))
    .all('/healthz', ({ request }) => respond(request, '/healthz', healthz))
    .all('/readyz', ({ request }) => respond(request, '/readyz', readyz))
    .onError(({ request }) => respond(request, UNKNOWN_PATH, nowhere))
  return app
}

/** Stands in the log for every path that is not ours: such a path may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

const refuseMethod: Route = () => {
  throw new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)
}

const explainFailure = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return isDatabaseFailure(thrown) ? `${thrown.message}` : (thrown.stack ?? thrown.message)
}

/** A large enough reply, compressed when the client accepts it. */
async function encoded(reply: Reply & { body: string }, accept: string | null): Promise<Reply> {
  const bytes = Buffer.from(reply.body)
  if (bytes.length < COMPRESS_MIN_BYTES) return { ...reply, body: bytes }
  const vary = { vary: 'Accept-Encoding' }
  const encoding = chooseEncoding(accept)
  if (encoding === null) return { ...reply, headers: { ...reply.headers, ...vary }, body: bytes }
  const body = await compress(bytes, encoding)
  return { ...reply, headers: { ...reply.headers, ...vary, 'content-encoding': encoding }, body }
}
