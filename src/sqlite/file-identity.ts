/** Which file a database is in, and whether that is still the one that was opened. */
import { constants, type Database } from 'bun:sqlite'
import { rmSync, type Stats, statSync } from 'node:fs'
import { messageOf, StoreError } from '../lib/errors.ts'
import { WAL_ENDS, walOf } from './data-directory.ts'
import { pendingBytes } from './wal.ts'

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

/** @throws StoreError when a file whose WAL is in it is shorter than its database. */
export function requireLength(db: Database, file: string): void {
  if (pendingBytes(db) > 0) return
  const { bytes = 0 } =
    db
      .query<{ bytes: number }, []>(
        `select (select page_count from pragma_page_count) *
          (select page_size from pragma_page_size) as bytes`,
      )
      .get() ?? {}
  const { size = 0 } = statOf(file) ?? {}
  // Pending by now: another process has committed in between.
  if (size < bytes && pendingBytes(db) === 0) throw new StoreError(`${file} was truncated`)
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
  const isOurs = statSync(walOf(file), { throwIfNoEntry: false })?.ino === opened?.walInode
  if (!isInPlace && isOurs) for (const end of WAL_ENDS) rmSync(file + end, { force: true })
}
