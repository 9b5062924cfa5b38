/**
 * The worker that finds and renders answers too large for the main thread, in slices, in turns
 * between those who asked. Each answer reads through a connection of its own: one snapshot of the
 * list from first row to last.
 */
import { createAnswerFinder, type Rendered, renderAnswer } from '../../api/answer.ts'
import { createWriters, type Writer } from '../../api/render.ts'
import { toErrorMessage } from '../../lib/worker.ts'
import type { EndpointRow } from '../../proxies/row.ts'
import { chain, createStream, firstRows, type Stream } from '../streaming/chunks.ts'
import { type Connection, createPool } from '../streaming/connections.ts'
import type { FromWorker, StreamSetup, ToWorker, WalBound } from '../streaming/exchange.ts'
import { createTurns, type Owner, type Work } from '../streaming/turns.ts'
import { walBytes } from '../wal.ts'
import { QUICK_RECORDS_MAX } from './quick-select.ts'
import type { LongAnswer } from './select.ts'

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
const turns = createTurns()
let isWorking = false

/** Does one slice of work after the other; messages come in between. */
function workOn(): void {
  isWorking = turns.doSlice()
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
  turns.add(owner ?? NOBODY, data.id, workFor(data))
  if (!isWorking) setImmediate(workOn)
  isWorking = true
}
