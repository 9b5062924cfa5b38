/** The live log: the last finished requests, in memory. */
import type { Log, LoggedError } from '../lib/log.ts'
import { invalid } from './route.ts'

/** The most lines, and about the most bytes, in memory. */
export const LAST_LINES = 2000
export const LAST_BYTES = 4 * 1024 * 1024

/** A finished request: its line of the access log, its URL (which may have its key), and why it was refused. */
export type Logged = { line: string; url: string; error: LoggedError | undefined }

const bytesOf = ({ line, url }: Logged): number => line.length + url.length

export type LogTap = ReturnType<typeof createLogTap>

/** A log that writes to `log` and keeps the last lines, also of a silent log. `start` identifies this process. */
export function createLogTap(log: Log, start = crypto.randomUUID().slice(0, 8)) {
  const kept: Logged[] = []
  let [count, bytes] = [0, 0]
  const tapped: Log = {
    ...log,
    hasLines: true,
    line(text, request, error) {
      const logged = { line: text, url: request?.url ?? '', error }
      kept.push(logged)
      count += 1
      bytes += bytesOf(logged)
      while (kept.length > LAST_LINES || bytes > LAST_BYTES) {
        bytes -= bytesOf(kept.shift() ?? logged)
      }
      if (log.hasLines) log.line(text)
    },
  }
  return {
    log: tapped,

    /**
     * The lines that are kept after a place, the oldest first, and the next place. A place of another server
     * process means all. @throws AdminError for a malformed place.
     */
    after(place: string): { lines: Logged[]; next: string } {
      const [, of, number = '0'] = /^(\w+)-(\d{1,15})$/.exec(place) ?? []
      if (place !== '' && of === undefined) throw invalid('after must be the next of an answer')
      const wanted = of === start ? Math.max(0, count - Number(number)) : count
      return { lines: kept.slice(Math.max(0, kept.length - wanted)), next: `${start}-${count}` }
    },
  }
}
