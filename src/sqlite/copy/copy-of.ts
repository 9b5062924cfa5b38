/**
 * Which database a file is a copy of, and at which version: one row in a table of the copy,
 * written in the transaction that brings it there. A file without that table is no copy.
 */
import type { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '../../lib/errors.ts'
import type { Version } from '../../node/ports.ts'
import { ACCESS_FILE, PROXY_FILE } from '../data-directory.ts'
import { openReading } from '../database.ts'

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
