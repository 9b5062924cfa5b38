/** The access log: a line of JSON for each request. */
import type { Sent } from '../api/answer.ts'
import { formatInstant } from '../lib/time.ts'
import type { Reply, RequestContext } from './reply.ts'

/** A line without query string, header fields or keys. */
export function accessLine(
  { id, traffic, request, nowMs, keyId, ip, startMs, why }: RequestContext,
  { status }: Reply,
  { records, bytes, isTruncated }: Sent,
  elapsedMs: number,
): string {
  const ms = Math.round((elapsedMs - startMs) * 1000) / 1000
  // No value needs escaping: they are addresses, methods, or made by this program.
  return (
    `{"time":"${formatInstant(nowMs)}","id":"${id}","method":"${request.method}","path":"${traffic.path}",` +
    `"status":${status},"key":${keyId === null ? 'null' : `"${keyId}"`},` +
    `"records":${records},"bytes":${bytes},"ms":${ms},"client":"${ip ?? ''}"` +
    (why === '' ? '' : `,"why":"${why}"`) +
    (isTruncated ? ',"truncated":true}' : '}')
  )
}
