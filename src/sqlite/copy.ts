/**
 * The copy of the list that a node has: `proxies.db` of a data directory. Table `copy_of`, a row that is written
 * with each change, says of which database it is a copy and at which version; a file without it is no copy.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import {
  type Change,
  type Incoming,
  isSamePosition,
  PART_ROWS,
  type Position,
  type Stale,
} from '../node/ports.ts'
import { SERVICE_SETS } from '../proxies/proxy.ts'
import { type City, ROW_COLUMNS, type Row, toAddress, toProxy, UNKNOWN } from '../proxies/row.ts'
import type { ImportCounts, ImportMode } from '../proxies/store.ts'
import { PROXY_FILE, sizeOf } from './data-directory.ts'
import { openAsIs, rollBack } from './database.ts'
import { hasMoved, installDatabase, lockPath, removeDatabase, tempPath } from './database-files.ts'
import { isDamage, isDatabaseError, toStoreError } from './errors.ts'
import { createCityWriter } from './proxies/cities.ts'
import { beginImport } from './proxies/import.ts'
import {
  countRows,
  createIndexUpkeep,
  createListStore,
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

/** The version that an open copy has; `null`: it is no copy. */
function readCopyOf(db: Database): CopyOf | null {
  const table = db.query(`select 1 from sqlite_schema where type = 'table' and name = 'copy_of'`)
  if (table.get() === null) return null
  return db.query<CopyOf, []>('select database, version, mark from copy_of').get()
}

/** Makes an open database a copy, or brings a copy to a version. Call it in the transaction of the change. */
export function writeCopyOf(db: Database, { database, version, mark }: CopyOf): void {
  db.run(TABLE)
  db.run('insert or replace into copy_of values (1, ?, ?, ?)', [database, version, mark])
}

/** Makes a closed copy a list of its own. */
export function removeCopyMark(file: string): void {
  using db = openAsIs(file)
  db.run('drop table if exists copy_of')
}

/**
 * Of what the list in `dir` is a copy; `'own'`: of nothing; `null` when it is not there, is empty or cannot be read:
 * nothing can be lost then, and a node makes it again.
 */
function copyIn(dir: string): CopyOf | 'own' | null {
  const file = join(dir, PROXY_FILE)
  try {
    if (sizeOf(file) === 0) return null
    using db = openAsIs(file)
    return readCopyOf(db) ?? 'own'
  } catch {
    return null // what is wrong with it is said where it is used
  }
}

/** The version of the copy of a list in `dir`; `null` when there is none. */
export function listCopyOf(dir: string): CopyOf | null {
  const found = copyIn(dir)
  return found === 'own' ? null : found
}

/** @throws CommandError when the list of a directory is a copy of a database. */
export function requireOwnData(
  dir: string,
  remedy = 'name that with --database, or give another --data',
): void {
  if (listCopyOf(dir) === null) return
  throw new CommandError(`${join(dir, PROXY_FILE)} is a copy of a shared database: ${remedy}`)
}

/** @throws CommandError when a directory has a list of its own, which a copy would replace. */
export function requireCopy(dir: string): void {
  if (copyIn(dir) !== 'own') return
  throw new CommandError(
    `${join(dir, PROXY_FILE)} is no copy of a shared database: back it up, restore it there with: ` +
      'proxylist restore FILE --database URL, and move it away, or give another --data',
  )
}

const COLUMNS = ROW_COLUMNS.join(', ')
const LAST_CITY = `coalesce((select seq from sqlite_sequence where name = 'cities'), 0)`

/** Writes changes into a list of any size, in the transaction that is under way. */
async function writeChanges(
  db: Database,
  size: number,
  changes: AsyncIterable<Change>,
): Promise<void> {
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(size)
  const addCity = createCityWriter(db)
  using remove = db.prepare<never, [number]>('delete from proxies where id = ?')
  using upsert = db.prepare<never, Row>(UPSERT)
  for await (const { cities = [], lastCity, imported, rows = [], removed = [] } of changes) {
    for (const city of cities) addCity(city.id, city)
    if (lastCity !== undefined) {
      db.run(`update sqlite_sequence set seq = ? where name = 'cities'`, [lastCity])
    }
    if (imported !== undefined) db.run('update list set imported = ?', [imported])
    for (const id of removed) remove.run(id)
    for (const row of rows) upsert.run(...row)
  }
  indexes.restore()
}

/** Pages of a statement whose first column grows and whose parameter is the last one that was read. */
function* pagesOf<R extends readonly [number, ...unknown[]]>(
  db: Database,
  select: string,
): Generator<R[]> {
  using page = db.prepare<R, [number]>(`${select} limit ${PART_ROWS}`)
  for (let after = -1; ; ) {
    const rows = page.values(after) as unknown as R[]
    if (rows.length === 0) return
    after = rows.at(-1)?.[0] ?? after
    yield rows
  }
}

/** The cities after an id, and what else a list has besides its rows. */
function besideRows(db: Database, afterCity: number): Change {
  const cities = db
    .query<City, [number]>(
      'select id, name, name_en as nameEn from cities where id > ? order by id',
    )
    .all(afterCity)
  const rest = db
    .query<{ lastCity: number; imported: string }, []>(
      `select imported, ${LAST_CITY} as lastCity from list`,
    )
    .get()
  return { cities, ...rest }
}

const lastCityOf = (db: Database): number =>
  db.query<{ id: number }, []>(`select ${LAST_CITY} as id`).get()?.id ?? 0

/** All of a list. */
export function* readAll(db: Database): Generator<Change> {
  yield besideRows(db, 0)
  const select = `select ${COLUMNS} from proxies where id > ? order by id`
  for (const rows of pagesOf<Row>(db, select)) yield { rows }
}

/** Notes the ids of rows that this connection writes. (`insert or ignore` would do as the outer statement says.) */
const TRACK = `
  create temp table changed (id integer primary key);
  create temp trigger proxies_added after insert on main.proxies
    begin insert into changed values (new.id) on conflict do nothing; end;
  create temp trigger proxies_updated after update on main.proxies
    begin insert into changed values (new.id) on conflict do nothing; end;
  create temp trigger proxies_removed after delete on main.proxies
    begin insert into changed values (old.id) on conflict do nothing; end`

/** What the rows that were noted are now. */
function* readChanged(db: Database, afterCity: number): Generator<Change> {
  yield besideRows(db, afterCity)
  const select = `select c.id, ${ROW_COLUMNS.map(column => `p.${column}`).join(', ')}
    from (select id from temp.changed where id > ? order by id limit ${PART_ROWS}) c
    left join proxies p on p.id = c.id order by c.id`
  for (const found of pagesOf<[number, ...Row]>(db, select)) {
    const isGone = ([, id]: readonly unknown[]): boolean => id === null
    const rows = found.filter(row => !isGone(row)).map(([, ...row]) => row)
    yield { rows, removed: found.filter(isGone).map(([id]) => id) }
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
  /** Commits it as the version of the copy that `to` says. */
  commit(to: Position): void
  rollback(): void
}

/** 64 MB. A server checkpoints earlier, beside the commits: one that does so takes twice as long. */
const WAL_PAGES = 16_384
/** How long a change waits for another process that writes the copy. */
const BUSY_MS = 1_000

/** The copy of the list in `dir`, as its follower writes it; the leader merges imports into it first. */
export function openListCopy(dir: string, clock: Clock) {
  const file = join(dir, PROXY_FILE)
  let opened: { db: Database; isTracked: boolean } | null = null

  function close(): void {
    opened?.db.close()
    opened = null
  }

  /** The open copy, another one where its file is another; `null`: there is none. */
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

  /** @throws StoreError; removes a damaged copy: it is made again. */
  function fail(error: unknown): never {
    if (isDamage(error)) {
      close()
      removeDatabase(file)
    }
    throw toStoreError(file, error)
  }

  /** Runs work in a transaction, unless the copy is not at `from` any more: another process follows too. */
  async function change(
    from: Position,
    work: (db: Database, copyOf: CopyOf) => void | Promise<void>,
  ): Promise<void> {
    try {
      const db = current()?.db
      if (db === undefined) return
      db.run(`pragma busy_timeout = ${BUSY_MS}`) // a merge has set another one
      db.run('begin immediate')
      try {
        const copyOf = readCopyOf(db)
        if (copyOf !== null && isSamePosition(copyOf, from)) await work(db, copyOf)
        db.run('commit')
      } catch (error) {
        rollBack(db)
        emptyWal(db) // it may have filled the disk
        throw error
      }
    } catch (error) {
      fail(error)
    }
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
    const rollback = (): void => {
      rollBack(db)
      emptyWal(db)
    }
    try {
      db.run('delete from temp.changed')
      const lastCity = lastCityOf(db)
      const { counts, end = () => {} } = await write(db)
      return {
        counts,
        changed: countRows(db, 'temp.changed'),
        rows: countRows(db),
        imported: besideRows(db, lastCity).imported ?? '',
        changes: () => readChanged(db, lastCity),
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
    /** Of which database it is a copy, and where it stands; `null`: there is no copy that can be read. */
    position: (): CopyOf | null => {
      try {
        return current()?.copyOf ?? null
      } catch (error) {
        if (!isDatabaseError(error)) throw error
        close() // one that can be opened again is, at the next call
        return null
      }
    },

    /** Makes it a list of these rows, whatever is there. */
    async install(database: string, to: Position, changes: AsyncIterable<Change>): Promise<void> {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      const release = lockPath(file, 0)
      if (release === null) throw new StoreError(`${file} is being replaced by another process`)
      const fresh = tempPath(file)
      try {
        {
          using db = openListFile(fresh)
          db.run('begin immediate')
          await writeChanges(db, Number.POSITIVE_INFINITY, changes)
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

    /** Applies a delta of so many rows, unless the copy is not at `from` any more. */
    apply: (from: Position, to: Position, changed: number, changes: AsyncIterable<Change>) =>
      change(from, async (db, copyOf) => {
        await writeChanges(db, changed, changes)
        writeCopyOf(db, { ...copyOf, ...to })
      }),

    /** Moves it to a version that has the same content. */
    moveTo: (from: Position, to: Position) =>
      change(from, (db, copyOf) => writeCopyOf(db, { ...copyOf, ...to })),

    /** Merges an import, with the importer of one machine. */
    mergeImport: (mode: ImportMode, parts: AsyncIterable<Incoming>): Promise<Merge> =>
      merge(async db => {
        const importTx = beginImport(db, mode, () => {}, clock())
        await importTx.lock()
        for await (const { cities, rows, stated, lowered } of parts) {
          const cityNames = (position: number) => cities[position] ?? { name: '', nameEn: '' }
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

    /** Removes a slice of stale rows. */
    mergeStale: ({ retainMs, nowMs }: Stale): Promise<Merge> =>
      merge(async db => {
        db.run('begin immediate')
        const { removed } = createListStore(db).removeSlice(retainMs, nowMs)
        return { counts: { added: 0, updated: 0, unchanged: 0, removed } }
      }),

    /** All of the list as of now; nothing else may write it meanwhile. */
    snapshot(): { changes: Generator<Change>; rows: number; imported: string } {
      const db = current()?.db
      if (db === undefined) throw new StoreError(`${file} is no copy any more`)
      return {
        changes: readAll(db),
        rows: countRows(db),
        imported: besideRows(db, 0).imported ?? '',
      }
    },

    close,
  }
}
