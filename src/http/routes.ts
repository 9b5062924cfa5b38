/** Owns the routes of the service: which paths there are, and what each replies. */
import { DEMO_KEY } from '../access/key.ts'
import { type Answer, bodyOf } from '../api/answer.ts'
import { ApiError } from '../api/errors.ts'
import { type Handler, type Outcome, type Refused, refused } from '../api/handler.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { AnswerStream, Sent } from '../api/streaming.ts'
import type { Clock } from '../lib/clock.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import {
  COMPRESS_MIN_BYTES,
  chooseEncoding,
  compressStream,
  createCompressor,
  type Encoding,
} from './compression.ts'
import { createCredentialReader } from './credentials.ts'
import { bodyHeaders, type HeaderFields } from './headers.ts'
import { type Body, METHODS, plainText, type Reply } from './reply.ts'

/**
 * A request and when it arrived. `ip` finds the client's address, in a microsecond; the connection
 * must still be open, so a route that needs it calls it before it waits for anything.
 */
export type Incoming = { request: Request; isHead: boolean; ip: () => string; nowMs: number }
/** Ends a request with `end`, at once or later. A route may throw, but its promise never rejects. */
export type Route = (incoming: Incoming, end: End) => Awaitable<Response>
export type End = (routed: Reply | Refused) => Awaitable<Response>

export type RouteParts = {
  handle: Handler
  cache: ResponseCache
  clock: Clock
  /** Throws or rejects when the list cannot be read or usage cannot be written. */
  probe: () => Awaitable<void>
}

/** The routes of GET and HEAD by path. */
export const createRoutes = ({ probe, ...api }: RouteParts): { [path: string]: Route } => ({
  '/api': apiRoute(api),
  '/healthz': (_, end) => end(plainText('ok\n')),
  '/readyz': async (_, end) => {
    try {
      await probe()
    } catch (thrown) {
      return end(refused(thrown))
    }
    return end(plainText('ready\n'))
  },
})

/** The route of other methods. */
export const methodNotAllowed: Route = () => {
  throw new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)
}

/** The route of every other path. */
export const notFound: Route = () => {
  throw new ApiError('NOT_FOUND', 'nothing is served here; the list is at /api')
}

function apiRoute({ handle, cache, clock }: Omit<RouteParts, 'probe'>): Route {
  const credentialReader = createCredentialReader()
  const bodyFor = createBodies(cache, clock)

  return ({ request, isHead, ip, nowMs }, end) => {
    const { url, headers } = request
    const authorization = headers.get('authorization')
    const credentials = credentialReader.read(url, authorization)
    const { key, queryString } = credentials

    const reply = (outcome: Outcome): Awaitable<Response> => {
      if (outcome.kind === 'refused') return end(outcome)
      const { query, answer, keyId, limits } = outcome
      // Anyone can send any number of URLs with `demo`: they would displace those of customers.
      if (authorization === null && keyId !== DEMO_KEY) credentialReader.remember(url, credentials)
      const records = recordsOf(answer)
      const endWith = ({ body, fields }: Sendable): Awaitable<Response> =>
        end({ kind: 'reply', status: 200, headers: fields, body, keyId, limits, records })
      const sendable =
        answer.kind === 'stream'
          ? streamBody(query, answer, headers, isHead)
          : bodyFor(query, answer, headers)
      if (!(sendable instanceof Promise)) return endWith(sendable)
      return sendable.then(endWith)
    }
    return handle({ key, queryString, ip, nowMs }, reply)
  }
}

/** Records of an answer; 0 of a stream whose totals were not needed. */
const recordsOf = (answer: Answer | AnswerStream): number =>
  (answer.kind === 'answer' ? answer : answer.totals)?.records ?? 0

type Sendable = { body: Body; fields: HeaderFields }

const encodingFor = (headers: Headers): Encoding | null =>
  chooseEncoding(headers.get('accept-encoding'))

/** Bodies of whole answers, compressed where the client and the length allow it. */
function createBodies(cache: ResponseCache, clock: Clock) {
  const compress = createCompressor(cache)
  return (query: Query, answer: Answer, headers: Headers): Awaitable<Sendable> => {
    const content = bodyOf(answer, clock())
    const body: Body = { kind: 'whole', content }
    if (content.length < COMPRESS_MIN_BYTES) {
      return { body, fields: bodyHeaders(query.output, 'fixed') }
    }
    const encoding = encodingFor(headers)
    if (encoding === null) return { body, fields: bodyHeaders(query.output, 'identity') }
    const fields = bodyHeaders(query.output, encoding)
    return compress(query, answer, content, encoding).then(compressed => ({
      body: { kind: 'whole', content: compressed },
      fields,
    }))
  }
}

/** The body of a stream; for HEAD the stream is cancelled instead. */
async function streamBody(
  { output }: Query,
  answer: AnswerStream,
  headers: Headers,
  isHead: boolean,
): Promise<Sendable> {
  const encoding = encodingFor(headers)
  const fields = bodyHeaders(output, encoding ?? 'identity')
  if (isHead) {
    await answer.cancel()
    return { body: { kind: 'unsent-stream' }, fields }
  }
  const { promise: sent, resolve } = Promise.withResolvers<Sent>()
  const plain = answer.open(resolve)
  const stream = encoding === null ? plain : compressStream(plain, encoding)
  return { body: { kind: 'stream', stream, sent, cancel: answer.cancel }, fields }
}
