/** The access log: one JSON line per request, without query string, header fields or keys. */
import type { Sent } from '../api/answer.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import type { Reply, RequestContext } from './reply.ts'

/** Returns a function that writes the line of a request. Call it when the reply is ready or the stream has ended. */
export const createAccessLog =
  (log: Log, elapsedMs: () => number) =>
  (r: RequestContext, { status, error }: Reply, { records, bytes, isTruncated }: Sent): void => {
    if (!log.hasLines) return
    const { id, traffic, request, nowMs, keyId, ip, startMs, why } = r
    const ms = Math.round((elapsedMs() - startMs) * 1000) / 1000
    // No value needs escaping: they are addresses, methods, or made by this program.
    log.line(
      `{"time":"${formatInstant(nowMs)}","id":"${id}","method":"${request.method}","path":"${traffic.path}",` +
        `"status":${status},"key":${keyId === null ? 'null' : `"${keyId}"`},` +
        `"records":${records},"bytes":${bytes},"ms":${ms},"client":"${ip ?? ''}"` +
        (why === '' ? '' : `,"why":"${why}"`) +
        (isTruncated ? ',"truncated":true}' : '}'),
      request,
      error,
    )
  }
