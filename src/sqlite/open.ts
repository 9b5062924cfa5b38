/**
 * Owns opening a database file: pragmas, schema versions, and sentences for what can be wrong
 * with a file. Knows nothing of what the tables mean.
 */
import { Database, SQLiteError } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, messageOf } from '../error.ts'

/** Marks a SQLite file as ours, and as which of ours: `PRXL` and `PRXA`. */
export const APPLICATION_IDS = { proxies: 0x5052584c, access: 0x50525841 } as const

/** How long a command waits for another process's write, in milliseconds. */
const COMMAND_BUSY_MS = 10_000
/** How long the server does; it answers nobody meanwhile, so it rather says 503. */
const SERVER_BUSY_MS = 250

const CACHE_KIB = 32 * 1024
/** What a write-ahead log shrinks to once its content is in the database. */
const LOG_BYTES_MAX = 16 * 1024 * 1024

export type OpenOptions = {
  holds: keyof typeof APPLICATION_IDS
  /** The scripts that bring an empty file to the newest schema; version n is after script n. */
  schema: readonly string[]
  /** Page size of a new file. */
  pageBytes?: number
  /** Pages kept in memory, in KiB; taken as they are needed. */
  cacheKib?: number
  /** Whether the caller serves requests and must not block for long. */
  serving?: boolean
}

/**
 * Opens `file` (`:memory:` too), creating it and its directory (mode 0700) when missing.
 * @throws CommandError naming the file when it cannot be used.
 */
export function openDatabase(file: string, options: OpenOptions): Database {
  const { serving = false } = options
  try {
    if (file !== ':memory:') mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const db = new Database(file, { create: true, strict: true })
    try {
      prepareDatabase(db, file, options)
      db.run(`pragma busy_timeout = ${serving ? SERVER_BUSY_MS : COMMAND_BUSY_MS}`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(explain(file, error))
  }
}

function prepareDatabase(db: Database, file: string, options: OpenOptions): void {
  const { schema, holds, pageBytes = 4096, cacheKib = CACHE_KIB } = options
  const applicationId = APPLICATION_IDS[holds]
  // Waiting comes first: the next statements already need locks another process may hold.
  db.run(`pragma busy_timeout = ${COMMAND_BUSY_MS}`)
  db.run(`pragma cache_size = -${cacheKib}`)
  refuseForeign(db, file, applicationId)
  db.run(`pragma page_size = ${pageBytes}`)
  db.run('pragma journal_mode = wal')
  db.run(`pragma wal_autocheckpoint = ${LOG_BYTES_MAX / pageBytes}`)
  // With WAL, NORMAL survives any crash of the process; only a power cut can lose the last commits.
  db.run('pragma synchronous = normal')
  db.run('pragma foreign_keys = on')
  // After a large import the log would keep its size for good.
  db.run(`pragma journal_size_limit = ${LOG_BYTES_MAX}`)
  db.run('pragma trusted_schema = off')
  migrate(db, file, schema, applicationId)
}

function refuseForeign(db: Database, file: string, applicationId: number): void {
  const id = pragma(db, 'application_id')
  const tables = db.query<{ n: number }, []>('select count(*) as n from sqlite_schema').get()?.n
  if (id === applicationId || (id === 0 && tables === 0)) return
  const isOther = Object.values<number>(APPLICATION_IDS).includes(id)
  throw new CommandError(
    isOther
      ? `${file} is another database of proxylist under this name`
      : `${file} is a database of another program`,
  )
}

function migrate(
  db: Database,
  file: string,
  schema: readonly string[],
  applicationId: number,
): void {
  if (pragma(db, 'user_version') === schema.length) return
  db.transaction(() => {
    const version = pragma(db, 'user_version') // again: another process may have been first
    if (version > schema.length) {
      throw new CommandError(
        `${file} was written by a newer proxylist ` +
          `(schema ${version}, this one knows ${schema.length}); use that version`,
      )
    }
    for (const script of schema.slice(version)) db.run(script)
    db.run(`pragma application_id = ${applicationId}`)
    db.run(`pragma user_version = ${schema.length}`)
  }).immediate()
}

const pragma = (db: Database, name: string): number =>
  Number(Object.values(db.prepare<{ [name: string]: number }, []>(`pragma ${name}`).get() ?? {})[0])

const EXPLANATIONS: { [code: string]: string } = {
  SQLITE_NOTADB: 'is not a database',
  SQLITE_CORRUPT: 'is damaged: restore a backup (a list can also be removed and imported again)',
  SQLITE_CANTOPEN: 'cannot be opened or created (is the directory writable?)',
  SQLITE_READONLY: 'cannot be written (read-only file or directory)',
  SQLITE_PERM: 'cannot be opened (permission denied)',
  SQLITE_BUSY: 'is locked by another process',
  SQLITE_FULL: 'cannot be written (the disk is full)',
  SQLITE_IOERR: 'cannot be read or written (input/output error)',
}

/** What went wrong with a database file, as a sentence that begins with its name. */
export function explain(file: string, error: unknown): string {
  if (error instanceof SQLiteError) {
    const code = Object.keys(EXPLANATIONS).find(name => error.code?.startsWith(name))
    return `${file} ${code ? EXPLANATIONS[code] : `cannot be used (${error.code})`}`
  }
  return `cannot use the data directory ${dirname(file)}: ${messageOf(error)}`
}

/** A function that gives a number which changes whenever another connection commits. */
export function dataVersionOf(db: Database): () => number {
  const statement = db.prepare<{ data_version: number }, []>('pragma data_version')
  return () => statement.get()?.data_version ?? 0
}

/** The version of the SQLite inside. */
export function sqliteVersion(): string {
  const db = new Database(':memory:')
  const version = db.query<{ v: string }, []>('select sqlite_version() as v').get()?.v ?? ''
  db.close()
  return version
}
