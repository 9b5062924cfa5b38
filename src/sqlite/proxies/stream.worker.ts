/**
 * The thread that finds and writes bulk answers, so that nobody else waits for them. Each answer
 * reads through a connection of its own: one snapshot of the list from first row to last.
 */

import { createWriters, maskProxy } from '../../api/render.ts'
import { detailOf, writeAnswer } from '../../api/response-cache.ts'
import { subnetOf } from '../../lib/ip.ts'
import { formatInstant, stopwatch } from '../../lib/time.ts'
import type { Proxy } from '../../proxies/proxy.ts'
import { emptyLog, isSameMark, logBytes, markOf } from '../integrity/file-stamp.ts'
import { QUICK_RECORDS_MAX } from './select.ts'
import { createProxyStore, openProxyFile } from './store.ts'
import type { BulkSetUp, FromThread, LogBound, ToThread } from './stream.ts'

declare const self: Worker

/** A piece of a long answer is about this long. */
const PIECE_CHARACTERS = 256 * 1024

/** Rows are read once and in order: a large cache would only cost memory, for each client. */
const CACHE_KIB = 512
/** Connections kept when they are not used. */
const IDLE_MAX = 4

type Ask = Extract<ToThread, { kind: 'ask' }>
/** A long answer under way: gives its next piece, `null` after the last. */
type Stream = {
  next: () => string | null
  records: () => number
  /** How long ago it began. */
  ageMs: () => number
  close: () => void
}

const streams = new Map<number, Stream>()
const encoder = new TextEncoder()
const reply = (message: FromThread, transfer: ArrayBuffer[] = []): void =>
  self.postMessage(message, transfer)

/** Joins rows that were read already and the rest of them. */
function* chain(first: readonly Proxy[], rest: Iterator<Proxy>): Generator<Proxy> {
  yield* first
  for (let row = rest.next(); !row.done; row = rest.next()) yield row.value
}

/** Writes rows piece by piece. */
function createStream(rows: Iterator<Proxy>, writer: Writer, nowMs: number, close: () => void) {
  let text = writer.head.join(formatInstant(nowMs))
  let records = 0
  let isOver = false
  return {
    next(): string | null {
      if (isOver) return null
      while (text.length < PIECE_CHARACTERS) {
        const row = rows.next()
        if (row.done) {
          isOver = true
          text += writer.tail
          break
        }
        text += (records === 0 ? '' : writer.separator) + writer.record(row.value)
        records += 1
      }
      const piece = text
      text = ''
      return piece
    },
    records: () => records,
    ageMs: stopwatch(),
    close,
  }
}
type Writer = ReturnType<ReturnType<typeof createWriters>>

/** Up to `most` rows, read from the beginning. */
function take(rows: Iterator<Proxy>, most: number): Proxy[] {
  const taken: Proxy[] = []
  while (taken.length < most) {
    const row = rows.next()
    if (row.done) break
    taken.push(row.value)
  }
  return taken
}

function totalsOf(rows: Iterable<Proxy>): { records: number; subnets: number[] } {
  let records = 0
  const subnets = new Set<number>()
  for (const { ip } of rows) {
    records += 1
    subnets.add(subnetOf(ip))
  }
  return { records, subnets: [...subnets] }
}

function openConnection(file: string) {
  const mark = markOf(file)
  const db = openProxyFile(file, { serving: true, again: true, cacheKib: CACHE_KIB })
  return { mark, db, store: createProxyStore(db) }
}
type Connection = ReturnType<typeof openConnection>

/**
 * Connections with their statements, used again: to open one costs more than a small answer.
 * One that was opened before the file changed is not: it may be of a file that was replaced.
 */
function createPool(file: string) {
  let idle: Connection[] = []
  return {
    take(): Connection {
      const now = markOf(file)
      for (const { db } of idle.filter(({ mark }) => !isSameMark(mark, now))) db.close()
      idle = idle.filter(({ mark }) => isSameMark(mark, now))
      return idle.pop() ?? openConnection(file)
    },
    /** Ends the snapshot first: it would keep the write-ahead log from being emptied. */
    give(connection: Connection): void {
      if (connection.db.inTransaction) connection.db.run('rollback')
      if (idle.length < IDLE_MAX) idle.push(connection)
      else connection.db.close()
    },
  }
}

/** Keeps the log of the list within `log`, as far as long answers are what it grows for. */
function boundLog(file: string, log: LogBound) {
  const isLarge = (): boolean => logBytes(file) > log.bytesMax

  /** Ends answers that have kept it from being emptied for too long. */
  function giveUpOld(): void {
    if (!isLarge()) return
    for (const [id, { ageMs, close }] of streams) {
      if (ageMs() < log.oldMs) continue
      streams.delete(id)
      close()
    }
  }

  return {
    giveUpOld,
    /** Empties it when it is large, unless somebody reads an old state of the list or writes. */
    empty({ db }: Connection): void {
      giveUpOld()
      if (streams.size === 0 && isLarge()) emptyLog(db, file)
    },
    /** Whether one more long answer may begin. */
    hasRoom: (): boolean => streams.size === 0 || !isLarge(),
  }
}

function createThread({ file, provider, log }: BulkSetUp) {
  const writerOf = createWriters(provider)
  const pool = createPool(file)
  const { giveUpOld, empty, hasRoom } = boundLog(file, log)

  /** Answers at once when the answer is small; else begins a stream, which keeps the connection. */
  function begin(connection: Connection, asked: Ask): 'done' | 'begun' {
    const { id, question, nowMs, needsTotals } = asked
    const { filter, output, masked } = question
    const { db, store } = connection
    db.run('begin') // one snapshot for everything below
    const found = masked
      ? store.select(filter, masked, nowMs)
      : store.each(filter, nowMs, false, detailOf(output))
    const rows = found[Symbol.iterator]()
    const first = take(rows, QUICK_RECORDS_MAX + 1)
    if (first.length <= QUICK_RECORDS_MAX) {
      const shown = masked ? first.map(maskProxy) : first
      reply({ kind: 'small', id, small: writeAnswer(writerOf, question, shown) })
      return 'done'
    }
    if (!hasRoom()) {
      rows.return?.(undefined)
      reply({ kind: 'refused', id })
      return 'done'
    }
    const none = { records: 0, subnets: [] }
    const totals = needsTotals ? totalsOf(store.each(filter, nowMs, false, 'address')) : none
    const writer = writerOf(filter, output, totals.records || first.length)
    const close = (): void => {
      rows.return?.(undefined)
      pool.give(connection)
    }
    streams.set(id, createStream(chain(first, rows), writer, nowMs, close))
    reply({ kind: 'large', id, ...totals })
    return 'begun'
  }

  function ask(asked: Ask): void {
    const connection = pool.take()
    let isKept = false
    try {
      empty(connection)
      isKept = begin(connection, asked) === 'begun'
    } finally {
      if (!isKept) pool.give(connection)
    }
  }

  function pull(id: number): void {
    giveUpOld()
    const stream = streams.get(id)
    if (stream === undefined) throw new Error('the answer is not under way any more')
    const piece = stream.next()
    if (piece === null) return end(id)
    const bytes = encoder.encode(piece)
    reply({ kind: 'piece', id, bytes }, [bytes.buffer])
  }

  function end(id: number): void {
    const stream = streams.get(id)
    streams.delete(id)
    stream?.close()
    reply({ kind: 'end', id, records: stream?.records() ?? 0 })
  }

  return { ask, pull, cancel: end }
}

let thread: ReturnType<typeof createThread> | null = null

self.onmessage = ({ data }: MessageEvent<BulkSetUp | ToThread>) => {
  if ('file' in data) {
    thread = createThread(data)
    return
  }
  try {
    if (data.kind === 'ask') thread?.ask(data)
    else thread?.[data.kind](data.id)
  } catch (error) {
    streams.get(data.id)?.close()
    streams.delete(data.id)
    const { name, message } = error instanceof Error ? error : new Error(String(error))
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    reply({ kind: 'failed', id: data.id, name, message, code })
  }
}
