/**
 * Owns connections to PostgreSQL: their settings, how long is waited for them, and giving up a query
 * that hangs. Every failure of the database becomes a `StoreError`.
 */
import { SQL } from 'bun'
import { StoreError } from '../lib/errors.ts'
import { toStoreError } from './errors.ts'

/** A parameter of a statement. Arrays are passed as literals, see `arrays.ts`. */
export type Value = string | number | boolean | null | Uint8Array

/** Sends a statement, with `$1` and so on in it, and returns its rows. */
export type Query = <R extends object>(text: string, values?: readonly Value[]) => Promise<R[]>

export type ConnectionOptions = {
  url: string
  /** The longest that a statement may take, in milliseconds; `null`: as long as it needs. */
  timeoutMs: number | null
  /** What the server shows of this connection (`application_name`). */
  name: string
}

/** Host, port and name of the database of a URL: what may be shown of it. */
export function shownDatabase(url: string): string {
  const { hostname, port, pathname, searchParams } = new URL(url)
  const host = hostname === '' ? (searchParams.get('path') ?? '') : hostname
  return `${host}${port === '' ? '' : `:${port}`}${pathname}`
}

/** Settings of each connection: commits are durable, and a client that is gone leaves no lock. */
const sessionOf = ({ name, timeoutMs }: ConnectionOptions) => ({
  application_name: name,
  synchronous_commit: 'on',
  statement_timeout: timeoutMs ?? 0,
  idle_in_transaction_session_timeout: timeoutMs ?? 0,
  client_connection_check_interval: 1000,
})

const CONNECT_SECONDS_MAX = 2

const openSql = (options: ConnectionOptions): SQL =>
  new SQL({
    url: options.url,
    max: 1,
    connectionTimeout: Math.min(
      CONNECT_SECONDS_MAX,
      Math.ceil((options.timeoutMs ?? Number.POSITIVE_INFINITY) / 1000),
    ),
    connection: sessionOf(options),
  })

export type Connection = ReturnType<typeof openConnection>

/**
 * A connection, opened when it is first used, and again after it was lost. Statements are sent one
 * after the other; one that was interrupted is never sent again.
 */
export function openConnection(options: ConnectionOptions) {
  const { url, timeoutMs } = options
  const shown = shownDatabase(url)
  let sql = openSql(options)

  /** Waits for what `work` makes of the connection; one that hangs is given up, with its connection. */
  async function within<T>(work: (sql: SQL) => PromiseLike<T>): Promise<T> {
    const asked = sql
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer =
      timeoutMs === null
        ? undefined
        : setTimeout(() => {
            if (sql === asked) sql = openSql(options)
            void asked.close({ timeout: 0 }).catch(() => {}) // rejects what it has under way
            reject(new StoreError(`the database ${shown} does not answer`))
          }, timeoutMs)
    try {
      return await Promise.race([work(asked), late])
    } catch (failure) {
      throw toStoreError(failure, shown)
    } finally {
      clearTimeout(timer)
    }
  }

  const query: Query = <R extends object>(text: string, values: readonly Value[] = []) =>
    within<R[]>(asked => asked.unsafe(text, [...values]))

  return {
    shown,
    query,
    /** Runs `work` in one transaction: all of it, or nothing when it throws. */
    transaction: <T>(work: (query: Query) => Promise<T>, mode = 'read write'): Promise<T> =>
      within(asked =>
        asked.begin(mode, tx =>
          work(async <R extends object>(text: string, values: readonly Value[] = []) => {
            const rows: R[] = await tx.unsafe(text, [...values])
            return rows
          }),
        ),
      ),
    /** Works with the client itself, for what a statement cannot do: COPY and LISTEN. */
    using: within,
    close: async (): Promise<void> => {
      await sql.close({ timeout: 0 })
    },
  }
}
