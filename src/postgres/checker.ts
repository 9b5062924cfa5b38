/** The ports of the checker in a database that machines share; what it remembers is on its own machine. */
import type { CheckerStatus, CheckerStatusStore } from '../checker/ports.ts'
import type { Connection } from './connection.ts'

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
