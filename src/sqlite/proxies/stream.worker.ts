/**
 * The worker that finds and renders streams, one message after the other. Each
 * stream reads through a connection of its own: one snapshot of the list from first row to last.
 */
import { renderAnswer, type Totals } from '../../api/answer.ts'
import { createWriters, encodeByteText, type Writer } from '../../api/render.ts'
import { formatInstant } from '../../lib/time.ts'
import { doTask } from '../../lib/worker.ts'
import { maskEndpoint, maskRow } from '../../proxies/mask.ts'
import { type EndpointRow, ROW_COLUMNS, type Row, subnetOf } from '../../proxies/row.ts'
import { inodeOf } from '../database-files.ts'
import { type Columns, ENDPOINT_COLUMNS } from './filter-sql.ts'
import { createLongSelect, QUICK_RECORDS_MAX } from './select.ts'
import { openListFile } from './store.ts'
import type { FromWorker, StreamSetup, ToWorker } from './stream.ts'

const CHUNK_BYTES = 256 * 1024

/** Renders rows that were read already, and then others, chunk by chunk. */
function createStream<R extends EndpointRow>(
  first: readonly R[],
  others: Iterator<R>,
  { head, record, separator, tail }: Writer<R>,
  nowMs: number,
) {
  let text = head.join(formatInstant(nowMs))
  let before = ''
  let records = 0
  let isOver = false
  /** Renders the next chunk, or returns the end after the last. */
  return (): FromWorker => {
    if (isOver) return { kind: 'end' }
    while (text.length < CHUNK_BYTES && !isOver) {
      const row = first[records] ?? others.next().value
      if (row === undefined) {
        text += tail
        isOver = true
      } else {
        text += before + record(row)
        before = separator
        records += 1
      }
    }
    const bytes = encodeByteText(text)
    text = ''
    return { kind: 'chunk', bytes, records }
  }
}

/** The first rows of an iterator, which goes on behind them. */
function take<R>(rows: Iterator<R>, most: number): R[] {
  const taken: R[] = []
  while (taken.length < most) {
    const { done, value } = rows.next()
    if (done) break
    taken.push(value)
  }
  return taken
}

function totalsOf(ids: Iterable<number>): Totals {
  let records = 0
  const subnets = new Set<number>()
  for (const id of ids) {
    records += 1
    subnets.add(subnetOf(id))
  }
  return { records, subnets: [...subnets] }
}

const masking = <R extends EndpointRow>(writer: Writer<R>, mask: (row: R) => R): Writer<R> => ({
  ...writer,
  record: row => writer.record(mask(row)),
})

/** Rows are read once and in order: a large cache would only cost memory, for each client. */
const CACHE_KIB = 512
const IDLE_MAX = 4

function openConnection(file: string) {
  const inode = inodeOf(file)
  const db = openListFile(file, { isServer: true, mustExist: true, cacheKib: CACHE_KIB })
  /** The rows of a stream that are not read yet, whose statement is open. */
  const rows: Iterator<unknown> | null = null
  return { inode, db, select: createLongSelect(db), rows }
}
type Connection = Omit<ReturnType<typeof openConnection>, 'rows'> & {
  rows: Iterator<unknown> | null
}
type Stream = { connection: Connection; next: () => FromWorker }

type Find = Extract<ToWorker, { kind: 'find' }>

function createWorker({ file, provider }: StreamSetup) {
  const writers = createWriters(provider)
  const streams = new Map<number, Stream>()
  /** Opening a connection and preparing its statements costs more than a small answer. */
  let idle: Connection[] = []

  /** An idle connection to the file, or a new one, in a transaction. Closes those to a file that was replaced. */
  function takeConnection(): Connection {
    const inode = inodeOf(file)
    for (const { db } of idle.filter(each => each.inode !== inode)) db.close()
    idle = idle.filter(each => each.inode === inode)
    const connection = idle.pop() ?? openConnection(file)
    connection.db.run('begin')
    return connection
  }

  /** Ends the snapshot, because the WAL cannot be reset before. */
  function returnConnection(connection: Connection): void {
    connection.rows?.return?.()
    connection.rows = null
    connection.db.run('rollback')
    if (idle.length < IDLE_MAX) idle.push(connection)
    else connection.db.close()
  }

  /** Renders all rows at once when they are few, else begins a stream. */
  function begin<R extends EndpointRow>(
    connection: Connection,
    { id, query: { filter, addressBits }, nowMs, needsTotals }: Find,
    columns: Columns,
    writerFor: (count: number) => Writer<R>,
  ): FromWorker {
    const { rows, ids } = connection.select.open<R>(filter, { nowMs, addressBits }, columns)
    connection.rows = rows
    const first = take(rows, QUICK_RECORDS_MAX + 1)
    if (first.length <= QUICK_RECORDS_MAX) {
      return { kind: 'rendered', ...renderAnswer(writerFor(first.length), first) }
    }
    const totals = needsTotals ? totalsOf(ids()) : null
    const writer = writerFor(totals?.records ?? first.length)
    streams.set(id, { connection, next: createStream(first, rows, writer, nowMs) })
    return { kind: 'begun', totals }
  }

  function find(connection: Connection, message: Find): FromWorker {
    const { filter, output, addressBits } = message.query
    const isMasked = addressBits === 16
    if (output.kind === 'txt') {
      const writer = writers.txt(filter, output)
      const masked = isMasked ? masking(writer, maskEndpoint) : writer
      return begin(connection, message, ENDPOINT_COLUMNS, () => masked)
    }
    const foundIn = { cityNames: connection.select.cities.nameOf, areKept: false }
    return begin<Row>(connection, message, ROW_COLUMNS, count => {
      const writer = writers.records(filter, output, count, foundIn)
      return isMasked ? masking(writer, maskRow) : writer
    })
  }

  function findOnSnapshot(message: Find): FromWorker {
    const connection = takeConnection()
    try {
      return find(connection, message)
    } finally {
      if (!streams.has(message.id)) returnConnection(connection)
    }
  }

  function match({ query, nowMs }: Extract<ToWorker, { kind: 'match' }>): FromWorker {
    const connection = takeConnection()
    try {
      const { filter, addressBits } = query
      return { kind: 'matched', ...connection.select.matches(filter, { nowMs, addressBits }) }
    } finally {
      returnConnection(connection)
    }
  }

  function close(id: number): void {
    const stream = streams.get(id)
    if (stream !== undefined) returnConnection(stream.connection)
    streams.delete(id)
  }

  return (message: ToWorker): FromWorker | null => {
    if (message.kind === 'find') return findOnSnapshot(message)
    if (message.kind === 'match') return match(message)
    const reply = message.kind === 'pull' ? (streams.get(message.id)?.next() ?? null) : null
    if (message.kind === 'cancel' || reply?.kind === 'end') close(message.id)
    return reply
  }
}

declare const self: Worker
let handle: ReturnType<typeof createWorker> | null = null

self.onmessage = ({ data }: MessageEvent<StreamSetup & ToWorker>) =>
  void doTask(
    self,
    () => {
      handle ??= createWorker(data)
      return handle(data)
    },
    reply => (reply?.kind === 'chunk' ? [reply.bytes.buffer] : []),
  )
