/**
 * Owns the indexes and the checksum of the list while many rows are written: rows are written faster
 * without them, and they are rebuilt afterwards.
 */
import type { Database } from 'bun:sqlite'
import { StoreError } from '../../lib/errors.ts'
import { DAMAGED_LIST, isChecksumRight, RESUME, SUSPEND } from '../integrity/checksum.ts'
import indexes from './migrations/4-indexes.sql' with { type: 'text' }

/** An import of at least this many rows, and this share of the list, rebuilds the indexes. */
const REINDEX_ROWS_MIN = 20_000
const REINDEX_SHARE = 1 / 8
/** One of this share of the list recomputes the checksum: a scan costs less than triggers. */
const RECHECKSUM_SHARE = 1 / 32

/** How `create index` sorts, see `createIndexes`. */
const SORT_RUN_KIB = 2 * 1024
const SORT_THREADS = 1

const INDEX_NAMES = [...indexes.matchAll(/index if not exists (\w+)/g)].map(([, name]) => name)

/** The rows of the list according to its checksum, which triggers keep right: counting reads all. */
export const countRows = (db: Database): number =>
  db.query<{ rows: number }, []>('select rows from checksum').get()?.rows ?? 0

/**
 * Creates the indexes. SQLite sorts their rows in runs of the size of its page cache, and merges
 * the runs: those that fit the cache of a processor are sorted 1.5 times as fast as runs of 32 MB.
 * A thread sorts one run while the next one is collected.
 */
function createIndexes(db: Database): void {
  const { kib } = db
    .query<{ kib: number }, []>('select cache_size as kib from pragma_cache_size')
    .get() ?? { kib: 0 }
  db.run(`pragma cache_size = -${SORT_RUN_KIB}`)
  db.run(`pragma threads = ${SORT_THREADS}`)
  db.run(indexes)
  db.run('pragma threads = 0')
  db.run(`pragma cache_size = ${kib}`)
}

/**
 * The indexes and the checksum of a list of `before` rows: many rows are written faster without
 * them, and they are rebuilt afterwards.
 */
export function createUpkeep(db: Database, isReplace: boolean, before: number) {
  let hasChecksum = true
  let hasIndexes = true
  return {
    /** Drops what costs more to maintain than to rebuild after this many rows. */
    prepareFor(rows: number): void {
      if (hasChecksum && (isReplace || rows >= before * RECHECKSUM_SHARE)) {
        // A list that is damaged by now must not look intact through a new checksum.
        if (!isReplace && !isChecksumRight(db))
          throw new StoreError(DAMAGED_LIST, { isDamage: true })
        db.run(SUSPEND)
        hasChecksum = false
      }
      if (hasIndexes && rows >= Math.max(REINDEX_ROWS_MIN, before * REINDEX_SHARE)) {
        for (const name of INDEX_NAMES) db.run(`drop index if exists ${name}`)
        hasIndexes = false
      }
    },
    /** Rebuilds what was dropped. */
    restore(): void {
      if (!hasIndexes) createIndexes(db)
      if (!hasChecksum) db.run(RESUME)
    },
  }
}
