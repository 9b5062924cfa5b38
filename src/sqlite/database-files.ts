/**
 * Owns the files of a database: how a new one comes into its place complete, who owns it, and what
 * is removed with it. Knows nothing of what is in them.
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

/** What SQLite keeps beside a file in WAL mode. */
export const WAL_ENDS = ['-wal', '-shm'] as const

export const walOf = (file: string): string => `${file}-wal`

/** Who owns a file, or its directory when there is none. */
const ownerOf = (file: string): Stats => statSync(existsSync(file) ? file : dirname(file))

/** What root makes for a service belongs to the user of the service. */
function giveTo({ uid, gid }: Stats, file: string): void {
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

/** Puts a closed database into a place where none is; fails when another process was first. */
export function linkDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  linkSync(from, to)
}

/** Puts a closed database into the place of another, of which nothing is left. */
export function moveDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  for (const end of WAL_ENDS) rmSync(to + end, { force: true })
  renameSync(from, to)
}

/** Removes a database with its WAL. */
export function removeDatabase(file: string): void {
  for (const end of ['', ...WAL_ENDS]) rmSync(file + end, { force: true })
}

/** The name under which the next state of a database is made, beside it. */
export function freshFile(file: string): string {
  removeLeftovers(file)
  return `${file}.new-${process.pid}`
}

/** Removes what commands left that were killed while they made `file`. */
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
