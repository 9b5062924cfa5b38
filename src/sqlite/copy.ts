/**
 * The copies that a node has of a shared database: the files of a data directory, each change one
 * transaction, so that readers see what was there before or what is there after. A table of one row, written
 * in the same transaction, says of which database a file is a copy, and at which version; a file without
 * it is no copy.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { KeyReader } from '../access/ports.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import { isSameVersion, type KeyChanges, type ListChanges, type Version } from '../node/ports.ts'
import type { City, Row } from '../proxies/row.ts'
import { openAccessFile } from './access/file.ts'
import { createKeyReader, createKeyWriter } from './access/keys.ts'
import { createPlanStore } from './access/plans.ts'
import { ACCESS_FILE, DATA_FILES, type DataFile, PROXY_FILE, sizeOf } from './data-directory.ts'
import { openAsIs, rollBack } from './database.ts'
import { hasMoved, installDatabase, lockPath, removeDatabase, tempPath } from './database-files.ts'
import { isDamage, isDatabaseError, toStoreError } from './errors.ts'
import { createCityWriter } from './proxies/cities.ts'
import { createIndexUpkeep, openListFile, UPSERT } from './proxies/store.ts'
import { holdOpen } from './server.ts'
import { type List, openList } from './stores.ts'
import { emptyWal } from './wal.ts'

const TABLE = `create table if not exists copy_of (
  one integer primary key check (one = 1),
  database text not null,
  version integer not null,
  mark text not null
) strict`

/** The version that an open copy has; `null`: it is no copy. */
function readCopyOf(db: Database): Version | null {
  const table = db.query(`select 1 from sqlite_schema where type = 'table' and name = 'copy_of'`)
  if (table.get() === null) return null
  return db.query<Version, []>('select database, version, mark from copy_of').get()
}

/** Makes an open database a copy, or brings a copy to a version. Call it in the transaction of the change. */
export function writeCopyOf(db: Database, { database, version, mark }: Version): void {
  db.run(TABLE)
  db.run(
    `insert into copy_of values (1, ?1, ?2, ?3)
     on conflict (one) do update set database = ?1, version = ?2, mark = ?3`,
    [database, version, mark],
  )
}

/** Makes a closed copy a list of its own. */
export function removeCopyMark(file: string): void {
  using db = openAsIs(file)
  db.run('drop table if exists copy_of')
}

/**
 * Of what a file of a data directory is a copy; `'own'`: of nothing; `null` when it is not there, is empty or
 * cannot be read: nothing of that can be lost, and a node makes it again.
 */
function copyIn(dir: string, name: DataFile): Version | 'own' | null {
  const file = join(dir, name)
  try {
    if (sizeOf(file) === 0) return null
    using db = openAsIs(file)
    return readCopyOf(db) ?? 'own'
  } catch {
    return null // what is wrong with it is said where it is used
  }
}

/** The version of the copy of a list in `dir`; `null` when there is none. */
export function listCopyOf(dir: string): Version | null {
  const found = copyIn(dir, PROXY_FILE)
  return found === 'own' ? null : found
}

/**
 * What is said of a database without a schema when `dir` holds copies of one; `null` when it does not. An
 * empty schema in its place would make every node forget what it has.
 */
export function lostSchema(dir: string): string | null {
  if (DATA_FILES.every(({ name }) => (copyIn(dir, name) ?? 'own') === 'own')) return null
  return (
    `the schema that the copies in ${dir} are of is gone: give it its name back, or restore a ` +
    `backup with: proxylist restore FILE (only to begin with nothing, remove ${dir})`
  )
}

/** @throws CommandError when keys or the list of a directory are copies of a database. */
export function requireOwnData(
  dir: string,
  remedy = 'name that with --database, or give another --data',
): void {
  const copy = DATA_FILES.find(({ name }) => (copyIn(dir, name) ?? 'own') !== 'own')
  if (copy === undefined) return
  throw new CommandError(`${join(dir, copy.name)} is a copy of a shared database: ${remedy}`)
}

/** @throws CommandError when a directory has keys or a list of its own, which copies would replace. */
export function requireCopies(dir: string): void {
  const own = DATA_FILES.find(({ name }) => copyIn(dir, name) === 'own')
  if (own === undefined) return
  throw new CommandError(
    `${join(dir, own.name)} is no copy of a shared database: back it up, restore it there with: ` +
      'proxylist restore FILE --database URL, and move it away, or give another --data',
  )
}

type Changes = { isWhole: boolean; since: Version | null }

/**
 * The copy in a file, to be written by its only follower in this process; it is kept open for as long as
 * it is the file in its place. `write` brings a database from a version to what changes lead to, in one
 * transaction, or does nothing when it is at another version: another process follows too.
 */
function openCopy<C extends Changes>(
  file: string,
  open: (file: string, options?: { mustExist: true }) => Database,
  write: (db: Database, changes: C, from: Version | null) => Awaitable<void>,
  canChange: (db: Database, changes: C) => boolean = () => true,
) {
  let opened: Database | null = null

  function close(): void {
    opened?.close()
    opened = null
  }

  /** The open database, another one where its file is another, unless it is being written; `null`: there is no file. */
  function current(): Database | null {
    if (opened !== null && !opened.inTransaction && hasMoved(opened)) close()
    if (opened === null && existsSync(file)) opened = open(file, { mustExist: true })
    return opened
  }

  function found(): { db: Database; version: Version } | null {
    try {
      const db = current()
      const version = db && readCopyOf(db)
      return db && version && { db, version }
    } catch (error) {
      if (!isDatabaseError(error)) throw error
      close() // one that can be opened again is, at the next call
      return null
    }
  }

  /** Fills a new database and moves it into its place, whatever is there. */
  async function replace(changes: C): Promise<void> {
    if (!changes.isWhole) throw new StoreError(`${file} is no copy any more`)
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const release = lockPath(file, 0)
    if (release === null) throw new StoreError(`${file} is being replaced by another process`)
    const fresh = tempPath(file)
    try {
      {
        using db = open(fresh)
        await write(db, changes, null)
      }
      close()
      installDatabase(fresh, file)
    } finally {
      removeDatabase(fresh)
      release()
    }
  }

  /** Removes a copy that is damaged: it is made again. */
  function remove(): void {
    close()
    removeDatabase(file)
  }

  return {
    version: (): Version | null => found()?.version ?? null,
    /**
     * Applies changes; does nothing when the copy is at another version than they start from.
     * @throws StoreError; nothing has changed then.
     */
    async apply(changes: C): Promise<void> {
      try {
        const copy = found()
        if (copy !== null && !isSameVersion(copy.version, changes.since)) return
        if (copy === null || !canChange(copy.db, changes)) await replace(changes)
        else await write(copy.db, changes, changes.since)
      } catch (error) {
        if (isDamage(error)) remove()
        throw toStoreError(file, error)
      }
    },
    remove,
    close,
  }
}

/** Writes keys and plans. What changed is removed first: secrets may change places. */
function writeKeys(
  db: Database,
  { isWhole, to, plans, removed, keys }: KeyChanges,
  from: Version | null,
): void {
  const store = createKeyWriter(db)
  const planStore = createPlanStore(db)
  const remove = db.prepare<never, [string]>('delete from keys where id = ?')
  db.transaction(() => {
    if (!isSameVersion(readCopyOf(db), from)) return
    db.run('pragma defer_foreign_keys = on')
    if (isWhole) db.run('delete from keys')
    for (const id of removed) remove.run(id)
    for (const { id } of keys) remove.run(id)
    db.run('delete from plans')
    for (const plan of plans) planStore.set(plan)
    for (const key of keys) store(key)
    writeCopyOf(db, to)
  }).immediate()
}

/** The copy of keys and plans in `dir`. Usage is not copied: that of a node is in the database. */
export const openKeyCopy = (dir: string) =>
  openCopy(join(dir, ACCESS_FILE), openAccessFile, writeKeys)

/**
 * Finds keys in the copy in `dir`, which a follower writes; `tick` is to be called every second once
 * there is one. `onDamage` is called when the copy has to be made again.
 */
export function openCopiedKeys(dir: string, say: (sentence: string) => void, onDamage: () => void) {
  const file = join(dir, ACCESS_FILE)
  const open = () => {
    const db = openAccessFile(file, { isServer: true, mustExist: true })
    return { db, find: createKeyReader(db).find, close: () => db.close(true) }
  }
  const { use, tick, health, close } = holdOpen<ReturnType<typeof open>>(null, {
    ...{ file, open, onDamage, say },
  })
  const find: KeyReader['find'] = key => use(store => store.find(key))
  return { find, tick, health, close }
}

type CityRow = { id: number; name: string; name_en: string }

/**
 * Whether the cities of a list may become these without being numbered again: readers have the names
 * of ids in memory.
 */
function fitsCities(db: Database, cities: readonly City[]): boolean {
  const stored = db.query<CityRow, []>('select id, name, name_en from cities').all()
  const byId = new Map(cities.map(city => [city.id, city]))
  return stored.every(({ id, name, name_en }) => {
    const city = byId.get(id)
    return city?.name === name && city.nameEn === name_en
  })
}

/** Writes changes in the transaction that is under way. */
async function writeList(db: Database, changes: ListChanges): Promise<void> {
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(changes.size)
  if (changes.isWhole) db.run('delete from proxies')
  const addCity = createCityWriter(db)
  using remove = db.prepare<never, [number]>('delete from proxies where id = ?')
  using upsert = db.prepare<never, Row>(UPSERT)
  for (const city of changes.cities) addCity(city.id, city)
  for await (const ids of changes.removed) for (const id of ids) remove.run(id)
  for await (const rows of changes.rows) for (const row of rows) upsert.run(...row)
  indexes.restore()
  writeCopyOf(db, changes.to)
}

/** Writes a list in one transaction, or does nothing when another process has changed the copy. */
async function writeListFile(
  db: Database,
  changes: ListChanges,
  from: Version | null,
): Promise<void> {
  db.run('begin immediate')
  try {
    if (!isSameVersion(readCopyOf(db), from)) {
      db.run('rollback')
      return
    }
    await writeList(db, changes)
    db.run('commit')
  } catch (error) {
    rollBack(db)
    emptyWal(db) // it may have filled the disk
    throw error
  }
}

export const openListCopy = (dir: string) =>
  openCopy(
    join(dir, PROXY_FILE),
    (file, options) => openListFile(file, options && { isServer: true, ...options }),
    writeListFile,
    (db, { isWhole, cities }: ListChanges) => !isWhole || fitsCities(db, cities),
  )

/** Opens a list that holds what `changes`, which are a whole list, bring. */
export async function openListInMemory(changes: ListChanges): Promise<List> {
  const list = openList(null)
  list.db.run('begin')
  await writeList(list.db, changes)
  list.db.run('commit')
  return list
}
