/** The route of the list, /api: credentials, the handler's outcome, bodies and their coding. */
import type { Access } from '../access/access.ts'
import {
  type Answer,
  type AnswerStream,
  bodyLength,
  bodyOf,
  type Content,
  type Sent,
} from '../api/answer.ts'
import type { Handler, Outcome } from '../api/handler.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding } from '../lib/encoding.ts'
import { compressStream, createCompressor } from './compression.ts'
import { readCredentials } from './credentials.ts'
import { type Body, bodyHeaders, type Coding, type Route } from './reply.ts'

export type ApiRouteParts = {
  handle: Handler
  access: Pick<Access, 'find'>
  cache: ResponseCache
  clock: Clock
}

export function apiRoute({ handle, access, cache, clock }: ApiRouteParts): Route {
  const bodyFor = createBodies(cache, clock)

  /** What revokes a key ends its answers; one that began before the key expired is finished. */
  function isValid(key: string, nowMs: number): boolean {
    try {
      return access.find(key, nowMs) !== null
    } catch {
      return true // keys cannot be read at the moment
    }
  }

  return ({ request, isHead, ip, nowMs }, end) => {
    const { url, headers } = request
    const { key, queryString } = readCredentials(url, headers)

    const reply = (outcome: Outcome): Awaitable<Response> => {
      if (outcome.kind === 'refused') return end(outcome)
      const { query, answer, keyId, limits } = outcome
      // Of a stream whose totals were not needed, none are known.
      const records = (answer.kind === 'answer' ? answer : answer.totals)?.records ?? 0
      const endWith = ({ body, fields }: Sendable): Awaitable<Response> =>
        end({ kind: 'reply', status: 200, headers: fields, body, keyId, limits, records })
      const sendable =
        answer.kind === 'stream'
          ? streamBody(query, answer, headers, isHead, () => isValid(key, nowMs))
          : bodyFor(query, answer, request, keyId ?? '')
      return sendable instanceof Promise ? sendable.then(endWith) : endWith(sendable)
    }
    return handle({ key, queryString, ip, nowMs }, reply)
  }
}

type Sendable = { body: Body; fields: Headers }

/** Bodies of whole answers, compressed where the client and the length allow it. */
function createBodies(cache: ResponseCache, clock: Clock) {
  const compress = createCompressor(cache)
  return (query: Query, answer: Answer, request: Request, keyId: string): Awaitable<Sendable> => {
    const isShort = bodyLength(answer) < COMPRESS_MIN_BYTES
    const encoding = isShort ? null : chooseEncoding(request.headers.get('accept-encoding'))
    const whole = (coding: Coding, content: Content): Sendable => {
      return { body: { kind: 'whole', content }, fields: bodyHeaders(query.output, coding) }
    }
    if (encoding !== null) {
      const body = () => (request.signal.aborted ? null : bodyOf(answer, clock()))
      const compressed = compress(query, answer, encoding, { keyId, body })
      if (compressed !== null) return compressed.then(content => whole(encoding, content))
    }
    return whole(isShort ? 'fixed' : 'identity', bodyOf(answer, clock()))
  }
}

/** The body of a stream; for HEAD the stream is cancelled instead. */
async function streamBody(
  { output }: Query,
  answer: AnswerStream,
  headers: Headers,
  isHead: boolean,
  mayGoOn: () => boolean,
): Promise<Sendable> {
  const encoding = chooseEncoding(headers.get('accept-encoding'))
  const fields = bodyHeaders(output, encoding ?? 'identity')
  if (isHead) {
    await answer.cancel()
    return { body: { kind: 'unsent-stream' }, fields }
  }
  const { promise: sent, resolve } = Promise.withResolvers<Sent>()
  const plain = answer.open(resolve, mayGoOn)
  const stream = encoding === null ? plain : compressStream(plain, encoding)
  return { body: { kind: 'stream', stream, sent }, fields }
}
