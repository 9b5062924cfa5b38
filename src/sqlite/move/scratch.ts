/**
 * Owns the folders in which backups are made. Each is locked by its process, so that the next backup
 * into the same directory finds and removes those of killed ones: a lock ends with its process, also
 * where that ran in another container or on another machine, of which process ids say nothing.
 */
import { existsSync, lstatSync, mkdtempSync, readdirSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { removeFolder } from '../database-files.ts'
import { lockPlace } from '../file-lock.ts'

/** Ends the lock of a folder. */
type Release = () => void

/** The end of the name of a folder, before six random characters. */
const PART = '.part-'
const FOLDER = /.\.part-[0-9A-Za-z]{6}$/

/** What is locked in a folder: the name of a file without `.lock`, which no other program uses. */
const LOCKED = 'proxylist-backup'
/** The same until the lock is held: a folder with the file, but without the lock, is of a killed backup. */
const UNLOCKED = 'proxylist-backup-new'

/** Locks a folder; `null` where that is not possible, and then no other backup removes it. */
function lockFolder(folder: string): Release | null {
  try {
    const release = lockPlace(join(folder, UNLOCKED), 0)
    renameSync(join(folder, `${UNLOCKED}.lock`), join(folder, `${LOCKED}.lock`))
    return release
  } catch {
    return null
  }
}

/** Removes a folder of a killed backup; does nothing to any other one. */
function removeUnused(folder: string): void {
  const found = lstatSync(folder)
  // In a directory that all may write to, others could have prepared a folder.
  if (!found.isDirectory() || found.uid !== process.getuid?.()) return
  if (!existsSync(join(folder, `${LOCKED}.lock`))) return
  const release = lockPlace(join(folder, LOCKED), 0)
  if (release === null) return
  try {
    removeFolder(folder)
  } finally {
    release()
  }
}

/** Removes what killed backups have left in a directory, as far as that is possible. */
function removeLeftovers(dir: string): void {
  let names: string[] = []
  try {
    names = readdirSync(dir).filter(name => FOLDER.test(name))
  } catch {
    // It may be closed to readers, or missing, which is said where the archive is created.
  }
  for (const name of names) {
    try {
      removeUnused(join(dir, name))
    } catch {
      // Another process was first, or it cannot be removed: the next backup tries again.
    }
  }
}

/** Works with a new folder, whose path begins with `start` and `PART`, and removes it. */
export async function inScratch<T>(
  start: string,
  work: (scratch: string) => Promise<T>,
): Promise<T> {
  removeLeftovers(dirname(start))
  const scratch = mkdtempSync(start + PART)
  const release = lockFolder(scratch)
  try {
    return await work(scratch)
  } finally {
    removeFolder(scratch)
    release?.()
  }
}
