/**
 * Schemas and their versions. SQL scripts bring a database from any earlier version to the newest, in one
 * transaction: version n is the state after script n, and a released script does not change. The version
 * is SQLite's `user_version`; the `application_id` says which database it is.
 */
import { Database } from 'bun:sqlite'
import { chmodSync, existsSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { CommandError } from '../lib/errors.ts'
import { say } from '../lib/log.ts'
import { DATA_FILES } from './data-directory.ts'
import { freshFile, giveToOwner } from './database-files.ts'

/** Mark a SQLite file as a database of this program: `pxll`, `pxla`, `pxlf` and `pxlc`. */
export const APPLICATION_IDS = {
  proxies: 0x70786c6c,
  access: 0x70786c61,
  feeds: 0x70786c66,
  checks: 0x70786c63,
} as const

export type Holds = keyof typeof APPLICATION_IDS
export type ServerHolds = Exclude<Holds, 'feeds' | 'checks'>

/**
 * Builds before the first release numbered their schemas from 1, too, with other tables. The databases of older
 * ones have other marks, `PRXL` and `pxlp`, `PRXA`, `PRXF`, so that the numbers cannot be confused; and what to do.
 */
const UNRELEASED: { readonly [holds in Holds]: { ids: readonly number[]; remedy: string } } = {
  proxies: { ids: [0x5052584c, 0x70786c70], remedy: 'remove it, and import the list again' },
  access: {
    ids: [0x50525841],
    remedy:
      'export the keys with that build (keys export), remove the file, and import them with this one (keys import)',
  },
  feeds: { ids: [0x50525846], remedy: 'remove it: each feed is then fetched in full once' },
  checks: { ids: [], remedy: '' }, // there was none
}

const unreleased = (file: string, holds: Holds): CommandError =>
  new CommandError(
    `${file} was written by a build of proxylist before its first release: ${UNRELEASED[holds].remedy}`,
  )

/** `scripts` lead from one version to the next, the first from an empty database. */
export type Schema = { holds: Holds; scripts: readonly string[]; isForeign?: boolean }

export const pragma = (db: Database, name: string): number =>
  Number(Object.values(db.query<{ [name: string]: number }, []>(`pragma ${name}`).get() ?? {})[0])

/** The version of a database's schema; 0 is an empty file. */
export const schemaVersion = (db: Database): number => pragma(db, 'user_version')

/** @throws CommandError when the file is not ours, holds something else, or precedes the first release. */
export function refuseForeign(db: Database, file: string, holds: Holds): void {
  const id = pragma(db, 'application_id')
  const tables = db.query<{ n: number }, []>('select count(*) as n from sqlite_schema').get()?.n
  if (id === APPLICATION_IDS[holds] || (id === 0 && tables === 0)) return
  if (UNRELEASED[holds].ids.includes(id)) throw unreleased(file, holds)
  const old = Object.values(UNRELEASED).flatMap(({ ids }) => ids)
  const isOurs = [...Object.values<number>(APPLICATION_IDS), ...old].includes(id)
  throw new CommandError(
    isOurs
      ? `${file} is another database of proxylist under this name`
      : `${file} is a database of another program`,
  )
}

export const isOfEarlierSchema = (db: Database, { holds, scripts }: Schema): boolean =>
  pragma(db, 'application_id') === APPLICATION_IDS[holds] && schemaVersion(db) < scripts.length

/** What the schema of a database is made of, each as a text: tables, indexes, triggers and views, or one type of them. */
export const objectsOf = (db: Database, type = '%'): Set<string> =>
  new Set(
    db
      .prepare('select type, name, tbl_name, sql from sqlite_schema where type like ?')
      .values(type)
      .map(object => JSON.stringify(object)),
  )

export function objectsMadeBy(scripts: readonly string[], type?: string): Set<string> {
  using fresh = new Database(':memory:')
  for (const script of scripts) fresh.run(script)
  return objectsOf(fresh, type)
}

/** The tables that some scripts make, which takes a millisecond. */
const tablesMadeBy = new Map<string, Set<string>>()

/**
 * In one transaction, because another process may migrate the database meanwhile.
 * @throws CommandError as `refuseForeign`, or when it lacks a table of its version or has another of that name.
 */
export const refuseOthers = (db: Database, file: string, { holds, scripts }: Schema): void =>
  db.transaction(() => {
    refuseForeign(db, file, holds)
    const version = schemaVersion(db)
    const made = version > scripts.length ? [] : scripts.slice(0, version)
    const key = made.join('\n')
    const tables = tablesMadeBy.get(key) ?? objectsMadeBy(made, 'table')
    tablesMadeBy.set(key, tables)
    if (!tables.isSubsetOf(objectsOf(db))) throw unreleased(file, holds)
  })()

/**
 * Copies keys and list beside them, before the first of both is brought to a schema; copies of an earlier attempt
 * go. To go back, they are put in the place of both. Another connection may have one locked for writing.
 */
function keepCopies(dir: string, schema: number): void {
  const files = DATA_FILES.map(({ name }) => join(dir, name)).filter(file => existsSync(file))
  const earlier = files.filter(file => {
    using db = new Database(file, { create: false, readwrite: true })
    return schemaVersion(db) < schema
  })
  for (const file of earlier) {
    const copy = `${file}.before-schema-${schema}`
    if (existsSync(copy) && earlier.length < files.length) continue
    const part = freshFile(copy)
    using db = new Database(file, { create: false, readwrite: true })
    db.run('vacuum into ?', [part])
    chmodSync(part, 0o600)
    giveToOwner(part)
    renameSync(part, copy)
    say(`kept a copy of ${file}, as it was before schema ${schema}: ${copy}`)
  }
}

export const ofNewer = (file: string, version: number, known: number): string =>
  `${file} was written by a newer proxylist (schema ${version}, this one knows ${known}); use that version`

/**
 * Brings a database to the newest version; of keys and list, copies of both are kept before that.
 * @throws CommandError when a newer program wrote it.
 */
export function migrate(db: Database, file: string, { holds, scripts, isForeign }: Schema): void {
  if (schemaVersion(db) === scripts.length) return
  db.transaction(() => {
    const version = schemaVersion(db) // again: another process may have been first
    if (version > scripts.length) throw new CommandError(ofNewer(file, version, scripts.length))
    const isKept = version > 0 && existsSync(file) && DATA_FILES.some(data => data.holds === holds)
    if (isKept && !isForeign) keepCopies(dirname(file), scripts.length)
    for (const script of scripts.slice(version)) db.run(script)
    db.run(`pragma application_id = ${APPLICATION_IDS[holds]}`)
    db.run(`pragma user_version = ${scripts.length}`)
  }).immediate()
}
