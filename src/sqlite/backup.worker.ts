/**
 * Copies a database file while others read and write it: one snapshot, compacted, without
 * blocking anyone. Runs in a worker that `backup.ts` starts.
 */
import { Database, SQLiteError } from 'bun:sqlite'
import { CommandError } from '../lib/errors.ts'
import { doTask } from '../lib/worker.ts'
import { type Copy, type Counts, countParts, sumOf } from './backup.ts'
import { structureProblems } from './check.ts'
import { sizeOf } from './data-directory.ts'
import { damagedBy, emptied, explain } from './errors.ts'
import { requireApplicationId, type ServerHolds } from './migrate.ts'

declare const self: Worker

/** How long to wait for a lock, in milliseconds. Readers hardly ever wait. */
const BUSY_MS = 10_000

/** Errors of copying whose cause is the source; all others concern the copy. */
const OF_SOURCE = /^SQLITE_(?:NOTADB|CORRUPT|BUSY)/

/** Copies a database; returns the rows of its tables. @throws CommandError naming the bad file. */
function copyDatabase({ holds, file, to }: Copy): Partial<Counts> {
  let isReading = true
  try {
    using source = openSource(file, holds)
    const problems = structureProblems(source, 'integrity_check')
    // What is damaged must not take the place of the last good backup.
    if (problems.length > 0) throw new CommandError(damagedBy(file, problems).message)
    isReading = false
    source.run('vacuum into ?', [to])
    requireContent(to)
    using copy = new Database(to, { create: false, readwrite: true, strict: true })
    return countParts(copy, holds)
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error
    const isOfSource = isReading || OF_SOURCE.test(error.code ?? '')
    throw new CommandError(explain(isOfSource ? file : to, error))
  }
}

function openSource(file: string, holds: ServerHolds): Database {
  requireContent(file)
  const source = new Database(file, { create: false, readwrite: true, strict: true })
  try {
    source.run(`pragma busy_timeout = ${BUSY_MS}`)
    requireApplicationId(source, file, holds)
    return source
  } catch (error) {
    source.close()
    throw error
  }
}

function requireContent(file: string): void {
  if (sizeOf(file) === 0) throw new CommandError(emptied(file))
}

self.onmessage = ({ data: copies }: MessageEvent<readonly Copy[]>) =>
  doTask(self, () => sumOf(copies.map(copyDatabase)))
