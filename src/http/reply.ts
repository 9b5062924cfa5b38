/** Owns what routes reply: a status, header fields and a body, which become a `Response`. */
import type { LimitStatus } from '../access/rate-limit.ts'
import { errorBody } from '../api/errors.ts'
import type { Refused } from '../api/handler.ts'
import type { Sent } from '../api/streaming.ts'
import type { Clock } from '../lib/clock.ts'
import { formatHttpDate } from '../lib/time.ts'
import {
  addCors,
  COMMON_HEADERS,
  CONTENT_TYPES,
  completeHeaders,
  type HeaderFields,
} from './headers.ts'

export type Body =
  | { kind: 'whole'; content: string | Uint8Array }
  | StreamBody
  /** There is none, as of a 304. */
  | { kind: 'none' }
  /** The body of a stream that HEAD does not send; its length is not known. */
  | { kind: 'unsent-stream' }

/** A body that is rendered while it is sent; `sent` resolves when it ends or is cancelled. */
export type StreamBody = {
  kind: 'stream'
  stream: ReadableStream<Uint8Array>
  sent: Promise<Sent>
  cancel: () => Promise<void>
}

export type Reply = {
  kind: 'reply'
  status: number
  /** With `COMMON_HEADERS`. */
  headers: HeaderFields
  body: Body
  /** The public id of the key, `null` when no known key was given. */
  keyId: string | null
  /** The status of the limits that apply to the key; empty when they were not determined. */
  limits: readonly LimitStatus[]
  records: number
}

export const METHODS: readonly string[] = ['GET', 'HEAD']

/** What a response has besides its reply. */
export type ResponseParts = {
  requestId: string
  isHead: boolean
  clock: Clock
  /** The header fields for the origin of the request, `null` without `--cors`. */
  cors: HeaderFields | null
}

/** A reply of status 200 with plain text, for paths that need no key. */
export const plainText = (content: string): Reply => ({
  kind: 'reply',
  status: 200,
  headers: { ...COMMON_HEADERS, 'content-type': CONTENT_TYPES.txt },
  body: { kind: 'whole', content },
  keyId: null,
  limits: [],
  records: 0,
})

/** A refusal for the client: JSON (spec 2.3), or `Error: ` and the message in the older variant. */
export function errorReply(
  { error, keyId, limits }: Refused,
  form: 'json' | 'text',
  nowMs: number,
): Reply {
  const { retryAfterSeconds } = error.context
  const isText = form === 'text'
  const contentType = CONTENT_TYPES[isText ? 'txt' : 'json']
  const headers: HeaderFields = { ...COMMON_HEADERS, 'content-type': contentType }
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds)
  if (error.code === 'METHOD_NOT_ALLOWED') headers.allow = METHODS.join(', ')
  const content = isText ? `Error: ${error.message}` : errorBody(error, nowMs)
  const body = { kind: 'whole', content } as const
  return { kind: 'reply', status: error.status, headers, body, keyId, limits, records: 0 }
}

/** The response that a reply becomes. */
export function responseOf(
  reply: Reply,
  { requestId, isHead, clock, cors }: ResponseParts,
): Response {
  const { status, limits, body } = reply
  const headers = completeHeaders(requestId, limits, reply.headers)
  if (cors !== null) addCors(headers, cors)
  if (!isHead) return new Response(contentOf(body), { status, headers })
  headers.date = formatHttpDate(clock()) // Bun 1.4.4 adds it to all others
  if (body.kind === 'unsent-stream') headers['transfer-encoding'] = 'chunked'
  else if (body.kind === 'whole') headers['content-length'] = String(lengthOf(body))
  return new Response(null, { status, headers })
}

/** The content of a body as `Response` accepts it. */
function contentOf(body: Body): string | Uint8Array | ReadableStream<Uint8Array> | null {
  if (body.kind === 'stream') return body.stream
  if (body.kind !== 'whole') return null
  const { content } = body
  if (content === '') return null // a status without a body, such as 204, allows no other
  return content.length < UNCORKED_MIN_LENGTH ? content : inOneWrite(content)
}

/**
 * From about 15 KiB on, Bun 1.4.4 writes the head of a response that was not returned at once to
 * the socket uncorked, in some forty system calls: 120 µs instead of 10
 * (https://github.com/oven-sh/bun/pull/41341, open).
 */
const UNCORKED_MIN_LENGTH = 14 * 1024

/**
 * A body that Bun sends with its head in one system call: a direct stream, which ends before its
 * buffer is full and therefore gets a Content-Length.
 */
function inOneWrite(content: string | Uint8Array): ReadableStream<Uint8Array> {
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: 'direct',
    pull(controller) {
      controller.write(content)
      controller.close()
    },
  }
  return new ReadableStream(source, { highWaterMark: 2 * content.length })
}

/** Length of a whole body in bytes; 0 for streams, whose length is not known. */
export function lengthOf(body: Body): number {
  if (body.kind !== 'whole') return 0
  const { content } = body
  return typeof content === 'string' ? Buffer.byteLength(content) : content.length
}
