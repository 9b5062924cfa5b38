/**
 * Owns what can be wrong with a data directory itself, as sentences for the operator. Knows nothing
 * of what the databases in it hold.
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, codeOf, reasonOf } from '../lib/errors.ts'
import { walOf } from './database-files.ts'

export const PROXY_FILE = 'proxies.db'
export const ACCESS_FILE = 'access.db'

/** What creates each of the databases. */
export const ORIGINS = {
  [PROXY_FILE]: 'fill it with: proxylist import FILE',
  [ACCESS_FILE]: 'create a key with: proxylist keys add',
} as const

type DataFile = keyof typeof ORIGINS

/** Whether there is a directory. @throws CommandError when something else is in its place. */
export function hasDirectory(dir: string): boolean {
  const refuse = (why: string): never => {
    throw new CommandError(`the data directory ${dir} cannot be used: ${why}`)
  }
  try {
    const found = statSync(dir, { throwIfNoEntry: false })
    if (found === undefined) return false
    return found.isDirectory() || refuse('it is not a directory')
  } catch (error) {
    if (error instanceof CommandError) throw error
    return refuse(codeOf(error) === 'ENOTDIR' ? 'a part of its path is a file' : reasonOf(error))
  }
}

/** The sentence about a directory that is not there. */
export const missingDirectory = (dir: string): string =>
  `there is no data directory ${dir}; check --data, or create it with: proxylist import, keys add or restore`

/** @throws CommandError when there is no data directory, or this database is not in it. */
export function requireData(dir: string, name: DataFile): void {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  const file = join(dir, name)
  if (existsSync(file)) return
  if (name === ACCESS_FILE && existsSync(walOf(file))) throw new CommandError(strayWal(file))
  throw new CommandError(`there is no ${file}; ${ORIGINS[name]}`)
}

/** The sentence about a write-ahead log without its database: what it holds must not be lost. */
export const strayWal = (file: string): string =>
  `${file} is missing and its WAL is there: move a backup into its place`
