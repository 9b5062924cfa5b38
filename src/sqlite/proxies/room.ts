/**
 * Whether the disk has room for an import. Its pages are written twice: into the WAL, and from
 * there into the file. If only the WAL fits, the import is done and cannot be undone, the disk stays
 * full, and nobody is admitted any more.
 */
import type { Database } from 'bun:sqlite'
import { realpathSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError } from '../../lib/errors.ts'
import { walBytes } from '../wal.ts'

const MEGABYTE = 1_000_000
/** For pages that change in place, and for the next admissions. */
const MARGIN = 1 / 16

/** The bytes that a file has to grow by, those of it that are in the WAL already, and those that are free. */
export type Room = { growth: number; written: number; free: number }

/** The bytes that are missing before an import can be committed; 0 or less when it can. */
export const missingBytes = ({ growth, written, free }: Room): number =>
  growth <= 0 ? 0 : Math.ceil((growth + Math.max(0, growth - written)) * (1 + MARGIN)) - free

/** Free bytes on the disk of a file; some file systems do not count them. */
function freeBytes(file: string): number {
  const { blocks, bavail, bsize } = statfsSync(dirname(file))
  return blocks > 0 ? bavail * bsize : Number.POSITIVE_INFINITY
}

/**
 * Returns a function for the end of a transaction that is beginning: it throws when the list would
 * not fit. A list in memory always fits.
 * @throws CommandError that says how much is missing.
 */
export function createRoomCheck(db: Database): () => void {
  if (db.filename === '' || db.filename === ':memory:') return () => {}
  const file = realpathSync(db.filename) // SQLite puts the WAL there
  const before = walBytes(file)
  return () => {
    const found = db
      .query<{ bytes: number }, []>(
        `select (select page_count from pragma_page_count) *
          (select page_size from pragma_page_size) as bytes`,
      )
      .get()
    const growth = (found?.bytes ?? 0) - statSync(file).size
    const missing = missingBytes({
      growth,
      written: walBytes(file) - before,
      free: freeBytes(file),
    })
    if (missing <= 0) return
    const megabytes = Math.ceil(missing / MEGABYTE)
    throw new CommandError(
      `${db.filename} cannot be written (the disk is full: ${megabytes} MB more are needed); nothing was imported`,
    )
  }
}
