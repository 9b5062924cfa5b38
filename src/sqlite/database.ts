/**
 * Owns opening a database file: pragmas, schema versions, and sentences for what can be wrong
 * with a file. Knows nothing of what the tables mean.
 */
import { Database, SQLiteError } from 'bun:sqlite'
import {
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CommandError, isDatabaseFailure, messageOf, Unavailable } from '../api/errors.ts'

/** Marks a SQLite file as ours, and as which of ours: `PRXL` and `PRXA`. */
export const APPLICATION_IDS = { proxies: 0x5052584c, access: 0x50525841 } as const

/** How long a command waits for another process's write, in milliseconds. */
const COMMAND_BUSY_MS = 10_000
/** How long the server does; it answers nobody meanwhile, so it rather says 503. */
const SERVER_BUSY_MS = 250

const CACHE_KIB = 32 * 1024
/** What a write-ahead log shrinks to once its content is in the database. */
const LOG_BYTES_MAX = 16 * 1024 * 1024

/** What SQLite keeps beside a file in WAL mode. */
const LOG_ENDS = ['-wal', '-shm'] as const

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
  /** Whether the file must be there and be ours: a server that goes on makes no new one. */
  again?: boolean
  /** What else to do with a new file. */
  made?: (db: Database, file: string) => void
}

/**
 * Opens `file` (`:memory:` too), creating it and its directory (mode 0700) when missing.
 * @throws CommandError naming the file when it cannot be used; `Unavailable` when it is damaged
 *   or the fault may pass.
 */
export function openDatabase(file: string, options: OpenOptions): Database {
  const { serving = false, again = false } = options
  try {
    if (file !== ':memory:') again ? requireFile(file) : makeFile(file, options)
    const db = new Database(file, { create: !again, readwrite: true, strict: true })
    try {
      prepareDatabase(db, file, options)
      db.run(`pragma busy_timeout = ${serving ? SERVER_BUSY_MS : COMMAND_BUSY_MS}`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    if (error instanceof CommandError || error instanceof Unavailable) throw error
    const sentence = explain(file, error)
    const isLasting = !isDatabaseFailure(error) || LASTING.test(codeOf(error))
    throw isLasting ? new CommandError(sentence) : new Unavailable(sentence, isDamage(error))
  }
}

function requireFile(file: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new Unavailable(`${file} is gone`)
  if (found.size === 0) throw new Unavailable(`${file} is damaged: it is empty`, true)
}

/**
 * Makes the file, complete, when there is none: a file without a byte has lost its content.
 * Where that cannot be done, SQLite makes it when it is opened.
 */
function makeFile(file: string, options: OpenOptions): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  if (existsSync(file)) return requireFile(file)
  if (existsSync(`${file}-wal`)) {
    if (options.holds === 'proxies') return // SQLite knows that a log without a file is of no use
    throw new CommandError(`${file} is gone and its log is there: move a backup into its place`)
  }
  const fresh = freshFile(file)
  try {
    const db = new Database(fresh, { create: true, strict: true })
    prepareDatabase(db, fresh, options)
    options.made?.(db, fresh)
    db.close(true)
    giveTo(ownerOf(file), fresh)
    linkSync(fresh, file) // fails when another process was first
  } catch {
  } finally {
    removeDatabase(fresh)
  }
}

/** Puts a closed database in the place of another, of which nothing is left. */
export function moveDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  for (const end of LOG_ENDS) rmSync(to + end, { force: true })
  renameSync(from, to)
}

/** Who owns a file, or its directory when there is none. */
const ownerOf = (file: string): Stats => statSync(existsSync(file) ? file : dirname(file))

/** What root makes for a service belongs to the user of the service. */
function giveTo({ uid, gid }: Stats, file: string): void {
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

/** Removes what commands that were killed have left while they made `file`. */
function removeLeftovers(file: string): void {
  const start = `${basename(file)}.new-`
  const left = readdirSync(dirname(file)).filter(name => name.startsWith(start))
  for (const name of left) {
    const pid = Number.parseInt(name.slice(start.length), 10)
    if (!isAlive(pid)) rmSync(join(dirname(file), name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** Where the next state of a database is made, aside from it. */
export function freshFile(file: string): string {
  removeLeftovers(file)
  return `${file}.new-${process.pid}`
}

/** Removes a database with its log. */
export function removeDatabase(file: string): void {
  for (const end of ['', ...LOG_ENDS]) rmSync(file + end, { force: true })
}

function prepareDatabase(db: Database, file: string, options: OpenOptions): void {
  const { schema, holds, pageBytes = 4096, cacheKib = CACHE_KIB, again = false } = options
  const applicationId = APPLICATION_IDS[holds]
  // Waiting comes first: the next statements already need locks another process may hold.
  db.run(`pragma busy_timeout = ${again ? SERVER_BUSY_MS : COMMAND_BUSY_MS}`)
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
  SQLITE_CORRUPT: 'is damaged: restore a backup (a list can also be imported anew, with --replace)',
  SQLITE_CANTOPEN: 'cannot be opened or created (is the directory writable?)',
  SQLITE_READONLY: 'cannot be written (read-only file or directory)',
  SQLITE_PERM: 'cannot be opened (permission denied)',
  SQLITE_BUSY: 'is locked by another process',
  SQLITE_FULL: 'cannot be written (the disk is full)',
  SQLITE_IOERR: 'cannot be read or written (input/output error)',
}

/** Failures that neither time nor a new handle mends. */
const LASTING = /^SQLITE_(?:CANTOPEN|READONLY|PERM)/
/** Failures after which the handle is of no more use; a new one may be. */
const WORN = /^SQLITE_(?:CORRUPT|NOTADB|IOERR|CANTOPEN|READONLY)/

/** SQLite's code of a failure, which may be of another thread; else nothing. */
const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : ''

/** Whether this says that a file does not hold what it should. */
export const isDamage = (error: unknown): boolean =>
  error instanceof Unavailable
    ? error.isDamage
    : /^SQLITE_(?:CORRUPT|NOTADB|IOERR_SHORT_READ)/.test(codeOf(error))

/** Whether another process has what was needed. */
export const isBusy = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_BUSY')

/** Whether a database must be opened anew after this failure. */
export const isWorn = (error: unknown): boolean =>
  error instanceof Unavailable || WORN.test(codeOf(error))

/** What went wrong with a database file, as a sentence that begins with its name. */
export function explain(file: string, error: unknown): string {
  if (error instanceof Unavailable || error instanceof CommandError) return error.message
  if (error instanceof SQLiteError) {
    const code = Object.keys(EXPLANATIONS).find(name => error.code?.startsWith(name))
    return `${file} ${code ? EXPLANATIONS[code] : `cannot be used (${error.message})`}`
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
