/**
 * What a server writes about itself: lines on stdout, collected during a turn of the event
 * loop and written at once, and sentences for the operator on stderr. Both are bounded: lines that
 * nobody reads are dropped and counted, and sentences that repeat are said once, then counted.
 */
import { constants, openSync, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { isatty } from 'node:tty'
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

/** `write` resolves once the text was taken; it rejects when it never will be. */
export type Output = { write(text: string): Promise<void> }

/** The longest that a stalled reader of stdout or stderr may delay the end of a server. */
const CLOSE_MS_MAX = 2_000
/** Most characters that wait for a reader of stdout, besides those that are being written. */
const WAITING_MAX = 4 * 1024 * 1024
/** How often a repeated sentence is counted. */
const REPEAT_MS = 60_000
/** How often a terminal that takes nothing is tried again. */
const RETRY_MS = 50
/** Most topics at once; further ones are counted together. */
const TOPICS_MAX = 50

const CLOSED = 'stdout is closed: the access log ends here, the service goes on'
const STALLED = 'stdout is not being read: access log lines are dropped until it is'

type Say = (sentence: string) => void
let stderr: { write(text: string): unknown } | undefined
/** Whether the process is to end soon: it then leaves unsaid what a terminal does not take. */
let endsSoon = false
export const endSoon = (): boolean => (endsSoon = true)
export function toStderr(text: string): void {
  stderr ??= terminalOutput(2) ?? process.stderr
  void stderr.write(text)
}
export const say: Say = sentence => toStderr(`${printable(sentence)}\n`)

/** Calls `run` every `ms` milliseconds; returns what ends that. */
export type Every = (run: () => void, ms: number) => () => void

export const timerEvery: Every = (run, ms) => {
  const timer = setInterval(run, ms).unref()
  return () => clearInterval(timer)
}

/** A log on the process's own streams; with `hasLines` false stdout stays silent. */
export function createLog({ hasLines }: { hasLines: boolean }): Log {
  const { sayRepeated, finish } = createRepeats(say, timerEvery)
  const lines = createLines(terminalOutput(1) ?? stdoutOutput(), say, sayRepeated)
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
      await orAfter(Promise.all([lines.drain(), stderr?.write('')]), CLOSE_MS_MAX)
      endSoon()
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
      const counted = isOther ? 'further sentences' : topic
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
  let start = '' // ends the line that a failed write may have cut
  let isOpen = true
  /** The write of `batch` that has not ended, and those that follow it. */
  let writing: Promise<void> | null = null

  async function writeWaiting(): Promise<void> {
    while (waiting !== '' && isOpen) {
      ;[batch, waiting, start] = [start + waiting, '', '']
      await output.write(batch).catch(failed)
    }
    batch = ''
    if (dropped > 0 && isOpen) sayDropped('stdout is read again')
  }

  function failed(error: unknown): void {
    if (codeOf(error) === 'EPIPE') {
      isOpen = false // nobody can ever read what is written
      waiting = ''
      dropped = 0
      return say(CLOSED)
    }
    start = '\n'
    const what = `could not be written: ${reasonOf(error)}`
    sayRepeated(`access log lines ${what}`, `${linesOf(countLines(batch))} ${what}`)
  }

  function sayDropped(why: string): void {
    say(`${why}: ${linesOf(dropped)} ${dropped === 1 ? 'was' : 'were'} dropped`)
    dropped = 0
  }

  function flush(): void {
    writing ??= writeWaiting().finally(() => {
      writing = null
      if (waiting !== '' && isOpen) flush() // what came since then
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
const countLines = (text: string): number => text.split('\n').filter(Boolean).length

/**
 * A terminal, written to without waiting: one that is stopped (Ctrl-S), or whose connection hangs, would halt the
 * process. It is opened again, as its descriptor is the shell's, too.
 */
function terminalOutput(given: 1 | 2): Output | null {
  if (!isatty(given)) return null
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants
  let fd: number = given
  try {
    fd = openSync(`/proc/self/fd/${given}`, O_WRONLY | O_NONBLOCK | O_NOCTTY)
  } catch {} // it is another user's: it is waited for
  let rest = Buffer.alloc(0)
  /** Writes what the terminal takes; whether that was all. */
  function isTaken(to: number): boolean {
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(to, rest))
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') rest = rest.subarray(rest.length) // it is gone
    }
    return rest.length === 0
  }
  if (given === 2) process.on('exit', () => isTaken(endsSoon ? fd : given))
  return {
    async write(text) {
      if (rest.length < WAITING_MAX) rest = Buffer.concat([rest, Buffer.from(text)])
      while (!isTaken(fd)) await delay(RETRY_MS)
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
