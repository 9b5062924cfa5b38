/**
 * A node's copy of the list: `proxies.db` with the table `copy_of`. Its row names the database and the version, and
 * changes in the transaction of each change.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import {
  type Change,
  createCityList,
  type Incoming,
  isSamePosition,
  PART_ROWS,
  type Position,
  type Stale,
  type Version,
} from '../node/ports.ts'
import { SERVICE_SETS } from '../proxies/proxy.ts'
import {
  AT,
  type CityNames,
  NO_CITY,
  ROW_COLUMNS,
  type Row,
  toAddress,
  toProxy,
  UNKNOWN,
} from '../proxies/row.ts'
import type { ImportCounts, ImportMode } from '../proxies/store.ts'
import { PROXY_FILE, sizeOf } from './data-directory.ts'
import { openAsIs, pagesOf, rollBack } from './database.ts'
import { hasMoved, installDatabase, lockPath, removeDatabase, tempPath } from './database-files.ts'
import { isDamage, isDatabaseError, toStoreError } from './errors.ts'
import { createCities } from './proxies/cities.ts'
import { createStatements } from './proxies/filter-sql.ts'
import { beginImport } from './proxies/import.ts'
import {
  countRows,
  createIndexUpkeep,
  createListStore,
  importMarkIn,
  openListFile,
  UPSERT,
} from './proxies/store.ts'
import { emptyWal } from './wal.ts'

const TABLE = `create table if not exists copy_of (
  one integer primary key check (one = 1),
  database text not null,
  version integer not null,
  mark text not null
) strict`

type CopyOf = Position & { database: string }

/** The version of an open copy; `null` if it is no copy. */
function readCopyOf(db: Database): CopyOf | null {
  const table = db.query(`select 1 from sqlite_schema where type = 'table' and name = 'copy_of'`)
  if (table.get() === null) return null
  return db.query<CopyOf, []>('select database, version, mark from copy_of').get()
}

/** Marks an open database as a copy at a version. Call it in the transaction of the change. */
export function writeCopyOf(db: Database, { database, version, mark }: CopyOf): void {
  db.run(TABLE)
  db.run('insert or replace into copy_of values (1, ?, ?, ?)', [database, version, mark])
}

/** Turns a closed copy into an ordinary list. */
export function removeCopyMark(file: string): void {
  using db = openAsIs(file)
  db.run('drop table if exists copy_of')
}

/** The copy in `dir`; `'own'`: an ordinary list; `null`: none, or one that a node may replace. */
function copyIn(dir: string): CopyOf | 'own' | null {
  const file = join(dir, PROXY_FILE)
  try {
    if (sizeOf(file) === 0) return null
    using db = openAsIs(file)
    return readCopyOf(db) ?? 'own'
  } catch {
    return null // the code that opens it reports the error
  }
}

/** The version of the copy in `dir`; `null` if there is none. */
export function listCopyOf(dir: string): CopyOf | null {
  const found = copyIn(dir)
  return found === 'own' ? null : found
}

/** @throws CommandError when the list in `dir` is a copy of a database. */
export function requireOwnData(
  dir: string,
  remedy = 'name that with --database, or give another --data',
): void {
  if (listCopyOf(dir) === null) return
  throw new CommandError(`${join(dir, PROXY_FILE)} is a copy of a shared database: ${remedy}`)
}

/** @throws CommandError when `dir` has an ordinary list, which a copy would replace. */
export function requireCopy(dir: string): void {
  if (copyIn(dir) !== 'own') return
  throw new CommandError(
    `${join(dir, PROXY_FILE)} is no copy of a shared database: back it up, restore it there with: ` +
      'proxylist restore FILE --database URL, and move it away, or give another --data',
  )
}

const COLUMNS = ROW_COLUMNS.join(', ')

type Changes = AsyncIterable<Change> | Iterable<Change>

async function writeChange(db: Database, to: Version, parts: Changes): Promise<void> {
  const cities = createCities(db)
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(to.changed)
  using remove = db.prepare<never, [number]>('delete from proxies where id = ?')
  using upsert = db.prepare<never, Row>(UPSERT)
  for await (const { cities: names, rows, removed } of parts) {
    for (const id of removed) remove.run(id)
    for (const row of rows) {
      const { name, nameEn } = names[row[AT.city]] ?? NO_CITY
      row[AT.city] = cities.idOf(name, nameEn)
      upsert.run(...row)
    }
  }
  db.run('update list set imported = ?', [to.imported])
  indexes.restore()
}

/** A change of some rows; replaces the ids of their cities. */
function toChange(rows: readonly Row[], removed: readonly number[], cityNames: CityNames): Change {
  const { cities, positionOf } = createCityList()
  for (const row of rows) row[AT.city] = positionOf(cityNames(row[AT.city]))
  return { cities, rows, removed }
}

export function* readAll(db: Database): Generator<Change> {
  const { nameOf } = createCities(db)
  const rows = createStatements(db).each<Row>([`select ${COLUMNS} from proxies order by id`, []])
  for (const page of pagesOf(rows, PART_ROWS)) yield toChange(page, [], nameOf)
}

/** Tracks the ids of written rows. (In a trigger, `insert or ignore` takes the conflict rule of the outer statement.) */
const TRACK = `
  create temp table changed (id integer primary key);
  create temp trigger proxies_added after insert on main.proxies
    begin insert into changed values (new.id) on conflict do nothing; end;
  create temp trigger proxies_updated after update on main.proxies
    begin insert into changed values (new.id) on conflict do nothing; end;
  create temp trigger proxies_removed after delete on main.proxies
    begin insert into changed values (old.id) on conflict do nothing; end`

function* readChanged(db: Database): Generator<Change> {
  const { nameOf } = createCities(db)
  const select = `select c.id as changed, ${ROW_COLUMNS.map(column => `p.${column}`).join(', ')}
    from temp.changed c left join proxies p on p.id = c.id order by c.id`
  const tracked = createStatements(db).each<[changed: number, ...Row]>([select, []])
  for (const page of pagesOf(tracked, PART_ROWS)) {
    const isGone = ([, id]: readonly unknown[]): boolean => id === null
    const rows = page.filter(row => !isGone(row)).map(([, ...row]) => row)
    const removed = page.filter(isGone).map(([id]) => id)
    yield toChange(rows, removed, nameOf)
  }
}

/** A merge that is not committed yet. */
export type Merge = {
  counts: ImportCounts
  /** Rows that have changed, and rows of the list. */
  changed: number
  rows: number
  imported: string
  changes: () => Generator<Change>
  commit(to: Position): void
  rollback(): void
}

/** 64 MB. A server checkpoints earlier, in a worker: a commit that checkpoints takes twice as long. */
const WAL_PAGES = 16_384
const BUSY_MS = 1_000

/** Opens the copy in `dir` for its follower. The leader merges imports into its copy first. */
export function openListCopy(dir: string, clock: Clock) {
  const file = join(dir, PROXY_FILE)
  let opened: { db: Database; isTracked: boolean } | null = null

  function close(): void {
    opened?.db.close()
    opened = null
  }

  /** Opens the copy, again if its file was replaced; `null` if there is none. */
  function current(): { db: Database; isTracked: boolean; copyOf: CopyOf } | null {
    if (opened !== null && hasMoved(opened.db)) close()
    if (opened === null && existsSync(file)) {
      const db = openListFile(file, { isServer: true, mustExist: true })
      db.run(`pragma wal_autocheckpoint = ${WAL_PAGES}`)
      opened = { db, isTracked: false }
    }
    const copyOf = opened && readCopyOf(opened.db)
    return opened && copyOf && Object.assign(opened, { copyOf })
  }

  /** @throws StoreError; removes a damaged copy, so that the node makes it again. */
  function fail(error: unknown): never {
    if (isDamage(error)) {
      close()
      removeDatabase(file)
    }
    throw toStoreError(file, error)
  }

  function rollback(): void {
    if (opened === null) return
    rollBack(opened.db)
    emptyWal(opened.db) // it may have filled the disk
  }

  /** Begins an import or the removal of stale rows; `write` returns its counts. */
  async function merge(
    write: (db: Database) => Promise<{ counts: ImportCounts; end?: () => void }>,
  ): Promise<Merge> {
    const copy = current()
    if (copy === null) throw new StoreError(`${file} is no copy any more`)
    const { db, copyOf } = copy
    if (!copy.isTracked) db.run(TRACK)
    copy.isTracked = true
    try {
      db.run('delete from temp.changed')
      const { counts, end = () => {} } = await write(db)
      return {
        counts,
        changed: countRows(db, 'temp.changed'),
        rows: countRows(db),
        imported: importMarkIn(db),
        changes: () => readChanged(db),
        commit(to) {
          writeCopyOf(db, { ...copyOf, ...to })
          db.run('commit')
          end()
        },
        rollback,
      }
    } catch (error) {
      rollback()
      return fail(error)
    }
  }

  return {
    /** The database and the version of the copy; `null` if there is no readable copy. */
    position: (): CopyOf | null => {
      try {
        return current()?.copyOf ?? null
      } catch (error) {
        if (!isDatabaseError(error)) throw error
        close() // the next call opens it again
        return null
      }
    },

    /** Replaces the file by a copy with these rows. */
    async install(database: string, to: Version, changes: Changes): Promise<void> {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      const release = lockPath(file, 0)
      if (release === null) throw new StoreError(`${file} is being replaced by another process`)
      const fresh = tempPath(file)
      try {
        {
          using db = openListFile(fresh)
          db.run('begin immediate')
          await writeChange(db, to, changes)
          writeCopyOf(db, { ...to, database })
          db.run('commit')
        }
        close()
        installDatabase(fresh, file)
      } catch (error) {
        throw toStoreError(file, error)
      } finally {
        removeDatabase(fresh)
        release()
      }
    },

    /** Moves the copy to a version by its changes if it is still at `from`: during a take-over, two processes follow. */
    async apply(from: Position, to: Version, changes: Changes): Promise<void> {
      try {
        const db = current()?.db
        if (db === undefined) return
        db.run(`pragma busy_timeout = ${BUSY_MS}`) // a merge has set another one
        db.run('begin immediate')
        const copyOf = readCopyOf(db)
        if (copyOf !== null && isSamePosition(copyOf, from)) {
          if (to.changed > 0) await writeChange(db, to, changes)
          writeCopyOf(db, { ...copyOf, ...to })
        }
        db.run('commit')
      } catch (error) {
        rollback()
        fail(error)
      }
    },

    /** Merges an import with the importer of a single machine. */
    mergeImport: (mode: ImportMode, parts: AsyncIterable<Incoming>): Promise<Merge> =>
      merge(async db => {
        const importTx = beginImport(db, mode, () => {}, clock())
        await importTx.lock()
        for await (const { cities, rows, stated, lowered } of parts) {
          const cityNames = (position: number) => cities[position] ?? NO_CITY
          for (const [i, row] of rows.entries()) {
            const services = SERVICE_SETS[stated[i] ?? 0] ?? new Set()
            importTx.add({ ...toProxy(row, cityNames), servicesStated: services })
          }
          for (const [id, works] of lowered) {
            importTx.lower(toAddress(id), works === UNKNOWN ? null : works)
          }
        }
        const { counts, end } = importTx.write()
        return { counts, end }
      }),

    mergeStale: ({ retainMs, nowMs }: Stale): Promise<Merge> =>
      merge(async db => {
        db.run('begin immediate')
        const { removed } = createListStore(db).removeSlice(retainMs, nowMs)
        return { counts: { added: 0, updated: 0, unchanged: 0, removed } }
      }),

    /** All of the list. Nothing else may write it until `changes` ends. */
    snapshot(): { changes: Generator<Change>; rows: number; imported: string } {
      const db = current()?.db
      if (db === undefined) throw new StoreError(`${file} is no copy any more`)
      return {
        changes: readAll(db),
        rows: countRows(db),
        imported: importMarkIn(db),
      }
    },

    close,
  }
}
