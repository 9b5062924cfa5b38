/** The access log: one JSON line per request, in which no query string, header or key is. */
import type { Sent } from '../api/answer.ts'
import type { Log } from '../lib/log.ts'
import { formatInstant } from '../lib/time.ts'
import type { Reply, StreamBody } from './reply.ts'

export type Begun = {
  id: string
  /** A path that has a route; any other may hold a mistyped key and is not logged. */
  path: string
  request: Request
  isHead: boolean
  nowMs: number
  /** The client's address, which is found once. */
  ip: () => string
  /** When it began, by the stopwatch of the log, and what cancels its body if that is a stream. */
  beganMs: number
  cancel: (() => unknown) | null
  /** Its place among the requests whose line is not written yet, -1 if it has none. */
  at: number
}

const NO_REPLY = { status: null, keyId: null, error: undefined }
const NOTHING: Sent = { records: 0, bytes: 0, isTruncated: true }

/** Call `begin`, then `whole` or `stream`, for every request; `elapsedMs` is their stopwatch. */
export function createAccessLog(log: Log, elapsedMs: () => number) {
  /** In no order. Not a `Set`, which makes its table again and again: 0.8 µs a request under load. */
  const unfinished: Begun[] = []

  /**
   * Writes the line of a request and forgets it; does nothing if that was done. `ms` is the time until
   * the reply was ready, or its stream ended; `reply` is `null` when the connection was closed before
   * there was one. No field needs escaping: all are made here, addresses, or methods.
   */
  function write(begun: Begun, reply: Reply | null, sent: Sent): void {
    if (begun.at === -1) return
    const last = unfinished.at(-1) ?? begun // gets its place
    last.at = begun.at
    unfinished[begun.at] = last
    unfinished.pop()
    begun.at = -1
    const { id, path, request, nowMs, ip, beganMs } = begun
    const { status, keyId, error } = reply ?? NO_REPLY
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
    /** A request has arrived. Its peer cannot be found once its connection is closed. */
    begin(begun: Begun): void {
      if (!log.hasLines) return
      begun.ip()
      begun.at = unfinished.push(begun) - 1
    },
    /** The reply is given to the connection as a whole, with so many bytes of its body. */
    whole(begun: Begun, reply: Reply, bytes: number): void {
      write(begun, reply, { records: reply.records, bytes, isTruncated: false })
    },
    /** The client has left before the reply was ready. */
    left: (begun: Begun): void => write(begun, null, NOTHING),
    /** The body of the reply is sent from now on. */
    stream(begun: Begun, reply: Reply, { sent, cancel }: StreamBody): void {
      if (begun.at === -1) return
      begun.cancel = cancel
      void sent.then(all => write(begun, reply, all))
    },
    /** Writes the lines of requests whose connections were closed before they were done. */
    async logUnfinished(): Promise<void> {
      for (const begun of [...unfinished]) {
        if (begun.cancel === null) write(begun, null, NOTHING)
        else begun.cancel()
      }
      await Promise.resolve() // streams end with a promise
    },
  }
}
