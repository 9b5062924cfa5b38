/** A route gets a request and returns a reply: status, header fields (contract A8) and body. */
import type { LimitStatus } from '../access/rate-limit.ts'
import { SENT_AS_BYTES_MIN, type Sent } from '../api/answer.ts'
import { ApiError, ERRORS, errorBody } from '../api/errors.ts'
import { FORMS, OUTPUT_KINDS, type Output } from '../api/render.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import type { Encoding } from '../lib/compression.ts'
import { formatHttpDate } from '../lib/time.ts'
import type { RouteTraffic } from '../metrics/traffic.ts'

/** A request on its way. The steps fill it from top to bottom; access log and metrics read it at the end. */
export type RequestContext = {
  readonly request: Request
  readonly isHead: boolean
  readonly id: string
  /** When it arrived: Unix milliseconds, and milliseconds by the stopwatch of the server. */
  readonly nowMs: number
  readonly startMs: number
  /** The counters of its route, whose `path` is logged. */
  readonly traffic: RouteTraffic
  ip: string | null
  /** The public id of its key, `null` while no valid key is known. */
  keyId: string | null
  /** Why a known key is refused, for the log; `''` if it is not. */
  why: string
  limits: readonly LimitStatus[]
  /** How long it has waited for a store so far, see `access/store-timeout.ts`. */
  waitedMs: number
}

/** Finds the client's address, in a microsecond, while the connection is open. */
export type IpOf = (r: RequestContext) => string

/** Answers a request, or returns why it is refused. It may throw or reject, too. */
export type Route = (r: RequestContext) => Awaitable<Reply | ApiError>

export const METHODS: readonly string[] = ['GET', 'HEAD']

export type HeaderFields = { [name: string]: string }

/** The header fields of every reply. */
export const COMMON_HEADERS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

const withMore = (more: HeaderFields) => ({
  json: new Headers({ ...COMMON_HEADERS, 'content-type': FORMS.json.contentType, ...more }),
  text: new Headers({ ...COMMON_HEADERS, 'content-type': FORMS.txt.contentType, ...more }),
})
/** The header fields of replies that have no others, see `Reply`. */
export const HEADERS = withMore({})
/** Of refusals: theirs alone, because `Retry-After` may be set in them. */
const REFUSED = withMore({})
const OTHER_METHOD = withMore({ allow: METHODS.join(', ') })

/** How a body is encoded; `fixed`: too short to be compressed for any client, so without `Vary`. */
export type Coding = Encoding | 'identity' | 'fixed'

const VARY = { vary: 'Accept-Encoding' }
const CODINGS: { [C in Coding]: HeaderFields } = {
  fixed: {},
  identity: VARY,
  zstd: { ...VARY, 'content-encoding': 'zstd' },
  gzip: { ...VARY, 'content-encoding': 'gzip' },
}

/** The fields of a body by its kind and coding: content type, and the file name of a download. */
type Fields = { [K in Output['kind']]: { [C in Coding]: Headers } }
function allFields(isDownload: boolean): Fields {
  const kinds = OUTPUT_KINDS.map(kind => {
    const own: HeaderFields = { ...COMMON_HEADERS, 'content-type': FORMS[kind].contentType }
    if (isDownload) own['content-disposition'] = `attachment; filename="proxies.${kind}"`
    const coded = Object.entries(CODINGS).map(([coding, fields]) => {
      return [coding, new Headers({ ...own, ...fields })]
    })
    return [kind, Object.fromEntries(coded)]
  })
  return Object.fromEntries(kinds) // of all kinds and codings
}
const INLINE = allFields(false)
const DOWNLOAD = allFields(true)

/** The fields of a body in one coding, see `Reply`. */
export const bodyHeaders = ({ kind, isDownload }: Output, coding: Coding): Headers =>
  (isDownload ? DOWNLOAD : INLINE)[kind][coding]

/** The values of `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11). */
export function rateLimitOf(limits: readonly LimitStatus[]): { policy: string; limit: string } {
  let policy = ''
  let limit = ''
  for (const { name, quota, windowSeconds, remaining, resetSeconds } of limits) {
    const comma = policy === '' ? '' : ', '
    policy += `${comma}"${name}";q=${quota};w=${windowSeconds}`
    limit += `${comma}"${name}";r=${remaining};t=${resetSeconds}`
  }
  return { policy, limit }
}

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
}

export type Reply = {
  status: number
  /** Shared by replies. `responseOf` sets fields of one request in it, and `Response` copies it, which is fast. */
  headers: Headers
  body: Body
  records: number
  /** `ETag`, `''` for none. Every reply with `bodyHeaders` has it. */
  etag?: string
  /** `Retry-After` of a refusal, `''` for none. */
  retryAfter?: string
  error?: ApiError
}

/** A reply of status 200 with plain text, for paths that need no key. */
export const plainText = (content: string): Reply => ({
  status: 200,
  headers: HEADERS.text,
  body: { kind: 'whole', content },
  records: 0,
})

/** A refusal for the client: JSON (spec 2.3), or `Error: ` and the message in the older variant. */
export function errorReply(error: ApiError, form: 'json' | 'text', nowMs: number): Reply {
  const { retryAfterSeconds: seconds } = error.context
  const content = form === 'text' ? `Error: ${error.message}` : errorBody(error, nowMs)
  return {
    status: error.status,
    headers: (error.code === 'METHOD_NOT_ALLOWED' ? OTHER_METHOD : REFUSED)[form],
    body: { kind: 'whole', content },
    records: 0,
    retryAfter: seconds === undefined ? '' : String(seconds),
    error,
  }
}

/** Sets a field, or removes it where its value is empty. */
const put = (headers: Headers, name: string, value: string): void =>
  value === '' ? headers.delete(name) : headers.set(name, value)

/** The response that a reply becomes; `cors`: the fields for the origin of the request, `null` without `--cors`. */
export function responseOf(
  { status, body, etag, retryAfter, headers: shared }: Reply,
  { id, isHead, limits }: RequestContext,
  clock: Clock,
  cors: HeaderFields | null,
): Response {
  // The shared object, unless fields are added that no later reply may have: `Response` makes a copy of its own.
  const headers = isHead || cors !== null ? new Headers(shared) : shared
  const { policy, limit } = rateLimitOf(limits)
  headers.set('x-request-id', id)
  put(headers, 'ratelimit-policy', policy)
  put(headers, 'ratelimit', limit)
  if (etag !== undefined) put(headers, 'etag', etag)
  if (retryAfter !== undefined) put(headers, 'retry-after', retryAfter)
  if (cors !== null) {
    for (const [name, value] of Object.entries(cors)) {
      if (name === 'vary') headers.append(name, value)
      else headers.set(name, value)
    }
  }
  if (!isHead) return new Response(contentOf(body), { status, headers })
  headers.set('date', formatHttpDate(clock())) // Bun 1.4.4 adds it to all others
  if (body.kind === 'unsent-stream') headers.set('transfer-encoding', 'chunked')
  else if (body.kind === 'whole') headers.set('content-length', String(lengthOf(body)))
  return new Response(null, { status, headers })
}

function contentOf(body: Body): string | Uint8Array | ReadableStream<Uint8Array> | null {
  if (body.kind === 'stream') return body.stream
  if (body.kind !== 'whole') return null
  const { content } = body
  if (content === '') return null // a status without a body, such as 204, allows no other
  return content.length < SENT_AS_BYTES_MIN ? content : inOneWrite(content)
}

/**
 * A body that Bun sends with its head in one system call: a direct stream below its buffer. From about 15 KiB
 * on, Bun 1.4.5 writes the head of another response that was not returned at once in some forty system calls:
 * 120 µs instead of 10 (https://github.com/oven-sh/bun/pull/41341, open).
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
export const lengthOf = (body: Body): number =>
  body.kind === 'whole' ? Buffer.byteLength(body.content) : 0

export const methodNotAllowed: Route = () =>
  new ApiError('METHOD_NOT_ALLOWED', `only ${METHODS.join(' and ')} are allowed here`)

export const notFound: Route = () => new ApiError('NOT_FOUND', ERRORS.NOT_FOUND.message)
