/**
 * Putting a copy that is made from nothing into its place: complete, so that a server never sees
 * a part of it.
 */
import type { Database } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { StoreError } from '../../lib/errors.ts'
import { freshFile, moveDatabase, removeDatabase } from '../database-files.ts'
import { lockPlace } from '../file-lock.ts'

type FreshParts = {
  open: (file: string) => Database
  fill: (db: Database, file: string) => Promise<void> | void
  /** Called before the copy is moved into the place of `file`. */
  onMove: () => void
}

/** Fills a new database and moves it into the place of `file`, whatever is there. */
export async function putFresh(file: string, { open, fill, onMove }: FreshParts): Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const release = lockPlace(file, 0)
  if (release === null) throw new StoreError(`${file} is being replaced by another process`)
  const fresh = freshFile(file)
  try {
    const db = open(fresh)
    try {
      await fill(db, fresh)
    } finally {
      db.close(true)
    }
    onMove()
    moveDatabase(fresh, file)
  } finally {
    removeDatabase(fresh)
    release()
  }
}
