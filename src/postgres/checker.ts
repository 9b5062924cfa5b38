/** The ports of the checker in a shared database. The checker keeps its memory on its own machine. */
import type { CheckerList, CheckerStatus, CheckerStatusStore } from '../checker/ports.ts'
import { StoreError } from '../lib/errors.ts'
import type { Connection } from './connection.ts'
import { createSharedList } from './imports.ts'

/** The status of the checker of a database, which is one for all machines. */
export const createStatusStore = ({ query }: Pick<Connection, 'query'>) =>
  ({
    async write(status: CheckerStatus): Promise<void> {
      await query(
        `insert into proxylist.checker (status) values ($1)
           on conflict (one) do update set status = excluded.status`,
        [JSON.stringify(status)],
      )
    },
    async read(): Promise<CheckerStatus | null> {
      const [row] = await query<{ status: string }>('select status from proxylist.checker')
      return row === undefined ? null : JSON.parse(row.status)
    },
  }) satisfies CheckerStatusStore

/** Reads a copy of the list; `follow` brings it to the newest version. */
type CheckerCopy = Pick<CheckerList, 'page'> & { follow(): Promise<{ version: number }> }

/** The list of a database as its checker uses it, which writes nothing unless it is the only one. */
export function createCheckerList(
  connection: Connection,
  { page, follow }: CheckerCopy,
  isOnly: () => boolean,
): CheckerList {
  const { begin } = createSharedList(connection)
  /** Versions that imports of this list have made. */
  let own = 0
  function requireOnly(): void {
    if (isOnly()) return
    throw new StoreError(
      `another checker may be at work on ${connection.shown}: this one writes again once it has the lock`,
    )
  }
  return {
    page,
    begin(mode) {
      requireOnly()
      const importTx = begin(mode)
      return {
        ...importTx,
        async commit() {
          requireOnly()
          const counts = await importTx.commit()
          if (counts.added + counts.updated > 0) own += 1
          return counts
        },
      }
    },
    version: async () => String((await follow()).version - own),
  }
}
