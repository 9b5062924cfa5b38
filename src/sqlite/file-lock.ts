/**
 * A lock on the place of a database file, for as long as another file is put there: while
 * there is none, SQLite has nothing that it could lock. The lock is a lock of SQLite on an empty
 * file beside it, so it ends with its process.
 */
import { constants, Database } from 'bun:sqlite'
import { rmSync } from 'node:fs'
import { CommandError, codeOf } from '../lib/errors.ts'
import { giveToOwner } from './database-files.ts'
import { explain } from './errors.ts'

/** Ends a lock. */
type Release = () => void

/** Whether the file of a database is no longer in its place. */
export function hasMoved(db: Database): boolean {
  const moved = new Int32Array(2) // SQLite writes one, Bun wants room for a pointer
  db.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, moved)
  return moved[0] !== 0
}

/**
 * Locks the place of `file`, waiting up to `waitMs` for another process; `null` if that was not
 * enough.
 * @throws CommandError when the folder is missing or cannot be written.
 */
export function lockPlace(file: string, waitMs: number): Release | null {
  const path = `${file}.lock`
  for (;;) {
    const { db, failure } = tryLock(path, waitMs)
    // The process that had the lock removed the file: this lock is on nothing that others see, and
    // SQLite may have failed because of that.
    if (db !== null && hasMoved(db)) {
      db.close()
      continue
    }
    if (db !== null && failure === null) {
      giveToOwner(path)
      return () => {
        try {
          rmSync(path, { force: true })
        } finally {
          db.close()
        }
      }
    }
    const isBusy = codeOf(failure).startsWith('SQLITE_BUSY')
    if (!isBusy) rmSync(path, { force: true }) // nobody has a lock that cannot be written
    db?.close()
    if (isBusy) return null
    throw new CommandError(explain(file, failure))
  }
}

/** Opens the file at `path` and locks it; says what failed. */
function tryLock(path: string, waitMs: number): { db: Database | null; failure: unknown } {
  let db: Database | null = null
  try {
    db = new Database(path, { create: true, readwrite: true, strict: true })
    db.run(`pragma busy_timeout = ${waitMs}`)
    db.run('begin exclusive')
    return { db, failure: null }
  } catch (failure) {
    return { db, failure }
  }
}
