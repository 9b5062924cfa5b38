/**
 * The files of a database: how a complete new one gets into its place, what locks its path meanwhile, which
 * user owns it, what is removed with it, and whether it is still the one that was opened.
 */

import { constants, Database } from 'bun:sqlite'
import {
  chownSync,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CommandError, codeOf, messageOf, StoreError } from '../lib/errors.ts'
import { WAL_ENDS, walOf } from './data-directory.ts'
import { explain, isBusy, isDamage } from './errors.ts'

/** Gives a file that root creates for a service to the user of the service. */
function giveTo({ uid, gid }: Stats, file: string): void {
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

/** Gives a file that root creates beside the data to the owner of their folder. */
export const giveToOwner = (file: string): void => giveTo(statSync(dirname(file)), file)

/**
 * Puts a closed database at a path that is locked, in the place of a damaged one or of none. A WAL that is there
 * goes: a server may still use it, but not by its name.
 */
export function moveDatabase(from: string, to: string): void {
  giveTo(statSync(existsSync(to) ? to : dirname(to)), from)
  removeWal(to)
  renameSync(from, to)
}

/** Removes the WAL of a database that is not there or is about to be removed. */
export function removeWal(file: string): void {
  for (const end of WAL_ENDS) rmSync(file + end, { force: true })
}

export function removeDatabase(file: string): void {
  rmSync(file, { force: true })
  removeWal(file)
}

/** Opens a database that can be lost: a damaged one is removed, and `open` makes it again. */
export function openOrRemake(file: string, open: () => Database): Database {
  try {
    return open()
  } catch (error) {
    if (!isDamage(error)) throw error
    removeDatabase(file)
    return open()
  }
}

const REMOVALS_MAX = 10

/** Removes a folder. An attempt ends early, without an error, when SQLite removes a file meanwhile. */
export function removeFolder(dir: string): void {
  for (let n = 0; n < REMOVALS_MAX && existsSync(dir); n += 1) {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** How the names of next states of a database begin; the id of the process follows. */
export const freshStart = (name: string): string => `${name}.new-`

/** The path, in the same folder, at which the next state of a database is created, by who has locked that. */
export function freshFile(file: string): string {
  const start = freshStart(basename(file))
  removeLeftovers(dirname(file), start)
  const fresh = join(dirname(file), start + process.pid)
  removeDatabase(fresh) // of a killed process that had this id: in a container, ids come again
  return fresh
}

/** What killed commands left: names that are `start` and the id of a process that is not there. */
export const leftoversOf = (dir: string, start: string): string[] =>
  readdirSync(dir).filter(
    name => name.startsWith(start) && !isAlive(Number.parseInt(name.slice(start.length), 10)),
  )

export function removeLeftovers(dir: string, start: string): void {
  for (const name of leftoversOf(dir, start)) {
    rmSync(join(dir, name), { recursive: true, force: true })
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** What distinguishes the files of a database from others in their place. */
export type Fingerprint = { inode: number; walInode: number; size: number }

/** The status of a file, `undefined` when there is none. @throws StoreError. */
function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch (error) {
    throw new StoreError(`${file} cannot be examined (${messageOf(error)})`)
  }
}

/** What the files are now, `null` when there are none. @throws StoreError when that cannot be read. */
export function fingerprintOf(file: string): Fingerprint | null {
  const found = statOf(file)
  if (found === undefined) return null
  return { inode: found.ino, walInode: statOf(walOf(file))?.ino ?? 0, size: found.size }
}

/** What a file is, and when it or its WAL was last written; `null` when that cannot be found out. */
export function stateOf(file: string): { inode: number; writtenMs: number } | null {
  try {
    const { ino: inode, mtimeMs } = statSync(file)
    const wal = statSync(walOf(file), { throwIfNoEntry: false })
    return { inode, writtenMs: Math.max(mtimeMs, wal && wal.size > 0 ? wal.mtimeMs : 0) }
  } catch {
    return null
  }
}

/** Whether two fingerprints are of the same files. */
export const isSameFile = (a: Fingerprint | null, b: Fingerprint | null): boolean =>
  a?.inode === b?.inode && a?.walInode === b?.walInode

/** @throws StoreError when the files at this path are not those with the fingerprint `opened`. */
export function requireSameFile(file: string, opened: Fingerprint | null): Fingerprint {
  const found = fingerprintOf(file)
  if (found === null) throw new StoreError(`${file} is missing`)
  if (!isSameFile(found, opened)) throw new StoreError(`${file} or its WAL was replaced`)
  return found
}

/** @throws StoreError when a file that never shrinks was replaced or truncated since it was opened. */
export function requireInPlace(file: string, opened: Fingerprint | null): void {
  const { size } = requireSameFile(file, opened)
  if (size < (opened?.size ?? 0)) throw new StoreError(`${file} was truncated`)
}

/**
 * Closes a database whose file may have been replaced: then the new file must not get its WAL, nor
 * lose its own.
 */
export function closeSafely(db: Database, file: string, opened: Fingerprint | null): void {
  try {
    const isInPlace = fingerprintOf(file)?.inode === opened?.inode
    if (!isInPlace) db.fileControl(constants.SQLITE_FCNTL_PERSIST_WAL, 1)
    try {
      db.close(true)
    } catch {
      // What cannot be written any more is lost with the file.
    }
    const isOurs = statSync(walOf(file), { throwIfNoEntry: false })?.ino === opened?.walInode
    if (!isInPlace && isOurs) removeWal(file)
  } catch {
    // Where the files cannot even be examined there is nothing to protect.
  }
}

type Release = () => void

/** Whether the file of a database is no longer in its place. */
export function hasMoved(db: Database): boolean {
  const moved = new Int32Array(2) // SQLite writes one, Bun wants room for a pointer
  db.fileControl(constants.SQLITE_FCNTL_HAS_MOVED, moved)
  return moved[0] !== 0
}

/** The files of a database that was just opened. @throws StoreError when others came into their place meanwhile. */
export function filesOf(db: Database, file: string): Fingerprint | null {
  const found = fingerprintOf(file)
  if (!hasMoved(db)) return found
  closeSafely(db, file, { inode: -1, walInode: -1, size: 0 })
  throw new StoreError(`${file} was replaced while it was opened`)
}

/**
 * Locks the path of `file`, where SQLite may have nothing that it could lock, waiting up to `waitMs` for
 * another process; `null` if that was not enough. It is a lock of SQLite on an empty file beside it, so it
 * ends with its process.
 * @throws CommandError when the folder is missing or cannot be written.
 */
export function lockPath(file: string, waitMs: number): Release | null {
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
          if (!hasMoved(db)) rmSync(path, { force: true })
        } finally {
          db.close()
        }
      }
    }
    const isTaken = isBusy(failure)
    if (!isTaken && existsSync(path)) rmSync(path, { force: true }) // nobody can have locked it
    db?.close()
    if (isTaken) return null
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
