/**
 * Owns giving back the room that a transaction has taken in a WAL when it ended without a commit, as
 * an import does that fills the disk or is killed. SQLite never shortens a WAL for that: it overwrites
 * this part sometime, and until then nothing else can be written on a full disk.
 */
import { Database } from 'bun:sqlite'
import { realpathSync, truncateSync } from 'node:fs'
import { walOf } from './database-files.ts'
import { hasMoved } from './file-lock.ts'
import { walBytes } from './integrity/file-stamp.ts'

/** Sizes in a WAL, see https://www.sqlite.org/fileformat2.html#walformat. */
const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24

/** The size of the part of the WAL that holds commits. @throws when that is not known. */
function committedBytes(db: Database): number {
  const { log: frames = -1 } =
    db.query<{ log: number }, []>('pragma wal_checkpoint(noop)').get() ?? {}
  const { page_size: pageBytes = 0 } =
    db.query<{ page_size: number }, []>('pragma page_size').get() ?? {}
  if (frames < 0 || pageBytes === 0) throw new Error('there is no WAL')
  return HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageBytes)
}

/**
 * Cuts off what is in the WAL of `file` behind its last commit, unless a transaction is under way.
 * Readers go on, those of an older snapshot too: nobody reads behind the last commit. `db` is a
 * connection to `file` that is in no transaction. Does nothing where that is not possible.
 */
export function trimWal(db: Database, file: string): void {
  try {
    const path = realpathSync(file) // SQLite puts the WAL there
    if (walBytes(path) > committedBytes(db)) trimLocked(db, path)
  } catch {
    // Another process writes, or the file is being replaced: the next call tries again.
  }
}

/** The same, while another connection has the lock that a process needs to write to the WAL. */
function trimLocked(db: Database, path: string): void {
  const guard = new Database(path, { create: false, readwrite: true, strict: true })
  try {
    guard.run('begin immediate')
    if (hasMoved(db) || hasMoved(guard)) return // then the WAL at this path is not theirs
    const bytes = committedBytes(db)
    if (walBytes(path) > bytes) truncateSync(walOf(path), bytes)
  } finally {
    guard.close()
  }
}
