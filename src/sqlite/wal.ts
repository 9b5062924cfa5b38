/**
 * The write-ahead log of a database: its size, what keeps it short while the database is in use, and whether
 * the disk has room for what goes through it. A worker copies it into the file: of the list, because an
 * import cannot empty it while an older snapshot is being read; of keys, plans and usage, because a commit
 * that waits for the disk makes all requests wait.
 */
import { Database } from 'bun:sqlite'
import { realpathSync, statfsSync, statSync, truncateSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError, StoreError } from '../lib/errors.ts'
import { startTask, type Task } from '../lib/worker.ts'
import { sizeOf, walOf } from './data-directory.ts'
import { hasMoved } from './database-files.ts'
import { pragma, type ServerHolds } from './migrate.ts'

export const walBytes = (file: string): number => sizeOf(walOf(file))

/** The pages in the log that were committed, those of them that are in the file, and their size. */
function readWal(db: Database) {
  const { log: frames = -1, checkpointed = -1 } =
    db.query<{ log: number; checkpointed: number }, []>('pragma wal_checkpoint(noop)').get() ?? {}
  return { frames, checkpointed, pageBytes: pragma(db, 'page_size') }
}

/** The bytes of the write-ahead log that are not in the file of an open database yet. */
export function pendingBytes(db: Database): number {
  const { frames, checkpointed, pageBytes } = readWal(db)
  return (frames - checkpointed) * pageBytes
}

/** The bytes of a database, wherever its pages are. */
const databaseBytes = (db: Database): number => pragma(db, 'page_count') * pragma(db, 'page_size')

/** @throws StoreError when a file whose WAL is in it is shorter than its database. */
export function requireLength(db: Database, file: string): void {
  if (pendingBytes(db) > 0) return
  const bytes = databaseBytes(db)
  // Pending by now: another process has committed in between.
  if (sizeOf(file) < bytes && pendingBytes(db) === 0) throw new StoreError(`${file} was truncated`)
}

/** So much of the WAL may stay; copying it takes some 20 ms. */
const PENDING_BYTES_MAX = 16 * 1024 * 1024
/** Whether copying the rest of the WAL takes long; false for a database that fails. */
export function hasLongWal(db: Database): boolean {
  try {
    return pendingBytes(db) > PENDING_BYTES_MAX
  } catch {
    return false
  }
}

/** Most calls of `tick` between two attempts that fail: each one changes the version of the list. */
const TICKS_MAX = 64

export type CheckpointTask = { kind: 'checkpoint'; file: string; holds: ServerHolds }

/** Copies the WAL of `file` in a worker, when `tick` finds much of it pending, and then calls `onEnd`. */
export function createCheckpointer(
  file: string,
  holds: CheckpointTask['holds'],
  onEnd: () => void = () => {},
) {
  let task: Task<void> | null = null
  let waitTicks = 1
  let ticksLeft = 1

  function start(): void {
    if (task !== null) return
    task = startTask<CheckpointTask, void>('sqlite/database.worker.ts', {
      kind: 'checkpoint',
      file,
      holds,
    })
    const ended = (): void => {
      task = null
      onEnd()
    }
    // A failure is no news: the next attempt succeeds, or the store fails where it is used.
    task.result.then(ended, ended)
  }

  return {
    /** To be called every second with the open database; waits longer after each attempt. */
    tick(db: Database): void {
      if (!hasLongWal(db)) {
        waitTicks = 1
        ticksLeft = 1
      } else if (ticksLeft > 0) ticksLeft -= 1
      else {
        waitTicks = Math.min(2 * waitTicks, TICKS_MAX)
        ticksLeft = waitTicks
        start()
      }
    },
    /** SQLite takes no harm from a copy that is ended halfway: the next one begins again. */
    close(): void {
      task?.end()
      task = null
    },
  }
}

/** How long emptying the WAL waits for its readers, in milliseconds. */
const EMPTY_WAL_MS = 250

/** Copies all of the WAL into the file and cuts it off, where nobody reads it; else that is done later. */
export function emptyWal(db: Database): void {
  try {
    db.run(`pragma busy_timeout = ${EMPTY_WAL_MS}`)
    db.run('pragma wal_checkpoint(truncate)')
  } catch {
    // It is being read, or written.
  }
}

/** Sizes in a WAL, see https://www.sqlite.org/fileformat2.html#walformat. */
const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24

/** The size of the part of the WAL that holds commits. @throws when that is not known. */
function committedBytes(db: Database): number {
  const { frames, pageBytes } = readWal(db)
  if (frames < 0) throw new Error('there is no WAL')
  return frames === 0 ? 0 : HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageBytes)
}

/**
 * Cuts off what is in the WAL of `file` behind its last commit, unless a transaction is under way: the room of
 * an import that filled the disk or was killed. SQLite overwrites it sometime, and until then a full disk stays
 * full. Nobody reads behind the last commit. `db` is a connection to `file` in no transaction.
 */
export function trimWal(db: Database, file: string): void {
  try {
    const path = realpathSync(file) // SQLite puts the WAL there
    if (walBytes(path) <= committedBytes(db)) return
    // A connection of its own holds the lock that a process needs to write to the WAL.
    using guard = new Database(path, { create: false, readwrite: true, strict: true })
    guard.run('begin immediate')
    if (hasMoved(db) || hasMoved(guard)) return // then the WAL at this path is not theirs
    const bytes = committedBytes(db)
    if (walBytes(path) > bytes) truncateSync(walOf(path), bytes)
  } catch {
    // Another process writes, or the file is being replaced: the next call tries again.
  }
}

/** For pages that change in place, and for the next admissions. */
const MARGIN = 1 / 16

/** The bytes that a file has to grow by, those of it that are in the WAL already, and those that are free. */
export type Room = { growth: number; written: number; free: number }

/** The bytes that are missing before an import can be committed; 0 or less when it can. */
export const missingBytes = ({ growth, written, free }: Room): number =>
  growth <= 0 ? 0 : Math.ceil((growth + Math.max(0, growth - written)) * (1 + MARGIN)) - free

/**
 * Returns a function for the end of a transaction that is beginning. Pages are written twice, into the WAL and
 * the file: if only the WAL fitted, the disk would stay full, and nobody be admitted any more.
 * @throws CommandError that says how much is missing.
 */
export function createRoomCheck(db: Database): () => void {
  if (db.filename === '' || db.filename === ':memory:') return () => {}
  const file = realpathSync(db.filename) // SQLite puts the WAL there
  const before = walBytes(file)
  return () => {
    const growth = databaseBytes(db) - statSync(file).size
    const written = walBytes(file) - before
    const { blocks, bavail, bsize } = statfsSync(dirname(file))
    const free = blocks > 0 ? bavail * bsize : Infinity // some file systems do not count blocks
    const missing = missingBytes({ growth, written, free })
    if (missing <= 0) return
    const megabytes = Math.ceil(missing / 1e6)
    throw new CommandError(
      `${db.filename} cannot be written (the disk is full: ${megabytes} MB more are needed); nothing was imported`,
    )
  }
}
