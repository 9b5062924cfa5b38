/**
 * Opening a database file: creating it, its pragmas, and its migration. Knows nothing of the
 * meaning of its tables.
 */
import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import { strayWal, walOf } from './data-directory.ts'
import { freshFile, lockPath, moveDatabase, removeDatabase } from './database-files.ts'
import { emptied, explain, isDamage, isLasting } from './errors.ts'
import { type Holds, migrate, pragma, requireApplicationId, type Schema } from './migrate.ts'

/** How long a command waits for another process's write, in milliseconds. */
const COMMAND_BUSY_MS = 10_000
/** How long the server waits; it answers no request meanwhile, so it soon answers 503 instead. */
const SERVER_BUSY_MS = 250

const CACHE_KIB = 32 * 1024
/** The size to which a write-ahead log shrinks once its content is in the database. */
const WAL_BYTES_MAX = 16 * 1024 * 1024

export type OpenMode = Pick<Schema, 'isTemporary'> & {
  /** The caller serves requests and must not block for long. */
  isServer?: boolean
  /** The file must exist and hold a database of this program: no new one is created. */
  mustExist?: boolean
  /** The caller only reads: as `mustExist`, and an earlier schema is refused instead of migrated. */
  isReader?: boolean
  /** Writes what a new file holds from the beginning. */
  fill?: (db: Database) => void
}

export type OpenOptions = OpenMode &
  Schema & {
    /** How long a server waits for a lock within a statement, in milliseconds. */
    busyMs?: number
    pageBytes?: number
    /** The size at which a commit copies the write-ahead log into the file. */
    walBytes?: number
    /** Pages kept in memory, in KiB; allocated as they are needed. */
    cacheKib?: number
  }

/**
 * Opens `file` (`:memory:` too), creating it and its directory (mode 0700) when missing.
 * @throws CommandError when it cannot be used; `StoreError` when it is damaged or that may be temporary.
 */
export function openDatabase(file: string, options: OpenOptions): Database {
  const { isReader = false, mustExist = isReader } = options
  try {
    if (file !== ':memory:') mustExist ? requireFile(file) : makeFile(file, options)
    return connect(file, options)
  } catch (error) {
    if (error instanceof CommandError || error instanceof StoreError) throw error
    const sentence = explain(file, error)
    if (isLasting(error)) throw new CommandError(sentence)
    throw new StoreError(sentence, { isDamage: isDamage(error), cause: error })
  }
}

function connect(file: string, options: OpenOptions): Database {
  const { isServer, busyMs = SERVER_BUSY_MS } = options
  const db = new Database(file, { create: file === ':memory:', readwrite: true, strict: true })
  try {
    prepareDatabase(db, file, options)
    db.run(`pragma busy_timeout = ${isServer ? busyMs : COMMAND_BUSY_MS}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Opens a file that is there as it is, only to read it: nothing is created, prepared or migrated. */
export const openReading = (file: string): Database => {
  const db = new Database(file, { create: false, readwrite: true, strict: true })
  db.run(`pragma busy_timeout = ${SERVER_BUSY_MS}`)
  return db
}

/**
 * Reads the header as a process does that opens the database now, and through SQLite: to open and close the
 * file in another way would release the locks of this process. @throws StoreError when it is not ours any more.
 */
export function requireHeader(file: string, holds: Holds): void {
  try {
    using db = new Database(file, { create: false, readwrite: true, strict: true })
    requireApplicationId(db, file, holds)
  } catch (error) {
    if (!isDamage(error) && !(error instanceof CommandError)) return // found where it is used
    throw new StoreError(explain(file, error), { isDamage: true, cause: error })
  }
}

function requireFile(file: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new StoreError(`${file} is missing`)
  if (found.size === 0) throw new StoreError(emptied(file), { isDamage: true })
}

/**
 * Creates the file, complete, when there is none: so an empty file is one that lost its content. A server waits
 * for another process that creates it as long as a command does: it answers nobody yet.
 */
function makeFile(file: string, options: OpenOptions): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  if (existsSync(file)) return requireFile(file)
  if (options.holds === 'access' && existsSync(walOf(file))) throw new CommandError(strayWal(file))
  using opened = new DisposableStack()
  const release = lockPath(file, COMMAND_BUSY_MS)
  if (release !== null) opened.defer(release)
  if (existsSync(file)) return
  if (release === null) throw new StoreError(`${file} is being created by another process`)
  const fresh = freshFile(file)
  opened.defer(() => removeDatabase(fresh))
  const db = new Database(fresh, { create: true, strict: true })
  prepareDatabase(db, fresh, options)
  options.fill?.(db)
  db.close(true)
  moveDatabase(fresh, file)
}

function prepareDatabase(db: Database, file: string, options: OpenOptions): void {
  const { pageBytes = 4096, walBytes = WAL_BYTES_MAX, cacheKib = CACHE_KIB } = options
  // First, because the next statements already need locks that another process may hold.
  db.run(`pragma busy_timeout = ${options.mustExist ? SERVER_BUSY_MS : COMMAND_BUSY_MS}`)
  db.run('pragma trusted_schema = off')
  db.run(`pragma cache_size = -${cacheKib}`)
  requireApplicationId(db, file, options.holds)
  db.run(`pragma page_size = ${pageBytes}`)
  db.run('pragma journal_mode = wal')
  db.run(`pragma wal_autocheckpoint = ${walBytes / pageBytes}`)
  // With WAL, NORMAL survives any crash of the process; only a power cut can lose the last commits.
  db.run('pragma synchronous = normal')
  db.run('pragma foreign_keys = on')
  // After a large import the WAL would otherwise keep its size forever.
  db.run(`pragma journal_size_limit = ${WAL_BYTES_MAX}`)
  db.run('pragma cell_size_check = on')
  migrate(db, file, options)
}

/** A file that holds more unused than used bytes is made smaller, if they are at least as many. */
const UNUSED_BYTES_MIN = 16 * 1024 * 1024
/** How long that waits for another process that writes, in milliseconds. */
const SHRINK_BUSY_MS = 250

/** Gives unused space back where that is most of the file, when the WAL is next copied into it; readers go on. */
export function shrink(db: Database): void {
  const unused = pragma(db, 'freelist_count')
  if (unused * pragma(db, 'page_size') < UNUSED_BYTES_MIN) return
  if (unused * 2 < pragma(db, 'page_count')) return
  try {
    db.run(`pragma busy_timeout = ${SHRINK_BUSY_MS}`)
    db.run('vacuum')
  } catch {
    // Another process writes, or the disk is full: the next import that replaces the list tries.
  }
}

/** Undoes a transaction, if SQLite has not yet, as it has on a full disk and of a database that was closed meanwhile. */
export function rollBack(db: Database): void {
  try {
    if (db.inTransaction) db.run('rollback')
  } catch (error) {
    if (messageOf(error) !== 'Database has closed') throw error
  }
}

/** Returns a function whose result changes whenever another connection commits. */
export function dataVersionOf(db: Database): () => number {
  const statement = db.prepare<{ data_version: number }, []>('pragma data_version')
  return () => statement.get()?.data_version ?? 0
}
