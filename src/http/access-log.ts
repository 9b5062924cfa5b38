/** The access log: one JSON line for each request, without its query string, header fields and key. */
import type { Sent } from '../api/answer.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import type { Reply, StreamBody } from './reply.ts'

export type Begun = {
  id: string
  /** A path that has a route. Any other may hold a mistyped key and is not logged. */
  path: string
  request: Request
  nowMs: number
  /** The client's address. It must be asked once while the connection is open, and is known from then on. */
  ip: () => string
  /** When the request arrived, by the stopwatch of the log. */
  beganMs: number
}

/** Call `whole` or `stream` once for every request; `elapsedMs` is their stopwatch. */
export function createAccessLog(log: Log, elapsedMs: () => number) {
  /**
   * Writes the line of a request. `ms` is the time until its reply was ready, or its stream ended. No field
   * needs escaping: we make all of them, except addresses and methods, which have no such characters.
   */
  function write(begun: Begun, { status, keyId, error }: Reply, sent: Sent): void {
    if (!log.hasLines) return
    const { id, path, request, nowMs, ip, beganMs } = begun
    const ms = Math.round((elapsedMs() - beganMs) * 1000) / 1000
    log.line(
      `{"time":"${formatInstant(nowMs)}","id":"${id}","method":"${request.method}","path":"${path}",` +
        `"status":${status},"key":${keyId === null ? 'null' : `"${keyId}"`},` +
        `"records":${sent.records},"bytes":${sent.bytes},"ms":${ms},"client":"${ip()}"` +
        (sent.isTruncated ? ',"truncated":true}' : '}'),
      request,
      error,
    )
  }

  return {
    /** The reply goes to the connection as a whole, with so many bytes of its body. */
    whole(begun: Begun, reply: Reply, bytes: number): void {
      write(begun, reply, { records: reply.records, bytes, isTruncated: false })
    },
    /** The body of the reply is sent from now on. */
    stream(begun: Begun, reply: Reply, { sent }: StreamBody): void {
      void sent.then(all => write(begun, reply, all))
    },
  }
}
