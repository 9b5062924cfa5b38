/**
 * Writing the copy of a list: each change is one transaction, so readers see the list as it was
 * before or as it is after. Indexes are kept as imports keep them.
 */
import type { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { StoreError } from '../../lib/errors.ts'
import { isSameVersion, type ListChanges, type Version } from '../../node/ports.ts'
import { type City, ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import { PROXY_FILE } from '../data-directory.ts'
import { requireHeader, shrink } from '../database.ts'
import { removeDatabase } from '../database-files.ts'
import { isDamage, isStoreFailure, toStoreError } from '../errors.ts'
import { closeSafely, fingerprintOf, requireLength, requireSameFile } from '../file-identity.ts'
import { createIndexUpkeep } from '../proxies/indexes.ts'
import { createRoomCheck } from '../proxies/room.ts'
import { openListFile } from '../proxies/store.ts'
import { trimWal } from '../wal.ts'
import { readCopyOf, writeCopyOf } from './copy-of.ts'
import { putFresh } from './fresh.ts'

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
