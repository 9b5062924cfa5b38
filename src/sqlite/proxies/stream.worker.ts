/**
 * The worker that finds and renders answers too large for the main thread, in slices that take turns. Each
 * answer reads through a connection of its own: one snapshot of the list from first row to last.
 */
import { createAnswerFinder, type Rendered, renderAnswer } from '../../api/answer.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { stopwatch } from '../../lib/clock.ts'
import { formatInstant } from '../../lib/time.ts'
import { toErrorMessage } from '../../lib/worker.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { inodeOf } from '../database-files.ts'
import { QUICK_RECORDS_MAX } from './search.ts'
import type { LongAnswer } from './select.ts'
import { createListStore, openListFile } from './store.ts'
import type { FromWorker, StreamSetup, ToWorker } from './stream.ts'

const CHUNK_BYTES = 256 * 1024

/** Renders rows that were read already, and then pages of them, chunk by chunk; `close` is called at the end. */
function createStream<R extends EndpointRow>(
  nowMs: number,
  first: readonly R[],
  pages: Iterator<readonly R[]>,
  { head, record, separator, tail }: Writer<R>,
  close: () => void,
) {
  let page = first
  let at = 0
  let text = head.join(formatInstant(nowMs))
  let before = ''
  let records = 0
  let isOver = false
  return {
    /** The next chunk, `null` after the last; pauses after each page. */
    *next(): Generator<void, Uint8Array<ArrayBuffer> | null> {
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
      }
      const chunk = encodeByteText(isOver ? text + tail : text)
      text = ''
      return chunk
    },
    records: () => records,
    close,
  }
}

/** The first rows: all that there are, or more than are rendered at once. */
function* firstRows<R>(pages: Generator<readonly R[]>): Generator<void, readonly R[]> {
  let rows: readonly R[] = []
  while (rows.length <= QUICK_RECORDS_MAX) {
    const { done, value } = pages.next()
    if (done) break
    rows = rows.length === 0 ? value : rows.concat(value)
    yield
  }
  return rows
}

/** Rows are read once and in order: a large cache would only cost memory, for each client. */
const CACHE_KIB = 512
const IDLE_MAX = 4

function openConnection(file: string) {
  const inode = inodeOf(file)
  const db = openListFile(file, { isServer: true, mustExist: true, cacheKib: CACHE_KIB })
  return { inode, db, store: createListStore(db) }
}
type Connection = ReturnType<typeof openConnection>

declare const self: Worker

type Request = Exclude<ToWorker, { kind: 'setup' | 'cancel' }>
type Find = Extract<Request, { kind: 'find' }>
type Match = Extract<Request, { kind: 'match' }>
/** Work that pauses often, after a millisecond or a few. It must not throw. */
type Work = Generator<void, void>

const reply = (message: FromWorker, transfer: ArrayBuffer[] = []): void =>
  self.postMessage(message, transfer)

function* masked(
  { records, endpoints, cityNames }: Connection['store'],
  { query, nowMs }: Find,
  provider: string,
): Generator<void, Rendered> {
  const { filter, output } = query
  const isTxt = output.kind === 'txt'
  const ends = isTxt ? yield* endpoints.findMasked(filter, nowMs) : []
  const rows = isTxt ? [] : yield* records.findMasked(filter, nowMs)
  const found = {
    find: () => ({ rows, cityNames, areKept: false }),
    findEndpoints: () => ends,
  }
  return createAnswerFinder<never>(found, provider)(query, nowMs)
}

/** How long a piece of work runs before the next one has its turn, in milliseconds. */
const SLICE_MS = 4

function createWorker({ file, provider }: StreamSetup) {
  const writers = createWriters(provider)
  const streams = new Map<number, ReturnType<typeof createStream>>()
  /** Opening a connection and preparing its statements costs more than a small answer. */
  let idle: Connection[] = []

  /** An idle connection to the file, or a new one. Closes those to a file that was replaced. */
  function takeConnection(): Connection {
    const inode = inodeOf(file)
    for (const { db } of idle.filter(each => each.inode !== inode)) db.close()
    idle = idle.filter(each => each.inode === inode)
    return idle.pop() ?? openConnection(file)
  }

  /** Ends the snapshot, because the WAL cannot be reset before. */
  function returnConnection(connection: Connection): void {
    if (connection.db.inTransaction) connection.db.run('rollback')
    if (idle.length < IDLE_MAX) idle.push(connection)
    else connection.db.close()
  }

  /** Works on one snapshot of the list; a stream that has begun keeps the connection. */
  function* onSnapshot(work: (connection: Connection) => Generator<void, 'done' | 'begun'>): Work {
    const connection = takeConnection()
    let isKept = false
    try {
      connection.db.run('begin')
      isKept = (yield* work(connection)) === 'begun'
    } finally {
      if (!isKept) returnConnection(connection)
    }
  }

  /** Renders all rows at once when they are few, else begins a stream. */
  function* begin<R extends EndpointRow>(
    connection: Connection,
    message: Find,
    { pages, totals: findTotals }: LongAnswer<R>,
    writerFor: (count: number) => Writer<R>,
  ): Generator<void, 'done' | 'begun'> {
    const { id, nowMs, needsTotals } = message
    const first = yield* firstRows(pages)
    if (first.length <= QUICK_RECORDS_MAX) {
      reply({ kind: 'rendered', id, rendered: renderAnswer(writerFor(first.length), first) })
      return 'done'
    }
    const totals = needsTotals ? yield* findTotals() : null
    const writer = writerFor(totals?.records ?? first.length)
    streams.set(
      id,
      createStream(nowMs, first, pages, writer, () => returnConnection(connection)),
    )
    reply({ kind: 'begun', id, totals })
    return 'begun'
  }

  function* find(connection: Connection, message: Find): Generator<void, 'done' | 'begun'> {
    const { id, query, nowMs } = message
    const { filter, output, addressBits } = query
    const { store } = connection
    if (addressBits === 16) {
      reply({ kind: 'rendered', id, rendered: yield* masked(store, message, provider) })
      return 'done'
    }
    return output.kind === 'txt'
      ? yield* begin(connection, message, store.endpoints.open(filter, nowMs), () =>
          writers.txt(output),
        )
      : yield* begin(connection, message, store.records.open(filter, nowMs), count =>
          writers.records(filter, output, count, { cityNames: store.cityNames, areKept: false }),
        )
  }

  /** Reads all matches of a filter, for the main thread to draw from. */
  function* match(
    store: Connection['store'],
    { id, query: { filter, addressBits }, nowMs }: Match,
  ): Generator<void, 'done'> {
    const matches = yield* store.matches(filter, { nowMs, addressBits })
    const { ids, types, agesSeconds } = matches
    reply({ kind: 'matched', id, matches }, [ids.buffer, types.buffer, agesSeconds.buffer])
    return 'done'
  }

  /** Sends the next chunk of a stream. */
  function* pull(id: number): Work {
    const stream = streams.get(id)
    if (stream === undefined) throw new Error('the stream has ended')
    const chunk = yield* stream.next()
    if (chunk !== null) {
      reply({ kind: 'chunk', id, bytes: chunk, records: stream.records() }, [chunk.buffer])
      return
    }
    close(id)
    reply({ kind: 'end', id })
  }

  function close(id: number): void {
    streams.get(id)?.close()
    streams.delete(id)
  }

  function* workFor(message: Request): Work {
    const { id } = message
    try {
      if (message.kind === 'find') yield* onSnapshot(connection => find(connection, message))
      else if (message.kind === 'match') yield* onSnapshot(({ store }) => match(store, message))
      else yield* pull(id)
    } catch (error) {
      close(id)
      reply({ kind: 'failed', id, error: toErrorMessage(error) })
    }
  }

  /** Unfinished work by id, in the order of its turns. */
  const unfinished = new Map<number, Work>()
  let isScheduled = false

  /** Gives the first piece of work a slice, and puts it last. Messages are received between slices. */
  function runSlice(): void {
    for (const [id, work] of unfinished) {
      const elapsedMs = stopwatch()
      let isDone = false
      while (!isDone && elapsedMs() < SLICE_MS) isDone = work.next().done === true
      unfinished.delete(id)
      if (!isDone) unfinished.set(id, work)
      break
    }
    isScheduled = unfinished.size > 0
    if (isScheduled) setImmediate(runSlice)
  }

  return {
    add(message: Request): void {
      unfinished.set(message.id, workFor(message))
      if (!isScheduled) setImmediate(runSlice)
      isScheduled = true
    },
    cancel(id: number): void {
      unfinished.get(id)?.return()
      unfinished.delete(id)
      close(id)
    },
  }
}

let worker: ReturnType<typeof createWorker> | null = null

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'setup') worker = createWorker(data)
  else if (data.kind === 'cancel') worker?.cancel(data.id)
  else worker?.add(data)
}
