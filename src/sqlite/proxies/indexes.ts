/** The indexes of the list while many rows are written: that is faster without them, and then they are rebuilt. */
import type { Database } from 'bun:sqlite'
import indexes from './indexes.sql' with { type: 'text' }

/** Writing at least this many rows, and this share of the list, rebuilds the indexes. */
const REINDEX_ROWS_MIN = 20_000
const REINDEX_SHARE = 1 / 8

/** How `create index` sorts, see `build`. */
const SORT_RUN_KIB = 2 * 1024
const SORT_THREADS = 1

const NAMES = [...indexes.matchAll(/create index (\w+)/g)].map(([, name]) => name)

/** The rows of the list: SQLite reads all of its smallest index, a million in 40 ms. */
export const countRows = (db: Database): number =>
  db.query<{ rows: number }, []>('select count(*) as rows from proxies').get()?.rows ?? 0

/** Whether a replacement of so many rows, or by so many, rebuilds the indexes, whatever they hold. */
export const isRebuilt = (rows: number): boolean => rows >= REINDEX_ROWS_MIN

/** The indexes of an open list in a transaction that writes rows. */
export function createIndexUpkeep(db: Database) {
  let areDropped = false

  /**
   * SQLite sorts the rows of an index in runs of the size of its page cache, and merges the runs: those
   * that fit the cache of a processor are sorted 1.5 times as fast as runs of 32 MB. A thread sorts one
   * run while the next one is collected.
   */
  function build(): void {
    const { kib = 0 } =
      db.query<{ kib: number }, []>('select cache_size as kib from pragma_cache_size').get() ?? {}
    db.run(`pragma cache_size = -${SORT_RUN_KIB}`)
    db.run(`pragma threads = ${SORT_THREADS}`)
    db.run(indexes)
    db.run('pragma threads = 0')
    db.run(`pragma cache_size = ${kib}`)
  }

  return {
    /** Drops the indexes where they cost more to maintain than to rebuild after this many rows. */
    prepareFor(rows: number): void {
      if (areDropped || !isRebuilt(rows) || rows < countRows(db) * REINDEX_SHARE) return
      for (const name of NAMES) db.run(`drop index if exists ${name}`)
      areDropped = true
    },
    /** Builds what was dropped. */
    restore(): void {
      if (areDropped) build()
    },
  }
}
