/**
 * Owns the list of proxies in SQLite as a whole: its file, its schema, its version, and removing
 * what is too old. Selecting is in `select.ts`, writing in `import.ts`.
 */
import type { Database } from 'bun:sqlite'
import type { Clock } from '../../lib/clock.ts'
import { SECOND_MS, toSeconds } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import { checkList } from '../check.ts'
import { dataVersionOf, type OpenMode, type OpenOptions, openDatabase } from '../database.ts'
import {
  fingerprintOf,
  isSameFile,
  isStamped,
  removeStamp,
  stamp,
} from '../integrity/file-stamp.ts'
import { schemaVersion } from '../migrate.ts'
import firstIndexes from './migrations/1-indexes.sql' with { type: 'text' }
import list from './migrations/1-list.sql' with { type: 'text' }
import digest from './migrations/2-digest.sql' with { type: 'text' }
import checksum from './migrations/3-checksum.sql' with { type: 'text' }
import indexes from './migrations/4-indexes.sql' with { type: 'text' }
import { SCAN_MAX } from './quick-select.ts'
import { createSelect } from './select.ts'

/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000

/** A check reads everything once and in order: a large cache would only cost memory. */
const CHECK_CACHE_KIB = 4 * 1024

/** The scripts of the schema, version by version. */
export const LIST_SCHEMA = [list + firstIndexes, digest, checksum, indexes]

type ListFileOptions = OpenMode & Pick<OpenOptions, 'cacheKib'>

/** Opens the list in `file`. A list that is new, or was intact before its migration, is stamped. */
export function openListFile(file: string, clock: Clock, options: ListFileOptions = {}): Database {
  const onMigrate = (db: Database, migrated: string) => {
    const isIntact = migrated !== ':memory:' && wasIntact(db, migrated)
    return () => {
      if (isIntact) stamp(db, migrated, clock())
    }
  }
  return openDatabase(file, { holds: 'proxies', scripts: LIST_SCHEMA, onMigrate, ...options })
}

/** Whether a list of an earlier schema is empty, or known to be intact. */
function wasIntact(db: Database, file: string): boolean {
  const version = schemaVersion(db)
  if (version === 3) return isStamped(db, file)
  if (version !== 2) return version === 0
  const { at } = db.query<{ at: number }, []>('select written_at as at from digest').get() ?? {}
  return fingerprintOf(file)?.modifiedMs === at
}

/**
 * The problems of the list in `file`; none when it is intact, and then it is stamped, unless the
 * file has changed meanwhile. A check of a million rows takes some seconds; `stamping` is called with
 * the function that stamps the list, which must not be ended halfway.
 * @throws StoreError when it cannot be opened.
 */
export function checkListFile(
  file: string,
  clock: Clock,
  stamping: (stampList: () => void) => void = stampList => stampList(),
): string[] {
  const options = { isServer: true, mustExist: true, cacheKib: CHECK_CACHE_KIB }
  const db = openListFile(file, clock, options)
  try {
    const before = fingerprintOf(file)
    const wasStamped = isStamped(db, file)
    const problems = checkOpenList(db)
    if (problems.length > 0) removeStamp(file)
    // A process that has changed a stamped list meanwhile stamps it itself: do not disturb it.
    else if (!wasStamped && isSameFile(before, fingerprintOf(file))) {
      stamping(() => stamp(db, file, clock()))
    }
    return problems
  } finally {
    db.close(true)
  }
}

/** The problems of an open list, see `checkList`. */
export const checkOpenList = (db: Database): string[] => checkList(db, LIST_SCHEMA)

/**
 * The number of rows, and by when they were checked: `recent` from one instant to another, `ahead`
 * later. `newest` is the last check that is not ahead, in Unix seconds.
 */
export type Tally = { rows: number; newest: number | null; recent: number; ahead: number }

const NO_ROWS: Tally = { rows: 0, newest: null, recent: 0, ahead: 0 }

export type ListStore = ReturnType<typeof createListStore>

/** Selects from an open list, and removes from it. */
export function createListStore(db: Database, scanMax = SCAN_MAX) {
  const removeOlder = db.prepare<never, [number, number]>(
    'delete from proxies where id in ' +
      '(select id from proxies where checked_at < ? order by checked_at limit ?)',
  )
  // SQLite reports commits of other connections only; changes of this one are counted separately.
  const othersVersion = oncePerTurn(dataVersionOf(db))
  let seenVersion = othersVersion()
  let changes = 0
  const busyTimeout = db.prepare<{ timeout: number }, []>('pragma busy_timeout')
  const tally = db.prepare<Tally, [number, number]>(
    `select count(*) as rows, max(checked_at) filter (where checked_at <= ?2) as newest,
       count(*) filter (where checked_at between ?1 and ?2) as recent,
       count(*) filter (where checked_at > ?2) as ahead from proxies`,
  )
  const extent = db.prepare<{ rows: number; newest: number | null }, []>(
    'select rows, (select max(checked_at) from proxies) as newest from checksum',
  )
  const any = db.prepare<{ id: number }, []>('select id from proxies limit 1')
  const select = createSelect(db, scanMax)

  /** A number that changes whenever the list does. */
  function version(): number {
    if (othersVersion() !== seenVersion) changes += 1
    seenVersion = othersVersion()
    return changes
  }

  return {
    ...select,
    version,

    /** Records that this connection has changed the list. */
    noteChange: (): void => {
      changes += 1
    },

    /** How many proxies there are, and when they were checked, see `Tally`. */
    tally: (sinceMs: number, untilMs: number): Tally =>
      tally.get(toSeconds(sinceMs), toSeconds(untilMs)) ?? NO_ROWS,

    isEmpty: (): boolean => any.get() === null,

    /** The number of rows according to the checksum, and the newest check in milliseconds. */
    extent(): { rows: number; newestMs: number | null } {
      const { rows, newest } = extent.get() ?? { rows: 0, newest: null }
      return { rows, newestMs: newest === null ? null : newest * SECOND_MS }
    },

    /**
     * Removes up to a slice of rows checked before `cutoffMs`; returns how many they were, and
     * whether more may remain. Throws at once, without waiting, when an import has locked the list.
     */
    removeOlderThan(cutoffMs: number): { removed: number; mayRemain: boolean } {
      const { timeout } = busyTimeout.get() ?? { timeout: 0 }
      db.run('pragma busy_timeout = 0')
      try {
        const removed = removeOlder.run(toSeconds(cutoffMs), REMOVE_SLICE).changes
        if (removed > 0) changes += 1
        return { removed, mayRemain: removed === REMOVE_SLICE }
      } finally {
        db.run(`pragma busy_timeout = ${timeout}`)
      }
    },

    /** Makes every check `seconds` more recent: keeps the sample fresh. */
    shiftChecks: (seconds: number): void => {
      db.run('update proxies set checked_at = checked_at + ?', [seconds])
      changes += 1
    },
  }
}
