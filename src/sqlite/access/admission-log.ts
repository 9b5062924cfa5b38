/**
 * The admissions in SQLite: a log with one row, a batch, for the admissions of each transaction, and
 * a snapshot of the usage that they add up to. Both are in memory too. An admission that is given back
 * is an entry as well, and so is everything else that changes the usage of subjects (`subjects.ts`) or
 * the use of keys (`history.ts`). A commit writes one row, however many requests it admits.
 *
 * The snapshot is in chunks, each with the id of the last batch that it includes; batches that all
 * chunks include are removed. So a commit writes little of the snapshot at a time, and no subject that
 * is rarely used keeps old batches.
 *
 * Any number of processes append to one file. The ids of batches have no gaps, because each process
 * has read all batches before it takes the next id, under the lock for writing; and the last batch
 * is never removed. So a process that is behind finds either all batches that it has not read, or a
 * gap after the last one that it has. Then it reads snapshot and log again, in one transaction:
 * what was removed is included in every chunk.
 */
import type { Database } from 'bun:sqlite'
import { DEMO_KEY } from '../../access/key.ts'
import type { Subject, Usage } from '../../access/rate-limit.ts'
import { StoreError } from '../../lib/errors.ts'
import { dataVersionOf } from '../database.ts'
import { isStoreFailure } from '../errors.ts'
import { createHistory, type LogEntry, saveKeys } from './history.ts'
import {
  chunkOf,
  createSubjects,
  type IsIncluded,
  KEEP_ADDRESSES_MS,
  type KeepMs,
  never,
  type ResetEntry,
  resetUsage,
  saveSubjects,
} from './subjects.ts'

const DEFAULTS = {
  /** Chunks of the snapshot. Files depend on it: another number needs a migration. */
  chunks: 256,
  /**
   * Least number of characters appended to the log between two chunks. Fewer would write small
   * chunks too often; more would make the log longer, which has about `chunks` times as many.
   */
  chunkChars: 8192,
  /** Batches removed, and subjects examined by a prune, at most at a time: requests wait for it. */
  removeMax: 500,
  examineMax: 10_000,
  /** A chunk that lacks no more batches than these is not behind: they are soon read. */
  behindMax: 200,
}
export type SnapshotOptions = typeof DEFAULTS

type BatchRow = [id: number, admissions: string]
type ChunkRow = [chunk: number, through: number, usage: string, history: string]

const INSERT_CHUNK =
  'insert or replace into snapshot (chunk, through, usage, history) values (?, ?, ?, ?)'

/**
 * Writes the snapshot from which a new database begins: what subjects have used, and when `demo` was
 * last seen, which has no row among the keys.
 */
export function writeSnapshot(db: Database, used: readonly (Subject & Usage)[]): void {
  const { chunks } = DEFAULTS
  const demoMs = used.reduce(
    (ms, { kind, latestMs }) => (kind === 'demo' ? Math.max(ms, latestMs) : ms),
    0,
  )
  const byChunk = Map.groupBy(used, ({ id }) => chunkOf(id, chunks))
  const insert = db.prepare<never, ChunkRow>(INSERT_CHUNK)
  for (let chunk = 0; chunk < chunks; chunk += 1) {
    const isOfDemo = demoMs > 0 && chunk === chunkOf(DEMO_KEY, chunks)
    const history = saveKeys(isOfDemo ? [{ id: DEMO_KEY, lastMs: demoMs, days: [] }] : [])
    insert.run(chunk, 0, saveSubjects(byChunk.get(chunk) ?? []), history)
  }
}

const isAdmission = (entry: LogEntry): boolean =>
  entry.length === 5 && entry[0] !== 'use' && entry[0] !== 'reset'
/** The latest admission of a batch; 0 when it has none. */
const latestAdmission = (entries: readonly LogEntry[]): number =>
  entries.reduce((ms, entry) => (isAdmission(entry) ? Math.max(ms, entry[2]) : ms), 0)

/** The admissions of an open database. Call `catchUp` before anything is read or changed. */
export function createAdmissionLog(db: Database, options: Partial<SnapshotOptions> = {}) {
  const { chunks, chunkChars, removeMax, examineMax, behindMax } = { ...DEFAULTS, ...options }
  const selectBatches = db.prepare<BatchRow, [number]>(
    'select id, admissions from batches where id > ? order by id',
  )
  const selectChunks = db.prepare<ChunkRow, []>(
    'select chunk, through, usage, history from snapshot',
  )
  const selectFirst = db.prepare<{ admissions: string }, []>(
    'select admissions from batches order by id limit 1',
  )
  const insertBatch = db.prepare<never, BatchRow>(
    'insert into batches (id, admissions) values (?, ?)',
  )
  const insertChunk = db.prepare<never, ChunkRow>(INSERT_CHUNK)
  const removeBatches = db.prepare<never, [through: number, most: number]>(
    'delete from batches where id <= min(?, (select min(id) from batches) + ? - 1)',
  )
  const version = dataVersionOf(db)

  const damaged = (cause: unknown): StoreError =>
    new StoreError(`${db.filename} is damaged (its usage cannot be read): restore a backup`, {
      isDamage: true,
      cause,
    })
  const subjects = createSubjects(chunks)
  const history = createHistory(chunks, subjects, cause => {
    throw damaged(cause)
  })
  /** The last batch that each chunk includes; an earlier one when others have written it since. */
  const throughs = new Array<number>(chunks).fill(0)
  let lastId = 0
  let latestMs = 0 // of the last batch with admissions
  /** Characters of the log when all of it was read. */
  let logChars = 0
  /** The version of the data that is in memory; `null`: not read yet. */
  let seenVersion: number | null = null
  let unwritten: LogEntry[] = []

  /** Gives subjects a fresh start; their admissions until then stay in the history. */
  function applyReset(entry: ResetEntry, isIncluded: IsIncluded = never): void {
    for (const subject of subjects.ofReset(entry)) {
      if (isIncluded(subject.chunk)) continue
      history.settle(subject)
      resetUsage(subject, entry)
    }
  }

  /** Applies an entry to what its chunks do not include yet. */
  function applyEntry(entry: LogEntry, isIncluded?: IsIncluded): void {
    // JSON has no form for an instant like `NaN`
    if (!Number.isSafeInteger(entry[2])) throw new RangeError(`${entry[2]} is not an instant`)
    if (entry[0] === 'use') return history.add(entry, isIncluded)
    if (entry[0] === 'moved') return history.move(entry, isIncluded)
    if (entry[0] === 'reset') return applyReset(entry, isIncluded)
    if (entry.length === 3) {
      subjects.giveBack(entry, isIncluded)
      return history.giveBack(entry, isIncluded)
    }
    const subject = subjects.apply(entry, isIncluded)
    if (subject !== null) history.admit(subject, entry[2])
    if (entry[0] === 'demo') history.admitDemo(entry[2], isIncluded)
  }

  function applyBatch([id, text]: BatchRow): void {
    const isIncluded = (chunk: number): boolean => id <= (throughs[chunk] ?? 0)
    const entries = JSON.parse(text) as LogEntry[]
    for (const entry of entries) applyEntry(entry, isIncluded)
    latestMs = latestAdmission(entries) || latestMs
  }

  const batchesAfter = (id: number) => selectBatches.values(id) as BatchRow[] // untyped

  /** Reads what was appended; returns false if some of it was removed already. */
  function readNew(): boolean {
    const batches = batchesAfter(lastId)
    const firstId = batches[0]?.[0] ?? lastId + 1
    if (firstId !== lastId + 1) return false
    for (const batch of batches) applyBatch(batch)
    lastId = batches.at(-1)?.[0] ?? lastId
    return true
  }

  /** Reads all, as it is at one instant. */
  const readAll = db.transaction(() => {
    subjects.clear()
    history.clear()
    throughs.fill(0)
    for (const [chunk, through, usage, used] of selectChunks.values() as ChunkRow[]) {
      if (chunk >= chunks) throw new RangeError(`there is no chunk ${chunk}`)
      subjects.load(chunk, usage)
      history.load(chunk, used)
      throughs[chunk] = through
    }
    const through = Math.min(...throughs)
    const batches = batchesAfter(Math.max(0, through - 1)) // the last one stays in the log
    latestMs = 0
    for (const batch of batches) {
      // A flush of the use of keys: no admission needs it, only the history.
      if (batch[1].startsWith('[["use"')) history.defer(() => applyBatch(batch))
      else applyBatch(batch)
    }
    lastId = batches.at(-1)?.[0] ?? through
    logChars = batches.reduce((sum, [, { length }]) => sum + length, 0)
  })

  // ---------------------------------------------------------------------------------------------
  // Keeping the log short: all of it belongs inside a transaction, after `catchUp`.

  let charsToNext = chunkChars
  let batchesToRemoval = removeMax
  /**
   * A prune in progress: ages are measured from `timeMs`, `chunk` is next, and every chunk is to
   * include the batches up to `through`.
   */
  let round: { timeMs: number; chunk: number; through: number } | null = null

  /** Writes a chunk; returns the size of its usage. Its history costs less, and is not counted. */
  function saveChunk(chunk: number): number {
    const usage = subjects.save(chunk)
    insertChunk.run(chunk, lastId, usage, history.save(chunk))
    throughs[chunk] = lastId
    return usage.length
  }

  /** Removes batches that all chunks include, but the last one; returns whether more remain. */
  const removeIncluded = (): boolean =>
    removeBatches.run(Math.min(lastId - 1, ...throughs), removeMax).changes === removeMax

  const timeOf = (nowMs: number): number => Math.min(nowMs, latestMs)

  function beginRound(nowMs: number) {
    const first = selectFirst.get()
    const timeMs = timeOf(nowMs)
    const entries = JSON.parse(first?.admissions ?? '[]') as LogEntry[]
    const isOld = entries.some(([, , atMs]) => atMs < timeMs - KEEP_ADDRESSES_MS)
    const isLong = logChars > 2 * chunks * chunkChars // e.g. after a crash
    logChars = 0
    return { timeMs, chunk: 0, through: isOld || isLong ? lastId : 0 }
  }

  function append(entry: LogEntry): void {
    applyEntry(entry)
    unwritten.push(entry)
  }

  return {
    /** Reads what others have appended. @throws StoreError when that is damaged. */
    catchUp(): void {
      const current = version()
      if (current === seenVersion) return
      try {
        if (seenVersion === null || !readNew()) readAll()
      } catch (cause) {
        seenVersion = null // some of it may have been read
        throw isStoreFailure(cause) ? cause : damaged(cause)
      }
      seenVersion = current
    },

    /** Lets `catchUp` read all of it again. */
    reset(): void {
      seenVersion = null
      unwritten = []
    },

    read: subjects.read,

    record: ({ kind, id }: Subject, atMs: number, requests: number, kept: number): void =>
      append([kind, id, atMs, requests, kept]),

    giveBack: ({ kind, id }: Subject, atMs: number): void => append([kind, id, atMs]),

    /** Applies an entry, which `write` will write. */
    append,

    /** What of the use of a key is not in table `days`. */
    useOf: history.read,
    unmoved: history.before,
    /** The use of all keys that is not in table `days`. @throws StoreError when it is damaged. */
    readHistory: history.readAll,
    /** All that have used anything, by chunk. */
    subjects: subjects.all,
    usedOn: subjects.usedOn,
    after: subjects.after,
    oldest: subjects.oldest,

    /**
     * Writes the entries of a transaction, and when the log has grown by twice as much as the last
     * chunk was long, the chunk that is furthest behind: a subject in a chunk costs more than an entry
     * of the log, because it is rarely in the CPU's caches. Removes batches twice as fast as they are
     * appended.
     */
    write(): void {
      if (unwritten.length === 0) return
      const text = JSON.stringify(unwritten)
      latestMs = latestAdmission(unwritten) || latestMs
      unwritten = []
      lastId += 1
      insertBatch.run(lastId, text)
      charsToNext -= text.length
      if (charsToNext <= 0) {
        charsToNext = Math.max(chunkChars, 2 * saveChunk(throughs.indexOf(Math.min(...throughs))))
      }
      batchesToRemoval -= 2
      if (batchesToRemoval > 0) return
      batchesToRemoval = removeMax
      removeIncluded()
    },

    /** The chunks that are far behind the log. */
    behind: (): number[] =>
      [...throughs.keys()].filter(chunk => (throughs[chunk] ?? 0) < lastId - behindMax),

    saveChunk,

    /**
     * The time that ages are measured from: that of the latest admissions when the clock is ahead of
     * them, because it may step back, and used quota must not be lost then.
     */
    timeOf,

    /**
     * Forgets a slice of what no limit counts any more, in memory and in the file. Returns the time
     * that ages were measured from, and whether more may remain.
     */
    prune(nowMs: number, keepMs: KeepMs): { timeMs: number; mayRemain: boolean } {
      round ??= beginRound(nowMs)
      const { timeMs, through } = round
      let examined = 0
      let chars = 0
      while (round.chunk < chunks && examined < examineMax && chars < chunkChars) {
        const { chunk } = round
        examined += subjects.inChunk(chunk).length
        const forgotten = subjects.forget(chunk, timeMs, keepMs)
        forgotten.forEach(history.settle)
        if (forgotten.length > 0 || (throughs[chunk] ?? 0) < through) chars += saveChunk(chunk)
        round.chunk += 1
      }
      const mayRemain = round.chunk < chunks || removeIncluded()
      if (!mayRemain) round = null
      return { timeMs, mayRemain }
    },
  }
}
