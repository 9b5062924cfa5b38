/** The list and the status of the checker in a shared database. Its candidates are on its own machine. */
import type { CheckerStatus, CheckerStatusStore } from '../checker/ports.ts'
import type { Clock } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import { LISTED_COLUMNS, type ListedNumbers, type ListedRow, toListed } from '../proxies/row.ts'
import { readState } from './change-numbers.ts'
import type { Connection } from './connection.ts'
import { createListStore } from './list.ts'

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

const PAGE_ROWS = 2_000
const PAGE = `select ${LISTED_COLUMNS.map(column => `${column}::float8 as ${column}`).join(', ')}
  from proxylist.proxies where id > $1::float8::bigint order by id limit ${PAGE_ROWS}`

type CheckerListOptions = {
  /** For short statements. */
  quick: Connection
  /** Only for imports. */
  patient: Connection
  clock: Clock
  /** Whether this checker is the one of the database. */
  isOnly: () => boolean
}

/** The list of a database as its checker uses it; it writes nothing while another checker may. */
export function createCheckerList({ quick, patient, clock, isOnly }: CheckerListOptions) {
  const { begin } = createListStore(patient, clock)
  /** Versions that imports of this list have made. */
  let own = 0
  function requireOnly(): void {
    if (isOnly()) return
    throw new StoreError(
      `another checker may be at work on ${quick.shown}: this one writes again once it has the lock`,
    )
  }
  return {
    begin(mode: 'set', onWait?: () => void) {
      requireOnly()
      const importTx = begin(mode, onWait)
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
    /** Changes when others have changed the list. */
    version: async () => String((await readState(quick.query)).version - own),
    page: async (afterId: number): Promise<ListedRow[]> =>
      (await quick.query<ListedNumbers>(PAGE, [afterId])).map(toListed),
  }
}
