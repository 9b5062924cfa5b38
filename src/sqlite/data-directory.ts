/** The files of a data directory. The list has its own, so that no request waits for an import (329 ms in one file). */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, reasonOf } from '../lib/errors.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'
export const FEEDS_FILE = 'feeds.db'
export const CHECKS_FILE = 'checks.db'

/** The ends of the names of files that SQLite keeps next to a database in WAL mode. */
export const WAL_ENDS = ['-wal', '-shm'] as const

export const walOf = (file: string): string => `${file}-wal`

/** The size of a file in bytes; 0 when there is none, or none that can be read. */
export function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}

/** What creates each of the databases. */
export const ORIGINS = {
  [PROXY_FILE]: 'fill it with: proxylist import FILE',
  [ACCESS_FILE]: 'create a key with: proxylist keys add',
} as const

export type DataFile = keyof typeof ORIGINS

/** Whether there is a data directory. @throws CommandError when it cannot be used at all. */
export function hasDirectory(dir: string): boolean {
  const user = process.getuid?.()
  let owner = user
  try {
    const found = statSync(dir, { throwIfNoEntry: false })
    if (found === undefined) return false
    owner = found.uid
    if (!found.isDirectory()) throw new Error('it is not a directory')
    accessSync(dir, constants.R_OK | constants.X_OK)
    return true
  } catch (error) {
    const whose = owner === user ? '' : `; it belongs to user ${owner}, not ${user}`
    throw new CommandError(`the data directory ${dir} cannot be used: ${reasonOf(error)}${whose}`)
  }
}

export const missingDirectory = (dir: string): string =>
  `there is no data directory ${dir}; check --data, or create it with: proxylist import, keys add or restore`

/** @throws CommandError when there is no data directory, or this database is not in it. */
export function requireData(dir: string, name: DataFile): void {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  if (!existsSync(join(dir, name))) throw new CommandError(missingFile(dir, name))
}

export const missingFile = (dir: string, name: DataFile): string =>
  `there is no ${join(dir, name)}; ${ORIGINS[name]}`

/** The files of a data directory, the irreplaceable one first. */
export const DATA_FILES = [
  { name: ACCESS_FILE, kind: 'access' },
  { name: PROXY_FILE, kind: 'proxies' },
] as const
