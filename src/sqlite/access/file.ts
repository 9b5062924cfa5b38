/** Opens access.db, the file of keys, plans and usage, and migrates its schema. */
import type { Database } from 'bun:sqlite'
import { type OpenMode, openDatabase } from '../database.ts'
import schema from './schema.sql' with { type: 'text' }
import schema2 from './schema-2.sql' with { type: 'text' }
import schema4 from './schema-4.sql' with { type: 'text' }

/** Every commit changes the last pages of the log: small pages keep commits small. */
const PAGE_BYTES = 1024

/**
 * A commit of the server checkpoints the WAL at this size. A worker does so earlier (`server-registry.ts`),
 * because requests wait for a commit that waits for the disk.
 */
const SERVER_WAL_BYTES = 64 * 1024 * 1024

/** The server waits for the write lock with `takeLock` instead. */
const STATEMENT_BUSY_MS = 1

/** The third schema changed only `proxies.db`. */
export const ACCESS_SCRIPTS = [schema, schema2, 'select 1', schema4]

/** Opens keys, plans and usage in `file`; see `openDatabase` for `mode` and errors. */
export const openAccessFile = (file: string, mode: OpenMode = {}): Database =>
  openDatabase(file, {
    ...{ kind: 'access', scripts: ACCESS_SCRIPTS, pageBytes: PAGE_BYTES },
    ...(mode.isServer && { walBytes: SERVER_WAL_BYTES, busyMs: STATEMENT_BUSY_MS }),
    ...mode,
  })
