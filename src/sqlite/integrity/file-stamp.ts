/**
 * Owns the file stamp of the list, which distinguishes a file that only this program has written
 * from one that anything else has changed. After each change of the list its file gets the
 * modification time that the list holds in `checksum.stamped_at`; any other write changes it.
 * Triggers make `stamped_at` negative, so that other processes see when the list was changed by SQL
 * and is not stamped yet.
 */
import { constants, Database } from 'bun:sqlite'
import { rmSync, type Stats, statSync, utimesSync } from 'node:fs'
import { messageOf, StoreError } from '../../lib/errors.ts'
import { WAL_ENDS, walOf } from '../database-files.ts'

/** Milliseconds to wait for readers of the WAL before it is emptied into the file. */
const EMPTY_WAL_MS = 250

/**
 * A stamp is this many milliseconds older than the time of the clock. Emptying the WAL takes some
 * milliseconds, in which the file has the current time: it must not equal the stamp by chance.
 */
const STAMP_AGE_MS = 1000

/** What distinguishes one state of a database's files from another. */
export type Fingerprint = { inode: number; walInode: number; size: number; modifiedMs: number }

/** The status of a file, `undefined` when there is none. @throws StoreError. */
function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch (error) {
    throw new StoreError(`${file} cannot be examined (${messageOf(error)})`)
  }
}

/** The state of the files, `null` when there is none. @throws StoreError when it cannot be read. */
export function fingerprintOf(file: string): Fingerprint | null {
  const found = statOf(file)
  if (found === undefined) return null
  const { ino: inode, size, mtimeMs } = found
  const walInode = statOf(walOf(file))?.ino ?? 0
  return { inode, walInode, size, modifiedMs: Math.round(mtimeMs) }
}

/** The size of a database's write-ahead log in bytes. */
export const walBytes = (file: string): number => statOf(walOf(file))?.size ?? 0

/** The bytes of the write-ahead log that are not in the file of an open database yet. */
export function pendingBytes(db: Database): number {
  const found = db
    .query<{ log: number; checkpointed: number }, []>('pragma wal_checkpoint(noop)')
    .get()
  const size = db.query<{ page_size: number }, []>('pragma page_size').get()
  return ((found?.log ?? 0) - (found?.checkpointed ?? 0)) * (size?.page_size ?? 0)
}

/** Whether two fingerprints are of the same file with the same content, as far as they can show. */
export const isSameFile = (a: Fingerprint | null, b: Fingerprint | null): boolean =>
  a?.inode === b?.inode && a?.size === b?.size && a?.modifiedMs === b?.modifiedMs

/** The stamp that the list holds, in Unix milliseconds, negative after a change; never cached. */
const createStampedAt = (db: Database): (() => number) => {
  const read = db.prepare<{ at: number }, []>('select stamped_at as at from checksum')
  return () => read.get()?.at ?? 0
}

/** Whether only this program has written the file since the list was last known to be intact. */
export function isStamped(db: Database, file: string): boolean {
  const at = createStampedAt(db)()
  return at > 0 && fingerprintOf(file)?.modifiedMs === at
}

/** Each stamp is larger than the one before, whatever the clock does. */
const NEW_STAMP = 'update checksum set stamped_at = max(?, abs(stamped_at) + 1)'

/**
 * Stamps the file of a list that is intact: empties the WAL into it where that is possible, and
 * sets its modification time. The new stamp is committed before the file changes, so that other
 * processes know it by then. Where it cannot be committed, because another process writes or the
 * disk is full, the list stays unstamped: that process stamps it, or a check does.
 */
export function stamp(db: Database, file: string, nowMs: number): void {
  db.run(`pragma busy_timeout = ${EMPTY_WAL_MS}`)
  const stampedAt = createStampedAt(db)
  let at = 0
  const renew = db.transaction(() => {
    db.run(NEW_STAMP, [nowMs - STAMP_AGE_MS])
    at = stampedAt()
  })
  // Another process that copies the WAL now changes the file, whatever time it gets here.
  if (!succeeds(renew.immediate)) return
  // Where this fails, the content of the WAL reaches the file another time.
  succeeds(() => db.run('pragma wal_checkpoint(truncate)'))
  // A process that has changed the list or its stamp since then sets the time, after its own copy.
  if (stampedAt() === at) setTimeLast(file, at, stampedAt)
}

/** Sets the time of a stamp, or that of a newer one which was perhaps set just before. */
function setTimeLast(file: string, at: number, stampedAt: () => number): void {
  setTime(file, at)
  const newest = stampedAt()
  if (newest > at) setTime(file, newest)
}

/** Removes the stamp of a list that proved damaged. */
export const removeStamp = (file: string): void =>
  setTime(file, (fingerprintOf(file)?.modifiedMs ?? 0) + 1000)

/** Empties the WAL of a list into its file; a stamped list stays stamped. */
export function emptyWal(db: Database, file: string, nowMs: number): void {
  if (isStamped(db, file)) stamp(db, file, nowMs)
  else db.run('pragma wal_checkpoint(truncate)')
}

/**
 * Keeps the stamp of a list that is about to be closed: the last connection to close copies the
 * WAL into the file. Does nothing where the list is not stamped, or fails.
 */
export function keepStamp(db: Database, file: string, nowMs: number): void {
  try {
    if (pendingBytes(db) > 0 && isStamped(db, file)) stamp(db, file, nowMs)
  } catch {
    // It is being closed because it failed.
  }
}

/**
 * Copies the WAL of a stamped list into its file while servers and commands use both; the list
 * stays stamped. Does nothing while another process changes the list: that one copies and stamps.
 * `db` is used by nobody else.
 * @throws when the list is locked.
 */
export function copyWal(db: Database, file: string, nowMs: number): void {
  db.run('pragma wal_autocheckpoint = 0') // only below, under the lock
  const stampedAt = createStampedAt(db)
  const at = db
    .transaction(() => {
      if (!isStamped(db, file)) return null
      db.run(NEW_STAMP, [nowMs - STAMP_AGE_MS])
      return stampedAt()
    })
    .immediate()
  if (at === null) return
  // Until the file has its new time, nobody else may commit a stamp and set the time of that. A
  // second connection locks them out, because the one that copies may not be in a transaction.
  const guard = new Database(file, { create: false, readwrite: true, strict: true })
  try {
    const hasLock = succeeds(() => guard.run('begin immediate'))
    if (stampedAt() !== at) return
    if (hasLock) succeeds(() => db.run('pragma wal_checkpoint(passive)'))
    setTimeLast(file, at, stampedAt)
  } finally {
    guard.close()
  }
}

function succeeds(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}

function setTime(file: string, ms: number): void {
  try {
    utimesSync(file, ms / 1000, ms / 1000)
  } catch {
    // Not our file, or read-only: without a stamp the list is checked at the next start.
  }
}

/**
 * Closes a database whose file may have been replaced: then the new file must not get its WAL, nor
 * lose its own.
 */
export function closeSafely(db: Database, file: string, opened: Fingerprint | null): void {
  try {
    closeAt(db, file, opened)
  } catch {
    // Where the files cannot even be examined there is nothing to protect.
  }
}

function closeAt(db: Database, file: string, opened: Fingerprint | null): void {
  const isInPlace = fingerprintOf(file)?.inode === opened?.inode
  if (!isInPlace) db.fileControl(constants.SQLITE_FCNTL_PERSIST_WAL, 1)
  try {
    db.close(true)
  } catch {
    // What cannot be written any more is lost with the file.
  }
  const wal = walOf(file)
  const isOurs = statSync(wal, { throwIfNoEntry: false })?.ino === opened?.walInode
  if (!isInPlace && isOurs) for (const end of WAL_ENDS) rmSync(file + end, { force: true })
}

/** @throws StoreError when the files at this path are not those with the fingerprint `opened`. */
function requireSameFile(file: string, opened: Fingerprint | null): Fingerprint {
  const found = fingerprintOf(file)
  if (found === null) throw new StoreError(`${file} is missing`)
  const isSame = found.inode === opened?.inode && found.walInode === opened.walInode
  if (!isSame) throw new StoreError(`${file} or its WAL was replaced`)
  return found
}

/** The same for a file that never shrinks. */
export function requireInPlace(file: string, opened: Fingerprint | null): void {
  const { size } = requireSameFile(file, opened)
  if (size < (opened?.size ?? 0)) throw new StoreError(`${file} was truncated`)
}

/** How often a file whose time is no stamp is examined, in case a process of ours is setting it. */
const EXAMINE_MAX = 250
const EXAMINE_EVERY_MS = 1
const asleep = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
const pauseShortly = (): void => void Atomics.wait(asleep, 0, 0, EXAMINE_EVERY_MS)

/**
 * Watches a list that is intact now. `verify` throws `StoreError` when its file was removed,
 * replaced, or changed by anything but this program; `isUnstamped` returns whether this program
 * has changed it and not stamped it yet. When several processes of ours stamp the list at once, one
 * may copy the WAL just after another has set the time, and sets it again: `verify` waits for that,
 * with a `pause` after each attempt, because the alternative is to refuse requests for a second.
 */
export function watchFile(db: Database, file: string, pause = pauseShortly) {
  const stampedAt = createStampedAt(db)
  let known = { fingerprint: fingerprintOf(file), stampedAt: stampedAt() }
  let isUnstamped = false

  /** Whether only this program has written the file, as far as its time shows now. */
  function isOurs(fingerprint: Fingerprint): boolean {
    const at = stampedAt()
    const isStampedNow = fingerprint.modifiedMs === at
    if (!isStampedNow && at === known.stampedAt) return false
    if (isStampedNow) known = { fingerprint, stampedAt: at }
    isUnstamped = !isStampedNow
    return true
  }

  return {
    verify(): void {
      for (let n = 0; n < EXAMINE_MAX; n += 1) {
        const fingerprint = requireSameFile(file, known.fingerprint)
        if (isSameFile(fingerprint, known.fingerprint) || isOurs(fingerprint)) return
        if (fingerprint.size < (known.fingerprint?.size ?? 0)) {
          throw new StoreError(`${file} was truncated`)
        }
        pause()
      }
      throw new StoreError(`${file} was changed by something else`)
    },
    isUnstamped: (): boolean => isUnstamped,
  }
}
