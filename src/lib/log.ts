/** The log of a server: access log lines on stdout, one write a turn, and sentences on stderr. */
import { stopwatch, withTimeout } from './clock.ts'
import { codeOf } from './errors.ts'
import { several } from './plural.ts'
import { printable } from './redact.ts'
import { MINUTE_MS } from './time.ts'

export type LoggedError = { readonly code: string; readonly message: string }

export type Log = {
  /** Whether the log writes lines. If not, callers need not build them. */
  readonly hasLines: boolean
  /** Writes a line to stdout. The request and its error are for the live log of the console only. */
  line(text: string, request?: { readonly url: string }, error?: LoggedError): void
  /** Writes a sentence for the operator to stderr. */
  say(sentence: string): void
  /** Says a sentence at most once a minute; `topic` is the part of it that repeats. */
  sayRepeated(sentence: string, topic?: string): void
  /** Waits up to two seconds until all lines are written, then drops the rest. */
  close(): Promise<void>
}

/** `write` resolves when the output has taken the text, and rejects when it cannot. */
export type Output = { write(text: string): Promise<void> }

type Say = (sentence: string) => void

/** The longest that a stalled reader of stdout may delay the end of a server. */
const CLOSE_MS_MAX = 2_000
const WAITING_MAX = 1024 * 1024
const SENTENCES_MAX = 50

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
    close: lines.close,
  }
}

/** See `Log.sayRepeated`. */
export function sayOncePerMinute(say: Say, elapsedMs = stopwatch()): Log['sayRepeated'] {
  const saidMs = new Map<string, number>()
  return (sentence, topic = sentence) => {
    const nowMs = elapsedMs()
    if (nowMs - (saidMs.get(topic) ?? -Infinity) < MINUTE_MS) return
    if (saidMs.size >= SENTENCES_MAX) saidMs.clear()
    saidMs.set(topic, nowMs)
    say(sentence)
  }
}

/** Writes lines to an output. Lines added during a write form the next write. */
export function createLines(output: Output, say: Say, waitingMax = WAITING_MAX) {
  let waiting = ''
  let dropped = 0
  let isOpen = true
  let writing: Promise<void> | null = null

  async function writeWaiting(): Promise<void> {
    while (waiting !== '') {
      const text = waiting
      waiting = ''
      try {
        await output.write(text)
        if (waiting === '') sayDropped()
      } catch (error) {
        if (codeOf(error) === 'EPIPE') endAtClosedPipe()
        else dropped += text.split('\n').length - 1
      }
    }
    writing = null
  }
  const flush = (): void => {
    writing ??= writeWaiting()
  }

  function endAtClosedPipe(): void {
    isOpen = false
    waiting = ''
    dropped = 0
    say(CLOSED)
  }

  function sayDropped(): void {
    if (dropped > 0) say(`${several(dropped, 'access log line')} dropped: stdout did not take them`)
    dropped = 0
  }

  return {
    isOpen: () => isOpen,
    add(text: string): void {
      if (!isOpen) return
      if (waiting.length + text.length >= waitingMax) {
        dropped += 1
        return
      }
      if (waiting === '' && writing === null) setImmediate(flush)
      waiting += `${text}\n`
    },
    async close(): Promise<void> {
      flush()
      if (writing !== null) await withTimeout(writing, CLOSE_MS_MAX)
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
