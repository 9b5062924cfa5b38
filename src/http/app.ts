/**
 * Owns the HTTP service: routes, methods, headers, error bodies and the access log.
 * What `/api` answers is in `api.ts`; this file turns it, and every refusal, into a `Response`.
 */
import { Elysia } from 'elysia'
import hyperid from 'hyperid'
import type { Guard } from '../access/auth-throttle.ts'
import {
  ApiError,
  type ErrorCode,
  errorBody,
  isDatabaseFailure,
  toApiError,
} from '../api/errors.ts'
import { type ApiParts, createApi, type Trace } from '../api/handler.ts'
import { bodyOf, type Encoding, type LargeAnswer } from '../api/response-cache.ts'
import { clientBucket } from '../lib/ip.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, formatInstant, stopwatch } from '../lib/time.ts'
import type { Output } from '../proxies/proxy.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding, compress, compressStream } from './compression.ts'
import { bodyHeaders, CONTENT_TYPES, completeHeaders, type HeaderFields } from './headers.ts'

export type ServiceOptions = ApiParts & {
  clock: Clock
  log: Log
  errors: 'json' | 'text'
  /** The client's address, from the peer's (null on a unix socket) and X-Forwarded-For. */
  clientAddress: (peer: string | null, forwardedFor: string | null) => string
  /** Slows who sends many wrong keys. */
  guard: Guard
  /** Throws when the list cannot be read or usage cannot be written. */
  probe: () => void
}

type Reply = {
  status: number
  headers: HeaderFields
  body: string | Uint8Array | ReadableStream<Uint8Array> | null
  /** Of a body that is sent while it is found: what was sent, when it ends. */
  sent?: Promise<{ records: number; bytes: number }>
}
/** A request as routes see it. */
type Incoming = { request: Request; ip: string; nowMs: number; trace: Trace }
type Route = (incoming: Incoming) => Promise<Reply> | Reply

const METHODS = ['GET', 'HEAD']
/** Refusals of a key, whatever is wrong with it: the same for the guard as for the client. */
const WRONG_KEY: ReadonlySet<ErrorCode> = new Set(['INVALID_KEY', 'TEMP_KEY_INVALID'])
/** Stands in the log for every path that is not ours: such a path may hold a mistyped key. */
const UNKNOWN_PATH = '(unknown)'

/** The service as an Elysia application, not listening yet. */
export function createService(options: ServiceOptions) {
  const { clock, log, errors, clientAddress, guard } = options
  const nextId = hyperid({ fixedLength: true, urlSafe: true })

  /** Runs a route and turns whatever comes of it into a logged `Response`. */
  async function respond(request: Request, path: string, route: Route): Promise<Response> {
    const elapsedMs = stopwatch()
    const nowMs = clock()
    const id = nextId()
    const trace: Trace = { keyId: null, gauges: [], records: 0 }
    const peer = app.server?.requestIP(request)?.address ?? null
    const ip = clientAddress(peer, request.headers.get('x-forwarded-for'))
    const reply = await run(route, { request, ip, nowMs, trace }, id)
    const isHead = request.method === 'HEAD'
    const write = (records: number, bytes: number): void =>
      log.access({
        time: formatInstant(nowMs),
        id,
        method: request.method,
        path,
        status: reply.status,
        key: trace.keyId,
        records,
        bytes,
        ms: Math.round(elapsedMs() * 1000) / 1000,
        client: ip,
      })
    if (reply.sent) void reply.sent.then(({ records, bytes }) => write(records, bytes))
    else write(trace.records, isHead ? 0 : lengthOf(reply.body))
    const headers = completeHeaders(id, trace.gauges, reply.headers)
    // A body that is sent while it is found has no length to tell, and GET would send it so.
    if (isHead && reply.body === null) headers['transfer-encoding'] = 'chunked'
    else if (isHead) headers['content-length'] = String(lengthOf(reply.body))
    return new Response(isHead ? null : reply.body, { status: reply.status, headers })
  }

  async function run(route: Route, incoming: Incoming, id: string): Promise<Reply> {
    try {
      return await route(incoming)
    } catch (thrown) {
      const error = toApiError(thrown)
      // Of a failing database the operator reads once, not at every request.
      const isOurs = error.status >= 500 && !isDatabaseFailure(thrown)
      if (isOurs) log.say(`request ${id} failed: ${explainFailure(thrown)}`)
      if (WRONG_KEY.has(error.code)) await guard.failed(clientBucket(incoming.ip), incoming.nowMs)
      return refusal(error, errors, incoming.nowMs)
    }
  }

  // normalize would drop unknown parameters silently; ours are read from the raw URL.
  const app = new Elysia({ normalize: false, handler: { standardHostname: false } })
  for (const [path, anyMethod] of Object.entries(routesOf(options))) {
    const route = onlyReading(anyMethod)
    const handle = ({ request }: { request: Request }) => respond(request, path, route)
    // HEAD of its own: Elysia would read the whole body to tell its length.
    app.all(path, handle).head(path, handle)
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
  return async ({ request, ip, nowMs, trace }) => {
    const { url, headers, method } = request
    const authorization = headers.get('authorization')
    const { question, answer } = await answerOf({ url, authorization, ip, nowMs }, trace)
    const { output } = question
    const encoding = chooseEncoding(headers.get('accept-encoding'))
    if ('open' in answer) return largeReply(answer, output, encoding, method === 'HEAD')
    const body = bodyOf(answer, nowMs)
    if (body.length < COMPRESS_MIN_BYTES || encoding === null) {
      const coding = body.length < COMPRESS_MIN_BYTES ? 'fixed' : 'identity'
      return { status: 200, headers: bodyHeaders(output, coding), body }
    }
    const known = answer.compressed.get(encoding)
    const compressed = known ?? (await compress(body, encoding))
    // A body with the time in it is never the same again.
    if (!known && answer.pieces.length === 1) {
      options.answers.keepCompressed(question, answer, encoding, compressed)
    }
    return { status: 200, headers: bodyHeaders(output, encoding), body: compressed }
  }
}

/** A body that is sent while it is found; HEAD has none. */
async function largeReply(
  answer: LargeAnswer,
  output: Output,
  encoding: Encoding | null,
  isHead: boolean,
): Promise<Reply> {
  const headers = bodyHeaders(output, encoding ?? 'identity')
  if (isHead) {
    await answer.cancel()
    return { status: 200, headers, body: null }
  }
  const { promise: sent, resolve } = Promise.withResolvers<{ records: number; bytes: number }>()
  const stream = answer.open(resolve)
  const body = encoding === null ? stream : compressStream(stream, encoding)
  return { status: 200, headers, body, sent }
}

const lengthOf = (body: Reply['body']): number => {
  if (body instanceof Uint8Array) return body.length
  return typeof body === 'string' ? Buffer.byteLength(body) : 0
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
  const headers: HeaderFields = { 'content-type': CONTENT_TYPES[isText ? 'txt' : 'json'] }
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds)
  if (error.code === 'METHOD_NOT_ALLOWED') headers.allow = METHODS.join(', ')
  const body = isText ? `Error: ${error.message}` : errorBody(error, nowMs)
  return { status: error.status, headers, body }
}

/** What the operator reads of our own failure: a sentence, or the stack of what nobody foresaw. */
const explainFailure = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return String(thrown)
  return thrown instanceof ApiError ? thrown.message : (thrown.stack ?? thrown.message)
}
