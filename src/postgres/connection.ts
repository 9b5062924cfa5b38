/**
 * Connections to PostgreSQL: their settings, how long is waited for them, and what follows when the
 * database does not answer: it is tried again in the background, and everything fails at once meanwhile, on
 * all connections that share an `Availability`. Every failure of the database becomes a `StoreError`.
 */
import { SQL, type TransactionSQL } from 'bun'
import { eachHost } from '../config/parsers.ts'
import { StoreError } from '../lib/errors.ts'
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

function shownHost(url: string): string {
  const { hostname, port, searchParams } = new URL(url)
  return (hostname || (searchParams.get('path') ?? '')) + (port && `:${port}`)
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

const discard = (sql: SQL): void => void sql.close({ timeout: 0 }).catch(() => {})

/** Resolves as `work` does; rejects when its time is over, `null` for any, and then calls `onLate`. */
export function inTime<T>(
  work: Promise<T>,
  ms: number | null,
  late: () => Error,
  onLate = (): void => {},
) {
  if (ms === null) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    reject(late()) // first: what `onLate` closes fails, and says less
    onLate()
  }, ms)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

/** The pause between two attempts to reach a database that is away, and how long each may take. */
const PROBE_PAUSE_MS = 250
const PROBE_MS_MAX = 1000

type Availability = ReturnType<typeof availabilityOf>

/** Which host of a database is used, and whether it is there, for connections that share this. */
export function availabilityOf(options: ConnectionOptions) {
  const urls = eachHost(options.url)
  let at = 0 // of the host that is used
  /** Why a host could not be used when it was last tried. */
  const reasons = new Map<string, string>()
  let away: string | null = null
  let timer: ReturnType<typeof setTimeout> | undefined

  const host = (): string => urls[at] ?? ''

  /** Notes why a host cannot be used; returns that of each host that was tried. */
  function refused(url: string, reason: string): string {
    reasons.set(url, reason)
    if (urls.length === 1) return reason
    const tried = urls.filter(each => reasons.has(each))
    return tried.map(each => `${shownHost(each)}: ${reasons.get(each)}`).join('; ')
  }

  /** Turns to the next host, if this one is still in use. */
  function turnFrom(url: string): void {
    if (urls[at] === url) at = (at + 1) % urls.length
  }

  function probeLater(pauseMs: number): void {
    timer = setTimeout(() => void probe(), pauseMs)
    timer.unref()
  }

  async function probe(): Promise<void> {
    const probed = host()
    const sql = openSql(probed, options)
    try {
      await inTime(sql.unsafe('select 1'), PROBE_MS_MAX, () => new StoreError('it does not answer'))
      timer = undefined
      away = null
      reasons.clear()
    } catch (failure) {
      away = refused(probed, reasonOf(failure))
      turnFrom(probed)
      if (timer !== undefined) probeLater(PROBE_PAUSE_MS)
    } finally {
      discard(sql)
    }
  }

  return {
    ...{ hosts: urls.length, host, refused, turnFrom },

    /** Why the database cannot be used; `null`: it was not found to be away. */
    away: (): string | null => away,

    /** The database is away: everything fails at once until an attempt to reach it succeeds. */
    leave(reason: string): void {
      away = reason
      if (timer === undefined) probeLater(0)
    },

    close(): void {
      clearTimeout(timer)
      timer = undefined
    },
  }
}

export type Connection = ReturnType<typeof openConnection>

/**
 * A connection, opened when it is first used, and again after it was lost, to the host in use then.
 * Statements are sent one after the other; one that was interrupted is never sent again. Where there is a
 * time that a statement may take, one that takes longer is given up; then, and when no connection can be
 * opened, everything fails at once until the database answers again.
 */
export function openConnection(options: ConnectionOptions, shared?: Availability) {
  const availability = shared ?? availabilityOf(options)
  const { url, timeoutMs } = options
  const shown = shownDatabase(url)
  let host = availability.host()
  let sql = openSql(host, options)
  let isClosed = false

  function renew(lost: SQL): void {
    if (sql !== lost || isClosed) return
    discard(lost)
    host = availability.host()
    sql = openSql(host, options)
  }

  /** The client of the next host in place of one that cannot be used. */
  function turnFrom(lost: SQL, reason: string): SQL {
    if (sql === lost) {
      availability.refused(host, reason)
      availability.turnFrom(host)
    }
    renew(lost)
    return sql
  }

  /** How long a statement may take, `null` for any time. @throws StoreError when nothing can be sent. */
  function timeLeft(waitedMs: number): number | null {
    if (isClosed) throw new StoreError(`the connection to ${shown} is closed`)
    if (timeoutMs === null) return null
    const away = availability.away()
    if (away !== null) throw new StoreError(`the database ${shown} cannot be used: ${away}`)
    if (waitedMs < timeoutMs) return timeoutMs - waitedMs
    throw new StoreError(`the database ${shown} took too long for what came before`)
  }

  /** Waits for what `work` makes of the connection; one that hangs is given up, with its connection. */
  async function within<T>(work: (sql: SQL) => PromiseLike<T>, waitedMs = 0): Promise<T> {
    let asked = sql
    /** Has everybody wait for no host. */
    function leave(reason: string): void {
      if (sql === asked && !isClosed) availability.leave(reason)
      renew(asked)
    }
    /** Goes from host to host as long as no connection can be opened: nothing was sent then. */
    async function attempt(): Promise<T> {
      for (let others = availability.hosts - 1; ; others -= 1) {
        try {
          return await work(asked)
        } catch (failure) {
          if (others <= 0 || !isNotOpened(failure)) throw failure
          asked = turnFrom(asked, reasonOf(failure))
        }
      }
    }
    const ms = timeLeft(waitedMs)
    const late = () =>
      new UnknownOutcome(`the database ${shown} cannot be used: it does not answer`)
    try {
      return await inTime(attempt(), ms, late, () => leave('it does not answer'))
    } catch (failure) {
      const isRefused = isNotOpened(failure)
      const found = reasonOf(failure)
      const reason = isRefused ? availability.refused(host, found) : found
      if (timeoutMs !== null && isRefused) leave(reason)
      else if (isConnectionFailure(failure)) renew(asked)
      throw toStoreError(failure, shown, reason)
    }
  }

  async function close(): Promise<void> {
    if (shared === undefined) availability.close()
    isClosed = true
    await sql.close({ timeout: 0 })
  }

  return {
    shown,
    query: <R extends object>(
      text: string,
      values: readonly Value[] = [],
      waitedMs = 0,
    ): Promise<R[]> => within<R[]>(asked => asked.unsafe(text, [...values]), waitedMs),
    /** Runs `work` in one transaction: all of it, or nothing when it throws. */
    transaction: <T>(work: (query: Query) => Promise<T>, mode = 'read write'): Promise<T> =>
      within(asked => asked.begin(mode, tx => work(queryOf(tx)))),
    /** Works with the client itself, for what a statement cannot do: COPY and LISTEN. */
    using: within,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Sends statements in a transaction of the client. */
export const queryOf =
  (tx: TransactionSQL): Query =>
  async (text, values = []) =>
    tx.unsafe(text, [...values])

const EMPTIED =
  'a table of the schema proxylist was emptied; restore a backup of the database, or use an empty one'

/**
 * The only row of a statement that always has one.
 * @throws StoreError when there is none, because somebody has emptied a table.
 */
export async function onlyRow<R extends object>(
  query: Query,
  text: string,
  values?: readonly Value[],
): Promise<R> {
  const [row] = await query<R>(text, values)
  if (row === undefined) throw new StoreError(EMPTIED)
  return row
}

/** Inserts rows into a table, all with the same columns; the types of these are those of the table. */
export async function insertRows(
  query: Query,
  table: string,
  rows: readonly { readonly [column: string]: unknown }[],
  onConflict = '',
): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first).join(', ')
  await query(
    `insert into proxylist.${table} (${columns}) select ${columns}
     from json_populate_recordset(null::proxylist.${table}, $1::text::json) ${onConflict}`,
    [JSON.stringify(rows)],
  )
}
