/**
 * Owns a lock on the place of a database file, for as long as another file is put there: while
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
function hasMoved(db: Database): boolean {
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
    const db = tryLock(path, waitMs)
    if (db === null) return null
    if (!hasMoved(db)) {
      giveToOwner(path)
      return () => {
        rmSync(path, { force: true })
        db.close()
      }
    }
    // The process that had the lock removed the file: this lock is on nothing that others see.
    db.close()
  }
}

/** A connection that has locked the file at `path`, `null` when another process has. */
function tryLock(path: string, waitMs: number): Database | null {
  let db: Database | null = null
  try {
    db = new Database(path, { create: true, readwrite: true, strict: true })
    db.run(`pragma busy_timeout = ${waitMs}`)
    db.run('begin exclusive')
    return db
  } catch (error) {
    db?.close()
    if (codeOf(error).startsWith('SQLITE_BUSY')) return null
    throw new CommandError(explain(path, error))
  }
}
