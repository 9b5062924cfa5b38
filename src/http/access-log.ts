/**
 * Owns the access log: one JSON line per request. It is given no query string, no header and no
 * key, so it can leak none.
 */

/** One served request. */
export type AccessEntry = {
  time: string
  id: string
  method: string
  /** A path of ours; any other may hold a mistyped key and is not logged. */
  path: string
  status: number
  /** The key's public id, `null` when no known key was given. */
  keyId: string | null
  records: number
  bytes: number
  ms: number
  client: string
}

/** The line of a request. No field needs escaping: each is ours, an address, or an HTTP method. */
export const accessLine = (entry: AccessEntry): string =>
  `{"time":"${entry.time}","id":"${entry.id}","method":"${entry.method}","path":"${entry.path}",` +
  `"status":${entry.status},"key":${entry.keyId === null ? 'null' : `"${entry.keyId}"`},` +
  `"records":${entry.records},"bytes":${entry.bytes},"ms":${entry.ms},"client":"${entry.client}"}`
