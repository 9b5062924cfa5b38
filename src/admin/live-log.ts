/**
 * The live log: the lines of the access log as they are written, for those who watch. Nobody
 * who reads slowly makes a request wait: what does not fit is dropped and counted.
 */
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import { AdminError } from './errors.ts'

/** Lines that a stream begins with. */
export const LAST_LINES = 100
/** Most streams at once: every line goes to each of them, in the time of requests. */
export const READERS_MAX = 32
/** Most lines that wait for one reader. */
export const WAITING_MAX = 2000
/** How long lines are collected before they are sent together. */
const COLLECT_MS = 100
/** A stream is never silent for longer. */
export const HEARTBEAT_MS = 15 * SECOND_MS

/** Lines that wait for a reader. */
export function createBacklog(first: readonly string[]) {
  let lines = [...first]
  let dropped = 0
  return {
    add(line: string): void {
      if (lines.length < WAITING_MAX) lines.push(line)
      else dropped += 1
    },
    isEmpty: (): boolean => lines.length === 0,
    /** What waits, as the text of a chunk, and how many lines were dropped after it. */
    take(): string {
      const all = dropped === 0 ? lines : [...lines, JSON.stringify({ dropped })]
      lines = []
      dropped = 0
      return all.map(line => `${line}\n`).join('')
    },
  }
}

/** A stream of lines to one reader: `first`, then those that are added, until it is closed. */
function createReader(first: readonly string[], onClose: () => void) {
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
      controller.enqueue(Buffer.from(backlog.take() || '\n'))
    },
    cancel: close,
  }
  return {
    stream: new ReadableStream<Uint8Array>(source, { highWaterMark: 0 }),
    add(line: string): void {
      if (backlog.isEmpty()) wake(COLLECT_MS)
      backlog.add(line)
    },
    close,
  }
}

export type LogTap = ReturnType<typeof createLogTap>

/**
 * A log that writes to `log`, and what streams its lines. While nobody watches, a line costs the
 * storing of a reference, and with a silent log nothing.
 */
export function createLogTap(log: Log) {
  const last: string[] = []
  let at = 0
  const readers = new Set<ReturnType<typeof createReader>>()
  let isOver = false

  const tapped: Log = {
    ...log,
    get hasLines() {
      return log.hasLines || readers.size > 0
    },
    line(text) {
      last[at] = text
      at = (at + 1) % LAST_LINES
      if (readers.size > 0) for (const reader of readers) reader.add(text)
      if (log.hasLines) log.line(text)
    },
  }

  return {
    log: tapped,

    /**
     * The last lines, then those that come, until `signal` is aborted or the server ends.
     * @throws AdminError CONFLICT while there are `READERS_MAX` streams.
     */
    open(signal: AbortSignal): ReadableStream<Uint8Array> {
      if (readers.size >= READERS_MAX) {
        throw new AdminError('CONFLICT', `${READERS_MAX} live logs are open; close one first`)
      }
      const first = [...last.slice(at), ...last.slice(0, at)]
      const reader = createReader(first, () => readers.delete(reader))
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
