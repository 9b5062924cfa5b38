/**
 * The files of a database: how a complete new one gets into its place, which user owns it, and
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

/** Gives a file that root creates beside the data to the owner of their folder. */
export const giveToOwner = (file: string): void => giveTo(statSync(dirname(file)), file)

/** Puts a closed database where there is none; throws when another process was first. */
export function linkDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  linkSync(from, to)
}

/** Puts a closed database into the place of a damaged one that is locked, without its WAL. */
export function moveDatabase(from: string, to: string): void {
  giveTo(ownerOf(to), from)
  removeWal(to)
  renameSync(from, to)
}

/** Removes the WAL of a database that is not there or is about to be removed. */
export function removeWal(file: string): void {
  for (const end of WAL_ENDS) rmSync(file + end, { force: true })
}

/** Removes a database with its WAL. */
export function removeDatabase(file: string): void {
  for (const end of ['', ...WAL_ENDS]) rmSync(file + end, { force: true })
}

/** Attempts to remove a folder. */
const REMOVALS_MAX = 10

/** Removes a folder. An attempt ends early, without an error, when SQLite removes a file meanwhile. */
export function removeFolder(dir: string): void {
  for (let n = 0; n < REMOVALS_MAX && existsSync(dir); n += 1) {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** How the names of next states of a database begin; the id of the process follows. */
export const freshStart = (name: string): string => `${name}.new-`

/** The path, in the same folder, at which the next state of a database is created. */
export function freshFile(file: string): string {
  const start = freshStart(basename(file))
  removeLeftovers(dirname(file), start)
  return join(dirname(file), start + process.pid)
}

/** What killed commands left: names that are `start` and the id of a process that is not there. */
export const leftoversOf = (dir: string, start: string): string[] =>
  readdirSync(dir).filter(
    name => name.startsWith(start) && !isAlive(Number.parseInt(name.slice(start.length), 10)),
  )

/** Removes what killed commands left. */
export function removeLeftovers(dir: string, start: string): void {
  for (const name of leftoversOf(dir, start)) {
    rmSync(join(dir, name), { recursive: true, force: true })
  }
}

/** Whether a process has this id. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
