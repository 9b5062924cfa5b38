/**
 * Migrations. Script n brings a database from version n - 1 to n, all in one transaction; a released script never
 * changes. `user_version` is the version, `application_id` says which database it is.
 */
import { Database } from 'bun:sqlite'
import { chmodSync, renameSync } from 'node:fs'
import { CommandError } from '../lib/errors.ts'
import { say } from '../lib/log.ts'
import { giveToOwner, tempPath } from './database-files.ts'

/** Identify a SQLite file as a database of this program: `pxll`, `pxla`, `pxlf` and `pxlc`. */
export const APPLICATION_IDS = {
  proxies: 0x70786c6c,
  access: 0x70786c61,
  feeds: 0x70786c66,
  checks: 0x70786c63,
} as const

export type DatabaseKind = keyof typeof APPLICATION_IDS
export type ServerKind = Exclude<DatabaseKind, 'feeds' | 'checks'>

/** `scripts` lead from one version to the next, the first from an empty database. */
export type Schema = {
  kind: DatabaseKind
  scripts: readonly string[]
  /** The caller only reads: the file must exist, and an earlier schema is refused instead of migrated. */
  isReader?: boolean
  fill?: (db: Database) => void
  /** The file lies in a temporary folder: no copy of it is kept before it is migrated. */
  isTemporary?: boolean
}

export const pragma = (db: Database, name: string): number =>
  Number(Object.values(db.query<{ [name: string]: number }, []>(`pragma ${name}`).get() ?? {})[0])

export const schemaVersion = (db: Database): number => pragma(db, 'user_version')

/** @throws CommandError when the file is a database of another program, or another one of this program. */
export function requireApplicationId(db: Database, file: string, kind: DatabaseKind): void {
  // One statement, because another process may create the database meanwhile.
  const { id = 0, tables = 0 } =
    db
      .query<{ id: number; tables: number }, []>(
        'select application_id as id, (select count(*) from sqlite_schema) as tables from pragma_application_id',
      )
      .get() ?? {}
  if (id === APPLICATION_IDS[kind] || (id === 0 && tables === 0)) return
  throw new CommandError(
    Object.values<number>(APPLICATION_IDS).includes(id)
      ? `${file} is another database of proxylist under this name`
      : `${file} is a database of another program`,
  )
}

/** Copies a database beside itself, so that an operator can go back to the schema before. */
function keepCopy(file: string, schema: number): void {
  const copy = `${file}.before-schema-${schema}`
  const part = tempPath(copy)
  // Another connection, because the one that migrates is in a transaction.
  using db = new Database(file, { create: false, readwrite: true })
  db.run('vacuum into ?', [part])
  chmodSync(part, 0o600)
  giveToOwner(part)
  renameSync(part, copy)
  say(`kept a copy of ${file}, as it was before schema ${schema}: ${copy}`)
}

const ofNewer = (file: string, version: number, known: number): string =>
  `${file} was written by a newer proxylist (schema ${version}, this one knows ${known}); use that version`

const ofEarlier = (file: string): string =>
  `${file} was written by an earlier proxylist; serve, or a command that changes something, upgrades it`

/**
 * Migrates a database to the newest version. Keeps a copy of keys or list before that.
 * @throws CommandError when a newer program wrote it, and for a reader when an earlier one did.
 */
export function migrate(
  db: Database,
  file: string,
  { kind, scripts, isReader, isTemporary, fill }: Schema,
): void {
  if (schemaVersion(db) === scripts.length) return
  db.transaction(() => {
    const version = schemaVersion(db) // again: another process may have migrated it meanwhile
    if (version > scripts.length) throw new CommandError(ofNewer(file, version, scripts.length))
    if (version === scripts.length) return
    if (isReader) throw new CommandError(ofEarlier(file))
    const isPrecious = kind === 'access' || kind === 'proxies'
    if (version > 0 && isPrecious && !isTemporary) keepCopy(file, scripts.length)
    for (const script of scripts.slice(version)) db.run(script)
    db.run(`pragma application_id = ${APPLICATION_IDS[kind]}`)
    db.run(`pragma user_version = ${scripts.length}`)
    if (version === 0) fill?.(db)
  })[isReader ? 'deferred' : 'immediate']()
}
