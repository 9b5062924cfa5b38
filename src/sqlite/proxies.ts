/**
 * Owns the list of proxies in SQLite as a whole: its file, its version, forgetting what is too
 * old. Selecting from it is in `select.ts`, writing it in `importer.ts`.
 */
import type { Database } from 'bun:sqlite'
import { oncePerTurn } from '../batch.ts'
import type { Filter, Proxy } from '../proxy.ts'
import { toSeconds } from '../time.ts'
import indexes from './indexes.sql' with { type: 'text' }
import { dataVersionOf, openDatabase } from './open.ts'
import schema from './proxies.sql' with { type: 'text' }
import { createSelect, type Detail, SCAN_MAX } from './select.ts'

/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000

export const openProxyFile = (file: string, serving = false, cacheKib?: number): Database =>
  openDatabase(file, {
    holds: 'proxies',
    schema: [schema + indexes],
    serving,
    ...(cacheKib !== undefined && { cacheKib }),
  })

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
