/** The failures of SQLite: their kinds, meanings, and sentences for the operator. */
import { SQLiteError } from 'bun:sqlite'
import { basename, dirname } from 'node:path'
import { CommandError, codeOf, messageOf, reasonOf, StoreError } from '../lib/errors.ts'
import { CHECKS_FILE, FEEDS_FILE, PROXY_FILE } from './data-directory.ts'

const DAMAGE = /^SQLITE_(?:CORRUPT|NOTADB|IOERR_SHORT_READ)/

const RESTORE = 'restore a backup with: proxylist restore --force FILE'
/** The remedy for a damaged file, by its name. */
const REMEDIES: { readonly [name: string]: string } = {
  [PROXY_FILE]: `import the whole list again with: proxylist import --replace FILE, or ${RESTORE}`,
  [FEEDS_FILE]: 'remove it: each feed is then fetched in full once',
  [CHECKS_FILE]: 'remove it: the checker then begins with the list and its files',
}

const withRemedy = (file: string, what: string): string =>
  `${file} ${what}; ${REMEDIES[basename(file)] ?? RESTORE}`
/** The error for a database in which `findDamage` has found some. */
export const damagedBy = (file: string, damage: string): StoreError =>
  new StoreError(withRemedy(file, `is damaged: ${damage}`), { isDamage: true })

/** After these, close and reopen the connection. On a full disk, requests then fail without an attempt to write. */
const CLOSING = /^SQLITE_(?:CORRUPT|NOTADB|IOERR|CANTOPEN|READONLY|FULL)/
/** When opening, these need an operator. While a database is open, `CLOSING` decides. */
const FOR_OPERATOR = /^SQLITE_(?:CANTOPEN|READONLY|PERM)/

/** Whether SQLite, or reading its files, failed, as opposed to our own code. */
export const isDatabaseError = (error: unknown): boolean =>
  error instanceof StoreError || error instanceof SQLiteError || /^SQLITE_/.test(codeOf(error))

export const isDamage = (error: unknown): boolean =>
  error instanceof StoreError ? error.isDamage : DAMAGE.test(codeOf(error))

export const isBusy = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_BUSY')

/** Whether a statement failed, not a check of this program. */
export const isSqliteError = (error: unknown): boolean => /^SQLITE_/.test(codeOf(error))

/** Whether a database must be opened again after this failure. */
export const closesConnection = (error: unknown): boolean =>
  !isSqliteError(error) || CLOSING.test(codeOf(error))

export const needsOperator = (error: unknown): boolean =>
  !isDatabaseError(error) || FOR_OPERATOR.test(codeOf(error))

/** SQLite has several codes for one cause. `doctor` looks at the disk and at the owners of the files. */
const HINT = 'is the disk full or read-only, or is its owner another user? See: proxylist doctor'

/** What went wrong with a database file, as a sentence that begins with its name. */
export function explain(file: string, error: unknown): string {
  if (error instanceof StoreError || error instanceof CommandError) return error.message
  if (!isDatabaseError(error)) {
    return `cannot use the data directory ${dirname(file)}: ${reasonOf(error)}`
  }
  const code = codeOf(error)
  if (code.startsWith('SQLITE_NOTADB')) return withRemedy(file, 'is not a database')
  if (code.startsWith('SQLITE_CORRUPT')) return withRemedy(file, 'is damaged')
  if (isBusy(error)) return `${file} is locked by another process`
  return `${file} cannot be used (${messageOf(error)}): ${HINT}`
}

/** Turns a failure of a store into a `CommandError`; returns any other failure unchanged. */
export const toCommandError = (file: string, error: unknown): unknown =>
  isDatabaseError(error) ? new CommandError(explain(file, error)) : error

/** Turns a failure of a store into a `StoreError`; returns any other failure unchanged. */
export function toStoreError(file: string, error: unknown): unknown {
  if (error instanceof StoreError || !isDatabaseError(error)) return error
  return new StoreError(explain(file, error), { isDamage: isDamage(error), cause: error })
}
