/**
 * Owns the files of a database: how a complete new one gets into its place, which user owns it, and
 * what is removed with it. Knows nothing of their content.
 */
import {
  chownSync,
  existsSync,
  linkSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** The ends of the names of files that SQLite keeps next to a database in WAL mode. */
export const WAL_ENDS = ['-wal', '-shm'] as const

/** The path of a database's write-ahead log. */
export const walOf = (file: string): string => `${file}-wal`

/** The owner of a file, or of its directory when there is none. */
const ownerOf = (file: string): Stats => statSync(existsSync(file) ? file : dirname(file))

/** Gives a file that root creates for a service to the user of the service. */
function giveTo({ uid, gid }: Stats, file: string): void {
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

/** Puts a closed database where there is none; throws when another process was first. */
export function linkDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  linkSync(from, to)
}

/** Puts a closed database into the place of another, whose WAL is removed. */
export function moveDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  for (const end of WAL_ENDS) rmSync(to + end, { force: true })
  renameSync(from, to)
}

/** Removes a database with its WAL. */
export function removeDatabase(file: string): void {
  for (const end of ['', ...WAL_ENDS]) rmSync(file + end, { force: true })
}

/** The path, in the same folder, at which the next state of a database is created. */
export function freshFile(file: string): string {
  removeLeftovers(file)
  return `${file}.new-${process.pid}`
}

/** Removes what commands left that were killed while they created `file`. */
function removeLeftovers(file: string): void {
  const start = `${basename(file)}.new-`
  const left = readdirSync(dirname(file)).filter(name => name.startsWith(start))
  for (const name of left) {
    const pid = Number.parseInt(name.slice(start.length), 10)
    if (!isAlive(pid)) rmSync(join(dirname(file), name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
