/**
 * Owns the admissions in SQLite: a log with one row, a batch, for the admissions of each
 * transaction, and a snapshot of the usage that they add up to. Both are in memory too. An admission
 * that is given back is an entry as well, and so is everything else that changes the usage of
 * subjects (`subjects.ts`) or the use of keys (`history.ts`). What keeps the log short is in
 * `snapshot.ts`.
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
import { createHistory, type LogEntry, type Over } from './history.ts'
import { type Content, createSnapshotWriter, DEFAULTS, type SnapshotOptions } from './snapshot.ts'
import { createSubjects, type IsIncluded, never, type ResetEntry, resetUsage } from './subjects.ts'
import type { Unmoved } from './used-keys.ts'

type BatchRow = [id: number, admissions: string]
type ChunkRow = [chunk: number, through: number, usage: string, history: string]

function requireInstant(atMs: number): void {
  if (!Number.isSafeInteger(atMs)) throw new RangeError(`${atMs} is not an instant`)
}

/** Applies an entry to what its chunks do not include yet. */
function applyEntry(content: Content, entry: LogEntry, isIncluded?: IsIncluded): void {
  const { subjects, history } = content
  if (entry[0] === 'use') return history.use(entry, isIncluded)
  if (entry[0] === 'moved') return history.move(entry, isIncluded)
  if (entry[0] === 'reset') return applyReset(content, entry, isIncluded)
  if (entry.length === 3) {
    subjects.giveBack(entry, isIncluded)
    return history.giveBack(entry, isIncluded)
  }
  const subject = subjects.apply(entry, isIncluded)
  if (subject !== null) history.admit(subject, entry[2])
  if (entry[0] === 'demo') history.admitDemo(entry[2], isIncluded)
}

/** Gives subjects a fresh start; their admissions until then stay in the history. */
function applyReset({ subjects, history }: Content, entry: ResetEntry, isIncluded = never): void {
  for (const subject of subjects.ofReset(entry)) {
    if (isIncluded(subject.chunk)) continue
    history.settle(subject)
    resetUsage(subject, entry)
  }
}

/** The latest admission of a batch; 0 when it has none. */
const latestAdmission = (entries: readonly LogEntry[]): number =>
  entries.reduce((ms, entry) => (isAdmission(entry) ? Math.max(ms, entry[2]) : ms), 0)
const isAdmission = (entry: LogEntry): boolean =>
  entry.length === 5 && entry[0] !== 'use' && entry[0] !== 'reset'

/** Whether a batch was written by a flush of the use of keys, which writes nothing else. */
const isUseOnly = (text: string): boolean => text.startsWith('[["use"')

/** The content of snapshot and log in memory. */
function createContent(db: Database, chunks: number) {
  const selectBatches = db.prepare<BatchRow, [number]>(
    'select id, admissions from batches where id > ? order by id',
  )
  const selectChunks = db.prepare<ChunkRow, []>(
    'select chunk, through, usage, history from snapshot',
  )
  const subjects = createSubjects(chunks)
  const content: Content = {
    subjects,
    history: createHistory(chunks, subjects, cause => {
      throw damaged(db, cause)
    }),
    lastId: 0,
    latestMs: 0,
    logChars: 0,
    throughs: new Array<number>(chunks).fill(0),
  }

  function apply([id, text]: BatchRow): void {
    const isIncluded = (chunk: number): boolean => id <= (content.throughs[chunk] ?? 0)
    const entries = JSON.parse(text) as LogEntry[]
    for (const entry of entries) {
      requireInstant(entry[2])
      applyEntry(content, entry, isIncluded)
    }
    content.latestMs = latestAdmission(entries) || content.latestMs
  }

  /** Applies a batch at a start: what no admission needs is left until the history is read. */
  function applyFirst(batch: BatchRow): void {
    if (isUseOnly(batch[1])) content.history.defer(() => apply(batch))
    else apply(batch)
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
      content.lastId = batches.at(-1)?.[0] ?? content.lastId
      return true
    },

    /** Reads all, as it is at one instant. */
    readAll: db.transaction(() => {
      content.subjects.clear()
      content.history.clear()
      content.throughs.fill(0)
      for (const [chunk, through, usage, history] of selectChunks.values() as ChunkRow[]) {
        if (chunk >= chunks) throw new RangeError(`there is no chunk ${chunk}`)
        content.subjects.load(chunk, usage)
        content.history.load(chunk, history)
        content.throughs[chunk] = through
      }
      const through = Math.min(...content.throughs)
      const batches = batchesAfter(Math.max(0, through - 1)) // the last one stays in the log
      content.latestMs = 0
      for (const batch of batches) applyFirst(batch)
      content.lastId = batches.at(-1)?.[0] ?? through
      content.logChars = batches.reduce((sum, [, { length }]) => sum + length, 0)
    }),
  }
}

const damaged = (db: Database, cause: unknown): StoreError =>
  new StoreError(`${db.filename} is damaged (its usage cannot be read): restore a backup`, {
    isDamage: true,
    cause,
  })

/** Keeps what is in memory as it is in the file. */
function createReader(
  db: Database,
  { readNew, readAll }: { readNew: () => boolean; readAll: () => void },
) {
  const version = dataVersionOf(db)
  let seenVersion: number | null = null // null: not read yet
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

    reset(): void {
      seenVersion = null
    },
  }
}

/** The admissions of an open database. Call `catchUp` before anything is read or changed. */
export function createAdmissionLog(db: Database, options: Partial<SnapshotOptions> = {}) {
  const all = { ...DEFAULTS, ...options }
  const { content, ...reads } = createContent(db, all.chunks)
  const reader = createReader(db, reads)
  const snapshot = createSnapshotWriter(db, content, all)
  const insert = db.prepare<never, BatchRow>('insert into batches (id, admissions) values (?, ?)')
  let unwritten: LogEntry[] = []

  /** Applies an entry, which `write` will write. JSON has no form for an instant like `NaN`. */
  function append(entry: LogEntry): void {
    requireInstant(entry[2])
    applyEntry(content, entry)
    unwritten.push(entry)
  }

  return {
    isRead: reader.isRead,
    catchUp: reader.catchUp,

    /** Lets `catchUp` read all of it again. */
    reset(): void {
      reader.reset()
      unwritten = []
    },

    read: (subject: Subject): Usage | null => content.subjects.read(subject),

    /** Adds an admission. */
    record: ({ kind, id }: Subject, atMs: number, requests: number, kept: number): void =>
      append([kind, id, atMs, requests, kept]),

    /** Gives an admission back. */
    giveBack: ({ kind, id }: Subject, atMs: number): void => append([kind, id, atMs]),

    append,

    /** The subject of a key, if it has one. */
    subjectOf: content.subjects.key,

    /** What of the use of a key is not in table `days`. */
    useOf: (id: string): Unmoved | null => content.history.read(id),
    unmoved: (day: number, keysMax: number): Over => content.history.before(day, keysMax),
    /** The use of all keys that is not in table `days`. @throws StoreError when it is damaged. */
    readHistory: content.history.readAll,
    /** All that have used anything, by chunk. */
    subjects: content.subjects.all,
    countUsed: (day: number): number => content.subjects.countUsed(day),
    /** Subjects with an admission that lies after `timeMs`. */
    after: (timeMs: number): Subject[] => content.subjects.after(timeMs),

    /** Writes the entries of a transaction, and a chunk of the snapshot when it is time. */
    write(): void {
      if (unwritten.length === 0) return
      const text = JSON.stringify(unwritten)
      content.latestMs = latestAdmission(unwritten) || content.latestMs
      unwritten = []
      content.lastId += 1
      insert.run(content.lastId, text)
      snapshot.onBatch(text.length)
    },

    timeOf: snapshot.timeOf,
    prune: snapshot.prune,
  }
}
