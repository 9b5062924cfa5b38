/**
 * An append-only log of admissions, one row per transaction, with a snapshot of the usage that they add up
 * to. A commit writes 111 bytes a request; a row per subject writes 830 and takes 10 µs longer a request.
 */
import type { Database } from 'bun:sqlite'
import type { Subject, Usage } from '../../access/rate-limit.ts'
import { StoreError } from '../../lib/errors.ts'
import { dataVersionOf } from '../database.ts'
import { isDatabaseError } from '../errors.ts'
import {
  chunkOf,
  createSubjects,
  isAdmission,
  type KeepMs,
  type LogEntry,
  saveSubjects,
} from './subjects.ts'

/** Only tests change these. */
const DEFAULTS = {
  /** Chunks of the snapshot. Files depend on it: another number needs a migration. */
  chunks: 256,
  /**
   * Least number of characters appended to the log between two chunks. A lower number writes chunks too
   * often. A higher one makes the log longer: it holds about `chunks` times as many.
   */
  chunkChars: 8192,
  /** After so many batches, up to twice as many are removed: seldom is cheaper, but requests wait for it. */
  removeEvery: 256,
}
export type SnapshotOptions = Partial<typeof DEFAULTS>

/** A server that ends writes the chunks that lack more batches than this: fewer are read quickly. */
const BEHIND_MAX = 200

type BatchRow = [id: number, admissions: string]
type ChunkRow = [chunk: number, through: number, usage: string]

const INSERT_CHUNK = 'insert or replace into snapshot (chunk, through, usage) values (?, ?, ?)'

/** Writes the snapshot of a new database. */
export function writeSnapshot(db: Database, used: readonly (Subject & Usage)[]): void {
  const { chunks } = DEFAULTS
  const byChunk = Map.groupBy(used, ({ id }) => chunkOf(id, chunks))
  const insert = db.prepare<never, ChunkRow>(INSERT_CHUNK)
  for (let chunk = 0; chunk < chunks; chunk += 1) {
    insert.run(chunk, 0, saveSubjects(byChunk.get(chunk) ?? []))
  }
}

const latestAdmission = (entries: readonly LogEntry[]): number =>
  entries.reduce((ms, entry) => (isAdmission(entry) ? Math.max(ms, entry[2]) : ms), 0)

/** The usage in an open database. Call `catchUp` before reading or changing it. */
export function createAdmissionLog(db: Database, options: SnapshotOptions = {}) {
  const { chunks, chunkChars, removeEvery } = { ...DEFAULTS, ...options }
  const subjects = createSubjects(chunks)
  /** The last batch that each saved chunk includes; another process may have saved a newer one. */
  const includedUpTo = new Array<number>(chunks).fill(0)
  const lastIncluded = (chunk: number): number => includedUpTo[chunk] ?? 0
  let lastId = 0
  let latestMs = 0

  // ---------------------------------------------------------------------------------------------
  // Catching up. Any number of processes append to the log, each under the write lock after reading all of it.
  // The newest batch is never removed, so max(id) is the last id. If the next id is missing, compaction has
  // removed unread batches, and the process reads everything.

  const selectBatches = db.prepare<BatchRow, [number]>(
    'select id, admissions from batches where id > ? order by id',
  )
  const selectChunks = db.prepare<{ chunk: number; through: number; usage: string }, []>(
    'select chunk, through, usage from snapshot',
  )
  const version = dataVersionOf(db)
  /** The version of the data in memory; `null`: nothing was read, or only a part. */
  let seenVersion: number | null = null

  const batchesAfter = (id: number) => selectBatches.values(id) as BatchRow[] // values() is untyped

  function applyBatches(batches: readonly BatchRow[]): void {
    for (const [id, text] of batches) {
      const entries = JSON.parse(text) as LogEntry[]
      for (const entry of entries) subjects.apply(entry, chunk => id <= lastIncluded(chunk))
      latestMs = latestAdmission(entries) || latestMs
      lastId = id
    }
  }

  /** Reads batches that other processes appended; returns false if compaction removed some of them. */
  function readNew(): boolean {
    const batches = batchesAfter(lastId)
    if (batches[0] !== undefined && batches[0][0] !== lastId + 1) return false
    applyBatches(batches)
    return true
  }

  const readAll = db.transaction(() => {
    subjects.clear()
    includedUpTo.fill(0)
    for (const { chunk, through, usage } of selectChunks.iterate()) {
      if (chunk >= chunks) throw new RangeError(`there is no chunk ${chunk}`)
      subjects.load(chunk, usage)
      includedUpTo[chunk] = through
    }
    latestMs = 0
    lastId = Math.min(...includedUpTo)
    applyBatches(batchesAfter(Math.max(0, lastId - 1)))
  })

  /** Reads what other processes changed. @throws StoreError if it is damaged. */
  function catchUp(): void {
    const current = version()
    if (current === seenVersion) return
    try {
      if (seenVersion === null || !readNew()) readAll()
    } catch (cause) {
      seenVersion = null
      if (isDatabaseError(cause)) throw cause
      const message = `${db.filename} is damaged (its usage cannot be read): restore a backup`
      throw new StoreError(message, { isDamage: true, cause })
    }
    seenVersion = current
  }

  // ---------------------------------------------------------------------------------------------
  // Transactions. Memory changes first; after a failure everything is read again.

  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')

  const insertBatch = db.prepare<never, BatchRow>(
    'insert into batches (id, admissions) values (?, ?)',
  )
  let unwritten: LogEntry[] = []

  function append(entry: LogEntry): void {
    subjects.apply(entry)
    unwritten.push(entry)
  }

  function write(): void {
    if (unwritten.length === 0) return
    const text = JSON.stringify(unwritten)
    latestMs = latestAdmission(unwritten) || latestMs
    lastId += 1
    insertBatch.run(lastId, text)
    unwritten = []
    compact(text.length)
  }

  /** Runs work in one transaction, which `begin` starts with the write lock. It is durable when this returns. */
  function transaction<T>(begin: () => void, work: () => T): T {
    catchUp() // before taking the lock, because others wait for it
    begin()
    try {
      catchUp()
      const result = work()
      write()
      commit.run()
      return result
    } catch (error) {
      unwritten = []
      round = null
      seenVersion = null // SQLite may have committed before it failed
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  // ---------------------------------------------------------------------------------------------
  // Compaction, within a transaction. It writes the snapshot chunk by chunk, and removes batches that all
  // chunks include. So a commit writes little of it, and rarely used subjects keep no old batches.

  const insertChunk = db.prepare<never, ChunkRow>(INSERT_CHUNK)
  const removeBatches = db.prepare<never, [through: number, most: number]>(
    'delete from batches where id <= min(?, (select min(id) from batches) + ? - 1)',
  )
  let charsToNext = chunkChars

  /** Writes a chunk; returns its size in characters. */
  function saveChunk(chunk: number): number {
    const text = subjects.save(chunk)
    insertChunk.run(chunk, lastId, text)
    includedUpTo[chunk] = lastId
    return text.length
  }

  function removeIncluded(): void {
    removeBatches.run(Math.min(lastId - 1, ...includedUpTo), 2 * removeEvery)
  }

  /**
   * Writes the chunk that is furthest behind, each time the log has grown by twice the size of the chunk that
   * was written last: saving a subject costs more than appending an entry.
   */
  function compact(appendedChars: number): void {
    charsToNext -= appendedChars
    if (charsToNext <= 0) {
      const chunk = includedUpTo.indexOf(Math.min(...includedUpTo))
      charsToNext = Math.max(chunkChars, 2 * saveChunk(chunk))
    }
    if (lastId % removeEvery === 0) removeIncluded()
  }

  /** The chunks that lack many batches. */
  const chunksBehind = (): number[] =>
    [...includedUpTo.keys()].filter(chunk => lastIncluded(chunk) < lastId - BEHIND_MAX)

  // ---------------------------------------------------------------------------------------------
  // Pruning, within transactions: removes subjects that no limit counts any more, a chunk at a time.

  const selectFirst = db.prepare<{ admissions: string }, []>(
    'select admissions from batches order by id limit 1',
  )
  /**
   * A prune in progress. It measures ages from `timeMs`, and goes on with `chunk`; every chunk has to
   * include the batches up to `through`, so that the log holds no old addresses.
   */
  let round: { timeMs: number; chunk: number; through: number } | null = null

  function beginRound(nowMs: number, keepMs: KeepMs) {
    // The clock may run ahead, and be set back: then the usage until the last admission still counts.
    const timeMs = Math.min(nowMs, latestMs)
    const first = JSON.parse(selectFirst.get()?.admissions ?? '[]') as LogEntry[]
    const isOld = first.some(([, , atMs]) => atMs < timeMs - keepMs.demo)
    return { timeMs, chunk: 0, through: isOld ? lastId : 0 }
  }

  /** Prunes a chunk. Returns the removed subjects, the time of the round, and whether chunks remain. */
  function prune(nowMs: number, keepMs: KeepMs) {
    round ??= beginRound(nowMs, keepMs)
    const { timeMs, through, chunk } = round
    const removed = subjects.forget(chunk, timeMs, keepMs)
    if (removed.length > 0 || lastIncluded(chunk) < through) saveChunk(chunk)
    removeIncluded()
    round = chunk + 1 < chunks ? { timeMs, through, chunk: chunk + 1 } : null
    return { removed, timeMs, mayRemain: round !== null }
  }

  return {
    catchUp,
    read: subjects.read,
    subjects: subjects.all,
    countKeysUsed: subjects.countKeysUsed,

    record: ({ kind, id }: Subject, atMs: number, requests: number, kept: number): void =>
      append([kind, id, atMs, requests, kept]),
    refund: ({ kind, id }: Subject, atMs: number): void => append([kind, id, atMs]),
    append,
    transaction,

    chunksBehind,
    saveChunk,
    prune,
  }
}
