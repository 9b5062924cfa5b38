/** The files of a database: installing and removing them, their owner, locks on a path, and identity. */
import { constants, Database } from 'bun:sqlite'
import { chownSync, existsSync, renameSync, rmSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import { WAL_ENDS } from './data-directory.ts'
import { explain, isBusy, isDamage } from './errors.ts'

/** When root creates a file for a service, makes the service's user its owner. */
/** When root creates a file, gives it the owner of another one. */
export function giveTo({ uid, gid }: Stats, file: string): void {
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

export const giveToOwner = (file: string): void => giveTo(statSync(dirname(file)), file)

/** Moves a closed database to a path, also over another file. Removes the old WAL: SQLite would apply it to the new file. */
export function installDatabase(from: string, to: string): void {
  giveTo(statSync(existsSync(to) ? to : dirname(to)), from)
  removeWal(to)
  renameSync(from, to)
}

export function removeWal(file: string): void {
  for (const end of WAL_ENDS) rmSync(file + end, { force: true })
}

export function removeDatabase(file: string): void {
  rmSync(file, { force: true })
  removeWal(file)
}

/** Opens a database whose content can be lost: removes a damaged one and creates it again. */
export function openOrRemake(file: string, open: () => Database): Database {
  try {
    return open()
  } catch (error) {
    if (!isDamage(error)) throw error
    removeDatabase(file)
    return open()
  }
}

/**
 * The path beside `file` under which it is written before it takes its place. Removes the files that a killed
 * process left there. One process at a time may use it: the caller has a lock.
 */
export function tempPath(file: string): string {
  const fresh = `${file}.new`
  removeDatabase(fresh)
  return fresh
}

/** The inode at a path; `null` when there is no file. @throws StoreError when that cannot be read. */
export function inodeOf(path: string): number | null {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino ?? null
  } catch (error) {
    throw new StoreError(`${path} cannot be examined (${messageOf(error)})`)
  }
}

export function hasMoved(db: Database): boolean {
  const moved = new Int32Array(2) // SQLite writes one, Bun wants room for a pointer
  db.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, moved)
  return moved[0] !== 0
}

/** @throws StoreError when the file was removed or replaced: the writes of this connection are lost with it. */
export function requireNotReplaced(db: Database, file: string): void {
  if (!hasMoved(db)) return
  throw new StoreError(`${file} ${existsSync(file) ? 'was replaced' : 'is missing'}`)
}

type Release = () => void

/**
 * Locks a path for this process, waiting up to `waitMs`; `null` when another process has the lock. It is
 * SQLite's lock on an empty file beside it, which stays there: the lock ends with its process.
 * @throws CommandError when the folder is missing or cannot be written.
 */
export function lockPath(file: string, waitMs: number): Release | null {
  const path = `${file}.lock`
  let db: Database | null = null
  try {
    db = new Database(path, { create: true, readwrite: true, strict: true })
    giveToOwner(path)
    db.run(`pragma busy_timeout = ${waitMs}`)
    db.run('begin exclusive')
    return db.close.bind(db)
  } catch (failure) {
    db?.close()
    if (isBusy(failure)) return null
    throw new CommandError(explain(file, failure))
  }
}
