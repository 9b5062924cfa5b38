/**
 * Owns the seal of the list: how a file that only we have written is told from one that anything
 * else has changed. Whoever changes the list gives its file, in the end, the modification time
 * that the list holds in `digest.written_at`; any other write to the file gives it another.
 */
import { constants, type Database } from 'bun:sqlite'
import { rmSync, type Stats, statSync, utimesSync } from 'node:fs'
import { messageOf, Unavailable } from '../../api/errors.ts'

/** Milliseconds a seal waits for readers of the log, which is to be emptied into the file. */
const EMPTY_LOG_MS = 250

/** What tells one state of a database's files from another. */
export type Mark = { inode: number; logInode: number; size: number; modifiedMs: number }

/** What the file system says of a file, `undefined` when there is none. @throws Unavailable. */
function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch (error) {
    throw new Unavailable(`${file} cannot be looked at (${messageOf(error)})`)
  }
}

/** The state of the files, `null` when there is none. @throws Unavailable when it cannot be told. */
export function markOf(file: string): Mark | null {
  const found = statOf(file)
  if (found === undefined) return null
  const log = statOf(`${file}-wal`)
  const { ino: inode, size, mtimeMs } = found
  return { inode, logInode: log?.ino ?? 0, size, modifiedMs: Math.round(mtimeMs) }
}

/** The size of a database's write-ahead log in bytes. */
export const logBytes = (file: string): number => statOf(`${file}-wal`)?.size ?? 0

/** Whether two marks are of the same files, with the same content where they tell. */
export const isSameMark = (a: Mark | null, b: Mark | null): boolean =>
  a?.inode === b?.inode && a?.size === b?.size && a?.modifiedMs === b?.modifiedMs

/** When the list was last written, in Unix milliseconds; read at every call. */
const createWrittenAt = (db: Database): (() => number) => {
  const read = db.prepare<{ at: number }, []>('select written_at as at from digest')
  return () => read.get()?.at ?? 0
}

/** Whether nothing but us has written the file since the list was last known to be whole. */
export function isSealed(db: Database, file: string): boolean {
  return markOf(file)?.modifiedMs === createWrittenAt(db)()
}

/**
 * Vouches for the list as it is: empties the log into the file where that is possible, and seals
 * it. Other processes are told before the file changes.
 */
export function seal(db: Database, file: string): void {
  try {
    db.run(`pragma busy_timeout = ${EMPTY_LOG_MS}`)
    db.run(`update digest set written_at = cast(unixepoch('subsec') * 1000 as integer)`)
    db.run('pragma wal_checkpoint(truncate)')
  } catch {
    // A full disk or another writer: what the log holds will reach the file another time.
  }
  setTime(file, createWrittenAt(db)())
}

/** Takes the seal off a list that proved damaged. */
export const breakSeal = (file: string): void =>
  setTime(file, (markOf(file)?.modifiedMs ?? 0) + 1000)

/** Empties the log of a list; one that was sealed stays so. */
export function emptyLog(db: Database, file: string): void {
  if (isSealed(db, file)) seal(db, file)
  else db.run('pragma wal_checkpoint(truncate)')
}

function setTime(file: string, ms: number): void {
  try {
    utimesSync(file, ms / 1000, ms / 1000)
  } catch {
    // Not ours, or read-only: without a seal the list is checked at the next start.
  }
}

/**
 * Closes a database that may no longer be the one at its place: then the file there must not get
 * its log, nor lose its own.
 */
export function closeWherever(db: Database, file: string, opened: Mark | null): void {
  try {
    closeAt(db, file, opened)
  } catch {
    // Where the files cannot even be looked at there is nothing to protect.
  }
}

function closeAt(db: Database, file: string, opened: Mark | null): void {
  const isInPlace = markOf(file)?.inode === opened?.inode
  if (!isInPlace) db.fileControl(constants.SQLITE_FCNTL_PERSIST_WAL, 1)
  try {
    db.close(true)
  } catch {
    // What cannot be written any more is lost with the file.
  }
  const log = `${file}-wal`
  const isOurs = statSync(log, { throwIfNoEntry: false })?.ino === opened?.logInode
  if (!isInPlace && isOurs) for (const left of [log, `${file}-shm`]) rmSync(left, { force: true })
}

/** @throws Unavailable when the files at this place are not those that `opened` is of. */
export function requireInPlace(file: string, opened: Mark | null): Mark {
  const found = markOf(file)
  if (found === null) throw new Unavailable(`${file} is gone`)
  const isSame = found.inode === opened?.inode && found.logInode === opened.logInode
  if (!isSame) throw new Unavailable(`${file} or its log has been replaced`)
  if (found.size < opened.size) throw new Unavailable(`${file} has been cut`)
  return found
}

/**
 * Watches a list that is whole now. `look` throws `Unavailable` when its file was removed,
 * replaced, or changed by anything but a process of ours; `isUnsealed` says whether a process
 * of ours has changed it and not sealed it yet.
 */
export function createWatch(db: Database, file: string) {
  const writtenAt = createWrittenAt(db)
  let known = { mark: markOf(file), writtenAt: writtenAt() }
  let isUnsealed = false

  return {
    look(): void {
      const mark = requireInPlace(file, known.mark)
      if (isSameMark(mark, known.mark)) return
      const now = writtenAt()
      isUnsealed = mark.modifiedMs !== now
      if (!isUnsealed) known = { mark, writtenAt: now }
      else if (now === known.writtenAt) {
        throw new Unavailable(`${file} has been changed by something else`)
      }
    },
    isUnsealed: (): boolean => isUnsealed,
  }
}
