/** The port of feeds in a small SQLite database of their own. Knows nothing of fetching. */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { FeedKey, FeedState, FeedStore } from '../feeds/store.ts'
import { HOUR_MS } from '../lib/time.ts'
import { FEEDS_FILE } from './data-directory.ts'
import { type OpenMode, openDatabase } from './database.ts'
import { isAlive, removeDatabase } from './database-files.ts'
import { isDamage } from './errors.ts'
import feeds from './feeds.sql' with { type: 'text' }

export { FEEDS_FILE }

/** A lease ends with its process, or after this: process ids are used again. */
const LEASE_MS = HOUR_MS

type StateRow = {
  id: string
  source: string
  last_success_at: number | null
  rows: number | null
  rejected: number
  error: string
  failures: number
  next_try_at: number
  attempts: number
  etag: string
  last_modified: string
  digest: string
  options: string
}

const toState = (row: StateRow): FeedState => ({
  source: row.source,
  lastSuccessAt: row.last_success_at,
  rows: row.rows,
  rejected: row.rejected,
  error: row.error,
  failures: row.failures,
  nextTryAt: row.next_try_at,
  attempts: row.attempts,
  validators: { etag: row.etag, lastModified: row.last_modified, digest: row.digest },
  options: row.options,
})

type Lease = { leased_by: number | null; leased_until: number }

function createFeedStore(db: Database) {
  const insert = db.prepare<never, [string, string, number]>(
    'insert into feeds (id, source, next_try_at) values (?, ?, ?) on conflict do nothing',
  )
  const find = db.prepare<StateRow, [string]>('select * from feeds where id = ?')
  const leaseOf = db.prepare<Lease, [string]>(
    'select leased_by, leased_until from feeds where id = ?',
  )
  const lease = db.prepare<never, [number, number, string]>(
    'update feeds set leased_by = ?, leased_until = ? where id = ?',
  )

  const rows = (): StateRow[] =>
    db.prepare<StateRow, []>('select * from feeds order by source, id').all()

  function isLeased(id: string, nowMs: number): boolean {
    const { leased_by: pid = null, leased_until: until = 0 } = leaseOf.get(id) ?? {}
    // One that lies further ahead than a lease lasts was made by a clock that was wrong.
    const isValid = nowMs < until && until <= nowMs + LEASE_MS
    return isValid && pid !== null && pid !== process.pid && isAlive(pid)
  }

  return {
    find(id): FeedState | null {
      const row = find.get(id)
      return row === null ? null : toState(row)
    },
    list: (): FeedState[] => rows().map(toState),
    /** All states with their ids, to be moved to another store. */
    dump: () => rows().map(row => ({ id: row.id, ...toState(row) })),
    lease: ({ id, shown }, nowMs): boolean =>
      db
        .transaction(() => {
          insert.run(id, shown, nowMs)
          if (isLeased(id, nowMs)) return false
          lease.run(process.pid, nowMs + LEASE_MS, id)
          return true
        })
        .immediate(),
    release(id): void {
      db.run('update feeds set leased_by = null where id = ? and leased_by = ?', [id, process.pid])
    },
    save(id, { validators: { etag, lastModified, digest }, ...state }): void {
      db.run(
        `insert or replace into feeds (id, source, last_success_at, rows, rejected, error, failures,
           next_try_at, attempts, etag, last_modified, digest, options)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          ...[id, state.source, state.lastSuccessAt, state.rows, state.rejected, state.error],
          ...[state.failures, state.nextTryAt, state.attempts, etag, lastModified, digest],
          state.options,
        ],
      )
    },
    keepOnly: (kept: readonly FeedKey[], nowMs): void =>
      db
        .transaction(() => {
          const ids = JSON.stringify(kept.map(({ id }) => id))
          db.run('delete from feeds where id not in (select value from json_each(?))', [ids])
          for (const { id, shown } of kept) insert.run(id, shown, nowMs)
        })
        .immediate(),
  } satisfies FeedStore & { [method: string]: unknown }
}

function openFile(file: string, mode: OpenMode): Database {
  const options = { holds: 'feeds', scripts: [feeds], pageBytes: 1024, cacheKib: 256 } as const
  try {
    return openDatabase(file, { ...options, ...mode })
  } catch (error) {
    if (mode.mustExist || !isDamage(error)) throw error
    removeDatabase(file) // its content is made again
    return openDatabase(file, options)
  }
}

/** Opens the states of the feeds in `dir`, without those of a damaged file; see `openDatabase`. */
export function openFeeds(dir: string, mode: OpenMode = {}) {
  const db = openFile(join(dir, FEEDS_FILE), mode)
  return { ...createFeedStore(db), close: () => db.close(true) }
}

/** The states of the feeds in `dir` as a server reads them: it waits for no other process. */
export const openServerFeeds = (dir: string) => openFeeds(dir, { isServer: true, mustExist: true })
