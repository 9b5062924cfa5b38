/**
 * Restoring a backup into a data directory. The archive is unpacked into a folder beside the data, and its databases
 * are checked. The data that is there is copied aside. Then the list is renamed into its place, and `access.db` last:
 * a restore that is killed can be run again.
 */
import { Database } from 'bun:sqlite'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { FEEDS_NAME } from '../feeds/feeds-file.ts'
import { CommandError, chunksUntilAborted, nextTurn, systemReasonOf } from '../lib/errors.ts'
import { formatInstant } from '../lib/time.ts'
import { openAccessFile } from './access/file.ts'
import { createUsageStore } from './access/usage.ts'
import { ArchiveError, extractArchive } from './archive.ts'
import { type Counts, countIn, sync } from './backup.ts'
import {
  ACCESS_FILE,
  DATA_FILES,
  FEEDS_FILE,
  hasDirectory,
  PROXY_FILE,
  walOf,
} from './data-directory.ts'
import { findDamage } from './database.ts'
import { giveToOwner, installDatabase, removeDatabase } from './database-files.ts'
import { isBusy, isDamage, toCommandError } from './errors.ts'
import { openListFile } from './proxies/store.ts'

const withWal = (name: string): string[] => [name, walOf(name)]
const FILES = [ACCESS_FILE, PROXY_FILE].flatMap(withWal)
/** States of feeds would say that the restored list is up to date. */
const REPLACED_FILES = [...FILES, ...withWal(FEEDS_FILE)]
const ARCHIVED = [...DATA_FILES.map(({ name }) => name), FEEDS_NAME]

export type ArchiveSource = {
  /** The name of the archive for messages, and its content. */
  file: string
  bytes: AsyncIterable<Uint8Array>
  /** Ends the restore early; nothing is changed. */
  signal: AbortSignal
  progress: (bytes: number) => void
}

type RestoreOptions = ArchiveSource & {
  dir: string
  /** Whether to replace data that is there, and keep it in a folder of the data directory. */
  force: boolean
  nowMs: number
}

export type Contents = { files: string[] } & Counts
/** The restored content, and the folder with the earlier data; `null` when there was none. */
export type Restored = Contents & { previous: string | null }

/**
 * Restores an archive of `backUp`.
 * @throws CommandError when the archive is damaged, or the data directory is in use, cannot be written, or holds
 *   data and `force` is not set. Nothing is changed then.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { dir, file, force, nowMs } = options
  const isNew = !hasDirectory(dir)
  const scratch = join(dir, 'restore.part')
  try {
    if (isNew) mkdirSync(dir, { recursive: true, mode: 0o700 })
    requireFree(dir, force)
    rmSync(scratch, { recursive: true, force: true }) // a killed restore left it
    mkdirSync(scratch, { mode: 0o700 })
    const contents = await unpack(scratch, options)
    requireFree(dir, force)
    const hasFeeds = contents.files.includes(FEEDS_NAME)
    const replaced = hasFeeds ? [...REPLACED_FILES, FEEDS_NAME] : REPLACED_FILES
    const previous = keepPrevious(dir, replaced, nowMs)
    removeDatabase(join(dir, FEEDS_FILE))
    for (const name of [PROXY_FILE, ACCESS_FILE]) {
      installDatabase(join(scratch, name), join(dir, name))
    }
    if (hasFeeds) {
      giveToOwner(join(scratch, FEEDS_NAME))
      renameSync(join(scratch, FEEDS_NAME), join(dir, FEEDS_NAME))
    }
    sync(dir)
    return { ...contents, previous }
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null
      ? error
      : new CommandError(`cannot restore ${file} into ${dir}: ${reason}`)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
    if (isNew && existsSync(dir) && readdirSync(dir).length === 0) rmdirSync(dir)
  }
}

/** @throws CommandError when the data is in use, or must not be replaced. */
function requireFree(dir: string, force: boolean): void {
  const found = FILES.filter(name => existsSync(join(dir, name)))
  if (found.length > 0 && !force) {
    throw new CommandError(
      `${dir} holds data already (${found.join(', ')}); --force replaces it and keeps it aside`,
    )
  }
  for (const { name } of DATA_FILES) requireUnused(join(dir, name))
}

const BUSY_MS = 1_000

/**
 * SQLite grants an exclusive lock only when no other connection is open. Closing the database also copies its WAL
 * into it. @throws CommandError when a server or command has it open.
 */
function requireUnused(file: string): void {
  if (!existsSync(file)) return
  try {
    using db = new Database(file, { create: false, readwrite: true, strict: true })
    db.run(`pragma busy_timeout = ${BUSY_MS}`)
    db.run('pragma locking_mode = exclusive')
    db.run('begin exclusive')
    db.run('rollback')
  } catch (error) {
    if (!isBusy(error)) return // it is damaged, so no server uses it
    throw new CommandError(
      `${file} is in use; stop server and checker, or wait for the command that uses it`,
    )
  }
}

/** Copies the files that are there into a new folder; returns the folder, `null` when there is no data. */
function keepPrevious(dir: string, names: readonly string[], nowMs: number): string | null {
  const found = names.filter(name => existsSync(join(dir, name)))
  if (found.length === 0) return null
  const time = formatInstant(nowMs).replace(/[-:]|\.\d+/g, '')
  const previous = mkdtempSync(join(dir, `before-restore-${time}-`))
  giveToOwner(previous)
  for (const name of found) {
    copyFileSync(join(dir, name), join(previous, name))
    giveToOwner(join(previous, name))
    sync(join(previous, name))
  }
  sync(previous)
  return previous
}

// -----------------------------------------------------------------------------------------------
// The archive

const OPEN = { access: openAccessFile, proxies: openListFile } as const

function checkDatabase(scratch: string, { name, kind }: (typeof DATA_FILES)[number]): void {
  const file = join(scratch, name)
  try {
    using db = OPEN[kind](file, { mustExist: true, isTemporary: true })
    if (kind === 'access') createUsageStore(db).usagesOf([]) // throws when the log cannot be read
    if (findDamage(db) === null) return
  } catch (error) {
    if (!isDamage(error)) throw toCommandError(file, error)
  }
  throw new ArchiveError(`is damaged: ${name}`)
}

const pathIn = (scratch: string, name: string): string | null =>
  ARCHIVED.includes(name) ? join(scratch, name) : null

/** Unpacks an archive into a folder, and migrates and checks its databases. @throws CommandError */
export async function unpack(
  scratch: string,
  { file, bytes, signal, progress }: ArchiveSource,
): Promise<Contents> {
  let readBytes = 0
  try {
    const chunks = chunksUntilAborted(bytes, signal)
    const files = await extractArchive(
      chunks,
      name => pathIn(scratch, name),
      count => {
        signal.throwIfAborted()
        readBytes += count
        progress(readBytes)
      },
    )
    const missing = DATA_FILES.find(({ name }) => !files.includes(name))
    if (missing) throw new ArchiveError(`is not a whole backup: ${missing.name} is missing`)
    for (const part of DATA_FILES) {
      await nextTurn(signal) // a signal is noticed between two databases
      checkDatabase(scratch, part)
    }
    return { files, ...countIn(scratch) }
  } catch (error) {
    if (error instanceof ArchiveError) throw new CommandError(`${file} ${error.message}`)
    if (!(error instanceof CommandError)) throw error
    // The temporary path says nothing to the operator.
    throw new CommandError(error.message.replaceAll(`${scratch}/`, `${file}: `), error.exitCode)
  }
}
