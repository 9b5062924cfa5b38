/**
 * Owns keeping the log of admissions short (`admission-log.ts`): when a chunk of the snapshot is
 * written, when batches that all chunks include are removed, and which subjects are forgotten.
 */
import type { Database } from 'bun:sqlite'
import type { History, LogEntry } from './history.ts'
import { KEEP_ADDRESSES_MS, type KeepMs, type Subjects } from './subjects.ts'

/** The content of the log and the snapshot in memory. */
export type Content = {
  readonly subjects: Subjects
  readonly history: History
  /** The last batch. */
  lastId: number
  /** The latest instant of the last batch with admissions; 0 when there is none. */
  latestMs: number
  /** The last batch that each chunk includes; an earlier one when others have written it since. */
  readonly throughs: number[]
  /** Characters of the log when all of it was read. */
  logChars: number
}

export type SnapshotOptions = {
  /** Chunks of the snapshot. Files depend on it: another number needs a migration. */
  chunks: number
  /**
   * Least number of characters appended to the log between two chunks. Fewer would write small
   * chunks too often; more would make the log longer, which has about `chunks` times as many.
   */
  chunkChars: number
  /** Batches removed, and subjects examined by a prune, at most at a time: requests wait for it. */
  removeMax: number
  examineMax: number
}
export const DEFAULTS: SnapshotOptions = {
  chunks: 256,
  chunkChars: 8192,
  removeMax: 500,
  examineMax: 10_000,
}

const snapshotStatements = (db: Database) => ({
  writeChunk: db.prepare<never, [chunk: number, through: number, usage: string, history: string]>(
    'insert or replace into snapshot (chunk, through, usage, history) values (?, ?, ?, ?)',
  ),
  removeBatches: db.prepare<never, [through: number, most: number]>(
    'delete from batches where id <= min(?, (select min(id) from batches) + ? - 1)',
  ),
  selectFirst: db.prepare<{ admissions: string }, []>(
    'select admissions from batches order by id limit 1',
  ),
})

/** The earliest instant in a batch. */
const firstInstant = (admissions: string): number =>
  (JSON.parse(admissions) as LogEntry[]).reduce(
    (ms, [, , atMs]) => Math.min(ms, atMs),
    Number.POSITIVE_INFINITY,
  )

/**
 * A prune in progress: ages are measured from `timeMs`, `chunk` is next, and every chunk is to
 * include the batches up to `through`.
 */
type Round = { timeMs: number; chunk: number; through: number }

/** Writes the snapshot of `content`. All methods belong inside a transaction, after `catchUp`. */
export function createSnapshotWriter(db: Database, content: Content, options: SnapshotOptions) {
  const { chunks, chunkChars, removeMax, examineMax } = options
  const { subjects, history, throughs } = content
  const { writeChunk, removeBatches, selectFirst } = snapshotStatements(db)
  let charsToNext = chunkChars
  let batchesToRemoval = removeMax
  let round: Round | null = null

  /** Writes a chunk; returns the size of its usage. Its history costs less, and is not counted. */
  function save(chunk: number): number {
    const [usage, used] = [subjects.save(chunk), history.save(chunk)]
    writeChunk.run(chunk, content.lastId, usage, used)
    throughs[chunk] = content.lastId
    return usage.length
  }

  /** Removes batches that all chunks include, but the last one; returns whether more remain. */
  function removeIncluded(): boolean {
    const through = Math.min(content.lastId - 1, ...throughs)
    return removeBatches.run(through, removeMax).changes === removeMax
  }

  const timeOf = (nowMs: number): number => Math.min(nowMs, content.latestMs)

  function beginRound(nowMs: number): Round {
    const first = selectFirst.get()
    const timeMs = timeOf(nowMs)
    const isOld = first !== null && firstInstant(first.admissions) < timeMs - KEEP_ADDRESSES_MS
    const isLong = content.logChars > 2 * chunks * chunkChars // e.g. after a migration
    content.logChars = 0
    return { timeMs, chunk: 0, through: isOld || isLong ? content.lastId : 0 }
  }

  return {
    /**
     * Is called when a batch of so many characters was appended. Writes the chunk that is furthest
     * behind when the log has grown by twice as much as the last chunk was long: a subject in a
     * chunk costs more than an entry of the log, because it is rarely in the CPU's caches. Removes
     * batches twice as fast as they are appended.
     */
    onBatch(chars: number): void {
      charsToNext -= chars
      if (charsToNext <= 0) {
        charsToNext = Math.max(chunkChars, 2 * save(throughs.indexOf(Math.min(...throughs))))
      }
      batchesToRemoval -= 2
      if (batchesToRemoval > 0) return
      batchesToRemoval = removeMax
      removeIncluded()
    },

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
        if (forgotten.length > 0 || (throughs[chunk] ?? 0) < through) chars += save(chunk)
        round.chunk += 1
      }
      const mayRemain = round.chunk < chunks || removeIncluded()
      if (!mayRemain) round = null
      return { timeMs, mayRemain }
    },
  }
}
