/** Integrity checks. They read the whole database, a list of a million proxies in ten seconds, so they run in a worker. */
import type { Database } from 'bun:sqlite'
import { CommandError, messageOf, orAborted } from '../lib/errors.ts'
import { startTask, type Task } from '../lib/worker.ts'
import { createAdmissionLog } from './access/admission-log.ts'
import { isDamage } from './errors.ts'
import type { ServerHolds } from './migrate.ts'

type Pragma = 'quick_check' | 'integrity_check'
type Row = { [column: string]: unknown }

/** The problems that `find` returns on one snapshot; damage that it throws is one, too. */
function onSnapshot(db: Database, find: () => string[]): string[] {
  try {
    db.run('begin')
    try {
      return find()
    } finally {
      db.run('rollback')
    }
  } catch (error) {
    if (isDamage(error)) return [messageOf(error)]
    throw error
  }
}

/** SQLite's first finding. Only `integrity_check` compares rows with indexes, which finds most flipped bits. */
export function structureProblems(db: Database, pragma: Pragma): string[] {
  const row = db.prepare<Row, []>(`pragma ${pragma}(1)`).get() ?? {}
  const [found] = Object.values(row).map(String)
  if (found === undefined || found === 'ok') return []
  return [found.replace(/^\*\*\* in database \w+ \*\*\*\s*/, '').replaceAll('\n', ' ')]
}

/** The problems of an open list. */
export const checkList = (db: Database, pragma: Pragma = 'integrity_check'): string[] =>
  onSnapshot(db, () => structureProblems(db, pragma))

export const OF_NO_PLAN = 'keys are of no plan'

/** The problems of open keys, plans and usage. */
export const checkRegistry = (db: Database): string[] =>
  onSnapshot(db, () => {
    const orphans = db.prepare<Row, []>('pragma foreign_key_check').all().length
    const problems = structureProblems(db, 'integrity_check')
    createAdmissionLog(db).catchUp() // throws if it cannot be read
    return orphans === 0 ? problems : [...problems, `${orphans} ${OF_NO_PLAN}`]
  })

export type CheckTask = { kind: 'check'; file: string; holds: ServerHolds }

/** Checks a database in a worker. */
export const startCheck = (file: string, holds: ServerHolds): Task<string[]> =>
  startTask<CheckTask, string[]>('sqlite/database.worker.ts', { kind: 'check', file, holds })

/** What a command waits for that a worker finds. @throws CommandError when that fails, or the reason of `signal`. */
export async function untilDone<T>(start: () => Task<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const { result, end } = start()
  const keepAlive = setInterval(() => {}, 2 ** 30) // the worker does not
  const found = result.catch((error: unknown): never => {
    throw new CommandError(messageOf(error))
  })
  try {
    return await orAborted(found, signal)
  } finally {
    clearInterval(keepAlive)
    end()
  }
}
