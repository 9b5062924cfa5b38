/**
 * Owns connections to PostgreSQL: their settings, how long is waited for them, and what follows when
 * the database does not answer. Every failure of the database becomes a `StoreError`.
 */
import { SQL } from 'bun'
import { eachHost } from '../config/parsers.ts'
import { StoreError } from '../lib/errors.ts'
import {
  type Availability,
  createAvailability,
  deadline,
  discard,
  shownHost,
} from './availability.ts'
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

/** Hosts, ports and name of the database of a URL: what may be shown of it. */
export function shownDatabase(url: string): string {
  const urls = eachHost(url)
  return urls.map(shownHost).join() + new URL(urls[0] ?? '').pathname
}

/**
 * How much of its time a statement has on the server. One that is slow, or waits for a lock, fails there:
 * so what hangs longer is the server itself, or the way to it.
 */
const STATEMENT_SHARE = 0.9

/**
 * The locks of a machine that lost its power end after 25 s, and a firewall in between does not forget a
 * connection that is idle.
 */
export const KEEPALIVE = {
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 3,
}

/**
 * What statements and values mean, whatever a database or a role has as its defaults: NULL in arrays, bytes
 * and numbers as text, which functions are called, and how long a lock is waited for. The client sets its
 * encoding by itself, and nothing here is a date.
 */
export const MEANING = {
  array_nulls: 'on',
  bytea_output: 'hex',
  extra_float_digits: 1,
  lock_timeout: 0,
  search_path: 'pg_catalog',
  standard_conforming_strings: 'on',
}

/** A transaction that only reads, and sees the database as of one moment. */
export const SNAPSHOT = 'isolation level repeatable read read only'

/**
 * Settings of each connection: commits are durable, a client that is gone leaves no lock, and a server
 * that ends idle sessions leaves this one. Transactions wait for each other's locks and then see what was
 * committed, which those of another isolation do not: they fail. A standby refuses a connection that wants
 * to write (`transaction_read_only`). Nothing is compiled (`jit`): the first time, that takes almost two seconds,
 * which a statement on many keys does not.
 */
const sessionOf = ({ name, timeoutMs, session }: ConnectionOptions) => ({
  application_name: name,
  synchronous_commit: 'on',
  statement_timeout: Math.ceil((timeoutMs ?? 0) * STATEMENT_SHARE),
  idle_in_transaction_session_timeout: timeoutMs ?? 0,
  idle_session_timeout: 0,
  client_connection_check_interval: 1000,
  default_transaction_isolation: 'read committed',
  jit: 'off',
  ...MEANING,
  ...KEEPALIVE,
  transaction_read_only: 'off',
  ...session,
})

const CONNECT_SECONDS_MAX = 2

const openSql = (url: string, options: ConnectionOptions): SQL =>
  new SQL({
    url,
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
  createAvailability(
    eachHost(options.url),
    url => openSql(url, options),
    shownDatabase(options.url),
  )

/**
 * The client of a connection: another one after it was lost, which connects when it is used, to the host
 * in use then.
 */
function createClient(options: ConnectionOptions, { hosts, leave }: Availability) {
  let host = hosts.current()
  let sql = openSql(host, options)
  let isClosed = false

  function renew(lost: SQL): void {
    if (sql !== lost || isClosed) return
    discard(lost)
    host = hosts.current()
    sql = openSql(host, options)
  }

  return {
    current: (): SQL => sql,
    isClosed: (): boolean => isClosed,
    renew,

    /** Replaces a client that was lost, and has everybody wait for no host. */
    leave(lost: SQL, reason: string): void {
      if (sql === lost && !isClosed) leave(reason)
      renew(lost)
    },

    /** Why no connection could be opened, of each host that was tried. */
    refused: (reason: string): string => hosts.refused(host, reason),

    /** The client of the next host in place of one that cannot be used. */
    turnFrom(lost: SQL, reason: string): SQL {
      if (sql === lost) {
        hosts.refused(host, reason)
        hosts.turnFrom(host)
      }
      renew(lost)
      return sql
    },

    async close(): Promise<void> {
      isClosed = true
      await sql.close({ timeout: 0 })
    },
  }
}

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
  const client = createClient(options, availability)

  /** How long a statement may take, `null` for any time. @throws StoreError when nothing can be sent. */
  function timeLeft(waitedMs: number): number | null {
    if (client.isClosed()) throw new StoreError(`the connection to ${shown} is closed`)
    if (timeoutMs === null) return null
    availability.require()
    if (waitedMs < timeoutMs) return timeoutMs - waitedMs
    throw new StoreError(`the database ${shown} took too long for what came before`)
  }

  /** Waits for what `work` makes of the connection; one that hangs is given up, with its connection. */
  async function within<T>(work: (sql: SQL) => PromiseLike<T>, waitedMs = 0): Promise<T> {
    let asked = client.current()
    /** Goes from host to host as long as no connection can be opened: nothing was sent then. */
    async function attempt(): Promise<T> {
      for (let others = availability.hosts.count - 1; ; others -= 1) {
        try {
          return await work(asked)
        } catch (failure) {
          if (others <= 0 || !isNotOpened(failure)) throw failure
          asked = client.turnFrom(asked, reasonOf(failure))
        }
      }
    }
    const { passed, stop } = deadline(
      timeLeft(waitedMs),
      () => new UnknownOutcome(`the database ${shown} cannot be used: it does not answer`),
      () => client.leave(asked, 'it does not answer'),
    )
    try {
      return await Promise.race([attempt(), passed])
    } catch (failure) {
      const isRefused = isNotOpened(failure)
      const reason = isRefused ? client.refused(reasonOf(failure)) : reasonOf(failure)
      if (timeoutMs !== null && isRefused) client.leave(asked, reason)
      else if (isConnectionFailure(failure)) client.renew(asked)
      throw toStoreError(failure, shown, reason)
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
      if (shared === undefined) availability.close()
      await client.close()
    },
  }
}
