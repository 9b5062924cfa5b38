/**
 * The live log: the requests that are over, for those who watch. Nobody who reads slowly makes a request
 * wait: what does not fit is dropped and counted.
 */
import type { Log, LoggedError } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import { AdminError } from './errors.ts'

/** Lines that a stream begins with, and about the most bytes that they take. */
export const LAST_LINES = 2000
export const LAST_BYTES = 4 * 1024 * 1024
/** Most streams at once: every line goes to each of them, in the time of requests. */
export const READERS_MAX = 32
/** Most lines that wait for one reader. */
export const WAITING_MAX = 2 * LAST_LINES
/** How long lines are collected before they are sent together. */
const COLLECT_MS = 100
/** A stream is never silent for longer. */
export const HEARTBEAT_MS = 15 * SECOND_MS

/** A request that is over: its line of the access log, its URL, which may hold its key, and why it was refused. */
export type Logged = { line: string; url: string; error: LoggedError | undefined }
/** Writes requests as the lines that readers get. */
type Write = (logged: readonly Logged[]) => Promise<readonly string[]>

/** Lines that wait for a reader. */
export function createBacklog(first: readonly Logged[]) {
  let lines = [...first]
  let dropped = 0
  return {
    add(line: Logged): void {
      if (lines.length < WAITING_MAX) lines.push(line)
      else dropped += 1
    },
    isEmpty: (): boolean => lines.length === 0,
    /** What waits, and how many lines were dropped after it. */
    take() {
      const taken = { lines, dropped }
      lines = []
      dropped = 0
      return taken
    },
  }
}

/** A stream of lines to one reader: `first`, then those that are added, until it is closed. */
function createReader(first: readonly Logged[], write: Write, onClose: () => void) {
  const backlog = createBacklog(first)
  let isClosed = false
  let hasBegun = false // the head of an answer is sent with its first chunk
  let timer: ReturnType<typeof setTimeout> | undefined
  /** Ends the pause of the stream, after so many milliseconds. */
  let wake = (_ms: number): void => {}

  /** Waits until there are lines, for the length of a heartbeat at most. */
  async function pause(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    wake = ms => {
      clearTimeout(timer)
      timer = setTimeout(resolve, ms)
    }
    wake(HEARTBEAT_MS)
    await promise
    wake = () => {}
  }
  function close(): void {
    if (isClosed) return
    isClosed = true
    wake(0)
    onClose()
  }
  const source = {
    async pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      if (hasBegun && !isClosed && backlog.isEmpty()) await pause()
      hasBegun = true
      if (isClosed) return controller.close()
      const { lines, dropped } = backlog.take()
      const written = [
        ...(await write(lines)),
        ...(dropped > 0 ? [JSON.stringify({ dropped })] : []),
      ]
      if (isClosed) return controller.close()
      controller.enqueue(Buffer.from(written.map(line => `${line}\n`).join('') || '\n'))
    },
    cancel: close,
  }
  return {
    stream: new ReadableStream<Uint8Array>(source, { highWaterMark: 0 }),
    add(line: Logged): void {
      if (backlog.isEmpty()) wake(COLLECT_MS)
      backlog.add(line)
    },
    close,
  }
}

const bytesOf = ({ line, url }: Logged): number => line.length + url.length

/** The last lines, in a ring: as many, and as many bytes, as are kept. */
function createLast() {
  const ring: (Logged | null)[] = Array.from({ length: LAST_LINES }, () => null)
  let [next, count, bytes] = [0, 0, 0]
  const placeOf = (age: number): number => (next - age + LAST_LINES) % LAST_LINES
  function forgetOldest(): void {
    const at = placeOf(count)
    bytes -= ring[at] ? bytesOf(ring[at]) : 0
    ring[at] = null
    count -= 1
  }
  return {
    add(logged: Logged): void {
      if (count === LAST_LINES) forgetOldest()
      ring[next] = logged
      next = (next + 1) % LAST_LINES
      count += 1
      bytes += bytesOf(logged)
      while (bytes > LAST_BYTES) forgetOldest()
    },
    /** Oldest first. */
    all: (): Logged[] =>
      Array.from({ length: count }, (_, n) => ring[placeOf(count - n)] ?? []).flat(),
  }
}

export type LogTap = ReturnType<typeof createLogTap>

/**
 * A log that writes to `log`, and what streams its lines. While nobody watches, a line costs the
 * storing of a reference. Lines are made for a silent log too: a stream begins with the last ones.
 */
export function createLogTap(log: Log) {
  const last = createLast()
  const readers = new Set<ReturnType<typeof createReader>>()
  let isOver = false

  const tapped: Log = {
    ...log,
    hasLines: true,
    line(text, request, error) {
      const logged = { line: text, url: request?.url ?? '', error }
      last.add(logged)
      if (readers.size > 0) for (const reader of readers) reader.add(logged)
      if (log.hasLines) log.line(text)
    },
  }

  return {
    log: tapped,

    /**
     * The last lines, then those that come, as `write` writes them, until `signal` is aborted or the
     * server ends.
     * @throws AdminError CONFLICT while there are `READERS_MAX` streams.
     */
    open(signal: AbortSignal, write: Write): ReadableStream<Uint8Array> {
      if (readers.size >= READERS_MAX) {
        throw new AdminError('CONFLICT', `${READERS_MAX} live logs are open; close one first`)
      }
      const reader = createReader(last.all(), write, () => readers.delete(reader))
      readers.add(reader)
      signal.addEventListener('abort', reader.close, { once: true })
      if (isOver || signal.aborted) reader.close()
      return reader.stream
    },

    /** Ends all streams, and those that are opened from now on. */
    close(): void {
      isOver = true
      for (const { close } of [...readers]) close()
    },
  }
}
