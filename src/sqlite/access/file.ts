/** The file of keys, plans and usage: opening it, and its schema. */
import type { Database } from 'bun:sqlite'
import { type OpenMode, openDatabase } from '../database.ts'
import schema from './schema.sql' with { type: 'text' }

/** Every turn with admissions changes the last pages of the log: small pages keep commits small. */
const PAGE_BYTES = 1024

/**
 * The size at which a commit of the server copies the WAL into the file, if the worker that does it
 * before (`server-registry.ts`) could not: a request that waits for the disk makes others wait.
 */
const SERVER_WAL_BYTES = 64 * 1024 * 1024

/** The server waits for the lock in its own way (`takeLock`), and for all else hardly ever. */
const SERVER_BUSY_MS = 1

export const ACCESS_SCRIPTS = [schema]

/** Opens keys, plans and usage in `file`; see `openDatabase` for `mode` and errors. */
export const openAccessFile = (file: string, mode: OpenMode = {}): Database =>
  openDatabase(file, {
    ...{ holds: 'access', scripts: ACCESS_SCRIPTS, pageBytes: PAGE_BYTES },
    ...(mode.isServer && { walBytes: SERVER_WAL_BYTES, busyMs: SERVER_BUSY_MS }),
    ...mode,
  })
