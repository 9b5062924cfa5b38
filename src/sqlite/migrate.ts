/**
 * Owns schema versions: SQL scripts (`migrations/` of each store) bring a database from any earlier
 * version to the newest, in one transaction. The version is SQLite's `user_version`; its
 * `application_id` says which database it is.
 */
import type { Database } from 'bun:sqlite'
import { CommandError } from '../lib/errors.ts'

/** Mark a SQLite file as a database of this program: `PRXL`, `PRXA` and `PRXF`. */
export const APPLICATION_IDS = {
  proxies: 0x5052584c,
  access: 0x50525841,
  feeds: 0x50525846,
} as const
export type Holds = keyof typeof APPLICATION_IDS
/** The databases that a server keeps open. */
export type ServerHolds = Exclude<Holds, 'feeds'>

const pragma = (db: Database, name: string): number =>
  Number(Object.values(db.query<{ [name: string]: number }, []>(`pragma ${name}`).get() ?? {})[0])

/** @throws CommandError when the file is of another program, or holds something else of ours. */
export function refuseForeign(db: Database, file: string, holds: Holds): void {
  const id = pragma(db, 'application_id')
  const tables = db.query<{ n: number }, []>('select count(*) as n from sqlite_schema').get()?.n
  if (id === APPLICATION_IDS[holds] || (id === 0 && tables === 0)) return
  const isOther = Object.values<number>(APPLICATION_IDS).includes(id)
  throw new CommandError(
    isOther
      ? `${file} is another database of proxylist under this name`
      : `${file} is a database of another program`,
  )
}

export type MigrateOptions = {
  holds: Holds
  /** Version n of the schema is the state after script n. */
  scripts: readonly string[]
}

/** The version of a database's schema; 0 is an empty file. */
export const schemaVersion = (db: Database): number => pragma(db, 'user_version')

/** Whether a database was written by an earlier version of the program. */
export const isOfEarlierSchema = (
  db: Database,
  { holds, scripts }: Pick<MigrateOptions, 'holds' | 'scripts'>,
): boolean =>
  pragma(db, 'application_id') === APPLICATION_IDS[holds] && schemaVersion(db) < scripts.length

/**
 * Brings a database to the newest version in one transaction.
 * @throws CommandError when a newer program wrote it.
 */
export function migrate(db: Database, file: string, { holds, scripts }: MigrateOptions): void {
  if (schemaVersion(db) === scripts.length) return
  db.transaction(() => {
    const version = schemaVersion(db) // again: another process may have been first
    if (version > scripts.length) {
      throw new CommandError(
        `${file} was written by a newer proxylist ` +
          `(schema ${version}, this one knows ${scripts.length}); use that version`,
      )
    }
    for (const script of scripts.slice(version)) db.run(script)
    db.run(`pragma application_id = ${APPLICATION_IDS[holds]}`)
    db.run(`pragma user_version = ${scripts.length}`)
  }).immediate()
}
