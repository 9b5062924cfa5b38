/**
 * The worker that finds and renders answers too large for the main thread, in slices, in turns
 * between those who asked. Each answer reads through a connection of its own: one snapshot of the
 * list from first row to last.
 */
import { createAnswerFinder, type Rendered, renderAnswer } from '../../api/answer.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { stopwatch } from '../../lib/clock.ts'
import { createTurns, type Owner, type Work } from '../../lib/fair-queue.ts'
import { formatInstant } from '../../lib/time.ts'
import { toErrorMessage } from '../../lib/worker.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { fingerprintOf, isSameFile } from '../database-files.ts'
import { walBytes } from '../wal.ts'
import { QUICK_RECORDS_MAX } from './search.ts'
import type { LongAnswer } from './select.ts'
import { createListStore, openListFile } from './store.ts'
import type { FromWorker, StreamSetup, ToWorker } from './stream.ts'

const CHUNK_BYTES = 256 * 1024

/** Renders rows that were read already, and then pages of them, chunk by chunk; `close` is called at the end. */
function createStream<R extends EndpointRow>(
  { nowMs, owner }: Find,
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
  let isClosed = false
  return {
    owner,
    /** The next chunk, `null` after the last; pauses now and then. */
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
        if (isClosed) throw new Error('it has taken too long')
      }
      const chunk = encodeByteText(isOver ? text + tail : text)
      text = ''
      return chunk
    },
    records: () => records,
    ageMs: stopwatch(),
    close(): void {
      isClosed = true
      close()
    },
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
  const fingerprint = fingerprintOf(file)
  const options = { isServer: true, mustExist: true, cacheKib: CACHE_KIB }
  const db = openListFile(file, options)
  return { fingerprint, db, store: createListStore(db) }
}
type Connection = ReturnType<typeof openConnection>

declare const self: Worker

type Request = Exclude<ToWorker, { kind: 'setup' }>
type Find = Extract<Request, { kind: 'find' }>
type Match = Extract<Request, { kind: 'match' }>
type FindType = Extract<Request, { kind: 'find-type' }>
const NOBODY: Owner = { id: '', isTrial: false }

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

function createWorker({ file, provider, walBounds: { large, full } }: StreamSetup) {
  const writers = createWriters(provider)
  const streams = new Map<number, ReturnType<typeof createStream>>()
  /** The work of queries that are not answered yet. */
  const queries = new Map<number, Work>()
  /** Opening a connection and preparing its statements costs more than a small answer. */
  let idle: Connection[] = []
  let inUse = 0

  /** Closes connections that were opened before the file was replaced. */
  function take(): Connection {
    const now = fingerprintOf(file)
    const { same = [], other = [] } = Object.groupBy(idle, ({ fingerprint }) =>
      isSameFile(fingerprint, now) ? 'same' : 'other',
    )
    for (const { db } of other) db.close()
    idle = same
    const connection = idle.pop() ?? openConnection(file)
    inUse += 1
    return connection
  }

  /** Ends the snapshot first: it would keep the WAL from being emptied. */
  function give(connection: Connection): void {
    inUse -= 1
    if (connection.db.inTransaction) connection.db.run('rollback')
    if (idle.length < IDLE_MAX) idle.push(connection)
    else connection.db.close()
  }

  const isWal = ({ bytes }: typeof large): boolean => walBytes(file) > bytes

  /** Ends streams that have kept the WAL from being emptied for too long. */
  function endOld(): void {
    if (!isWal(large)) return
    const { oldMs } = isWal(full) ? full : large
    for (const [id, { ageMs }] of streams) if (ageMs() >= oldMs) close(id)
  }

  /** Works on one snapshot, first emptying a large WAL if nothing is read; a stream keeps the connection. */
  function* onSnapshot(work: (connection: Connection) => Generator<void, 'done' | 'begun'>): Work {
    const connection = take()
    let isKept = false
    try {
      endOld()
      if (inUse === 1 && isWal(large)) connection.db.run('pragma wal_checkpoint(truncate)')
      connection.db.run('begin')
      isKept = (yield* work(connection)) === 'begun'
    } finally {
      if (!isKept) give(connection)
    }
  }

  /** Renders all rows at once when they are few, else begins a stream. */
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
    if (streams.size > 0 && isWal(full)) {
      reply({ kind: 'refused', id })
      return 'done'
    }
    const totals = needsTotals ? yield* findTotals() : null
    const writer = writerFor(totals?.records ?? first.length)
    streams.set(
      id,
      createStream(message, first, pages, writer, () => give(connection)),
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

  function* findType(store: Connection['store'], { id, types }: FindType): Generator<void, 'done'> {
    yield
    reply({ kind: 'type', id, isThere: store.hasType(types, true) === true })
    return 'done'
  }

  /** Sends the next chunk of a stream. */
  function* pull(id: number): Work {
    endOld()
    const stream = streams.get(id)
    if (stream === undefined) throw new Error('it has taken too long')
    const chunk = yield* stream.next()
    if (chunk === null) end(id)
    else reply({ kind: 'chunk', id, bytes: chunk, records: stream.records() }, [chunk.buffer])
  }

  function close(id: number): void {
    streams.get(id)?.close()
    streams.delete(id)
  }

  function end(id: number): void {
    close(id)
    reply({ kind: 'end', id })
  }

  function* workFor(message: Request): Work {
    const { id } = message
    try {
      if (message.kind === 'find') yield* onSnapshot(connection => find(connection, message))
      else if (message.kind === 'match') yield* onSnapshot(({ store }) => match(store, message))
      else if (message.kind === 'find-type')
        yield* onSnapshot(({ store }) => findType(store, message))
      else if (message.kind === 'pull') yield* pull(id)
      else end(id)
    } catch (error) {
      close(id)
      reply({ kind: 'failed', id, error: toErrorMessage(error) })
    } finally {
      queries.delete(id)
    }
  }

  /** Ends a query that is not answered yet; this is the reply to it. */
  function endQuery(id: number): void {
    if (queries.get(id)?.return() === undefined) return
    queries.delete(id)
    reply({ kind: 'end', id })
  }

  return {
    /** Adds work. The queries of an owner are done one after the other, or all of them would end last. */
    add(message: Request): void {
      const { id, kind } = message
      const owner = 'owner' in message ? message.owner : streams.get(id)?.owner
      const work = workFor(message)
      const isQuery = kind !== 'pull' && kind !== 'cancel'
      if (isQuery) queries.set(id, work)
      else if (kind === 'cancel') endQuery(id)
      addWork(owner ?? NOBODY, isQuery ? QUERIES : id, work)
    },
  }
}

/** The lane of queries; ids, which are the lanes of streams, begin at 1. */
const QUERIES = 0

let worker: ReturnType<typeof createWorker> | null = null
const addWork = createTurns()

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'setup') worker = createWorker(data)
  else worker?.add(data)
}
