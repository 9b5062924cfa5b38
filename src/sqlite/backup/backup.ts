/**
 * Owns a backup: both databases, each as of one moment, in one tar archive that is there whole or
 * not at all. How a database is copied is in `sqlite/backup.ts`.
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
import { CommandError, messageOf } from '../../lib/errors.ts'
import { toSeconds } from '../../lib/time.ts'
import { startWorker } from '../../lib/worker.ts'
import { ACCESS_FILE, PROXY_FILE } from '../stores.ts'
import type { Copy, Counts } from './copy.ts'
import { writeTar } from './tar.ts'

export type BackupOrder = {
  /** The data directory. */
  dir: string
  /** The archive to write, which must not be there yet. */
  file: string
  nowMs: number
  /** Ends it early, and leaves nothing behind. */
  signal: AbortSignal
  /** Told how much is done, from 0 to 1. */
  progress: (share: number) => void
}

/** What was written. `files` are those of the data directory, `bytes` the size of the archive. */
export type Backup = { files: string[]; bytes: number } & Counts

export type FromBackupThread = { counts: Partial<Counts> } | { failure: string }

/** What is in a data directory; the precious file first. */
const PARTS = [
  { name: ACCESS_FILE, holds: 'access' },
  { name: PROXY_FILE, holds: 'proxies' },
] as const

/** How often the copies are looked at, in milliseconds. */
const LOOK_EVERY_MS = 100

/** @throws CommandError when there is nothing to save, or FILE exists or cannot be written. */
export async function backUp(order: BackupOrder): Promise<Backup> {
  const { dir, file, nowMs, signal, progress } = order
  const parts = PARTS.filter(({ name }) => existsSync(join(dir, name)))
  if (parts.length === 0) throw new CommandError(`there is nothing to back up in ${dir}`)
  refuseExisting(file)
  const work = workDirectory(file)
  try {
    const copies = parts.map(({ name, holds }) => ({
      holds,
      file: join(dir, name),
      to: join(work, name),
    }))
    const counts = await copyAll(copies, signal, share => progress(share / 2))
    const copiedBytes = copies.reduce((sum, { to }) => sum + sizeOf(to), 0)
    const archive = join(work, 'archive')
    let written = 0
    await writeTar(archive, copies.map(toEntry), toSeconds(nowMs), bytes => {
      signal.throwIfAborted()
      written += bytes
      progress(0.5 + written / copiedBytes / 2)
    })
    const bytes = sizeOf(archive)
    refuseExisting(file)
    renameSync(archive, file)
    syncDirectory(dirname(file))
    const files = parts.map(({ name }) => name)
    return { files, bytes, keys: 0, plans: 0, proxies: 0, ...counts }
  } catch (error) {
    throw isFileError(error) ? new CommandError(`cannot write ${file}: ${error.message}`) : error
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Copies in a thread of its own; `progress` is told the share that is done. */
async function copyAll(
  copies: readonly Copy[],
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<Partial<Counts>> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<Partial<Counts>>()
  const worker = startWorker('sqlite/backup/copy.worker.ts')
  worker.onmessage = ({ data }: MessageEvent<FromBackupThread>) => {
    if ('failure' in data) reject(new CommandError(data.failure))
    else resolve(data.counts)
  }
  worker.onerror = ({ message }) => reject(new Error(message))
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort)
  const total = copies.reduce((sum, { file }) => sum + sizeOf(file) + sizeOf(`${file}-wal`), 1)
  const timer = setInterval(() => {
    progress(Math.min(1, copies.reduce((sum, { to }) => sum + sizeOf(to), 0) / total))
  }, LOOK_EVERY_MS)
  worker.postMessage(copies)
  try {
    return await promise
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', abort)
    worker.terminate()
  }
}

/** The copy under its own name, and owned as the original is. */
function toEntry({ file, to }: Copy) {
  const { uid, gid } = statSync(file)
  return { file: to, name: basename(file), mode: 0o600, uid, gid }
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new CommandError(`${file} exists already; choose another name`)
}

/** A directory beside FILE, on the same disk, that only its owner can read. */
function workDirectory(file: string): string {
  try {
    return mkdtempSync(`${file}.part-`)
  } catch (error) {
    throw new CommandError(`cannot write ${file}: ${messageOf(error)}`)
  }
}

const isFileError = (error: unknown): error is Error =>
  error instanceof Error && 'syscall' in error && !(error instanceof CommandError)

/** The new name is on the disk, too. */
function syncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
