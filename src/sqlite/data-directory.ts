/**
 * What is in a data directory, and what can be wrong with it, as sentences for the operator. Knows nothing
 * of what the databases hold.
 *
 * The list has a database of its own, so that a request never waits for an import to release the lock
 * for writing: it took up to 329 ms in one file, and takes under 25 ms in two.
 */
import { accessSync, constants, existsSync, lstatSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, reasonOf } from '../lib/errors.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'
export const FEEDS_FILE = 'feeds.db'
/** What the checker remembers of each address. */
export const CHECKS_FILE = 'checks.db'
/** The feeds file, unless `--feeds` names another one. */
export const FEED_LINES_FILE = 'feeds'

/** The ends of the names of files that SQLite keeps next to a database in WAL mode. */
export const WAL_ENDS = ['-wal', '-shm'] as const

/** The path of a database's write-ahead log. */
export const walOf = (file: string): string => `${file}-wal`

/** The size of a file in bytes; 0 when there is none. */
export const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** What creates each of the databases. */
export const ORIGINS = {
  [PROXY_FILE]: 'fill it with: proxylist import FILE',
  [ACCESS_FILE]: 'create a key with: proxylist keys add',
} as const

export type DataFile = keyof typeof ORIGINS

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true // another process may just make it

/** Why a directory cannot be used at all; `null` when it can, or is missing. */
function obstacleOf(dir: string): string | null {
  let owner: number | null = null
  try {
    const found = statSync(dir, { throwIfNoEntry: false })
    if (found === undefined) return isLink(dir) ? 'it is a link that leads nowhere' : null
    if (!found.isDirectory()) return 'it is not a directory'
    owner = found.uid
    accessSync(dir, constants.R_OK | constants.X_OK)
    return null
  } catch (error) {
    const user = process.getuid?.()
    const isOfOther = owner !== null && owner !== user
    return reasonOf(error) + (isOfOther ? `; it belongs to user ${owner}, not ${user}` : '')
  }
}

/** Whether there is a data directory. @throws CommandError when it cannot be used at all. */
export function hasDirectory(dir: string): boolean {
  const obstacle = obstacleOf(dir)
  if (obstacle === null) return existsSync(dir)
  throw new CommandError(`the data directory ${dir} cannot be used: ${obstacle}`)
}

/** The sentence about a directory that is not there. */
export const missingDirectory = (dir: string): string =>
  `there is no data directory ${dir}; check --data, or create it with: proxylist import, keys add or restore`

/** @throws CommandError when there is no data directory, or this database is not in it. */
export function requireData(dir: string, name: DataFile): void {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  if (!existsSync(join(dir, name))) throw new CommandError(missingFile(dir, name))
}

const LOST = 'restore a backup, or, if there never was one,'

/**
 * The sentence about a database that is not there. Beside other data, keys may have been lost: new ones would
 * refuse every customer.
 */
export function missingFile(dir: string, name: DataFile): string {
  const file = join(dir, name)
  const isAccess = name === ACCESS_FILE
  if (isAccess && existsSync(walOf(file))) return strayWal(file)
  const isLost = isAccess && [PROXY_FILE, FEEDS_FILE].some(other => existsSync(join(dir, other)))
  return `there is no ${file}; ${isLost ? `${LOST} ` : ''}${ORIGINS[name]}`
}

/** The sentence about a write-ahead log without its database: what it holds must not be lost. */
export const strayWal = (file: string): string =>
  `${file} is missing and its WAL is there: move a backup into its place`

/** The files of a data directory, the irreplaceable one first. */
export const DATA_FILES = [
  { name: ACCESS_FILE, holds: 'access' },
  { name: PROXY_FILE, holds: 'proxies' },
] as const

/**
 * @throws CommandError when there is no data, or one of its files is missing: nothing shows whether it
 *   was lost or never created, and a backup without the keys must not take the place of one with them.
 */
export function requireParts(dir: string): void {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  const missing = DATA_FILES.map(({ name }) => name).filter(name => !existsSync(join(dir, name)))
  const [lost] = missing
  if (lost === undefined) return
  if (missing.length === DATA_FILES.length) {
    throw new CommandError(`there is nothing to back up in ${dir}`)
  }
  throw new CommandError(
    `${join(dir, lost)} is missing, so nothing was backed up: ${LOST} ${ORIGINS[lost]}`,
  )
}
