/** The list as a whole: its file, its version, its size, and the removal of old rows. */
import type { Database } from 'bun:sqlite'
import { SECOND_MS, toSeconds } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import type { ListChecks } from '../../proxies/freshness.ts'
import { ROW_COLUMNS } from '../../proxies/row.ts'
import type { Removal } from '../../proxies/store.ts'
import { dataVersionOf, type OpenMode, type OpenOptions, openDatabase } from '../database.ts'
import { pragma } from '../migrate.ts'
import { pendingBytes } from '../wal.ts'
import schema from './schema.sql' with { type: 'text' }
import schema3 from './schema-3.sql' with { type: 'text' }
import { createSelect, SCAN_MAX } from './select.ts'

/** Writing at least this many rows, and this share of the list, rebuilds the indexes. */
const REINDEX_ROWS_MIN = 20_000
const REINDEX_SHARE = 1 / 8

const SORT_RUN_KIB = 2 * 1024

/** The latest definition of each index. */
const INDEXES = new Map(
  [...`${schema}${schema3}`.matchAll(/^create index (proxies_\w+)[^;]*;/gm)].map(
    ([statement, name = '']) => [name, statement],
  ),
)

/** The rows of a table. Of the list SQLite reads all of the smallest index, a million in 40 ms. */
export const countRows = (db: Database, table = 'proxies'): number =>
  db.query<{ rows: number }, []>(`select count(*) as rows from ${table}`).get()?.rows ?? 0

export const importMarkIn = (db: Database): string =>
  db.query<{ mark: string }, []>('select imported as mark from list').get()?.mark ?? ''

/** The indexes of an open list in a transaction that writes rows. */
export function createIndexUpkeep(db: Database) {
  let areDropped = false
  return {
    /** Drops the indexes where they cost more to maintain than to rebuild after this many rows. */
    prepareFor(rows: number): void {
      if (areDropped || rows < Math.max(REINDEX_ROWS_MIN, countRows(db) * REINDEX_SHARE)) return
      for (const name of INDEXES.keys()) db.run(`drop index if exists ${name}`)
      areDropped = true
    },
    /**
     * Builds the dropped indexes. SQLite sorts the rows of an index in runs of the size of its page cache, and
     * merges the runs. Runs that fit the cache of a processor are sorted 1.5 times as fast as runs of 32 MB.
     * A thread sorts one run while SQLite collects the next.
     */
    restore(): void {
      if (!areDropped) return
      const kib = pragma(db, 'cache_size')
      db.run(`pragma cache_size = -${SORT_RUN_KIB}`)
      db.run('pragma threads = 1')
      for (const statement of INDEXES.values()) db.run(statement)
      db.run('pragma threads = 0')
      db.run(`pragma cache_size = ${kib}`)
    },
  }
}

export const UPSERT = `insert into proxies (${ROW_COLUMNS.join(', ')})
  values (${ROW_COLUMNS.map(() => '?').join(', ')})
  on conflict (id) do update set
    ${ROW_COLUMNS.slice(1)
      .map(column => `${column} = excluded.${column}`)
      .join(', ')}`

/** Rows removed at a time, so that no import waits long for it. */
const REMOVE_SLICE = 5_000
/** No rows are removed while the WAL alone has more than this: beside a reader, a slice adds some 40 MB. */
const REMOVE_PENDING_BYTES_MAX = 256 * 1024 * 1024

/** Both databases have one number of their schema; the second and fourth changed only `access.db`. */
export const LIST_SCRIPTS = [schema, 'select 1', schema3, 'select 1']

export const openListFile = (
  file: string,
  options: OpenMode & Pick<OpenOptions, 'cacheKib'> = {},
): Database => openDatabase(file, { kind: 'proxies', scripts: LIST_SCRIPTS, ...options })

export type ListStore = ReturnType<typeof createListStore>
/** The task of the worker that removes stale rows. `stale`: for how long rows are kept, and the time. */
export type RemoveTask = {
  kind: 'remove'
  file: string
  database: 'proxies'
  stale: [number, number]
}

export function createListStore(db: Database, scanMax = SCAN_MAX) {
  const removeOlder = db.prepare<never, [number, number]>(
    'delete from proxies where id in ' +
      '(select id from proxies where checked_at < ? order by checked_at limit ?)',
  )
  // SQLite reports commits of other connections only; changes of this one are counted separately.
  const othersVersion = oncePerTurn(dataVersionOf(db))
  let seenVersion = othersVersion()
  let changes = 0
  const newest = db.prepare<{ newest: number | null }, [number]>(
    'select max(checked_at) as newest from proxies where checked_at <= ?',
  )
  const countAhead = db.prepare<{ n: number }, [number]>(
    'select count(*) as n from proxies where checked_at > ?',
  )
  const any = db.prepare<{ id: number }, []>('select id from proxies limit 1')
  const select = createSelect(db, scanMax, version)

  function version(): number {
    if (othersVersion() !== seenVersion) changes += 1
    seenVersion = othersVersion()
    return changes
  }

  function removeSlice(retainMs: number, nowMs: number): Removal {
    // Without the rows ahead of the clock: with one of them, all others would be too old.
    const newestMs = (newest.get(toSeconds(nowMs))?.newest ?? 0) * SECOND_MS
    const removed = removeOlder.run(toSeconds(newestMs - retainMs), REMOVE_SLICE).changes
    if (removed > 0) changes += 1
    return { removed, mayRemain: removed === REMOVE_SLICE }
  }

  /** Counting a million rows takes 40 ms: it is done once for a version of the list. */
  let counted = { version: -1, rows: 0 }
  function count(): number {
    const now = version()
    if (counted.version !== now) counted = { version: now, rows: countRows(db) }
    return counted.rows
  }

  return {
    ...select,
    version,
    count,

    noteChange: (): void => {
      changes += 1
    },

    /** The checks of the list; those after `untilMs` are ahead. Reads two indexes, no rows. */
    checks(untilMs = Number.MAX_SAFE_INTEGER): ListChecks {
      const until = toSeconds(untilMs)
      const newestUntil = newest.get(until)?.newest ?? null
      return { rows: count(), newest: newestUntil, ahead: countAhead.get(until)?.n ?? 0 }
    },

    importMark: (): string => importMarkIn(db),

    isEmpty: (): boolean => any.get() === null,

    /** Removes a slice of stale rows, see `ProxyWriter`. Throws at once when an import has locked the list. */
    removeStale(retainMs: number, nowMs: number, pendingMax = REMOVE_PENDING_BYTES_MAX): Removal {
      if (pendingBytes(db) > pendingMax) return { removed: 0, mayRemain: false }
      db.run('pragma busy_timeout = 0') // an import sets it again
      return removeSlice(retainMs, nowMs)
    },

    removeSlice,

    /** Makes every check `seconds` more recent: keeps the sample fresh. */
    shiftChecks: (seconds: number): void => {
      db.run('update proxies set checked_at = checked_at + ?', [seconds])
      changes += 1
    },
  }
}
