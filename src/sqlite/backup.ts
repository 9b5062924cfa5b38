/**
 * A backup: both databases, each as of one moment, in one tar archive. An archive that is a file appears
 * under its name complete or not at all. `feeds.db` is in no backup: it says which content of a feed the
 * list has, and beside another list a feed would be skipped as unchanged. Nor is `checks.db`: it may be large, is
 * right beside any list, and is made again from the list and by checking.
 */
import type { Database } from 'bun:sqlite'
import {
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { CommandError, systemReasonOf } from '../lib/errors.ts'
import { startTask } from '../lib/worker.ts'
import { type WriteChunk, writeArchive } from '../move/archive.ts'
import { untilDone } from './check.ts'
import {
  CHECKS_FILE,
  DATA_FILES,
  FEED_LINES_FILE,
  FEEDS_FILE,
  requireParts,
  sizeOf,
  walOf,
} from './data-directory.ts'
import { lockPath, removeFolder } from './database-files.ts'
import type { ServerHolds } from './migrate.ts'
import { countRows } from './proxies/store.ts'

/** Numbers of rows, for the operator. */
export type Counts = { keys: number; plans: number; proxies: number }

export const countParts = (db: Database, holds: ServerHolds): Partial<Counts> =>
  holds === 'access'
    ? { keys: countRows(db, 'keys'), plans: countRows(db, 'plans') }
    : { proxies: countRows(db) }

export const sumOf = (some: readonly Partial<Counts>[]): Counts =>
  Object.assign({ keys: 0, plans: 0, proxies: 0 }, ...some)

/** A database file, what it holds, and the file to copy it to, which must not exist. */
export type Copy = { holds: ServerHolds; file: string; to: string }

/** How often the size of the copies is read for the progress, in milliseconds. */
const PROGRESS_EVERY_MS = 100

/** Makes both databases in a folder, under their names; `progress` is called with the share that is done. */
type Make = (scratch: string, progress: (share: number) => void) => Promise<Counts>

/** Where an archive goes: a file that must not exist, or something else that takes its bytes. */
export type BackupTarget = { kind: 'file'; file: string } | { kind: 'stream'; write: WriteChunk }

type ArchiveOptions = {
  to: BackupTarget
  nowMs: number
  /** Ends the backup early; no file is left behind. */
  signal: AbortSignal
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** What was written: files of a data directory, their rows, and the size of the archive in bytes. */
type Archive = { files: string[]; bytes: number } & Counts

/** `leavesOut`: what is there and is not part of a backup, as sentences. */
export type Backup = Archive & { leavesOut: string[] }

/** What is in no backup, and what that means. */
export const LEFT_OUT = {
  [FEEDS_FILE]: 'after a restore, each feed is fetched in full once',
  [CHECKS_FILE]: 'a restore leaves what the checker remembers as it is',
  [FEED_LINES_FILE]: 'a restore leaves the feeds of the console as they are',
} as const

/**
 * Backs up a data directory, in whose databases others read and write meanwhile.
 * @throws CommandError when there is no data, one of its files is missing or damaged, or the archive
 *   exists or cannot be written.
 */
export async function backUp(options: ArchiveOptions & { dir: string }): Promise<Backup> {
  const { dir, signal } = options
  requireParts(dir, 'back up')
  const written = await archive(
    (scratch, progress) => copyDatabases(dir, scratch, signal, progress),
    options,
  )
  const found = Object.entries(LEFT_OUT).filter(([name]) => sizeOf(join(dir, name)) > 0)
  return { ...written, leavesOut: found.map(([name, why]) => `${name} is not in it: ${why}`) }
}

/**
 * Copies the databases of a directory in a worker (`backup.worker.ts`), so that the main thread can show
 * progress and be aborted; returns the rows of the copies.
 * @throws CommandError naming the file that failed, or the reason of `signal`.
 */
async function copyDatabases(
  dir: string,
  scratch: string,
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<Counts> {
  const copies: readonly Copy[] = DATA_FILES.map(({ name, holds }) => ({
    ...{ holds, file: join(dir, name), to: join(scratch, name) },
  }))
  const start = () => startTask<readonly Copy[], Counts>('sqlite/backup.worker.ts', copies)
  const total = copies.reduce((sum, { file }) => sum + sizeOf(file) + sizeOf(walOf(file)), 1)
  const timer = setInterval(() => {
    progress(Math.min(1, copies.reduce((sum, { to }) => sum + sizeOf(to), 0) / total))
  }, PROGRESS_EVERY_MS)
  try {
    return await untilDone(start, signal)
  } finally {
    clearInterval(timer)
  }
}

/**
 * Writes an archive of the databases that `make` makes. One that is a file is written next to its place,
 * and renamed when it is complete.
 * @throws CommandError when it exists or cannot be written.
 */
export async function archive(make: Make, options: ArchiveOptions): Promise<Archive> {
  const { to } = options
  if (to.kind === 'stream') {
    return inScratch(join(tmpdir(), 'proxylist-backup'), scratch =>
      makeAndPack(scratch, make, to.write, options),
    )
  }
  const { file } = to
  refuseExisting(file)
  try {
    return await inScratch(file, async scratch => {
      const path = join(scratch, 'archive')
      const out = await open(path, 'wx', 0o600)
      try {
        const written = await makeAndPack(scratch, make, out.writeFile.bind(out), options)
        await out.sync()
        refuseExisting(file)
        renameSync(path, file)
        syncDirectory(dirname(file))
        return written
      } finally {
        await out.close()
      }
    })
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null ? error : new CommandError(`cannot write ${file}: ${reason}`)
  }
}

/** Has the databases made in `scratch`, then packs them: each is half of the progress. */
async function makeAndPack(
  scratch: string,
  make: Make,
  write: WriteChunk,
  { nowMs, signal, progress }: ArchiveOptions,
): Promise<Archive> {
  const counts = await make(scratch, share => progress(share / 2)).catch(error => {
    if (!(error instanceof CommandError)) throw error
    // The path of a copy says nothing to the operator.
    const message = error.message.replaceAll(`${scratch}/`, 'the copy of ')
    throw new CommandError(message, error.exitCode)
  })
  const files = DATA_FILES.map(({ name }) => ({ file: join(scratch, name), name }))
  const total = files.reduce((sum, { file }) => sum + sizeOf(file), 0)
  let written = 0
  const bytes = await writeArchive(write, files, nowMs, chunkBytes => {
    signal.throwIfAborted()
    written += chunkBytes
    progress(0.5 + Math.min(1, written / total) / 2)
  })
  return { files: files.map(({ name }) => name), bytes, ...counts }
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new CommandError(`${file} exists already; choose another name`)
}

/** Waits until new names in a directory are on the disk. */
export function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

// -----------------------------------------------------------------------------------------------
// Folders in which archives are made. Each is locked by its process, so that the next backup into the
// same directory finds and removes those of killed ones: a lock ends with its process, also where that
// ran in another container or on another machine, of which process ids say nothing.

/** The end of the name of a folder, before six random characters. */
const PART = '.part-'
const FOLDER = /.\.part-[0-9A-Za-z]{6}$/

/** What is locked in a folder: the name of a file without `.lock`, which no other program uses. */
const LOCKED = 'proxylist-backup'
/** Its name until the lock is held: a folder that has it without a lock is of a killed backup. */
const UNLOCKED = 'proxylist-backup-new'

/** Locks a folder; `null` where that is not possible, and then no other backup removes it. */
function lockFolder(folder: string): (() => void) | null {
  try {
    const release = lockPath(join(folder, UNLOCKED), 0)
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
  const release = lockPath(join(folder, LOCKED), 0)
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
