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
import { CommandError, StoreError } from '../lib/errors.ts'
import { isSameVersion, type KeyChanges, type ListChanges, type Version } from '../node/ports.ts'
import { type City, ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { openAccessFile } from './access/file.ts'
import { createKeyReader, createKeyWriter } from './access/keys.ts'
import { createPlanStore } from './access/plans.ts'
import { ACCESS_FILE, PROXY_FILE } from './data-directory.ts'
import { openReading, requireHeader, shrink } from './database.ts'
import { freshFile, moveDatabase, removeDatabase } from './database-files.ts'
import { isDamage, isStoreFailure, toStoreError } from './errors.ts'
import {
  closeSafely,
  fingerprintOf,
  requireInPlace,
  requireLength,
  requireSameFile,
} from './file-identity.ts'
import { lockPlace } from './file-lock.ts'
import { createIndexUpkeep } from './proxies/indexes.ts'
import { createRoomCheck } from './proxies/room.ts'
import { openListFile } from './proxies/store.ts'
import { type List, openList } from './stores.ts'
import { type Health, supervise } from './supervise.ts'
import { trimWal } from './wal.ts'

const TABLE = `create table if not exists copy_of (
  one integer primary key check (one = 1),
  database text not null,
  version integer not null,
  mark text not null
) strict`

/** The version that an open copy has; `null`: it is no copy. */
export function readCopyOf(db: Database): Version | null {
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

/**
 * Of what a file of a data directory is a copy; `'own'`: of nothing; `null` when it is not there or
 * cannot be read.
 */
function readFile(dir: string, name: string): Version | 'own' | null {
  const file = join(dir, name)
  if (!existsSync(file)) return null
  let db: Database | null = null
  try {
    db = openReading(file)
    return readCopyOf(db) ?? 'own'
  } catch {
    return null // what is wrong with it is said where it is used
  } finally {
    db?.close()
  }
}

const isCopy = (found: ReturnType<typeof readFile>): boolean => found !== null && found !== 'own'

/** The version of the copy of a list in `dir`; `null` when there is none. */
export function listCopyOf(dir: string): Version | null {
  const found = readFile(dir, PROXY_FILE)
  return found === 'own' ? null : found
}

const DATA_FILES = [ACCESS_FILE, PROXY_FILE] as const

const NAME_IT = 'name that with --database, or give another --data'

/** @throws CommandError when keys or the list of a directory are copies of a database. */
export function requireOwnData(dir: string, remedy = NAME_IT): void {
  const copy = DATA_FILES.find(name => isCopy(readFile(dir, name)))
  if (copy === undefined) return
  throw new CommandError(`${join(dir, copy)} is a copy of a shared database: ${remedy}`)
}

/** @throws CommandError when a directory has keys or a list of its own, which copies would replace. */
export function requireCopies(dir: string): void {
  const own = DATA_FILES.find(name => readFile(dir, name) === 'own')
  if (own === undefined) return
  throw new CommandError(
    `${join(dir, own)} is no copy of a shared database: move it there first with: ` +
      'proxylist move, or give another --data',
  )
}

/**
 * @throws CommandError when a directory holds anything but copies of the database with this id, of any
 *   database when it is `null`.
 */
export function requireCopiesOf(dir: string, database: string | null): void {
  for (const name of DATA_FILES) {
    const found = readFile(dir, name)
    if (found === null ? !existsSync(join(dir, name)) : isOf(found, database)) continue
    throw new CommandError(
      isCopy(found)
        ? `${join(dir, name)} is a copy of another database: give another --data`
        : `${join(dir, name)} is data of its own, which would be lost: give another --data, or ` +
            'move it away',
    )
  }
}

const isOf = (found: Version | 'own', database: string | null): boolean =>
  found !== 'own' && (database === null || found.database === database)

type FreshParts = {
  open: (file: string) => Database
  fill: (db: Database, file: string) => Promise<void> | void
  /** Called before the copy is moved into the place of `file`. */
  onMove: () => void
}

/** Fills a new database and moves it into the place of `file`, whatever is there. */
export async function putFresh(file: string, { open, fill, onMove }: FreshParts): Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const release = lockPlace(file, 0)
  if (release === null) throw new StoreError(`${file} is being replaced by another process`)
  const fresh = freshFile(file)
  try {
    const db = open(fresh)
    try {
      await fill(db, fresh)
    } finally {
      db.close(true)
    }
    onMove()
    moveDatabase(fresh, file)
  } finally {
    removeDatabase(fresh)
    release()
  }
}

/** Writes changes in one transaction. What changed is removed first: secrets may change places. */
function write(
  db: Database,
  { isWhole, to, plans, removed, keys }: KeyChanges,
  since: Version | null,
): void {
  const store = createKeyWriter(db)
  const planStore = createPlanStore(db)
  const remove = db.prepare<never, [string]>('delete from keys where id = ?')
  db.transaction(() => {
    if (!isSameVersion(readCopyOf(db), since)) return // another process follows too
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

const openFile = (file: string): Database => openAccessFile(file, { mustExist: true })

/** The copy of keys and plans in `dir`, to be written by its only follower in this process. */
export function openKeyCopy(dir: string) {
  const file = join(dir, ACCESS_FILE)
  let opened: { db: Database; fingerprint: ReturnType<typeof fingerprintOf> } | null = null
  let isDoubted = false

  function close(): void {
    if (opened !== null) closeSafely(opened.db, file, opened.fingerprint)
    opened = null
  }

  /** The open copy and its version; `null` when there is none that can be used. */
  function found(): { db: Database; version: Version } | null {
    try {
      if (isDoubted || !existsSync(file)) throw new StoreError(`${file} cannot be used`)
      requireHeader(file, 'access')
      if (opened !== null) requireInPlace(file, opened.fingerprint)
      opened ??= { db: openFile(file), fingerprint: fingerprintOf(file) }
      const version = readCopyOf(opened.db)
      return version && { db: opened.db, version }
    } catch (error) {
      if (!isStoreFailure(error)) throw error
      close() // one that can be opened again is, at the next call
      return null
    }
  }

  return {
    version: (): Version | null => found()?.version ?? null,
    /**
     * Applies changes; does nothing when the copy is at another version than they start from.
     * @throws StoreError; nothing has changed then.
     */
    async apply(changes: KeyChanges): Promise<void> {
      try {
        const copy = found()
        if (copy !== null) return write(copy.db, changes, changes.since)
        if (!changes.isWhole) throw new StoreError(`${file} is no copy any more`)
        await putFresh(file, {
          open: fresh => openAccessFile(fresh),
          fill: db => write(db, changes, null),
          onMove: close,
        })
        isDoubted = false
      } catch (error) {
        isDoubted ||= isDamage(error)
        throw toStoreError(file, error)
      }
    },
    /** Makes the copy again at the next change: reading it has found damage. */
    doubt(): void {
      isDoubted = true
      close()
    },
    close,
  }
}

type Parts = { say: (sentence: string) => void; onDamage: () => void }

type CopiedKeys = KeyReader & { tick(): void; health(): Health; close(): void }

/**
 * Finds keys in the copy in `dir`, which a follower writes; `tick` is to be called every second once
 * there is one. `onDamage` is called when the copy has to be made again.
 */
export function openCopiedKeys(dir: string, { say, onDamage }: Parts): CopiedKeys {
  const file = join(dir, ACCESS_FILE)
  const open = () => {
    const db = openAccessFile(file, { isServer: true, mustExist: true })
    return { db, find: createKeyReader(db).find, fingerprint: fingerprintOf(file) }
  }
  const { use, tick, health, close } = supervise<ReturnType<typeof open>>(null, {
    ...{ file, reopen: open, probe() {}, say },
    close: ({ db, fingerprint }) => closeSafely(db, file, fingerprint),
    verify({ fingerprint }) {
      requireInPlace(file, fingerprint)
      requireHeader(file, 'access')
    },
    onFailure(failure) {
      if (isDamage(failure)) onDamage()
    },
  })
  return { find: key => use(({ find }) => find(key)), tick, health, close }
}

const UPSERT = `insert into proxies (${ROW_COLUMNS.join(', ')})
  values (${ROW_COLUMNS.map(() => '?').join(', ')})
  on conflict (id) do update set
    ${ROW_COLUMNS.slice(1)
      .map(column => `${column} = excluded.${column}`)
      .join(', ')}`

type CityRow = { id: number; name: string; name_en: string }

/**
 * Whether the cities of a list may become these without being numbered again: readers have the names
 * of ids in memory, and look for new ones above the last that they know.
 */
function fitsCities(db: Database, cities: readonly City[]): boolean {
  const stored = db.query<CityRow, []>('select id, name, name_en from cities').all()
  const lastId = stored.reduce((last, { id }) => Math.max(last, id), 0)
  const byId = new Map(cities.map(city => [city.id, city]))
  const isSame = stored.every(({ id, name, name_en }) => {
    const city = byId.get(id)
    return city?.name === name && city.nameEn === name_en
  })
  return isSame && cities.filter(({ id }) => id <= lastId).length === stored.length
}

/** Writes changes in the transaction that is under way. */
export async function writeList(db: Database, changes: ListChanges): Promise<void> {
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(changes.size)
  if (changes.isWhole) db.run('delete from proxies')
  const addCity = db.prepare<never, [number, string, string]>(
    'insert into cities values (?, ?, ?) on conflict do nothing',
  )
  const remove = db.prepare<never, [number]>('delete from proxies where id = ?')
  const upsert = db.prepare<never, Row>(UPSERT)
  try {
    for (const { id, name, nameEn } of changes.cities) addCity.run(id, name, nameEn)
    for await (const ids of changes.removed) for (const id of ids) remove.run(id)
    for await (const rows of changes.rows) for (const row of rows) upsert.run(...row)
  } finally {
    for (const statement of [addCity, remove, upsert]) statement.finalize()
  }
  indexes.restore()
  writeCopyOf(db, changes.to)
}

/**
 * Brings a list to the version of `changes`, in one transaction or not at all; does nothing when the
 * list is at another version than they start from, because another process follows too.
 */
async function change(db: Database, file: string, changes: ListChanges, from = changes.since) {
  trimWal(db, file) // what was killed may have filled the disk
  const requireRoom = createRoomCheck(db)
  db.run('begin immediate')
  try {
    if (!isSameVersion(readCopyOf(db), from)) {
      db.run('rollback')
      return
    }
    await writeList(db, changes)
    requireRoom()
    db.run('commit')
  } catch (error) {
    if (db.inTransaction) db.run('rollback') // on a full disk SQLite has done so already
    trimWal(db, file)
    throw error
  }
  if (changes.isWhole) shrink(db)
}

type Opened = { db: Database; fingerprint: ReturnType<typeof fingerprintOf> }

/** What keeps the list in `file` open for as long as it is in its place. */
function createOpener(file: string) {
  let opened: Opened | null = null

  function open(): Opened | null {
    if (!existsSync(file)) return null
    const db = openListFile(file, { isServer: true, mustExist: true })
    return { db, fingerprint: fingerprintOf(file) }
  }

  function close(): void {
    if (opened !== null) closeSafely(opened.db, file, opened.fingerprint)
    opened = null
  }

  return {
    close,
    /** The open list, opened again where it is not the same any more; `null`: there is none. */
    current(): Opened | null {
      try {
        if (opened !== null) {
          requireSameFile(file, opened.fingerprint)
          requireHeader(file, 'proxies')
          requireLength(opened.db, file)
        }
      } catch {
        close()
      }
      opened ??= open()
      return opened
    },
  }
}

/** The copy of the list in `dir`, to be written by its only follower in this process. */
export function openListCopy(dir: string) {
  const file = join(dir, PROXY_FILE)
  const { current, close } = createOpener(file)

  /** The open copy and its version; `null` when there is none that can be used. */
  function found(): { db: Database; version: Version } | null {
    try {
      const opened = current()
      const version = opened && readCopyOf(opened.db)
      return opened && version && { db: opened.db, version }
    } catch (error) {
      if (!isStoreFailure(error)) throw error
      close()
      return null
    }
  }

  async function replace(changes: ListChanges): Promise<void> {
    if (!changes.isWhole) throw new StoreError(`${file} is no copy any more`)
    await putFresh(file, {
      open: fresh => openListFile(fresh),
      fill: (db, fresh) => change(db, fresh, changes, null),
      onMove: close,
    })
  }

  return {
    version: (): Version | null => found()?.version ?? null,
    /**
     * Applies changes; does nothing when the copy is at another version than they start from.
     * @throws StoreError; nothing has changed then.
     */
    async apply(changes: ListChanges): Promise<void> {
      try {
        const copy = found()
        if (!isSameVersion(copy?.version ?? null, changes.since)) return
        if (copy === null) return await replace(changes)
        if (changes.isWhole && !fitsCities(copy.db, changes.cities)) return await replace(changes)
        await change(copy.db, file, changes)
      } catch (error) {
        if (isDamage(error)) {
          close()
          removeDatabase(file) // it is made again
        }
        throw toStoreError(file, error)
      }
    },
    close,
  }
}

export type ListCopy = ReturnType<typeof openListCopy>

/** Opens a list that holds what `changes`, which are a whole list, bring. */
export async function openListInMemory(changes: ListChanges): Promise<List> {
  const list = openList(null)
  list.db.run('begin')
  await writeList(list.db, changes)
  list.db.run('commit')
  return list
}
