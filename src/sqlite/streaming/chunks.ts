/**
 * Rendering a long answer chunk by chunk, with pauses. Knows nothing of connections and messages.
 */
import { encodeByteText, type Writer } from '../../api/render.ts'
import { stopwatch } from '../../lib/clock.ts'
import { formatInstant } from '../../lib/time.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { QUICK_RECORDS_MAX } from '../proxies/quick-select.ts'
import type { Owner } from './turns.ts'

/** A chunk of a stream is about this long. */
const CHUNK_BYTES = 256 * 1024

/** An open stream. `next` returns its next chunk, `null` after the last; it pauses now and then. */
export type Stream = {
  owner: Owner
  next: () => Generator<void, Uint8Array<ArrayBuffer> | null>
  records: () => number
  /** How long ago it began, in milliseconds. */
  ageMs: () => number
  close: () => void
}

/** Yields the page that was read already, then the rest. */
export function* chain<T>(first: T, rest: Iterable<T>): Generator<T> {
  yield first
  yield* rest
}

/** Renders pages of rows chunk by chunk; `close` is called at the end. */
export function createStream<R extends EndpointRow>(
  { nowMs, owner }: { nowMs: number; owner: Owner },
  pages: Iterator<readonly R[]>,
  { head, record, separator, tail }: Writer<R>,
  close: () => void,
): Stream {
  let page: readonly R[] = []
  let at = 0
  let text = head.join(formatInstant(nowMs))
  let before = ''
  let records = 0
  let isOver = false
  let isClosed = false
  return {
    owner,
    *next() {
      if (isOver) return null
      while (!isOver && text.length < CHUNK_BYTES) {
        const row = page[at++]
        if (row !== undefined) {
          text += before + record(row)
          before = separator
          records += 1
          continue
        }
        const { done, value } = pages.next()
        if (done) isOver = true
        else page = value
        at = 0
        yield
        if (isClosed) throw new Error('the stream has ended already')
      }
      const chunk = encodeByteText(isOver ? text + tail : text)
      text = ''
      return chunk
    },
    records: () => records,
    ageMs: stopwatch(),
    close() {
      isClosed = true
      close()
    },
  }
}

/** The first rows: all that there are, or more than are rendered at once. */
export function* firstRows<R>(pages: Generator<readonly R[]>): Generator<void, readonly R[]> {
  let rows: readonly R[] = []
  while (rows.length <= QUICK_RECORDS_MAX) {
    const { done, value } = pages.next()
    if (done) break
    rows = rows.length === 0 ? value : rows.concat(value)
    yield
  }
  return rows
}
