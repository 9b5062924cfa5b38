/**
 * The worker that finds and renders answers too large for the main thread, in slices, in turns
 * between those who asked. Each answer reads through a connection of its own: one snapshot of the
 * list from first row to last.
 */
import { createAnswerFinder, type Rendered, renderAnswer } from '../../api/answer.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { stopwatch } from '../../lib/clock.ts'
import { formatInstant } from '../../lib/time.ts'
import { toErrorMessage } from '../../lib/worker.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { fingerprintOf, isSameFile } from '../database-files.ts'
import { walBytes } from '../wal.ts'
import { createFairQueue, type Owner, type Work } from './fair-queue.ts'
import { QUICK_RECORDS_MAX } from './search.ts'
import type { LongAnswer } from './select.ts'
import { createListStore, openListFile } from './store.ts'
import type { FromWorker, StreamSetup, ToWorker, WalBound } from './stream.ts'

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

/** Rows are read once and in order: a large cache would only cost memory, for each client. */
const CACHE_KIB = 512
/** Connections kept while they are not used. */
const IDLE_MAX = 4

function openConnection(file: string) {
  const fingerprint = fingerprintOf(file)
  const options = { isServer: true, mustExist: true, cacheKib: CACHE_KIB }
  const db = openListFile(file, options)
  return { fingerprint, db, store: createListStore(db) }
}
export type Connection = ReturnType<typeof openConnection>

/**
 * Keeps connections with their statements for reuse: opening one costs more than a small answer.
 * One that was opened before the file was replaced is closed.
 */
export function createPool(file: string) {
  let idle: Connection[] = []
  let inUse = 0
  return {
    inUse: (): number => inUse,
    take(): Connection {
      const now = fingerprintOf(file)
      for (const { db } of idle.filter(({ fingerprint }) => !isSameFile(fingerprint, now)))
        db.close()
      idle = idle.filter(({ fingerprint }) => isSameFile(fingerprint, now))
      const connection = idle.pop() ?? openConnection(file)
      inUse += 1
      return connection
    },
    /** Ends the snapshot first: it would keep the WAL from being emptied. */
    give(connection: Connection): void {
      inUse -= 1
      if (connection.db.inTransaction) connection.db.run('rollback')
      if (idle.length < IDLE_MAX) idle.push(connection)
      else connection.db.close()
    },
  }
}

declare const self: Worker

type Find = Extract<ToWorker, { kind: 'find' }>
type Match = Extract<ToWorker, { kind: 'match' }>
type FindType = Extract<ToWorker, { kind: 'find-type' }>
type Request = Exclude<ToWorker, { kind: 'setup' }>
/** The owner of a stream that has ended. */
const NOBODY: Owner = { id: '', isTrial: false }

const streams = new Map<number, Stream>()
const reply = (message: FromWorker, transfer: ArrayBuffer[] = []): void =>
  self.postMessage(message, transfer)

/** Keeps the WAL of the list within its bound, as far as it grows because of streams. */
function boundWal(
  file: string,
  { bytesMax, oldMs }: WalBound,
  { inUse }: ReturnType<typeof createPool>,
) {
  const isLarge = (): boolean => walBytes(file) > bytesMax

  /** Ends streams that have kept it from being emptied for too long. */
  function endOld(): void {
    if (!isLarge()) return
    for (const [id, { ageMs, close }] of streams) {
      if (ageMs() < oldMs) continue
      streams.delete(id)
      close()
    }
  }

  return {
    endOld,
    /** Ends old streams; then empties the WAL if it is large and nothing else is being read. */
    empty({ db }: Connection): void {
      endOld()
      if (inUse() === 1 && isLarge()) db.run('pragma wal_checkpoint(truncate)')
    },
    /** Whether one more stream may begin. */
    hasRoom: (): boolean => streams.size === 0 || !isLarge(),
  }
}

/** The masked answer to a query. */
function* masked(
  { store }: Connection,
  { query, nowMs }: Find,
  provider: string,
): Generator<void, Rendered> {
  const { filter, output } = query
  const { records, endpoints, cityNames } = store
  const isTxt = output.kind === 'txt'
  const ends = isTxt ? yield* endpoints.findMasked(filter, nowMs) : []
  const rows = isTxt ? [] : yield* records.findMasked(filter, nowMs)
  const found = {
    find: () => ({ rows, cityNames, areKept: false }),
    findEndpoints: () => ends,
  }
  return createAnswerFinder<never>(found, provider)(query, nowMs)
}

/** What is found without a stream. */
function createLookUps(
  pool: ReturnType<typeof createPool>,
  empty: (connection: Connection) => void,
) {
  /** Works with a connection that no stream keeps, on one snapshot. */
  function* briefly(work: (store: Connection['store']) => Work): Work {
    const connection = pool.take()
    try {
      empty(connection)
      connection.db.run('begin')
      yield* work(connection.store)
    } finally {
      pool.give(connection)
    }
  }

  return {
    /** Reads all matches of a filter, for the main thread to draw from. */
    match: ({ id, query: { filter, addressBits }, nowMs }: Match): Work =>
      briefly(function* (store) {
        const matches = yield* store.matches(filter, { nowMs, addressBits })
        const { ids, types, agesSeconds } = matches
        reply({ kind: 'matched', id, matches }, [ids.buffer, types.buffer, agesSeconds.buffer])
      }),

    findType: ({ id, types }: FindType): Work =>
      briefly(function* (store) {
        yield
        reply({ kind: 'type', id, isThere: store.hasType(types, true) === true })
      }),
  }
}

function createWorker({ file, provider, walBound }: StreamSetup) {
  const writers = createWriters(provider)
  const pool = createPool(file)
  const { endOld, empty, hasRoom } = boundWal(file, walBound, pool)

  /** Renders all rows at once when they are few, else begins a stream, which keeps the connection. */
  function* begin<R extends EndpointRow>(
    connection: Connection,
    message: Find,
    { pages, totals: findTotals }: LongAnswer<R>,
    writerFor: (count: number) => Writer<R>,
  ): Generator<void, 'done' | 'begun'> {
    const { id, needsTotals } = message
    const first = yield* firstRows(pages)
    if (first.length <= QUICK_RECORDS_MAX) {
      reply({ kind: 'rendered', id, rendered: renderAnswer(writerFor(first.length), first) })
      return 'done'
    }
    if (!hasRoom()) {
      reply({ kind: 'refused', id })
      return 'done'
    }
    const totals = needsTotals ? yield* findTotals() : null
    const writer = writerFor(totals?.records ?? first.length)
    const close = (): void => pool.give(connection)
    streams.set(id, createStream(message, chain(first, pages), writer, close))
    reply({ kind: 'begun', id, totals })
    return 'begun'
  }

  function* answer(connection: Connection, message: Find): Generator<void, 'done' | 'begun'> {
    const { id, query, nowMs } = message
    const { filter, output, addressBits } = query
    const { db, store } = connection
    db.run('begin') // one snapshot for everything below
    if (addressBits === 16) {
      reply({ kind: 'rendered', id, rendered: yield* masked(connection, message, provider) })
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

  function* find(message: Find): Work {
    const connection = pool.take()
    let isKept = false
    try {
      empty(connection)
      isKept = (yield* answer(connection, message)) === 'begun'
    } finally {
      if (!isKept) pool.give(connection)
    }
  }

  return { find, endOld, ...createLookUps(pool, empty) }
}

/** Sends the next chunk of a stream. */
function* pull(id: number): Work {
  worker?.endOld()
  const stream = streams.get(id)
  if (stream === undefined) throw new Error('the stream has ended already')
  const chunk = yield* stream.next()
  if (chunk === null) return end(id)
  reply({ kind: 'chunk', id, bytes: chunk, records: stream.records() }, [chunk.buffer])
}

function end(id: number): void {
  streams.get(id)?.close()
  streams.delete(id)
  reply({ kind: 'end', id })
}

let worker: ReturnType<typeof createWorker> | null = null
const queue = createFairQueue()
let isWorking = false

/** Does one slice of work after the other; messages come in between. */
function workOn(): void {
  isWorking = queue.doSlice()
  if (isWorking) setImmediate(workOn)
}

/** What a message asks for. */
function* workFor(message: Request): Work {
  try {
    if (worker === null) throw new Error('the worker was not set up')
    if (message.kind === 'find') yield* worker.find(message)
    else if (message.kind === 'match') yield* worker.match(message)
    else if (message.kind === 'find-type') yield* worker.findType(message)
    else if (message.kind === 'pull') yield* pull(message.id)
    else end(message.id)
  } catch (error) {
    streams.get(message.id)?.close()
    streams.delete(message.id)
    reply({ kind: 'failed', id: message.id, error: toErrorMessage(error) })
  }
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'setup') {
    worker = createWorker(data)
    return
  }
  const owner = 'owner' in data ? data.owner : streams.get(data.id)?.owner
  queue.add(owner ?? NOBODY, data.id, workFor(data))
  if (!isWorking) setImmediate(workOn)
  isWorking = true
}
