/**
 * Owns the access log: one JSON line per request. It receives no query string, no header and no
 * key, so it cannot leak one.
 */

/** One served request. */
export type AccessEntry = {
  /** When the request arrived: ISO 8601, UTC, with milliseconds. */
  time: string
  id: string
  method: string
  /** A path that has a route; any other may hold a mistyped key and is not logged. */
  path: string
  status: number
  /** The key's public id, `null` when no known key was given. */
  keyId: string | null
  records: number
  /** Bytes of the body as sent; of a stream, before compression. */
  bytes: number
  /** Milliseconds from arrival until the reply is ready, or until its stream ends. */
  ms: number
  client: string
}

/** The line of a request. No field needs escaping: all are made here, addresses, or methods. */
export const accessLine = (entry: AccessEntry): string =>
  `{"time":"${entry.time}","id":"${entry.id}","method":"${entry.method}","path":"${entry.path}",` +
  `"status":${entry.status},"key":${entry.keyId === null ? 'null' : `"${entry.keyId}"`},` +
  `"records":${entry.records},"bytes":${entry.bytes},"ms":${entry.ms},"client":"${entry.client}"}`
