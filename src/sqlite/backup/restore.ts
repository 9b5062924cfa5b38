/**
 * Owns restoring a backup into a data directory, all or nothing. The archive is extracted next to
 * the data and verified there; one rename then decides that the restore is done, and what is left to
 * move is moved by this process or, if it is killed, by the next command (`completeRestore`).
 */
import { Database } from 'bun:sqlite'
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../lib/clock.ts'
import { CommandError, chunksUntilAborted, codeOf, systemReasonOf } from '../../lib/errors.ts'
import { formatInstant } from '../../lib/time.ts'
import { openAccessFile } from '../access/store.ts'
import { hasDirectory } from '../data-directory.ts'
import { giveToOwner, removeFolder, removeLeftovers, WAL_ENDS } from '../database-files.ts'
import { explain, isBusy, isStoreFailure, withoutRemedy } from '../errors.ts'
import { FEEDS_FILE } from '../feeds/store.ts'
import { checkRegistry } from '../integrity/check.ts'
import { checkInWorker } from '../integrity/check-in-worker.ts'
import type { ServerHolds } from '../migrate.ts'
import { openListFile } from '../proxies/store.ts'
import { PARTS, syncDirectory } from './backup.ts'
import { type Counts, countRows } from './counts.ts'
import { ArchiveError, extractTar } from './untar.ts'

export type RestoreOptions = {
  /** The data directory; created when it is missing. */
  dir: string
  /** The archive: its name, for sentences, and its content. */
  file: string
  bytes: AsyncIterable<Uint8Array>
  /** Whether data that is there may be replaced. It is kept in a folder of the data directory. */
  force: boolean
  nowMs: number
  /** Ends the restore early; the data directory stays as it was. */
  signal: AbortSignal
  /** Called with the number of bytes that have been read. */
  progress: (bytes: number) => void
}

/** What was restored, and the folder with the data from before; `null` when there was none. */
export type Restored = { files: string[]; previous: string | null } & Counts

const DATA_FILES = PARTS.map(({ name }) => name)
const withWal = (name: string): string[] => ['', ...WAL_ENDS].map(end => name + end)
/** Every file of the data. */
const ALL_FILES = DATA_FILES.flatMap(withWal)
/** What is said of a list beside it: the states of feeds would say that a restored one is up to date. */
const REPLACED_FILES = [...ALL_FILES, ...withWal(FEEDS_FILE)]

/** How long to wait for a command that has the data open, in milliseconds. */
const BUSY_MS = 1_000

/** Where an archive is extracted and verified; the id of the process follows. */
export const RESTORE_PART = 'restore.part-'
/** The same folder once the restore is decided: what is in it is to be moved into place. */
const READY = 'restore.ready'
/** An empty file in it with this end stands for a file that is to be removed. */
const REMOVED = '.removed'
/** The folder of earlier data; the time follows. */
const BEFORE = 'before-restore-'

/**
 * Moves what a restore has made ready into place. Whether one process does it or several at once, and
 * wherever they are killed, the result is the same.
 */
export function completeRestore(dir: string): void {
  const ready = join(dir, READY)
  if (!existsSync(ready)) return
  try {
    const names = readdirSync(ready)
    for (const name of names.filter(found => found.endsWith(REMOVED))) {
      rmSync(join(dir, name.slice(0, -REMOVED.length)), { force: true })
    }
    for (const name of names.filter(found => !found.endsWith(REMOVED))) {
      unlessMissing(() => renameSync(join(ready, name), join(dir, name)))
    }
    rmSync(ready, { recursive: true, force: true })
    syncDirectory(dir)
  } catch (error) {
    const reason = systemReasonOf(error)
    if (reason === null) throw error
    throw new CommandError(`cannot complete the restore that was begun in ${dir}: ${reason}`)
  }
}

/** Another process may have moved a file meanwhile. */
function unlessMissing(move: () => void): void {
  try {
    move()
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
}

/**
 * Restores an archive of `backUp`. Data that is there is replaced as a whole, also by an archive that
 * holds only one of the databases.
 * @throws CommandError when the archive is not a whole and intact backup, the data directory is in
 *   use, holds data and `force` is not set, or cannot be written. Nothing is changed then.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { dir, file, force, nowMs } = options
  const isNew = !hasDirectory(dir)
  let scratch: string | null = null
  try {
    if (isNew) mkdirSync(dir, { recursive: true, mode: 0o700 })
    if (!force) refuseExisting(dir)
    requireUnused(dir)
    removeLeftovers(dir, RESTORE_PART)
    scratch = createFolder(join(dir, `${RESTORE_PART}${process.pid}`))
    const { files, counts } = await extractAndVerify(scratch, options)
    requireUnused(dir)
    if (!force) refuseExisting(dir)
    const previous = decide(dir, scratch, files, nowMs)
    completeRestore(dir)
    return { files, previous, ...{ keys: 0, plans: 0, proxies: 0 }, ...counts }
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null
      ? error
      : new CommandError(`cannot restore ${file} into ${dir}: ${reason}`)
  } finally {
    if (scratch !== null) removeFolder(scratch)
    if (isNew) removeIfEmpty(dir)
  }
}

function removeIfEmpty(dir: string): void {
  try {
    rmdirSync(dir)
  } catch {
    // It holds what was restored.
  }
}

function refuseExisting(dir: string): void {
  const found = ALL_FILES.filter(name => existsSync(join(dir, name)))
  if (found.length === 0) return
  throw new CommandError(
    `${dir} holds data already (${found.join(', ')}); --force replaces it and keeps it aside`,
  )
}

/**
 * SQLite holds a shared lock on a database in WAL mode for as long as it is open: an exclusive one
 * can only be had when nobody else has it open. Closing it also empties its WAL into it.
 * @throws CommandError when a server or command has a database in `dir` open.
 */
function requireUnused(dir: string): void {
  for (const file of DATA_FILES.map(name => join(dir, name)).filter(existsSync)) {
    let db: Database | null = null
    try {
      db = new Database(file, { create: false, readwrite: true, strict: true })
      db.run(`pragma busy_timeout = ${BUSY_MS}`)
      db.run('pragma locking_mode = exclusive')
      db.run('begin exclusive')
      db.run('rollback')
    } catch (error) {
      if (!isBusy(error)) continue // damaged: then nobody uses it either
      throw new CommandError(
        `${file} is in use; stop the server, or wait for the command that uses it`,
      )
    } finally {
      db?.close()
    }
  }
}

/** Extracts the archive into `scratch`; what is there afterwards are its databases, verified. */
async function extractAndVerify(
  scratch: string,
  { file, bytes, signal, progress }: RestoreOptions,
): Promise<{ files: string[]; counts: Partial<Counts> }> {
  let readBytes = 0
  const placeOf = (name: string) =>
    PARTS.some(part => part.name === name) ? join(scratch, name) : null
  try {
    const names = await extractTar(chunksUntilAborted(bytes, signal), placeOf, count => {
      signal.throwIfAborted()
      readBytes += count
      progress(readBytes)
    })
    if (names.length === 0) throw new ArchiveError('is empty')
    const counts: Partial<Counts> = {}
    for (const { name, holds } of PARTS.filter(part => names.includes(part.name))) {
      Object.assign(counts, await verify(join(scratch, name), holds, signal))
    }
    for (const name of readdirSync(scratch)) {
      if (names.includes(name)) giveToOwner(join(scratch, name))
      else rmSync(join(scratch, name)) // what a migration has left
    }
    return { files: names, counts }
  } catch (error) {
    if (error instanceof ArchiveError) throw new CommandError(`${file} ${error.message}`)
    if (!(error instanceof CommandError)) throw error
    // The path of an extracted file says nothing to the operator, nor how to mend it.
    const message = error.message.replaceAll(`${scratch}/`, `${file}: `)
    throw new CommandError(withoutRemedy(message), error.exitCode)
  }
}

const MUST_EXIST = { mustExist: true } as const

/** How each database is opened; one of an earlier schema is migrated. */
const OPEN: { readonly [holds in ServerHolds]: (file: string) => Database } = {
  access: file => openAccessFile(file, MUST_EXIST),
  proxies: file => openListFile(file, systemClock, MUST_EXIST),
}

/** Brings an extracted database to the newest schema and checks it; returns its rows. */
async function verify(
  file: string,
  holds: ServerHolds,
  signal: AbortSignal,
): Promise<Partial<Counts>> {
  try {
    // A list that is intact gets its file stamp: a server then serves it at once.
    const ofList = holds === 'proxies' ? await checkInWorker(file, signal) : []
    const db = OPEN[holds](file)
    try {
      const problems = holds === 'access' ? checkRegistry(db) : ofList
      if (problems.length > 0) throw new CommandError(`${file} is damaged`)
      return countRows(db, holds)
    } finally {
      db.close(true)
    }
  } catch (error) {
    throw isStoreFailure(error) ? new CommandError(explain(file, error)) : error
  }
}

/**
 * Decides the restore: from here on the data is that of the archive, even if the process is killed.
 * Returns the folder that keeps the earlier data.
 */
function decide(dir: string, scratch: string, files: readonly string[], nowMs: number) {
  for (const name of REPLACED_FILES.filter(known => !files.some(file => file === known))) {
    writeFileSync(join(scratch, name + REMOVED), '')
  }
  syncDirectory(scratch)
  const previous = keepPrevious(dir, nowMs)
  try {
    renameSync(scratch, join(dir, READY))
  } catch (error) {
    if (previous !== null) removeFolder(previous)
    throw error
  }
  syncDirectory(dir)
  return previous
}

/** Links the data that is there into a new folder; returns it, `null` when there is no data. */
function keepPrevious(dir: string, nowMs: number): string | null {
  const found = REPLACED_FILES.filter(name => existsSync(join(dir, name)) && !name.endsWith('-shm'))
  if (found.length === 0) return null
  const previous = createFolder(join(dir, BEFORE + formatInstant(nowMs).replace(/[-:]|\.\d+/g, '')))
  for (const name of found) {
    const file = realpathSync(join(dir, name))
    try {
      linkSync(file, join(previous, name))
    } catch {
      copyFileSync(file, join(previous, name)) // on another file system, or on one without links
    }
  }
  syncDirectory(previous)
  return previous
}

/** Creates a folder, under the first of the names `path`, `path-2`, … that is free. */
function createFolder(path: string): string {
  for (let n = 1; ; n += 1) {
    const name = n === 1 ? path : `${path}-${n}`
    if (existsSync(name)) continue
    mkdirSync(name, { mode: 0o700 })
    giveToOwner(name)
    return name
  }
}
