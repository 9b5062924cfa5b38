/** Connections to PostgreSQL. Every failure of the database becomes a `StoreError`. */
import type { SQL } from 'bun'
import { eachHost } from '../config/parsers.ts'
import { rejectAfter } from '../lib/clock.ts'
import { StoreError, UnknownOutcome } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { isConnectionFailure, NotOpened, reasonOf, toStoreError } from './errors.ts'

/** A parameter of a statement. Arrays are passed as literals, see `arrays.ts`. */
export type Value = string | number | boolean | null | Uint8Array

/** Sends a statement, with `$1` and so on in it, and returns its rows. */
export type Query = <R extends object>(text: string, values?: readonly Value[]) => Promise<R[]>

export type ConnectionOptions = {
  url: string
  /** The longest that a statement may take, in milliseconds. */
  timeoutMs: number
  /** The name that the server shows for this connection (`application_name`). */
  name: string
  session?: { readonly [setting: string]: string | number }
}

function shownHost(url: string): string {
  const { hostname, port, searchParams } = new URL(url)
  return (hostname || (searchParams.get('path') ?? '')) + (port && `:${port}`)
}

/** The hosts, ports and database of a URL, without secrets. */
export function shownDatabase(url: string): string {
  const urls = eachHost(url)
  return urls.map(shownHost).join() + new URL(urls[0] ?? '').pathname
}

/**
 * How much of its time a statement has on the server. One that is slow, or waits for a lock, fails there:
 * so what hangs longer is the server itself, or the way to it.
 */
const STATEMENT_SHARE = 0.9

/** The server ends the sessions of a machine without power after 11 s. Also keeps connections open in firewalls. */
const KEEPALIVE = {
  tcp_keepalives_idle: 5,
  tcp_keepalives_interval: 2,
  tcp_keepalives_count: 3,
}

/** A read-only transaction on one snapshot of the database. */
export const SNAPSHOT = 'isolation level repeatable read read only'

/**
 * Settings of each connection, whatever the defaults of the database are. Commits are durable. A standby refuses the
 * connection (`transaction_read_only`). The first compilation by `jit` would take almost two seconds.
 */
export const sessionOf = ({ name, timeoutMs, session }: Omit<ConnectionOptions, 'url'>) => ({
  application_name: name,
  synchronous_commit: 'on',
  statement_timeout: Math.ceil(timeoutMs * STATEMENT_SHARE),
  idle_in_transaction_session_timeout: timeoutMs,
  idle_session_timeout: 0,
  client_connection_check_interval: 1000,
  default_transaction_isolation: 'read committed',
  jit: 'off',
  lock_timeout: 0,
  search_path: 'pg_catalog',
  ...KEEPALIVE,
  transaction_read_only: 'off',
  ...session,
})

const NO_ANSWER = 'it does not answer'
const OPEN_MS_MAX = 2000

type Opening = ReturnType<typeof openFirst>

/** Opens a connection to the first host of the URL that takes writes. All are tried at once. */
function openFirst(options: ConnectionOptions, msMax: number, onLost: () => void) {
  const hosts = eachHost(options.url)
  let kept: SQL | null = null
  const tried = hosts.map(host => {
    const sql: SQL = new Bun.SQL({
      ...{ url: host, max: 1, connectionTimeout: OPEN_MS_MAX / SECOND_MS },
      connection: sessionOf(options),
      onclose: () => sql === kept && onLost(),
    })
    return { host, sql }
  })

  function end(except: SQL | null = null): void {
    kept = except
    for (const { sql } of tried) if (sql !== except) void sql.close({ timeout: 0 }).catch(() => {})
  }

  const opening = tried.map(async found => {
    await rejectAfter(found.sql.connect(), msMax, () => new NotOpened(NO_ANSWER))
    return found
  })
  const opened = Promise.any(opening).then(
    found => {
      end(found.sql)
      return found
    },
    ({ errors }: AggregateError) => {
      end()
      const reasons = hosts.map((host, at) => `${shownHost(host)}: ${reasonOf(errors[at])}`)
      throw new NotOpened(hosts.length === 1 ? reasonOf(errors[0]) : reasons.join('; '))
    },
  )
  return { opened, end: () => end() }
}

export type Connection = ReturnType<typeof openConnection>

/**
 * A connection, opened when it is first used, and again after it was lost. Statements are sent one after the
 * other; one that was interrupted is never sent again. One that takes longer than it may is given up, with its
 * connection.
 */
export function openConnection(options: ConnectionOptions) {
  const { url, timeoutMs } = options
  const shown = shownDatabase(url)
  const openMs = Math.min(OPEN_MS_MAX, timeoutMs * STATEMENT_SHARE)
  let opening: Opening | null = null
  let host = url
  let isClosed = false

  function lose(lost: Opening): void {
    if (opening === lost) opening = null
    lost.end()
  }

  /** Waits for what `work` makes of the connection. */
  async function within<T>(work: (sql: SQL) => PromiseLike<T>): Promise<T> {
    if (isClosed) throw new StoreError(`the connection to ${shown} is closed`)
    const used: Opening = opening ?? openFirst(options, openMs, () => lose(used))
    opening = used
    const done = used.opened.then(found => {
      host = found.host
      return work(found.sql)
    })
    const late = () => new UnknownOutcome(`the database ${shown} cannot be used: ${NO_ANSWER}`)
    try {
      return await rejectAfter(done, timeoutMs, late, () => lose(used))
    } catch (failure) {
      if (isConnectionFailure(failure)) lose(used)
      throw toStoreError(failure, shown)
    }
  }

  async function close(): Promise<void> {
    isClosed = true
    opening?.end()
  }

  return {
    shown,
    /** The URL of the host that was used last. */
    host: (): string => host,
    /** Whether its session, and what that has locked, is not known to have ended. */
    isOpen: (): boolean => opening !== null,
    query: <R extends object>(text: string, values: readonly Value[] = []): Promise<R[]> =>
      within<R[]>(sql => sql.unsafe(text, [...values])),
    /** Runs `work` in one transaction: all of it, or nothing when it throws. */
    transaction: <T>(work: (query: Query) => Promise<T>, mode = 'read write'): Promise<T> =>
      within(sql =>
        sql.begin(mode, tx => work(async (text, values = []) => tx.unsafe(text, [...values]))),
      ),
    /** Ends the session, and what hangs in it; the next statement opens another one. */
    renew: (): void => void (opening && lose(opening)),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The only row of a statement that always returns one. */
export async function onlyRow<R extends object>(
  query: Query,
  text: string,
  values?: readonly Value[],
): Promise<R> {
  const [row] = await query<R>(text, values)
  if (row === undefined) throw new StoreError('the database returned no row')
  return row
}

/** The rows of a select as JSON, which keeps large integers exact. */
export async function selectJson<R>(
  query: Query,
  select: string,
  values?: readonly Value[],
): Promise<R[]> {
  const text = `select row_to_json(r)::text as json from (${select}) r`
  const rows = await query<{ json: string }>(text, values)
  return rows.map(({ json }) => JSON.parse(json) as R) // the columns of `select`
}

const SLICE_ROWS = 2_000

/** Inserts rows into a table. All have the same columns, with the types of the table. */
export async function insertRows(
  query: Query,
  table: string,
  rows: readonly { readonly [column: string]: unknown }[],
  onConflict = '',
): Promise<void> {
  const columns = Object.keys(rows[0] ?? {}).join(', ')
  for (let at = 0; at < rows.length; at += SLICE_ROWS) {
    await query(
      `insert into proxylist.${table} (${columns}) select ${columns}
       from json_populate_recordset(null::proxylist.${table}, $1::text::json) ${onConflict}`,
      [JSON.stringify(rows.slice(at, at + SLICE_ROWS))],
    )
  }
}
