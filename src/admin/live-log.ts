/** The live log: the last requests that are over, for those who ask for them again and again. */
import type { Log, LoggedError } from '../lib/log.ts'
import { invalid } from './route.ts'

/** Lines that are kept, and about the most bytes that they take. */
export const LAST_LINES = 2000
export const LAST_BYTES = 4 * 1024 * 1024

/** A request that is over: its line of the access log, its URL, which may hold its key, and why it was refused. */
export type Logged = { line: string; url: string; error: LoggedError | undefined }

const bytesOf = ({ line, url }: Logged): number => line.length + url.length

export type LogTap = ReturnType<typeof createLogTap>

/**
 * A log that writes to `log` and keeps its last lines, which costs the storing of a reference. Lines are made for
 * a silent log too. `start` tells what was counted from what a server before it has.
 */
export function createLogTap(log: Log, start = crypto.randomUUID().slice(0, 8)) {
  const ring: (Logged | undefined)[] = new Array(LAST_LINES)
  let [oldest, count, bytes] = [0, 0, 0]
  const placeOf = (n: number): number => n % LAST_LINES

  function forgetOldest(): void {
    const logged = ring[placeOf(oldest)]
    ring[placeOf(oldest)] = undefined
    bytes -= logged ? bytesOf(logged) : 0
    oldest += 1
  }
  const tapped: Log = {
    ...log,
    hasLines: true,
    line(text, request, error) {
      const logged = { line: text, url: request?.url ?? '', error }
      if (count - oldest === LAST_LINES) forgetOldest()
      ring[placeOf(count)] = logged
      count += 1
      bytes += bytesOf(logged)
      while (bytes > LAST_BYTES) forgetOldest()
      if (log.hasLines) log.line(text)
    },
  }
  return {
    log: tapped,

    /**
     * The lines after a place (`''`: all that are kept), oldest first; `next`: the place after them. `missed`: how
     * many between are not kept any more, `null` when the place is of a server before this one.
     * @throws AdminError for what is no place.
     */
    after(place: string): { lines: Logged[]; missed: number | null; next: string } {
      const [, of, number = '0'] = /^(\w+)-(\d{1,15})$/.exec(place) ?? []
      if (place !== '' && of === undefined) throw invalid('after must be the next of an answer')
      const wanted = of === start ? Math.min(count, Number(number)) : oldest
      const first = Math.max(oldest, wanted)
      return {
        lines: Array.from(
          { length: count - first },
          (_, n) => ring[placeOf(first + n)] ?? [],
        ).flat(),
        missed: place === '' || of === start ? first - wanted : null,
        next: `${start}-${count}`,
      }
    },
  }
}
