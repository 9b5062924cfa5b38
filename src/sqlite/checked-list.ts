/**
 * The list of a data directory as the checker uses it: read in pages by address, and written once a second, while
 * servers read it and others import. Nothing here waits within a statement.
 */
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError, codeOf, StoreError } from '../lib/errors.ts'
import { LISTED_COLUMNS, type ListedNumbers, toListed } from '../proxies/row.ts'
import { failingAs, requireUnmoved } from './checks.ts'
import { PROXY_FILE } from './data-directory.ts'
import { dataVersionOf } from './database.ts'
import { explain, toStoreError } from './errors.ts'
import { ofNewer, schemaVersion } from './migrate.ts'
import { LIST_SCRIPTS } from './proxies/store.ts'
import { openList } from './stores.ts'

const PAGE_ROWS = 2_000

/** Opens the list in `dir`, making it where there is none, or one in memory. @throws as `openList` does. */
export function openCheckedList(dir: string | null, clock: Clock) {
  const file = join(dir ?? '', PROXY_FILE)
  const list = openList(dir, { clock, isServer: true })
  const others = dataVersionOf(list.db)
  const columns = LISTED_COLUMNS.join(', ')
  const rowsWhere = <A extends [number | string]>(which: string) =>
    list.db.prepare<ListedNumbers, A>(`select ${columns} from proxies where ${which}`)
  const after = rowsWhere<[number]>(`id > ? order by id limit ${PAGE_ROWS}`)
  const some = rowsWhere<[string]>('id in (select value from json_each(?))')

  /** A full disk or table of descriptors, too, is over sometime: then the checker tries again. */
  const failure = (error: unknown): unknown =>
    error instanceof CommandError || /^E[A-Z]+$/.test(codeOf(error))
      ? new StoreError(explain(file, error))
      : toStoreError(file, error)
  const failing = failingAs(failure)

  /** Ends the checker when the file is not in its place, or that of a newer proxylist. */
  function requireOurs(): void {
    requireUnmoved(list.db, file)
    const [version, known] = [failing(schemaVersion)(list.db), LIST_SCRIPTS.length]
    if (version > known) throw new CommandError(ofNewer(file, version, known))
  }
  const onOurs = <R>(work: () => R): R => {
    const result = failing(work)()
    requireOurs()
    return result
  }

  return {
    begin: failing((mode: 'set', onWait?: () => void) => {
      const { lock, add, lower, commit, rollback } = list.begin(mode, onWait)
      return {
        // What its signal throws is no failure.
        lock: (signal?: AbortSignal) =>
          lock(signal).then(requireOurs, error => {
            requireOurs()
            throw signal?.aborted ? error : failure(error)
          }),
        ...{ add: failing(add), lower: failing(lower) },
        ...{ commit: () => onOurs(commit), rollback: failing(rollback) },
      }
    }),
    /** Changes when others have changed the list. */
    version: () => onOurs(() => String(others())),
    page: failing((afterId: number) => after.all(afterId).map(toListed)),
    find: failing((ids: readonly number[]) => some.all(JSON.stringify(ids)).map(toListed)),
    ...{ pages: list.pages, endpointPages: list.endpointPages, cityNames: list.cityNames },
    close: list.close,
  }
}
