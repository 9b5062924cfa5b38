/** The states of feeds in a small SQLite database, and the rewriting of the feeds file. */
import type { Database } from 'bun:sqlite'
import {
  existsSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import {
  type FeedKey,
  type FeedState,
  type FeedStore,
  newState,
  readState,
  type StoredFeed,
} from '../feeds/store.ts'
import { CommandError, systemReasonOf } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { FEEDS_FILE } from './data-directory.ts'
import { type OpenMode, openDatabase, writeTransaction } from './database.ts'
import { giveTo, lockPath, openOrRemake, tempPath } from './database-files.ts'
import feeds from './feeds.sql' with { type: 'text' }

function createFeedStore(db: Database) {
  const insert = 'insert into feeds (id, state) values (?, ?) on conflict'
  const add = db.prepare<never, [string, string]>(`${insert} do nothing`)
  const save = db.prepare<never, [string, string]>(
    `${insert} (id) do update set state = excluded.state`,
  )
  const find = db.prepare<{ state: string }, [string]>('select state from feeds where id = ?')
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
    save: (id, state): void => void save.run(id, JSON.stringify(state)),
    keepOnly: (kept: readonly FeedKey[], nowMs): void =>
      writeTransaction(db, () => {
        const ids = JSON.stringify(kept.map(({ id }) => id))
        db.run('delete from feeds where id not in (select value from json_each(?))', [ids])
        for (const { id, shown } of kept) add.run(id, JSON.stringify(newState(shown, nowMs)))
      }),
  } satisfies FeedStore & { [method: string]: unknown }
}

/** Opens the states of the feeds in `dir`; replaces a damaged file by an empty one. See `openDatabase`. */
export function openFeeds(dir: string, mode: OpenMode = {}) {
  const file = join(dir, FEEDS_FILE)
  const options = { kind: 'feeds', scripts: [feeds], pageBytes: 1024, cacheKib: 256 } as const
  const open = () => openDatabase(file, { ...options, ...mode })
  const db = mode.mustExist ? open() : openOrRemake(file, open)
  const close = () => db.close(true)
  return { ...createFeedStore(db), close, [Symbol.dispose]: close }
}

/** Replaces the text of a file, which may be missing. @throws CommandError, and the errors of `change`. */
export function rewriteFile(file: string, change: (text: string) => string): void {
  const release = lockPath(file, SECOND_MS)
  if (release === null) throw new CommandError(`${file} is being changed; try again`)
  try {
    const path = existsSync(file) ? realpathSync(file) : file // a link stays
    const found = statSync(path, { throwIfNoEntry: false })
    const text = change(found ? readFileSync(path, 'utf8') : '')
    const fresh = tempPath(path)
    writeFileSync(fresh, text, { mode: (found?.mode ?? 0o600) & 0o777, flush: true })
    giveTo(found ?? statSync(dirname(path)), fresh)
    renameSync(fresh, path)
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null ? error : new CommandError(`${file} cannot be written: ${reason}`)
  } finally {
    release()
  }
}
