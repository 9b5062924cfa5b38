/** The states of feeds in a small SQLite database, `feeds.db`. */
import type { Database } from 'bun:sqlite'
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type FeedKey,
  type FeedLines,
  type FeedState,
  type FeedStore,
  newState,
  readState,
  type StoredFeed,
} from '../feeds/store.ts'
import { reasonOf, StoreError } from '../lib/errors.ts'
import { requireRegular } from '../lib/files.ts'
import { HOUR_MS } from '../lib/time.ts'
import { syncDirectory } from './backup.ts'
import { FEED_LINES_FILE, FEEDS_FILE } from './data-directory.ts'
import { type OpenMode, openDatabase } from './database.ts'
import { giveToOwner, isAlive, lockPath, openOrRemake, tempPath } from './database-files.ts'
import feeds from './feeds.sql' with { type: 'text' }

/** A lease ends with its process, or after this time, because process ids are reused. */
const LEASE_MS = HOUR_MS

type Lease = { leased_by: number | null; leased_until: number }

function createFeedStore(db: Database) {
  const insert = 'insert into feeds (id, state) values (?, ?) on conflict'
  const insertNew = db.prepare<never, [string, string]>(`${insert} do nothing`)
  const add = ({ id, shown }: FeedKey, nowMs: number): void => {
    insertNew.run(id, JSON.stringify(newState(shown, nowMs)))
  }
  const save = db.prepare<never, [string, string]>(
    `${insert} (id) do update set state = excluded.state`,
  )
  const find = db.prepare<{ state: string } & Lease, [string]>('select * from feeds where id = ?')
  const lease = db.prepare<never, [number, number, string]>(
    'update feeds set leased_by = ?, leased_until = ? where id = ?',
  )

  function isLeased(id: string, nowMs: number): boolean {
    const { leased_by: pid = null, leased_until: untilMs = 0 } = find.get(id) ?? {}
    // A lease that ends later than this was made while the clock was ahead.
    const isValid = nowMs < untilMs && untilMs <= nowMs + LEASE_MS
    return isValid && pid !== null && pid !== process.pid && isAlive(pid)
  }

  return {
    find(id): FeedState | null {
      const row = find.get(id)
      return row && readState(row.state)
    },
    list: (): StoredFeed[] =>
      db
        .prepare<{ id: string; state: string }, []>(
          "select id, state from feeds order by state ->> 'source', id",
        )
        .all()
        .map(({ id, state }) => ({ id, ...readState(state) })),
    lease: (feed, nowMs): boolean =>
      db
        .transaction(() => {
          add(feed, nowMs)
          if (isLeased(feed.id, nowMs)) return false
          lease.run(process.pid, nowMs + LEASE_MS, feed.id)
          return true
        })
        .immediate(),
    release(id): void {
      db.run('update feeds set leased_by = null where id = ? and leased_by = ?', [id, process.pid])
    },
    save: (id, state): void => void save.run(id, JSON.stringify(state)),
    keepOnly: (kept: readonly FeedKey[], nowMs): void =>
      db
        .transaction(() => {
          const ids = JSON.stringify(kept.map(({ id }) => id))
          db.run('delete from feeds where id not in (select value from json_each(?))', [ids])
          for (const feed of kept) add(feed, nowMs)
        })
        .immediate(),
  } satisfies FeedStore & { [method: string]: unknown }
}

/**
 * The feeds of the console, in a text file in `dir` that an operator may edit. It is apart from the states in
 * `feeds.db`, which may be lost.
 */
export function feedLinesIn(dir: string) {
  const file = join(dir, FEED_LINES_FILE)
  function failing<T>(what: string, work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (error instanceof StoreError) throw error
      throw new StoreError(`${file} cannot be ${what}: ${reasonOf(error)}`)
    }
  }
  const readLines = (): string =>
    failing('read', () => {
      if (!existsSync(file)) return ''
      requireRegular(statSync(file))
      return readFileSync(file, 'utf8')
    })
  return {
    readLines,
    replaceLines: (before: string, after: string): boolean =>
      failing('written', () => {
        const release = lockPath(file, 0)
        try {
          if (release === null || readLines() !== before) return false
          const fresh = tempPath(file)
          writeFileSync(fresh, after, { mode: 0o600, flush: true }) // fsync before the rename
          giveToOwner(fresh)
          renameSync(fresh, file)
          syncDirectory(dir)
          return true
        } finally {
          release?.()
        }
      }),
  } satisfies FeedLines
}

/** Opens the states of the feeds in `dir`; a damaged file is created again, empty. See `openDatabase`. */
export function openFeeds(dir: string, mode: OpenMode = {}) {
  const file = join(dir, FEEDS_FILE)
  const options = { kind: 'feeds', scripts: [feeds], pageBytes: 1024, cacheKib: 256 } as const
  const open = () => openDatabase(file, { ...options, ...mode })
  const db = mode.mustExist ? open() : openOrRemake(file, open)
  const close = () => db.close(true)
  return { ...createFeedStore(db), close, [Symbol.dispose]: close }
}
