/**
 * Backups: `access.db` and `proxies.db`, each as of one moment, in one tar archive. `feeds.db` is left out, because
 * with another list its feeds would be skipped as unchanged; `checks.db`, because it may be large.
 */
import type { Database } from 'bun:sqlite'
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, codeOf, nextTurn, systemReasonOf } from '../lib/errors.ts'
import { type WriteChunk, writeArchive } from './archive.ts'
import { checkList } from './check.ts'
import {
  CHECKS_FILE,
  DATA_FILES,
  FEED_LINES_FILE,
  FEEDS_FILE,
  requireParts,
  sizeOf,
} from './data-directory.ts'
import { openReading } from './database.ts'
import { damagedBy, emptied, explain, isStoreFailure } from './errors.ts'
import { requireApplicationId, type ServerHolds } from './migrate.ts'
import { countRows } from './proxies/store.ts'

/** Numbers of rows, for the operator. */
export type Counts = { keys: number; plans: number; proxies: number }

export const countParts = (db: Database, holds: ServerHolds): Partial<Counts> =>
  holds === 'access'
    ? { keys: countRows(db, 'keys'), plans: countRows(db, 'plans') }
    : { proxies: countRows(db) }

export const sumOf = (some: readonly Partial<Counts>[]): Counts =>
  Object.assign({ keys: 0, plans: 0, proxies: 0 }, ...some)

/** Where an archive goes: a file that must not exist, or a stream. */
export type BackupTarget = { kind: 'file'; file: string } | { kind: 'stream'; write: WriteChunk }

export type BackupOptions = {
  to: BackupTarget
  nowMs: number
  /** Ends the backup early; no file is left behind. */
  signal: AbortSignal
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** The files in an archive, their rows, and the size of the archive in bytes. */
export type Backup = { files: string[]; bytes: number } & Counts

/** Files that no backup holds, and the effect of that on a restore. */
const LEFT_OUT = {
  [FEEDS_FILE]: 'after a restore, each feed is fetched in full once',
  [CHECKS_FILE]: 'a restore leaves what the checker remembers as it is',
  [FEED_LINES_FILE]: 'a restore leaves the feeds file as it is',
} as const

/** What a backup of a data directory leaves out, as sentences. */
export const leftOutOf = (dir: string): string[] =>
  Object.entries(LEFT_OUT)
    .filter(([name]) => sizeOf(join(dir, name)) > 0)
    .map(([name, why]) => `${name} is not in it: ${why}`)

/** How long to wait for a process that opens or closes a database, in milliseconds. */
const BUSY_MS = 10_000

/** Errors of `vacuum into` whose cause is the source; all others concern the copy. */
const OF_SOURCE = /^SQLITE_(?:NOTADB|CORRUPT|BUSY)/

/**
 * Copies a database as of one moment, while others read and write it.
 * @throws CommandError when it is damaged, or one of the files cannot be used.
 */
export function copyDatabase(file: string, to: string, holds: ServerHolds): void {
  if (sizeOf(file) === 0) throw new CommandError(emptied(file))
  let isCopying = false
  try {
    using db = openReading(file)
    db.run(`pragma busy_timeout = ${BUSY_MS}`)
    requireApplicationId(db, file, holds)
    const problems = checkList(db)
    if (problems.length > 0) throw new CommandError(damagedBy(file, problems).message)
    isCopying = true
    db.run('vacuum into ?', [to])
    chmodSync(to, 0o600)
  } catch (error) {
    if (!isStoreFailure(error)) throw error
    const isOfCopy = isCopying && !OF_SOURCE.test(codeOf(error))
    throw new CommandError(explain(isOfCopy ? to : file, error))
  }
}

/**
 * Backs up a data directory while others read and write it.
 * @throws CommandError when a database is missing or damaged, or the archive exists or cannot be written.
 */
export async function backUp({
  dir,
  ...options
}: BackupOptions & { dir: string }): Promise<Backup> {
  requireParts(dir)
  return writeBackup(async scratch => {
    for (const [at, { name, holds }] of DATA_FILES.entries()) {
      await nextTurn(options.signal) // a signal is noticed between two databases
      copyDatabase(join(dir, name), join(scratch, name), holds)
      options.progress((at + 1) / DATA_FILES.length / 2)
    }
  }, options)
}

/**
 * Writes an archive of the databases that `fill` makes in a temporary folder. A file is written beside its place,
 * and renamed when it is complete.
 * @throws CommandError when the file exists or cannot be written.
 */
export async function writeBackup(
  fill: (scratch: string) => Awaitable<void>,
  options: BackupOptions,
): Promise<Backup> {
  const { to } = options
  if (to.kind === 'stream') {
    return inScratch(join(tmpdir(), 'proxylist-backup'), scratch =>
      fillAndPack(scratch, fill, to.write, options),
    )
  }
  const { file } = to
  refuseExisting(file)
  try {
    return await inScratch(file, async scratch => {
      const path = join(scratch, 'archive')
      const out = await open(path, 'wx', 0o600)
      try {
        const written = await fillAndPack(scratch, fill, out.writeFile.bind(out), options)
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

/** Fills `scratch`, then packs it. Each is half of the progress. */
async function fillAndPack(
  scratch: string,
  fill: (scratch: string) => Awaitable<void>,
  write: WriteChunk,
  { nowMs, signal, progress }: BackupOptions,
): Promise<Backup> {
  try {
    await fill(scratch)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    // The temporary path says nothing to the operator.
    const message = error.message.replaceAll(`${scratch}/`, 'the copy of ')
    throw new CommandError(message, error.exitCode)
  }
  const counts = DATA_FILES.map(({ name, holds }) => {
    using db = openReading(join(scratch, name))
    return countParts(db, holds)
  })
  const files = DATA_FILES.map(({ name }) => ({ file: join(scratch, name), name }))
  const total = files.reduce((sum, { file }) => sum + sizeOf(file), 0)
  let written = 0
  const bytes = await writeArchive(write, files, nowMs, chunkBytes => {
    signal.throwIfAborted()
    written += chunkBytes
    progress(0.5 + Math.min(1, written / total) / 2)
  })
  return { files: files.map(({ name }) => name), bytes, ...sumOf(counts) }
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new CommandError(`${file} exists already; choose another name`)
}

/** Flushes new names in a directory to the disk. */
export function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Works with a new folder, whose path begins with `start`, and removes it. */
export async function inScratch<T>(
  start: string,
  work: (scratch: string) => Promise<T>,
): Promise<T> {
  const scratch = mkdtempSync(`${start}.part-`)
  try {
    return await work(scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}
