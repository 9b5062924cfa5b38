/**
 * What a server writes about itself: lines on stdout, collected during a turn of the event
 * loop and written at once, and sentences for the operator on stderr. Both are bounded: lines that
 * nobody reads are dropped and counted, and sentences that repeat are said once, then counted.
 */
import { orAfter } from './clock.ts'
import { codeOf, reasonOf } from './errors.ts'
import { printable } from './redact.ts'

export type LoggedError = { readonly code: string; readonly message: string }

export type Log = {
  /** Whether lines are written at all; if not, callers need not build them. */
  readonly hasLines: boolean
  /**
   * Writes a line, without its newline, to stdout. Whose line it is, and why that request was refused, is
   * for those that watch, never for stdout.
   */
  line(text: string, request?: { readonly url: string }, error?: LoggedError): void
  /** Writes a sentence for the operator to stderr. */
  say(sentence: string): void
  /** Says the first sentence of a topic, then once a minute how many more there were. */
  sayRepeated(topic: string, sentence: string): void
  /** Waits, for two seconds at most, until everything is written. */
  close(): Promise<void>
}

/** `write` returns or resolves once the text was taken; it throws or rejects when it never will be. */
export type Output = { write(text: string): void | Promise<void> }

/** The longest that a stalled reader of stdout may delay the end of the process. */
const CLOSE_MS_MAX = 2_000
/** Most characters that wait for a reader of stdout, besides those that are being written. */
const WAITING_MAX = 4 * 1024 * 1024
/** How often a repeated sentence is counted. */
const REPEAT_MS = 60_000
/** Most topics at once; further ones are counted together. */
const TOPICS_MAX = 50
const OTHERS = 'further sentences'

const CLOSED = 'stdout is closed: the access log ends here, the service goes on'
const STALLED = 'stdout is not being read: access log lines are dropped until it is'

type Say = (sentence: string) => void
export const say: Say = sentence => void process.stderr.write(`${printable(sentence)}\n`)

/** Calls `run` every `ms` milliseconds; returns what ends that. */
export type Every = (run: () => void, ms: number) => () => void

export const timerEvery: Every = (run, ms) => {
  const timer = setInterval(run, ms).unref()
  return () => clearInterval(timer)
}

/** A log on the process's own streams; with `hasLines` false stdout stays silent. */
export function createLog({ hasLines }: { hasLines: boolean }): Log {
  const { sayRepeated, finish } = createRepeats(say, timerEvery)
  const lines = createLines(stdoutOutput(), say, sayRepeated)
  return {
    get hasLines() {
      return hasLines && lines.isOpen()
    },
    line(text) {
      if (hasLines) lines.add(text)
    },
    say,
    sayRepeated,
    async close() {
      await orAfter(lines.drain(), CLOSE_MS_MAX)
      lines.close()
      finish()
    },
  }
}

/** Bounds what is said of topics that repeat. `finish` says what was not counted yet. */
export function createRepeats(say: Say, every: Every) {
  const topics = new Map<string, { more: number; stop: () => void }>()

  function count(topic: string): void {
    const repeated = topics.get(topic)
    if (repeated === undefined) return
    if (repeated.more > 0) {
      say(`${repeated.more} more in the last minute: ${topic}`)
      repeated.more = 0
      return
    }
    repeated.stop()
    topics.delete(topic)
  }

  return {
    sayRepeated(topic: string, sentence: string): void {
      const isOther = topics.size >= TOPICS_MAX && !topics.has(topic)
      const counted = isOther ? OTHERS : topic
      const repeated = topics.get(counted)
      if (repeated === undefined) {
        topics.set(counted, { more: 0, stop: every(() => count(counted), REPEAT_MS) })
        say(sentence)
      } else repeated.more += 1
    },
    finish(): void {
      for (const [topic, { more, stop }] of topics) {
        stop()
        if (more > 0) say(`${more} more: ${topic}`)
      }
      topics.clear()
    },
  }
}

/**
 * Lines on an output, written one batch at a time: those of a turn of the event loop, or all that
 * came while the batch before was written. What comes when too much waits is dropped.
 */
export function createLines(
  output: Output,
  say: Say,
  sayRepeated: (topic: string, sentence: string) => void,
  waitingMax = WAITING_MAX,
) {
  let waiting = ''
  let batch = ''
  let dropped = 0
  let isOpen = true
  /** The write of `batch` that has not ended, and those that follow it. */
  let writing: Promise<void> | null = null

  /** Writes what waits; returns a promise if that takes longer. */
  function writeWaiting(): void | Promise<void> {
    while (waiting !== '' && isOpen) {
      batch = waiting
      waiting = ''
      try {
        const written = output.write(batch)
        if (written) return written.catch(failed).then(writeWaiting)
      } catch (error) {
        failed(error)
      }
    }
    batch = ''
    if (dropped > 0 && isOpen) sayDropped('stdout is read again')
  }

  function failed(error: unknown): void {
    if (codeOf(error) === 'EPIPE') {
      isOpen = false // nobody can ever read what is written
      waiting = ''
      dropped = 0
      say(CLOSED)
      return
    }
    const what = `could not be written: ${reasonOf(error)}`
    sayRepeated(`access log lines ${what}`, `${linesOf(countLines(batch))} ${what}`)
  }

  function sayDropped(why: string): void {
    say(`${why}: ${linesOf(dropped)} ${dropped === 1 ? 'was' : 'were'} dropped`)
    dropped = 0
  }

  function flush(): void {
    const written = writing === null ? writeWaiting() : undefined
    if (!written) return
    writing = written.finally(() => {
      writing = null
      flush() // what came since then
    })
  }

  return {
    isOpen: () => isOpen,
    add(text: string): void {
      if (!isOpen) return
      if (waiting.length + text.length >= waitingMax) {
        if (dropped === 0) say(STALLED)
        dropped += 1
        return
      }
      if (waiting === '' && writing === null) setImmediate(flush)
      waiting += `${text}\n`
    },
    /** Resolves when all lines are written, or never. */
    async drain(): Promise<void> {
      flush()
      while (writing !== null) await writing
    },
    /** Says how many lines were dropped, those of an unfinished write among them; the end. */
    close(): void {
      if (isOpen) dropped += countLines(batch) + countLines(waiting)
      isOpen = false
      waiting = ''
      if (dropped > 0) sayDropped('stdout was not read')
    },
  }
}

const linesOf = (count: number): string => `${count} access log ${count === 1 ? 'line' : 'lines'}`
const countLines = (text: string): number => text.split('\n').length - 1

function stdoutOutput(): Output {
  let out: Bun.FileSink | null = null
  return {
    write(text) {
      out ??= Bun.stdout.writer({ highWaterMark: 64 * 1024 })
      const failed = (error: unknown): never => {
        out = null // after a failure, a writer fails forever
        throw error
      }
      try {
        const results = [out.write(text), out.flush()]
        const isTaken = results.every(result => typeof result === 'number')
        return isTaken ? undefined : Promise.all(results).then(() => {}, failed)
      } catch (error) {
        return failed(error)
      }
    },
  }
}
