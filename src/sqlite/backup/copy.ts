/**
 * Owns copying a database file while others read and write it: one snapshot, compacted, without
 * holding anybody up.
 */
import { Database, SQLiteError } from 'bun:sqlite'
import { CommandError } from '../../lib/errors.ts'
import { explain } from '../errors.ts'
import { APPLICATION_IDS } from '../migrate.ts'

/** A database file, what it holds, and where its copy goes (a file that is not there yet). */
export type Copy = { holds: keyof typeof APPLICATION_IDS; file: string; to: string }

/** Rows of the tables that an operator knows. */
export type Counts = { keys: number; plans: number; proxies: number }

const COUNTED = { access: ['keys', 'plans'], proxies: ['proxies'] } as const

/** How long to wait for a lock, in milliseconds: readers wait for next to nobody. */
const BUSY_MS = 10_000

/** Failures that are the source's; all others are of the copy. */
const OF_SOURCE = /^SQLITE_(?:NOTADB|CORRUPT|BUSY)/

/** Copies a database; gives the rows of its tables. @throws CommandError naming the file at fault. */
export function copyDatabase({ holds, file, to }: Copy): Partial<Counts> {
  const source = openedAs(file)
  try {
    source.run(`pragma busy_timeout = ${BUSY_MS}`)
    refuseOther(source, file, APPLICATION_IDS[holds])
    source.run('vacuum into ?', [to])
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error
    throw new CommandError(explain(OF_SOURCE.test(error.code ?? '') ? file : to, error))
  } finally {
    source.close()
  }
  const copy = openedAs(to)
  try {
    const count = (table: string) =>
      copy.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0
    return Object.fromEntries(COUNTED[holds].map(table => [table, count(table)]))
  } finally {
    copy.close()
  }
}

/** Opens a file that is there, and changes nothing in it. */
function openedAs(file: string): Database {
  try {
    return new Database(file, { create: false, readwrite: true, strict: true })
  } catch (error) {
    throw new CommandError(explain(file, error))
  }
}

function refuseOther(db: Database, file: string, applicationId: number): void {
  const id = db.query<{ application_id: number }, []>('pragma application_id').get()?.application_id
  if (id !== applicationId) throw new CommandError(`${file} is a database of another program`)
}
