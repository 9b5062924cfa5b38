/** Opens database files: creation, pragmas and migration. */
import { Database } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import { sizeOf } from './data-directory.ts'
import { giveToOwner } from './database-files.ts'
import { explain, isDamage, needsOperator } from './errors.ts'
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
    /** Pages kept in memory, in KiB; allocated as they are needed. */
    cacheKib?: number
  }

/**
 * Opens `file` (`:memory:` too), creating it and its directory (mode 0700) when missing.
 * @throws CommandError when an operator must act; `StoreError` for damage, and for failures that may be temporary.
 */
export function openDatabase(file: string, options: OpenOptions): Database {
  const { isReader = false, mustExist = isReader, isServer, busyMs = SERVER_BUSY_MS } = options
  // An empty file counts as missing: another process may be about to fill it.
  const isEmpty = file !== ':memory:' && sizeOf(file) === 0
  if (mustExist && isEmpty) throw new StoreError(`${file} is missing or empty`)
  let db: Database | null = null
  try {
    if (isEmpty) mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    db = new Database(file, { create: !mustExist, readwrite: true, strict: true })
    if (isEmpty) giveToOwner(file)
    prepareDatabase(db, file, options)
    db.run(`pragma busy_timeout = ${isServer ? busyMs : COMMAND_BUSY_MS}`)
    return db
  } catch (error) {
    db?.close()
    if (error instanceof CommandError || error instanceof StoreError) throw error
    const sentence = explain(file, error)
    if (needsOperator(error)) throw new CommandError(sentence)
    throw new StoreError(sentence, { isDamage: isDamage(error), cause: error })
  }
}

/** Opens an existing file without creating, preparing or migrating it: read-write, because WAL needs it. */
export const openAsIs = (file: string): Database => {
  const db = new Database(file, { create: false, readwrite: true, strict: true })
  db.run(`pragma busy_timeout = ${COMMAND_BUSY_MS}`)
  return db
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
