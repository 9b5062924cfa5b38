/**
 * Parses an HTTP response as it arrives. A proxy may send it byte by byte, never end it, or send anything else, so the
 * parser is strict and limits the bytes that it reads.
 */
import type { Reason } from './ports.ts'

export type ParseResult<T> =
  | { kind: 'more' }
  | { kind: 'done'; value: T }
  | { kind: 'failed'; reason: Reason; detail: string }

export const MORE = { kind: 'more' } as const
export const done = <T>(value: T): ParseResult<T> => ({ kind: 'done', value })
export const failed = (reason: Reason, detail: string) =>
  ({ kind: 'failed', reason, detail }) as const

/** Parses the bytes of a peer, until it has a value or fails. `end`: the peer has closed the connection. */
export type Reader<T> = { push(bytes: Buffer): ParseResult<T>; end(): ParseResult<T> }

export const EMPTY = Buffer.alloc(0)
export const HEAD_BYTES_MAX = 16 * 1024
const HEAD_END = '\r\n\r\n'
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n/
const START = 'HTTP/1.'
/** The line with the size of a chunk, after the end of the chunk before; and the longest line. */
const CHUNK_LINE = /^(?:\r\n)?([\da-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n/i
const CHUNK_LINE_MAX = 256

/** Parses the head of a response; `size` is where its body starts. */
export function parseHead(
  bytes: Buffer,
): ParseResult<{ status: number; head: string; size: number }> {
  const start = bytes.toString('latin1', 0, START.length)
  if (!START.startsWith(start)) return failed('not a proxy', 'no HTTP response')
  const end = bytes.indexOf(HEAD_END)
  if ((end < 0 ? bytes.length : end) > HEAD_BYTES_MAX) {
    return failed('too long', `a head of more than ${HEAD_BYTES_MAX} bytes`)
  }
  if (end < 0) return MORE
  const head = bytes.toString('latin1', 0, end + HEAD_END.length)
  const status = Number(STATUS_LINE.exec(head)?.[1])
  if (Number.isNaN(status)) return failed('not a proxy', 'no status line of HTTP')
  return done({ status, head, size: head.length })
}

const LENGTH = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n/i
const CHUNKED = /\r\ntransfer-encoding:[^\r\n]*chunked/i

/** The reason to fail for a status other than 200: the judge sends only 200, and 404 for a bad token. */
export function reasonOfStatus(status: number): Reason {
  if (status === 407) return 'credentials'
  if ([500, 502, 503, 504].includes(status)) return 'proxy error'
  return status < 400 ? 'not the judge' : 'not a proxy'
}

export type HttpResponse = { status: number; head: string; body: Buffer }

/** The length of a body; `Infinity`: the body ends with the connection. */
function framingOf(head: string, status: number): number | 'chunked' {
  if (status === 204 || status === 304) return 0
  return CHUNKED.test(head) ? 'chunked' : Number(LENGTH.exec(head)?.[1] ?? Infinity)
}

/** Parses the line of a chunk at the start of `bytes`; `read` is the length of the line. */
function parseChunkLine(bytes: Buffer): ParseResult<{ size: number; read: number }> {
  const [line, size = ''] = CHUNK_LINE.exec(bytes.toString('latin1', 0, CHUNK_LINE_MAX)) ?? []
  if (line !== undefined) return done({ size: Number.parseInt(size, 16), read: line.length })
  return bytes.length < CHUNK_LINE_MAX ? MORE : failed('altered', 'broken chunks')
}

/**
 * Reads a response. A body that is longer than `bodyMax` is cut one byte after that. Without `readsAll`, it reads the
 * body only when the status is 200.
 */
export function createResponseReader(bodyMax: number, readsAll: boolean): Reader<HttpResponse> {
  let status = 0
  let head = ''
  let pending: Buffer = EMPTY
  const body: Buffer[] = []
  let length = 0
  /** Bytes until the end of the body, or of this chunk. */
  let left = 0
  let isChunked = false

  const finish = () => done({ status, head, body: Buffer.concat(body) })

  /** Appends the bytes that belong to the body, up to its limit, and returns the rest. */
  function take(bytes: Buffer): Buffer {
    const taken = bytes.subarray(0, Math.min(left, bodyMax + 1 - length))
    body.push(taken)
    length += taken.length
    left -= taken.length
    return bytes.subarray(taken.length)
  }

  function pushHead(bytes: Buffer): ParseResult<HttpResponse> {
    pending = Buffer.concat([pending, bytes])
    const parsed = parseHead(pending)
    if (parsed.kind !== 'done') return parsed
    ;({ status, head } = parsed.value)
    if (status !== 200 && !readsAll) return finish()
    const rest = pending.subarray(parsed.value.size)
    pending = EMPTY
    const framing = framingOf(head, status)
    isChunked = framing === 'chunked'
    left = isChunked ? 0 : Number(framing)
    return pushBody(rest)
  }

  function pushBody(bytes: Buffer): ParseResult<HttpResponse> {
    if (isChunked) return pushChunks(bytes)
    const rest = take(bytes)
    if (length > bodyMax) return finish()
    if (left > 0) return MORE
    return rest.length > 0 ? failed('too long', 'bytes after its end') : finish()
  }

  function pushChunks(bytes: Buffer): ParseResult<HttpResponse> {
    pending = Buffer.concat([pending, bytes])
    for (;;) {
      pending = take(pending)
      if (length > bodyMax) return finish()
      if (left > 0) return MORE
      const parsed = parseChunkLine(pending)
      if (parsed.kind !== 'done') return parsed
      pending = pending.subarray(parsed.value.read)
      left = parsed.value.size
      if (left === 0) return finish()
    }
  }

  return {
    push: bytes => (head === '' ? pushHead(bytes) : pushBody(bytes)),
    end: () =>
      head !== '' && left === Infinity
        ? finish()
        : failed('closed', head === '' ? '' : `after ${length} bytes of a body`),
  }
}
