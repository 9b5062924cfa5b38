/** The list as the checker uses it beside servers and imports. No statement waits for a lock. */
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import { toAddress, UNKNOWN } from '../proxies/row.ts'
import { withStoreErrors } from './candidates.ts'
import { PROXY_FILE } from './data-directory.ts'
import { dataVersionOf } from './database.ts'
import { hasMoved } from './database-files.ts'
import { openList } from './stores.ts'

const PAGE_ROWS = 2_000

/** Opens the list in `dir`, creating it if it is missing, or one in memory. @throws as `openList` does. */
export function openCheckerList(dir: string | null, clock: Clock) {
  const file = join(dir ?? '', PROXY_FILE)
  const list = openList(dir, { clock, isServer: true })
  const dataVersion = dataVersionOf(list.db)
  type Listed = { id: number; checkedAt: number; types: number; works: number | null }
  const after = list.db.prepare<Listed, [number]>(
    `select id, checked_at as checkedAt, types, nullif(works, ${UNKNOWN}) as works
     from proxies where id > ? order by id limit ${PAGE_ROWS}`,
  )

  /** @throws CommandError, which ends the checker: its results would be lost. */
  function requireNotReplaced(): void {
    if (dir === null || !hasMoved(list.db)) return
    throw new CommandError(`${file} was removed or replaced; start the checker again`)
  }
  return {
    ...withStoreErrors(file, {
      begin(mode: 'set', onWait?: () => void) {
        requireNotReplaced()
        return withStoreErrors(file, { ...list.begin(mode, onWait) })
      },
      version() {
        requireNotReplaced()
        return String(dataVersion())
      },
      page: (afterId: number) =>
        after.all(afterId).map(({ id, ...row }) => ({ ...toAddress(id), ...row })),
    }),
    isReplaced: () => dir !== null && hasMoved(list.db),
    ...{ pages: list.pages, endpointPages: list.endpointPages, cityNames: list.cityNames },
    close: list.close,
  }
}
