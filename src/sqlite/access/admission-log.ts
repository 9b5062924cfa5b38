/**
 * Owns the admissions in SQLite: a log with one row, a batch, for the admissions of each
 * transaction, and a snapshot of the usage that they add up to. Both are in memory too. What keeps
 * the log short is in `snapshot.ts`.
 *
 * The snapshot is in chunks, each with the id of the last batch that it includes; batches that all
 * chunks include are removed. So no subject that is rarely used keeps old batches.
 *
 * Any number of processes append to one file. The ids of batches have no gaps, because each process
 * has read all batches before it takes the next id, under the lock for writing; and the last batch
 * is never removed. So a process that is behind finds either all batches that it has not read, or a
 * gap after the last one that it has. Then it reads snapshot and log again, in one transaction:
 * what was removed is included in every chunk.
 */
import type { Database } from 'bun:sqlite'
import type { Subject, Usage } from '../../access/rate-limit.ts'
import { StoreError } from '../../lib/errors.ts'
import { dataVersionOf } from '../database.ts'
import { isStoreFailure } from '../errors.ts'
import { type Content, createSnapshotWriter, DEFAULTS, type SnapshotOptions } from './snapshot.ts'
import { createSubjects, type Entry } from './subjects.ts'

type BatchRow = [id: number, admissions: string]
type ChunkRow = [chunk: number, through: number, usage: string]

function requireInstant(atMs: number): void {
  if (!Number.isSafeInteger(atMs)) throw new RangeError(`${atMs} is not an instant`)
}

/** The content of snapshot and log in memory. */
function createContent(db: Database, chunks: number) {
  const selectBatches = db.prepare<BatchRow, [number]>(
    'select id, admissions from batches where id > ? order by id',
  )
  const selectChunks = db.prepare<ChunkRow, []>('select chunk, through, usage from snapshot')
  const content: Content = {
    subjects: createSubjects(chunks),
    lastId: 0,
    logChars: 0,
    throughs: new Array<number>(chunks).fill(0),
  }

  function apply([id, admissions]: BatchRow): void {
    const isIncluded = (chunk: number): boolean => id <= (content.throughs[chunk] ?? 0)
    for (const entry of JSON.parse(admissions) as Entry[]) {
      requireInstant(entry[2])
      content.subjects.apply(entry, isIncluded)
    }
    content.lastId = id
  }

  const batchesAfter = (id: number) => selectBatches.values(id) as BatchRow[] // untyped

  return {
    content,

    /** Reads what was appended; returns false if some of it was removed already. */
    readNew(): boolean {
      const batches = batchesAfter(content.lastId)
      const firstId = batches[0]?.[0] ?? content.lastId + 1
      if (firstId !== content.lastId + 1) return false
      for (const batch of batches) apply(batch)
      return true
    },

    /** Reads all, as it is at one instant. */
    readAll: db.transaction(() => {
      content.subjects.clear()
      content.throughs.fill(0)
      for (const [chunk, through, usage] of selectChunks.values() as ChunkRow[]) {
        if (chunk >= chunks) throw new RangeError(`there is no chunk ${chunk}`)
        content.subjects.load(chunk, usage)
        content.throughs[chunk] = through
      }
      content.lastId = Math.min(...content.throughs)
      const batches = batchesAfter(content.lastId)
      for (const batch of batches) apply(batch)
      content.logChars = batches.reduce((sum, [, { length }]) => sum + length, 0)
    }),
  }
}

const damaged = (db: Database, cause: unknown): StoreError =>
  new StoreError(`${db.filename} is damaged (its usage cannot be read): restore a backup`, {
    isDamage: true,
    cause,
  })

/** The admissions of an open database. Call `catchUp` before anything is read or changed. */
export function createAdmissionLog(db: Database, options: Partial<SnapshotOptions> = {}) {
  const all = { ...DEFAULTS, ...options }
  const { content, readNew, readAll } = createContent(db, all.chunks)
  const snapshot = createSnapshotWriter(db, content, all)
  const insert = db.prepare<never, BatchRow>('insert into batches (id, admissions) values (?, ?)')
  const version = dataVersionOf(db)
  let seenVersion: number | null = null // null: not read yet
  let unwritten: Entry[] = []

  return {
    /** Whether the admissions have been read; the first time takes longest. */
    isRead: (): boolean => seenVersion !== null,

    /** Reads what others have appended. @throws StoreError when that is damaged. */
    catchUp(): void {
      const current = version()
      if (current === seenVersion) return
      try {
        if (seenVersion === null || !readNew()) readAll()
      } catch (cause) {
        seenVersion = null // some of it may have been read
        throw isStoreFailure(cause) ? cause : damaged(db, cause)
      }
      seenVersion = current
    },

    /** Lets `catchUp` read all of it again. */
    reset(): void {
      seenVersion = null
      unwritten = []
    },

    read: (subject: Subject): Usage | null => content.subjects.read(subject),

    /** Adds an admission, which `write` will write. JSON has no form for an instant like `NaN`. */
    record({ kind, id }: Subject, atMs: number, requests: number, kept: number): void {
      requireInstant(atMs)
      const entry: Entry = [kind, id, atMs, requests, kept]
      content.subjects.apply(entry)
      unwritten.push(entry)
    },

    /** Writes the admissions of a transaction, and a chunk of the snapshot when it is time. */
    write(): void {
      if (unwritten.length === 0) return
      const text = JSON.stringify(unwritten)
      unwritten = []
      content.lastId += 1
      insert.run(content.lastId, text)
      snapshot.onBatch(text.length)
    },

    prune: snapshot.prune,
  }
}
