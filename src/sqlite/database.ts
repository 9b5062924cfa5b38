/** Opens database files: creation, pragmas and migration. */
import { Database } from 'bun:sqlite'
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, codeOf, messageOf, StoreError } from '../lib/errors.ts'
import { sizeOf } from './data-directory.ts'
import { giveToOwner, removeDatabase } from './database-files.ts'
import { damagedBy, explain, isDamage, needsOperator } from './errors.ts'
import { migrate, requireApplicationId, type Schema } from './migrate.ts'

const COMMAND_BUSY_MS = 10_000
/** How long a statement of a server waits for a lock. Requests wait meanwhile, so the server soon answers 503. */
const SERVER_BUSY_MS = 250

const CACHE_KIB = 32 * 1024
/** The size at which a checkpoint starts, and to which the write-ahead log is truncated afterwards. */
const WAL_BYTES_MAX = 16 * 1024 * 1024

export type OpenMode = Pick<Schema, 'isTemporary' | 'isReader' | 'fill'> & {
  /** The caller serves requests and must not block for long. */
  isServer?: boolean
  /** The file must exist and hold a database of this program: no new one is created. */
  mustExist?: boolean
}

export type OpenOptions = OpenMode &
  Schema & {
    /** How long a server waits for a lock within a statement, in milliseconds. */
    busyMs?: number
    pageBytes?: number
    /** The size of the write-ahead log at which a commit starts a checkpoint. */
    walBytes?: number
    /** Pages kept in memory, in KiB; allocated when needed. */
    cacheKib?: number
  }

/**
 * Opens `file` (`:memory:` too), creating it and its directory (mode 0700) when missing.
 * @throws CommandError when an operator must act; `StoreError` for damage, and for failures that may be temporary.
 */
export function openDatabase(file: string, options: OpenOptions): Database {
  const { isReader = false, mustExist = isReader } = options
  let isNew = false
  try {
    if (mustExist) requireFile(file)
    else if (file !== ':memory:') isNew = createFile(file, options)
    return connect(file, options)
  } catch (error) {
    if (error instanceof CommandError || error instanceof StoreError) throw error
    const sentence = explain(file, error)
    if (isNew) removeDatabase(file) // the disk is full
    if (needsOperator(error)) throw new CommandError(sentence)
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

/** Opens an existing file without creating, preparing or migrating it: read-write, because WAL needs it. */
export const openAsIs = (file: string): Database => {
  const db = new Database(file, { create: false, readwrite: true, strict: true })
  db.run(`pragma busy_timeout = ${COMMAND_BUSY_MS}`)
  return db
}

function requireFile(file: string): void {
  if (!existsSync(file)) throw new StoreError(`${file} is missing`)
  refuseEmpty(file)
}

/** How long a file may be empty because another process is creating it, in milliseconds. */
const CREATE_MS = 250

/** @throws StoreError for a file that stays empty: it has lost its content. */
function refuseEmpty(file: string): void {
  for (let waitedMs = 0; sizeOf(file) === 0; waitedMs += 10) {
    if (waitedMs >= CREATE_MS) throw damagedBy(file, 'it is empty')
    Bun.sleepSync(10)
  }
}

/** Creates an empty file, which `migrate` makes a database in one transaction. Returns false when there is a file. */
function createFile(file: string, { kind }: OpenOptions): boolean {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
    if (kind === 'access') refuseEmpty(file) // else all keys would be unknown
    return false
  }
  giveToOwner(file)
  return true
}

function prepareDatabase(db: Database, file: string, options: OpenOptions): void {
  const { pageBytes = 4096, walBytes = WAL_BYTES_MAX, cacheKib = CACHE_KIB } = options
  // First, because the next statements already need locks that another process may hold.
  db.run(`pragma busy_timeout = ${options.mustExist ? SERVER_BUSY_MS : COMMAND_BUSY_MS}`)
  db.run('pragma trusted_schema = off')
  db.run(`pragma cache_size = -${cacheKib}`)
  requireApplicationId(db, file, options.kind)
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

/**
 * SQLite's first finding about an open database; `null` when it is intact. Only `integrity_check` compares rows with
 * indexes, which finds most flipped bits.
 */
export function findDamage(
  db: Database,
  check: 'quick_check' | 'integrity_check' = 'integrity_check',
): string | null {
  try {
    const [[found] = []] = db.prepare(`pragma ${check}(1)`).values()
    if (found === 'ok') return null
    return String(found)
      .replace(/^\*\*\* in database \w+ \*\*\*\s*/, '')
      .replaceAll('\n', ' ')
  } catch (error) {
    if (isDamage(error)) return messageOf(error)
    throw error
  }
}

/** Runs work in a transaction that takes the write lock first. After a read, SQLite may refuse the lock at once. */
export const writeTransaction = <T>(db: Database, work: () => T): T =>
  db.transaction(work).immediate()

/** Rolls back the open transaction. Does nothing if SQLite has done so (a full disk), or the database is closed. */
export function rollBack(db: Database): void {
  try {
    if (db.inTransaction) db.run('rollback')
  } catch (error) {
    if (messageOf(error) !== 'Database has closed') throw error
  }
}

export function* pagesOf<R>(rows: Iterable<R>, size: number): Generator<R[]> {
  let page: R[] = []
  for (const row of rows) {
    if (page.push(row) < size) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

/** Returns a function whose result changes whenever another connection commits. */
export function dataVersionOf(db: Database): () => number {
  const statement = db.prepare<{ data_version: number }, []>('pragma data_version')
  return () => statement.get()?.data_version ?? 0
}
