/**
 * Owns a backup: both databases, each as of one moment, in one tar archive. An archive that is a file
 * appears under its name complete or not at all. How a database is copied is in `copy.worker.ts`.
 */
import { closeSync, existsSync, fsyncSync, openSync, renameSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { CommandError, systemReasonOf } from '../../lib/errors.ts'
import { type WriteChunk, writeArchive } from '../../move/archive.ts'
import {
  ACCESS_FILE,
  hasDirectory,
  missingDirectory,
  ORIGINS,
  PROXY_FILE,
} from '../data-directory.ts'
import { FEEDS_FILE } from '../feeds.ts'
import { copyDatabases, sizeOf } from './copy.ts'
import { type Counts, NO_COUNTS } from './counts.ts'
import { inScratch } from './scratch.ts'

/** Where an archive goes: a file that must not exist, or something else that takes its bytes. */
export type BackupTarget = { kind: 'file'; file: string } | { kind: 'stream'; write: WriteChunk }

export type ArchiveOptions = {
  to: BackupTarget
  nowMs: number
  /** Ends the backup early; no file is left behind. */
  signal: AbortSignal
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** `dir` is the data directory. */
export type BackupOptions = ArchiveOptions & { dir: string }

/**
 * What was written: the files of the data directory, and the size of the archive in bytes. `leavesOut`:
 * what is there and is not part of a backup.
 */
export type Backup = { files: string[]; leavesOut: string[]; bytes: number } & Counts

/** The files of a data directory, the irreplaceable one first. */
export const PARTS = [
  { name: ACCESS_FILE, holds: 'access' },
  { name: PROXY_FILE, holds: 'proxies' },
] as const

/**
 * The sentence about a database that is not beside the other one. Nothing shows whether it was lost or
 * never created, and a backup without the keys must not take the place of the last one that has them.
 */
const incomplete = (file: string, done: string, origin: string): string =>
  `${file} is missing, so nothing was ${done}: restore a backup, or, if there never was one, ${origin}`

const DONE = { 'back up': 'backed up', move: 'moved' } as const

/** @throws CommandError when there is no data, or one of its files is missing. */
export function requireParts(dir: string, what: keyof typeof DONE): void {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  const missing = PARTS.map(({ name }) => name).filter(name => !existsSync(join(dir, name)))
  if (missing.length === PARTS.length) {
    throw new CommandError(`there is nothing to ${what} in ${dir}`)
  }
  const [lost] = missing
  if (lost !== undefined)
    throw new CommandError(incomplete(join(dir, lost), DONE[what], ORIGINS[lost]))
}

/**
 * @throws CommandError when there is no data, one of its files is missing, or the archive exists or
 *   cannot be written.
 */
export async function backUp(options: BackupOptions): Promise<Backup> {
  const { dir } = options
  requireParts(dir, 'back up')
  const { counts, bytes } = await archive(copyDirectory(options), options)
  // With it, a restored list could look like what a feed brought after the list was copied.
  const leavesOut = [FEEDS_FILE].filter(name => existsSync(join(dir, name)))
  return { files: PARTS.map(({ name }) => name), leavesOut, bytes, ...NO_COUNTS, ...counts }
}

/** Makes copies of all databases in a folder; `progress` is called with the share that is done. */
type MakeCopies<C> = (
  scratch: string,
  progress: (share: number) => void,
) => Promise<{ counts: C; copies: readonly string[] }>

/** What the copies hold, and the size of their archive. */
type Archive<C> = { counts: C; bytes: number }

/**
 * Writes an archive of copies that are made for it.
 * @throws CommandError when it exists or cannot be written.
 */
export const archive = <C>(make: MakeCopies<C>, options: ArchiveOptions): Promise<Archive<C>> => {
  const { to } = options
  return to.kind === 'file'
    ? writeFile(to.file, make, options)
    : inScratch(join(tmpdir(), 'proxylist-backup'), scratch =>
        copyAndPack(scratch, make, to.write, options),
      )
}

/** Writes the archive next to `file`, and renames it when it is complete. */
async function writeFile<C>(
  file: string,
  make: MakeCopies<C>,
  options: ArchiveOptions,
): Promise<Archive<C>> {
  refuseExisting(file)
  try {
    return await inScratch(file, async scratch => {
      const path = join(scratch, 'archive')
      const out = await open(path, 'wx', 0o600)
      try {
        const written = await copyAndPack(scratch, make, out.writeFile.bind(out), options)
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

/** Copies the databases of a directory, each as of one moment. */
const copyDirectory =
  ({ dir, signal }: BackupOptions): MakeCopies<Partial<Counts>> =>
  async (scratch, progress) => {
    const copies = PARTS.map(({ name, holds }) => ({
      holds,
      file: join(dir, name),
      to: join(scratch, name),
    }))
    return {
      counts: await copyDatabases(copies, signal, progress),
      copies: copies.map(({ to }) => to),
    }
  }

/** Has the copies made in `scratch`, then packs them: each is half of the progress. */
async function copyAndPack<C>(
  scratch: string,
  make: MakeCopies<C>,
  write: WriteChunk,
  { nowMs, signal, progress }: ArchiveOptions,
): Promise<Archive<C>> {
  const { counts, copies } = await make(scratch, share => progress(share / 2)).catch(error => {
    if (!(error instanceof CommandError)) throw error
    // The path of a copy says nothing to the operator.
    const message = error.message.replaceAll(`${scratch}/`, 'the copy of ')
    throw new CommandError(message, error.exitCode)
  })
  const copiedBytes = copies.reduce((sum, file) => sum + sizeOf(file), 0)
  let written = 0
  const files = copies.map(file => ({ file, name: basename(file) }))
  const bytes = await writeArchive(write, files, nowMs, chunkBytes => {
    signal.throwIfAborted()
    written += chunkBytes
    progress(0.5 + Math.min(1, written / copiedBytes) / 2)
  })
  return { counts, bytes }
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
