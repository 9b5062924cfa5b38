/** Owns having the databases of a data directory alone, which no server or command has open then. */
import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '../../lib/errors.ts'
import { ACCESS_FILE, PROXY_FILE } from '../data-directory.ts'
import { isBusy } from '../errors.ts'

/** How long to wait for a command that has the data open, in milliseconds. */
const BUSY_MS = 1_000

/**
 * Opens a database that nobody else has open, with a transaction, and keeps others out until it is
 * closed. SQLite holds a shared lock on a database in WAL mode for as long as it is open: an exclusive
 * one can only be had when nobody else has it open. Closing it also empties its WAL into it.
 * @throws CommandError when a server or command has it open, and what SQLite throws.
 */
export function openAlone(file: string): Database {
  const db = new Database(file, { create: false, readwrite: true, strict: true })
  try {
    db.run(`pragma busy_timeout = ${BUSY_MS}`)
    db.run('pragma locking_mode = exclusive')
    db.run('pragma foreign_keys = on')
    db.run('begin exclusive')
    return db
  } catch (error) {
    db.close()
    if (!isBusy(error)) throw error
    throw new CommandError(
      `${file} is in use; stop the server, or wait for the command that uses it`,
    )
  }
}

/** @throws CommandError when a server or command has a database in `dir` open. */
export function requireUnused(dir: string): void {
  for (const file of [ACCESS_FILE, PROXY_FILE].map(name => join(dir, name)).filter(existsSync)) {
    try {
      openAlone(file).close()
    } catch (error) {
      if (error instanceof CommandError) throw error
      // It is damaged: then nobody uses it either.
    }
  }
}
