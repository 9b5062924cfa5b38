/**
 * Owns the list of proxies in SQLite as a whole: its file, its version, forgetting what is too
 * old. Selecting from it is in `select.ts`, writing it in `importer.ts`.
 */
import type { Database } from 'bun:sqlite'
import { toSeconds } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import type { Filter, Proxy } from '../../proxies/proxy.ts'
import { dataVersionOf, type OpenOptions, openDatabase } from '../database.ts'
import { checkList } from '../integrity/check.ts'
import { DIGEST_SCHEMA } from '../integrity/checksum.ts'
import { breakSeal, isSameMark, isSealed, markOf, seal } from '../integrity/file-stamp.ts'
import indexes from './migrations/1-indexes.sql' with { type: 'text' }
import schema from './migrations/1-list.sql' with { type: 'text' }
import { createSelect, type Detail, SCAN_MAX } from './select.ts'

/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000

/** A check reads everything once and in order: a large cache would only cost memory. */
const CHECK_CACHE_KIB = 4 * 1024

/** The scripts of the schema, version by version. */
export const PROXY_SCHEMA = [schema + indexes, DIGEST_SCHEMA]

type ProxyFileOptions = Pick<OpenOptions, 'serving' | 'again' | 'cacheKib'>

export const openProxyFile = (file: string, options: ProxyFileOptions = {}): Database =>
  openDatabase(file, { holds: 'proxies', schema: PROXY_SCHEMA, made: seal, ...options })

/**
 * What is wrong with the list in `file`; nothing when it is whole, and then it is sealed, unless
 * the file has changed meanwhile. A check of a million rows takes some seconds.
 * @throws Unavailable when it cannot be opened.
 */
export function checkListFile(file: string): string[] {
  const db = openProxyFile(file, { serving: true, again: true, cacheKib: CHECK_CACHE_KIB })
  try {
    const before = markOf(file)
    const wasSealed = isSealed(db, file)
    const problems = checkList(db, PROXY_SCHEMA)
    if (problems.length > 0) breakSeal(file)
    // Who has changed a sealed list meanwhile seals it again, and must not be disturbed.
    else if (!wasSealed && isSameMark(before, markOf(file))) seal(db, file)
    return problems
  } finally {
    db.close(true)
  }
}

/** Counts of rows, and the newest check in Unix seconds. */
export type Tally = { rows: number; newest: number | null; recent: number }

/** Selects from, and thins out, an open list. */
export function createProxyStore(db: Database, scanMax = SCAN_MAX) {
  const removeOlder = db.prepare<never, [number, number]>(
    'delete from proxies where id in ' +
      '(select id from proxies where checked_at < ? order by checked_at limit ?)',
  )
  // SQLite tells of other connections' commits only; what this one changes is counted beside.
  const othersVersion = oncePerTurn(dataVersionOf(db))
  let seenVersion = othersVersion()
  let changes = 0
  const busyTimeout = db.prepare<{ timeout: number }, []>('pragma busy_timeout')
  const tally = db.prepare<Tally, [number]>(
    `select count(*) as rows, max(checked_at) as newest,
       count(case when checked_at >= ? then 1 end) as recent from proxies`,
  )
  const any = db.prepare<{ id: number }, []>('select id from proxies limit 1')

  const { select, selectQuickly, each } = createSelect(db, scanMax)

  /** A number that changes with the list, whoever changes it. */
  function version(): number {
    if (othersVersion() !== seenVersion) changes += 1
    seenVersion = othersVersion()
    return changes
  }

  return {
    select,
    each,
    version,
    selectQuickly: (
      filter: Filter,
      masked: boolean,
      nowMs: number,
      detail: Detail = 'all',
    ): Proxy[] | null => selectQuickly(filter, masked, nowMs, version(), detail),

    /** Tells that this very connection has changed the list. */
    noteChange: (): void => {
      changes += 1
    },

    /** How many proxies there are, and how many were checked since `sinceMs`. */
    tally: (sinceMs: number): Tally =>
      tally.get(toSeconds(sinceMs)) ?? { rows: 0, newest: null, recent: 0 },

    /** Whether the list holds nothing. */
    isEmpty: (): boolean => any.get() === null,

    /**
     * Removes up to a slice of rows checked before `cutoffMs`; says whether more may remain.
     * Throws at once, without waiting, when an import holds the list.
     */
    removeOlderThan(cutoffMs: number): boolean {
      const { timeout } = busyTimeout.get() ?? { timeout: 0 }
      db.run('pragma busy_timeout = 0')
      try {
        const removed = removeOlder.run(toSeconds(cutoffMs), REMOVE_SLICE).changes
        if (removed > 0) changes += 1
        return removed === REMOVE_SLICE
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
