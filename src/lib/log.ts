/**
 * Owns what a server writes about itself: lines on stdout, collected during a turn of the event
 * loop and written at once, and sentences for the operator on stderr.
 */

export type Log = {
  /** Whether lines are written at all; if not, callers need not build them. */
  hasLines: boolean
  /** Writes a line, without its newline, to stdout. */
  line(text: string): void
  /** Writes a sentence for the operator to stderr. */
  say(sentence: string): void
  /** Waits, for two seconds at most, until everything is written. */
  close(): Promise<void>
}

/** The longest that a stalled reader of stdout may delay the end of the process. */
const CLOSE_MS_MAX = 2_000

/** A log on the process's own streams; with `hasLines` false stdout stays silent. */
export function createLog({ hasLines }: { hasLines: boolean }): Log {
  const out = Bun.stdout.writer({ highWaterMark: 64 * 1024 })
  let lines = ''
  const flush = async (): Promise<void> => {
    out.write(lines)
    lines = ''
    // A closed stdout must not stop the service.
    await Promise.resolve(out.flush()).catch(() => {})
  }
  return {
    hasLines,
    line(text) {
      if (!hasLines) return
      if (lines === '') setImmediate(flush)
      lines += `${text}\n`
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
