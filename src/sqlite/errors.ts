/** The failures of SQLite: their kinds, meanings, and sentences for the operator. */
import { SQLiteError } from 'bun:sqlite'
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { CommandError, codeOf, messageOf, reasonOf, StoreError } from '../lib/errors.ts'
import { CHECKS_FILE, FEEDS_FILE, PROXY_FILE } from './data-directory.ts'

const EXPLANATIONS: { [code: string]: string } = {
  SQLITE_NOTADB: 'is not a database',
  SQLITE_CORRUPT: 'is damaged',
  SQLITE_CANTOPEN: 'cannot be opened or created (is the directory writable?)',
  SQLITE_READONLY: 'cannot be written (read-only file or directory)',
  SQLITE_PERM: 'cannot be opened (permission denied)',
  SQLITE_BUSY: 'is locked by another process',
  SQLITE_FULL:
    'cannot be written (the disk is full: no space or inodes; or that of temporary files, TMPDIR)',
  SQLITE_IOERR: 'cannot be read or written (input/output error, or ulimit -f)',
}

const DAMAGE = /^SQLITE_(?:CORRUPT|NOTADB|IOERR_SHORT_READ)/

const RESTORE = 'restore a backup with: proxylist restore --force FILE'
/** The remedy for a damaged file, by its name. */
const REMEDIES: { readonly [name: string]: string } = {
  [PROXY_FILE]: `import the whole list again with: proxylist import --replace FILE, or ${RESTORE}`,
  [FEEDS_FILE]: 'remove it: each feed is then fetched in full once',
  [CHECKS_FILE]: 'remove it: the checker then begins with the list and its files',
}
const HAS_REMEDY = /^SQLITE_(?:CORRUPT|NOTADB)/

const withRemedy = (file: string, what: string): string =>
  `${file} ${what}; ${REMEDIES[basename(file)] ?? RESTORE}`
/** The error for a database in which `findDamage` has found some. */
export const damagedBy = (file: string, damage: string): StoreError =>
  new StoreError(withRemedy(file, `is damaged: ${damage}`), { isDamage: true })

/** After these, close and reopen the connection. */
const CLOSING = /^SQLITE_(?:CORRUPT|NOTADB|IOERR|CANTOPEN|READONLY)/
/** When opening, these need an operator. While a database is open, `CLOSING` decides. */
const FOR_OPERATOR = /^SQLITE_(?:CANTOPEN|READONLY|PERM)/

/** Whether SQLite, or reading its files, failed, as opposed to our own code. */
export const isDatabaseError = (error: unknown): boolean =>
  error instanceof StoreError || error instanceof SQLiteError || /^SQLITE_/.test(codeOf(error))

/** Whether a file is damaged. */
export const isDamage = (error: unknown): boolean =>
  error instanceof StoreError ? error.isDamage : DAMAGE.test(codeOf(error))

export const isBusy = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_BUSY')

/** Whether a statement failed, not a check of this program. */
export const isSqliteError = (error: unknown): boolean => /^SQLITE_/.test(codeOf(error))

/** Whether a database must be opened again after this failure. */
export const closesConnection = (error: unknown): boolean =>
  !isSqliteError(error) || CLOSING.test(codeOf(error))

/** Whether a failure to open a database needs an operator. */
export const needsOperator = (error: unknown): boolean =>
  !isDatabaseError(error) || FOR_OPERATOR.test(codeOf(error))

/** With less, SQLite cannot create the files that it keeps next to a database. */
const ROOM_BYTES_MIN = 64 * 1024
const ROOM_INODES_MIN = 2

/** Whether the disk of a file is full: SQLite calls that an input/output error in many places. */
function isDiskFull(file: string): boolean {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(dirname(file))
    return bavail * bsize < ROOM_BYTES_MIN || (files > 0 && ffree < ROOM_INODES_MIN)
  } catch {
    return false
  }
}

/** Why this user cannot use a file: its disk, or its owner, such as root who has copied it; `null`: neither. */
function refusalOf(file: string): string | null {
  const user = process.getuid?.()
  const [path, what] = existsSync(file) ? [file, 'it'] : [dirname(file), 'its folder']
  let owner = user
  try {
    owner = statSync(path).uid
    accessSync(path, constants.R_OK | constants.W_OK)
    return null
  } catch (error) {
    if (codeOf(error) === 'EROFS') return 'cannot be written (read-only file system)'
    return owner === user ? null : `cannot be opened: ${what} belongs to user ${owner}, not ${user}`
  }
}

const MAY_BE_FULL = /^SQLITE_(?:IOERR|CANTOPEN)/

/** What went wrong with a database file, as a sentence that begins with its name. */
export function explain(file: string, error: unknown): string {
  if (error instanceof StoreError || error instanceof CommandError) return error.message
  if (!isDatabaseError(error)) {
    return `cannot use the data directory ${dirname(file)}: ${reasonOf(error)}`
  }
  const given = codeOf(error)
  const cause = MAY_BE_FULL.test(given) && isDiskFull(file) ? 'SQLITE_FULL' : given
  const code = Object.keys(EXPLANATIONS).find(name => cause.startsWith(name))
  const what =
    (FOR_OPERATOR.test(cause) ? refusalOf(file) : null) ??
    (code && EXPLANATIONS[code]) ??
    `cannot be used (${messageOf(error)})`
  return HAS_REMEDY.test(cause) ? withRemedy(file, what) : `${file} ${what}`
}

/** Turns a failure of a store into a `CommandError`; returns any other failure unchanged. */
export const toCommandError = (file: string, error: unknown): unknown =>
  isDatabaseError(error) ? new CommandError(explain(file, error)) : error

/** Turns a failure of a store into a `StoreError`; returns any other failure unchanged. */
export function toStoreError(file: string, error: unknown): unknown {
  if (error instanceof StoreError || !isDatabaseError(error)) return error
  return new StoreError(explain(file, error), { isDamage: isDamage(error), cause: error })
}
