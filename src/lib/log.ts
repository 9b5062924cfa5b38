/**
 * What a server writes about itself: access log lines on stdout, and sentences for the operator on stderr. The
 * lines of one turn of the event loop are one write. While nobody reads stdout, further lines are dropped.
 */
import { stopwatch, withTimeout } from './clock.ts'
import { codeOf, reasonOf } from './errors.ts'
import { several } from './plural.ts'
import { printable } from './redact.ts'
import { MINUTE_MS } from './time.ts'

export type LoggedError = { readonly code: string; readonly message: string }

export type Log = {
  /** Whether lines are written at all; if not, callers need not build them. */
  readonly hasLines: boolean
  /**
   * Writes a line, without its newline, to stdout. The request and its error are for the live log of the
   * console, never for stdout.
   */
  line(text: string, request?: { readonly url: string }, error?: LoggedError): void
  /** Writes a sentence for the operator to stderr. */
  say(sentence: string): void
  /** Says a sentence at most once a minute; sentences with the same `topic` count as the same. */
  sayRepeated(sentence: string, topic?: string): void
  /** Waits up to two seconds until all lines are written. */
  close(): Promise<void>
}

/** `write` resolves once the text was taken, and rejects when it never will be. */
export type Output = { write(text: string): Promise<void> }

type Say = (sentence: string) => void

/** The longest that a stalled reader of stdout may delay the end of a server. */
const CLOSE_MS_MAX = 2_000
/** The most characters that wait for a reader of stdout. */
const WAITING_MAX = 1024 * 1024
/** The most topics of repeated sentences in memory. */
const TOPICS_MAX = 50

const CLOSED = 'stdout is closed: the access log ends here, the service goes on'

export const say: Say = sentence => void process.stderr.write(`${printable(sentence)}\n`)

/** A log on the process's own streams; with `hasLines` false stdout stays silent. */
export function createLog({ hasLines }: { hasLines: boolean }): Log {
  const lines = createLines(stdoutOutput(), say)
  return {
    get hasLines() {
      return hasLines && lines.isOpen()
    },
    line: lines.add,
    say,
    sayRepeated: sayOncePerMinute(say),
    async close() {
      await withTimeout(lines.drain(), CLOSE_MS_MAX)
      lines.close()
    },
  }
}

/** See `Log.sayRepeated`. */
export function sayOncePerMinute(say: Say, elapsedMs = stopwatch()): Log['sayRepeated'] {
  const saidMs = new Map<string, number>()
  return (sentence, topic = sentence) => {
    const nowMs = elapsedMs()
    if (nowMs - (saidMs.get(topic) ?? -Infinity) < MINUTE_MS) return
    if (saidMs.size >= TOPICS_MAX) saidMs.clear()
    saidMs.set(topic, nowMs)
    say(sentence)
  }
}

/** Lines on an output. What comes while a write is in progress is the next write. */
export function createLines(output: Output, say: Say, waitingMax = WAITING_MAX) {
  let waiting = ''
  let batch = ''
  let dropped = 0
  let why = ''
  let isOpen = true
  let writing: Promise<void> | null = null

  async function writeWaiting(): Promise<void> {
    while (waiting !== '') {
      ;[batch, waiting] = [waiting, '']
      try {
        await output.write(batch)
        if (waiting === '') sayDropped()
      } catch (error) {
        failed(error)
      }
    }
    batch = ''
    writing = null
  }
  const flush = (): void => {
    writing ??= writeWaiting()
  }

  function failed(error: unknown): void {
    if (codeOf(error) !== 'EPIPE') return drop(batch, reasonOf(error))
    isOpen = false // the pipe's reader has gone, and there will be no other
    waiting = ''
    dropped = 0
    say(CLOSED)
  }

  function drop(text: string, reason: string): void {
    dropped += text.split('\n').length - 1
    why = reason
  }

  function sayDropped(): void {
    if (dropped > 0) say(`${several(dropped, 'access log line')} dropped: ${why}`)
    dropped = 0
  }

  return {
    isOpen: () => isOpen,
    add(text: string): void {
      if (!isOpen) return
      if (waiting.length + text.length >= waitingMax) return drop('\n', 'stdout was not read')
      if (waiting === '' && writing === null) setImmediate(flush)
      waiting += `${text}\n`
    },
    /** Resolves when all lines are written, or never. */
    async drain(): Promise<void> {
      flush()
      await writing
    },
    /** Drops the lines that are not written yet, and logs how many. */
    close(): void {
      if (isOpen && batch + waiting !== '') drop(batch + waiting, 'stdout was not read')
      isOpen = false
      sayDropped()
    },
  }
}

function stdoutOutput(): Output {
  let out: Bun.FileSink | null = null
  return {
    async write(text) {
      try {
        out ??= Bun.stdout.writer({ highWaterMark: 64 * 1024 })
        await Promise.all([out.write(text), out.flush()])
      } catch (error) {
        out = null // after a failure, a writer fails forever
        throw error
      }
    },
  }
}
