/**
 * Whether a database can become, or be moved as, data: it is intact, and one from elsewhere holds nothing
 * foreign. That reads all of it, so it is done in a worker: a command ends at a signal meanwhile.
 */
import type { Database } from 'bun:sqlite'
import { CommandError } from '../lib/errors.ts'
import { startTask } from '../lib/worker.ts'
import { openAccessFile } from './access/file.ts'
import { type Counts, countParts } from './backup.ts'
import { checkRegistry, untilDone } from './check.ts'
import type { OpenMode } from './database.ts'
import { damagedBy, explain, isStoreFailure } from './errors.ts'
import type { ServerHolds } from './migrate.ts'
import { checkOpenList, openListFile } from './proxies/store.ts'

type Unverified = { file: string; holds: ServerHolds; isTemporary: boolean }
export type VerifyTask = Unverified & { kind: 'verify' }

/** How each database is opened, where one of an earlier schema is migrated, and checked. */
const HOW: {
  readonly [holds in ServerHolds]: {
    open: (file: string, mode: OpenMode) => Database
    check: (db: Database) => string[]
  }
} = {
  access: { open: openAccessFile, check: checkRegistry },
  proxies: { open: openListFile, check: checkOpenList },
}

/** Brings a database to the newest schema and verifies it, in this thread; returns its rows. @throws CommandError. */
export function verifyHere({ file, holds, isTemporary }: Unverified): Partial<Counts> {
  const { open, check } = HOW[holds]
  try {
    using db = open(file, { mustExist: true, isTemporary })
    const problems = check(db)
    if (problems.length > 0) throw damagedBy(file, problems)
    return countParts(db, holds)
  } catch (error) {
    throw isStoreFailure(error) ? new CommandError(explain(file, error)) : error
  }
}

/** As `verifyHere`, in a worker. @throws CommandError, or the reason of `signal`. */
export const verify = (database: Unverified, signal: AbortSignal): Promise<Partial<Counts>> =>
  untilDone(
    () =>
      startTask<VerifyTask, Partial<Counts>>('sqlite/database.worker.ts', {
        ...database,
        kind: 'verify',
      }),
    signal,
  )
