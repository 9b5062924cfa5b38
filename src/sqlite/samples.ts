/**
 * The samples of the console's charts, minutes of a day and hours of a month, in a small database of their own:
 * they are about this machine, so they are in no backup and on no other one. To lose them loses a picture,
 * so nothing waits for the disk, and a file that is damaged is begun again.
 */
import { Database } from 'bun:sqlite'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { reasonOf } from '../lib/errors.ts'
import { giveToOwner, openOrRemake } from './database-files.ts'

/** The file in the data directory. */
export const SAMPLES_FILE = 'console.db'

/** How long another server on the directory that writes is waited for, in milliseconds. */
const BUSY_MS = 50

function begin(file: string): Database {
  const db = new Database(file, { create: true, strict: true })
  try {
    db.run(`pragma busy_timeout = ${BUSY_MS}`)
    db.run('pragma synchronous = off')
    db.run(
      'create table if not exists samples (slot integer primary key, sample text not null) strict',
    )
    db.run(
      'create table if not exists counted (one integer primary key, said text not null) strict',
    )
    db.run('select sum(length(sample)) from samples') // reads every page: damage is found now
    chmodSync(file, 0o600)
    giveToOwner(file)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** What a server has counted of requests, as sentences, and when; no other process knows it. */
export type Counted = { atMs: number; found: readonly string[] }

/** What the last server on `dir` has counted; `null` when there is none, or it cannot be read. */
export function readCounted(dir: string): Counted | null {
  try {
    using db = new Database(join(dir, SAMPLES_FILE), { readonly: true })
    const row = db.query<{ said: string }, []>('select said from counted').get()
    return row && JSON.parse(row.said)
  } catch {
    return null
  }
}

/**
 * The samples in `dir`, each in a slot of its number. No method throws: what cannot be written stays in the
 * memory of the caller, which is said once.
 */
export function openSamples(dir: string, say: (sentence: string) => void) {
  const file = join(dir, SAMPLES_FILE)
  let db: Database | null = null
  let problem = ''

  function attempt<T>(work: (db: Database) => T): T | null {
    try {
      db ??= openOrRemake(file, () => begin(file))
      const result = work(db)
      problem = ''
      return result
    } catch (error) {
      db?.close()
      db = null // the next sample tries again
      const reason = reasonOf(error)
      if (reason !== problem) say(`the charts of the console are kept in memory only: ${reason}`)
      problem = reason
      return null
    }
  }

  return {
    read: (): unknown[] =>
      attempt(db =>
        db
          .query<{ sample: string }, []>('select sample from samples')
          .all()
          .map(({ sample }) => JSON.parse(sample)),
      ) ?? [],
    write(slot: number, sample: object): void {
      attempt(db =>
        db.run('insert or replace into samples values (?, ?)', [slot, JSON.stringify(sample)]),
      )
    },
    /** Keeps what was counted for `doctor`, in the place of what was before. */
    count: (counted: Counted): void =>
      void attempt(db =>
        db.run('insert or replace into counted values (1, ?)', [JSON.stringify(counted)]),
      ),
    close(): void {
      db?.close()
      db = null
    },
  }
}
