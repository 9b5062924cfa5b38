/**
 * Owns connections to PostgreSQL: their settings, how long is waited for them, and what follows when
 * the database does not answer. Every failure of the database becomes a `StoreError`.
 */
import { SQL } from 'bun'
import { StoreError } from '../lib/errors.ts'
import { type Availability, createAvailability, deadline, discard } from './availability.ts'
import {
  isConnectionFailure,
  isNotOpened,
  reasonOf,
  toStoreError,
  UnknownOutcome,
} from './errors.ts'

/** A parameter of a statement. Arrays are passed as literals, see `arrays.ts`. */
export type Value = string | number | boolean | null | Uint8Array

/**
 * Sends a statement, with `$1` and so on in it, and returns its rows. `waitedMs`: how long its caller
 * has waited already, which shortens its time.
 */
export type Query = <R extends object>(
  text: string,
  values?: readonly Value[],
  waitedMs?: number,
) => Promise<R[]>

export type ConnectionOptions = {
  url: string
  /** The longest that a statement may take, in milliseconds; `null`: as long as it needs. */
  timeoutMs: number | null
  /** What the server shows of this connection (`application_name`). */
  name: string
  /** More settings of the session. */
  session?: { readonly [setting: string]: string | number }
}

/** Host, port and name of the database of a URL: what may be shown of it. */
export function shownDatabase(url: string): string {
  const { hostname, port, pathname, searchParams } = new URL(url)
  const host = hostname === '' ? (searchParams.get('path') ?? '') : hostname
  return `${host}${port === '' ? '' : `:${port}`}${pathname}`
}

/** Settings of each connection: commits are durable, and a client that is gone leaves no lock. */
const sessionOf = ({ name, timeoutMs, session }: ConnectionOptions) => ({
  application_name: name,
  synchronous_commit: 'on',
  statement_timeout: timeoutMs ?? 0,
  idle_in_transaction_session_timeout: timeoutMs ?? 0,
  client_connection_check_interval: 1000,
  ...session,
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

/** The availability of a database, for connections that are to share it. */
export const availabilityOf = (options: ConnectionOptions): Availability =>
  createAvailability(() => openSql(options), shownDatabase(options.url))

/**
 * A connection, opened when it is first used, and again after it was lost. Statements are sent one
 * after the other; one that was interrupted is never sent again. Where there is a time that a
 * statement may take, one that takes longer is given up; then, and when no connection can be opened,
 * everything fails at once until the database answers again.
 */
export function openConnection(options: ConnectionOptions, shared?: Availability) {
  const availability = shared ?? availabilityOf(options)
  const { url, timeoutMs } = options
  const shown = shownDatabase(url)
  let sql = openSql(options)
  let isClosed = false

  /**
   * Replaces a client that was lost; the new one connects when it is used. `away`: why nobody is to wait
   * for this database now.
   */
  function lose(lost: SQL, away: string | null = null): void {
    if (sql !== lost || isClosed) return
    if (away !== null) availability.leave(away)
    discard(lost)
    sql = openSql(options)
  }

  /** How long a statement may take, `null` for any time. @throws StoreError when nothing can be sent. */
  function timeLeft(waitedMs: number): number | null {
    if (isClosed) throw new StoreError(`the connection to ${shown} is closed`)
    if (timeoutMs === null) return null
    availability.require()
    if (waitedMs < timeoutMs) return timeoutMs - waitedMs
    throw new StoreError(`the database ${shown} took too long for what came before`)
  }

  /** Waits for what `work` makes of the connection; one that hangs is given up, with its connection. */
  async function within<T>(work: (sql: SQL) => PromiseLike<T>, waitedMs = 0): Promise<T> {
    const leftMs = timeLeft(waitedMs)
    const asked = sql
    const { passed, stop } = deadline(leftMs, () => {
      lose(asked, 'it does not answer')
      return new UnknownOutcome(`the database ${shown} does not answer`)
    })
    try {
      return await Promise.race([work(asked), passed])
    } catch (failure) {
      if (timeoutMs !== null && isNotOpened(failure)) lose(asked, reasonOf(failure))
      else if (isConnectionFailure(failure)) lose(asked)
      throw toStoreError(failure, shown)
    } finally {
      stop()
    }
  }

  const query: Query = <R extends object>(
    text: string,
    values: readonly Value[] = [],
    waitedMs = 0,
  ) => within<R[]>(asked => asked.unsafe(text, [...values]), waitedMs)

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
    async close(): Promise<void> {
      isClosed = true
      if (shared === undefined) availability.close()
      await sql.close({ timeout: 0 })
    },
  }
}
