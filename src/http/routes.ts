/** Owns the routes of the service: which paths there are, and what each replies. */
import { DEMO_KEY } from '../access/key.ts'
import { type Answer, bodyOf } from '../api/answer.ts'
import { ApiError } from '../api/errors.ts'
import type { Handler, Refused } from '../api/handler.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { AnswerStream, Sent } from '../api/streaming.ts'
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

/** A request, the client's address, and the time at which it arrived. */
export type Incoming = { request: Request; ip: string; nowMs: number }
/** A route may also throw. */
export type Route = (incoming: Incoming) => Awaitable<Reply | Refused>

export type RouteParts = {
  handle: Handler
  cache: ResponseCache
  /** Throws or rejects when the list cannot be read or usage cannot be written. */
  probe: () => Awaitable<void>
}

/** The routes by path. Each answers GET and HEAD; other methods throw METHOD_NOT_ALLOWED. */
export const createRoutes = ({ handle, cache, probe }: RouteParts): { [path: string]: Route } => ({
  '/api': onlyReading(apiRoute(handle, cache)),
  '/healthz': onlyReading(() => plainText('ok\n')),
  '/readyz': onlyReading(async () => {
    await probe()
    return plainText('ready\n')
  }),
})

/** Restricts a route to GET and HEAD. */
const onlyReading =
  (route: Route): Route =>
  incoming => {
    if (METHODS.includes(incoming.request.method)) return route(incoming)
    throw new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)
  }

/** The route of every other path. */
export const notFoundRoute: Route = () => {
  throw new ApiError('NOT_FOUND', 'nothing is served here; the list is at /api')
}

function apiRoute(handle: Handler, cache: ResponseCache): Route {
  const credentialReader = createCredentialReader()
  const bodyFor = createBodies(cache)

  return async ({ request, ip, nowMs }) => {
    const { url, headers, method } = request
    const authorization = headers.get('authorization')
    const credentials = credentialReader.read(url, authorization)
    const { key, queryString } = credentials
    const outcome = await handle({ key, queryString, ip, nowMs })
    if (outcome.kind === 'refused') return outcome
    const { query, answer, keyId, limits } = outcome
    // Anyone can send any number of URLs with `demo`: they would displace those of customers.
    if (authorization === null && keyId !== DEMO_KEY) credentialReader.remember(url, credentials)
    const encoding = chooseEncoding(headers.get('accept-encoding'))
    const sendable =
      answer.kind === 'stream'
        ? streamBody(query, answer, encoding, method === 'HEAD')
        : bodyFor(query, answer, encoding, nowMs)
    const { body, fields } = sendable instanceof Promise ? await sendable : sendable
    const records = answer.kind === 'answer' ? answer.records : (answer.totals?.records ?? 0)
    return { kind: 'reply', status: 200, headers: fields, body, keyId, limits, records }
  }
}

type Sendable = { body: Body; fields: HeaderFields }

/** Bodies of whole answers, compressed where the client and the length allow it. */
function createBodies(cache: ResponseCache) {
  const compress = createCompressor(cache)
  return (
    query: Query,
    answer: Answer,
    encoding: Encoding | null,
    nowMs: number,
  ): Awaitable<Sendable> => {
    const content = bodyOf(answer, nowMs)
    const isShort = content.length < COMPRESS_MIN_BYTES
    if (isShort || encoding === null) {
      const fields = bodyHeaders(query.output, isShort ? 'fixed' : 'identity')
      return { body: { kind: 'whole', content }, fields }
    }
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
  encoding: Encoding | null,
  isHead: boolean,
): Promise<Sendable> {
  const fields = bodyHeaders(output, encoding ?? 'identity')
  if (isHead) {
    await answer.cancel()
    return { body: { kind: 'unsent-stream' }, fields }
  }
  const { promise: sent, resolve } = Promise.withResolvers<Sent>()
  const plain = answer.open(resolve)
  const stream = encoding === null ? plain : compressStream(plain, encoding)
  return { body: { kind: 'stream', stream, sent }, fields }
}
