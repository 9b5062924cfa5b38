/**
 * Owns what the server writes about itself: the access log on stdout (one JSON line a request)
 * and sentences on stderr. Is handed no query string, no header and no key, so it can leak none.
 */

/** One served request. */
export type AccessEntry = {
  time: string
  id: string
  method: string
  /** A path of ours; anything else may hold a mistyped key and is not told. */
  path: string
  status: number
  /** The key's public id, `null` when no known key was given. */
  key: string | null
  records: number
  bytes: number
  ms: number
  client: string
}

export type Log = {
  access(entry: AccessEntry): void
  /** A sentence for the operator. */
  say(sentence: string): void
  /** Waits, for a moment at most, until everything is written. */
  close(): Promise<void>
}

/** A reader of the log that has stalled must not hold up the end. */
const CLOSE_MS_MAX = 2_000

/** No field needs escaping: each is ours, or an address, or a method that HTTP knows. */
const lineOf = (entry: AccessEntry): string =>
  `{"time":"${entry.time}","id":"${entry.id}","method":"${entry.method}","path":"${entry.path}",` +
  `"status":${entry.status},"key":${entry.key === null ? 'null' : `"${entry.key}"`},` +
  `"records":${entry.records},"bytes":${entry.bytes},"ms":${entry.ms},"client":"${entry.client}"}\n`

/** A log on the process's own streams; `accessLog` false keeps stdout silent. */
export function createLog(accessLog: boolean): Log {
  const out = Bun.stdout.writer({ highWaterMark: 64 * 1024 })
  let lines = ''
  const flush = async (): Promise<void> => {
    out.write(lines)
    lines = ''
    // A reader that went away must not stop the service.
    await Promise.resolve(out.flush()).catch(() => {})
  }
  return {
    access(entry) {
      if (!accessLog) return
      if (lines === '') setImmediate(flush)
      lines += lineOf(entry)
    },
    say: sentence => void process.stderr.write(`${sentence}\n`),
    async close() {
      const { promise: deadline, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, CLOSE_MS_MAX)
      await Promise.race([flush(), deadline])
      clearTimeout(timer)
    },
  }
}
