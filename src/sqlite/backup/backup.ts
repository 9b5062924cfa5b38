/**
 * Owns a backup: both databases, each as of one moment, in one tar archive. The archive appears
 * under its name complete or not at all. How a database is copied is in `copy.worker.ts`, the
 * archive's format in `tar.ts`.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { getSystemErrorMessage } from 'node:util'
import { CommandError } from '../../lib/errors.ts'
import { toSeconds } from '../../lib/time.ts'
import { ACCESS_FILE, PROXY_FILE } from '../stores.ts'
import { type Copy, type Counts, copyDatabases, sizeOf } from './copy.ts'
import { type TarEntry, writeTar } from './tar.ts'

export type BackupOptions = {
  /** The data directory. */
  dir: string
  /** The archive to write. It must not exist. */
  file: string
  nowMs: number
  /** Ends the backup early; nothing is left behind. */
  signal: AbortSignal
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** What was written: the files of the data directory, and the size of the archive in bytes. */
export type Backup = { files: string[]; bytes: number } & Counts

/** The files of a data directory, the irreplaceable one first. */
const PARTS = [
  { name: ACCESS_FILE, holds: 'access' },
  { name: PROXY_FILE, holds: 'proxies' },
] as const

/** @throws CommandError when there is no data, or `file` exists or cannot be written. */
export async function backUp(options: BackupOptions): Promise<Backup> {
  const { dir, file } = options
  const parts = PARTS.filter(({ name }) => existsSync(join(dir, name)))
  if (parts.length === 0) throw new CommandError(`there is nothing to back up in ${dir}`)
  refuseExisting(file)
  let scratch: string | null = null
  try {
    scratch = mkdtempSync(`${file}.part-`) // next to `file`, so that a rename can move it
    const to = scratch
    const copies = parts.map(({ name, holds }) => ({
      holds,
      file: join(dir, name),
      to: join(to, name),
    }))
    const { counts, bytes } = await writeArchive(copies, join(scratch, 'archive'), options)
    refuseExisting(file)
    renameSync(join(scratch, 'archive'), file)
    syncDirectory(dirname(file))
    const files = parts.map(({ name }) => name)
    return { files, bytes, keys: 0, plans: 0, proxies: 0, ...counts }
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null ? error : new CommandError(`cannot write ${file}: ${reason}`)
  } finally {
    if (scratch !== null) rmSync(scratch, { recursive: true, force: true })
  }
}

/** Copies the databases, then packs the copies: each is half of the progress. */
async function writeArchive(
  copies: readonly Copy[],
  archive: string,
  { nowMs, signal, progress }: BackupOptions,
) {
  const counts = await copyDatabases(copies, signal, share => progress(share / 2))
  const copiedBytes = copies.reduce((sum, { to }) => sum + sizeOf(to), 0)
  let written = 0
  await writeTar(archive, copies.map(toEntry), toSeconds(nowMs), bytes => {
    signal.throwIfAborted()
    written += bytes
    progress(0.5 + written / copiedBytes / 2)
  })
  return { counts, bytes: sizeOf(archive) }
}

/** A copy under the name of its original, and with the same owner. */
function toEntry({ file, to }: Copy): TarEntry {
  const { uid, gid } = statSync(file)
  return { file: to, name: basename(file), mode: 0o600, uid, gid }
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new CommandError(`${file} exists already; choose another name`)
}

/** The operating system's message, such as `permission denied`; `null` for any other error. */
const systemReasonOf = (error: unknown): string | null =>
  error instanceof Error && 'syscall' in error && 'errno' in error
    ? getSystemErrorMessage(Number(error.errno))
    : null

/** Waits until a new name in a directory is on the disk. */
function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
