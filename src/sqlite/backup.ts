/**
 * Backups: `access.db` and `proxies.db`, each as of one moment, and the feeds file, in one tar archive. `feeds.db` is
 * left out, because with another list its feeds would be skipped as unchanged; `checks.db`, because it may be large.
 *
 * A backup copies each database with `vacuum into` a temporary folder, while others read and write it. Then it packs
 * the copies into a file in that folder, and renames the file into its place.
 */
import {
  chmodSync,
  closeSync,
  copyFileSync,
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
import { FEEDS_NAME } from '../feeds/feeds-file.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, nextTurn, systemReasonOf } from '../lib/errors.ts'
import { type WriteChunk, writeArchive } from './archive.ts'
import { ACCESS_FILE, DATA_FILES, PROXY_FILE, requireData, sizeOf } from './data-directory.ts'
import { findDamage, openAsIs } from './database.ts'
import { damagedBy, toCommandError } from './errors.ts'
import { requireApplicationId, type ServerKind } from './migrate.ts'
import { countRows } from './proxies/store.ts'

export type Counts = { keys: number; plans: number; proxies: number }

export function countIn(dir: string): Counts {
  using access = openAsIs(join(dir, ACCESS_FILE))
  using list = openAsIs(join(dir, PROXY_FILE))
  return {
    keys: countRows(access, 'keys'),
    plans: countRows(access, 'plans'),
    proxies: countRows(list),
  }
}

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

export type Backup = { files: string[]; bytes: number } & Counts

/** Copies a database as of one moment, while others use it. @throws CommandError when it is damaged. */
export function copyDatabase(file: string, to: string, kind: ServerKind): void {
  try {
    using db = openAsIs(file)
    requireApplicationId(db, file, kind)
    const damage = findDamage(db)
    if (damage !== null) throw damagedBy(file, damage)
  } catch (error) {
    throw toCommandError(file, error)
  }
  try {
    using db = openAsIs(file)
    db.run('vacuum into ?', [to])
    chmodSync(to, 0o600)
  } catch (error) {
    throw toCommandError(to, error)
  }
}

export function copyFeedsFile(dir: string, to: string): void {
  const file = join(dir, FEEDS_NAME)
  if (existsSync(file)) copyFileSync(file, join(to, FEEDS_NAME))
}

/** Backs up a data directory while others read and write it. @throws CommandError */
export async function backUp({
  dir,
  ...options
}: BackupOptions & { dir: string }): Promise<Backup> {
  for (const { name } of DATA_FILES) requireData(dir, name)
  return writeBackup(async scratch => {
    for (const [at, { name, kind }] of DATA_FILES.entries()) {
      await nextTurn(options.signal) // a signal is noticed between two databases
      copyDatabase(join(dir, name), join(scratch, name), kind)
      options.progress((at + 1) / DATA_FILES.length / 2)
    }
    copyFeedsFile(dir, scratch)
  }, options)
}

/** Writes an archive of the files that `fill` makes in a temporary folder. @throws CommandError */
export async function writeBackup(
  fill: (scratch: string) => Awaitable<void>,
  options: BackupOptions,
): Promise<Backup> {
  const { to } = options
  if (to.kind === 'stream') {
    return inScratch(join(tmpdir(), 'proxylist-backup'), async scratch => {
      await fill(scratch)
      return pack(scratch, to.write, options)
    })
  }
  const { file } = to
  refuseExisting(file)
  try {
    return await inScratch(file, async scratch => {
      await fill(scratch)
      const path = join(scratch, 'archive')
      const out = await open(path, 'wx', 0o600)
      try {
        const written = await pack(scratch, out.writeFile.bind(out), options)
        await out.sync()
        refuseExisting(file)
        renameSync(path, file)
        sync(dirname(file))
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

/** Packs the files in `scratch`; they are half of the progress. */
async function pack(
  scratch: string,
  write: WriteChunk,
  { nowMs, signal, progress }: BackupOptions,
): Promise<Backup> {
  const files = [...DATA_FILES.map(({ name }) => name), FEEDS_NAME]
    .map(name => ({ file: join(scratch, name), name }))
    .filter(({ file }) => existsSync(file))
  const total = files.reduce((sum, { file }) => sum + sizeOf(file), 0)
  let written = 0
  const bytes = await writeArchive(write, files, nowMs, chunkBytes => {
    signal.throwIfAborted()
    written += chunkBytes
    progress(0.5 + Math.min(1, written / total) / 2)
  })
  return { files: files.map(({ name }) => name), bytes, ...countIn(scratch) }
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new CommandError(`${file} exists already; choose another name`)
}

/** Flushes a file, or the names in a directory, to the disk. */
export function sync(path: string): void {
  const fd = openSync(path, 'r')
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
