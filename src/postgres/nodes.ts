/** Nodes that share a database: their reports, the lock of the leader, and notifications between them. */
import type { SQL } from 'bun'
import { SECOND_MS } from '../lib/time.ts'
import { type Connection, type ConnectionOptions, openConnection, sessionOf } from './connection.ts'
import { LOCK_CLASS, LOCKS, SCHEMA_VERSION } from './migrate.ts'

/** The host name and the address of the service identify a node. */
export type NodeName = { node: string; address: string }

export type NodeState = NodeName & {
  version: number
  /** Seconds since its keys and list were last known to be the newest. */
  lagSeconds: number
  /** Its last report, in Unix milliseconds by the clock of the database. */
  seenMs: number
  silentSeconds: number
}

export const createNodes = ({ query }: Connection) => ({
  async report({ node, address }: NodeName, version: number, lagSeconds: number): Promise<void> {
    await query(
      `insert into proxylist.nodes (node, address, list_version, lag_seconds, seen)
       values ($1, $2, $3::float8, $4::float8, proxylist.now_ms())
       on conflict (node, address) do update set list_version = excluded.list_version,
         lag_seconds = excluded.lag_seconds, seen = excluded.seen`,
      [node, address, version, lagSeconds],
    )
  },
  async remove({ node, address }: NodeName): Promise<void> {
    await query('delete from proxylist.nodes where node = $1 and address = $2', [node, address])
  },
  /** All nodes by name. The lag of a silent node grows. */
  async list(): Promise<NodeState[]> {
    const rows = await query<NodeState>(
      `select node, address, list_version::float8 as version, lag_seconds as "lagSeconds",
         seen::float8 as "seenMs",
         greatest(0, proxylist.now_ms() - seen)::float8 / ${SECOND_MS} as "silentSeconds"
       from proxylist.nodes order by node, address`,
    )
    return rows.map(row => ({ ...row, lagSeconds: row.lagSeconds + row.silentSeconds }))
  },
})

/** A process that is frozen sends nothing, while its machine still answers for it. */
const SILENT_MS_MAX = 10_000

/**
 * The lock of the node that runs the `jobs` of all, or of the only `checker`. It ends with its connection, when a newer
 * program has migrated the schema, or when `tick` is not called for `silentMsMax`.
 */
export function createLeaderLock(
  work: 'jobs' | 'checker',
  options: ConnectionOptions,
  silentMsMax = SILENT_MS_MAX,
) {
  const session = { ...options.session, idle_session_timeout: silentMsMax }
  const connection = openConnection({ ...options, session })
  /** The backend that holds the lock; 0 if this process does not hold it. */
  let pid = 0
  let isTrying = false

  async function tryLock(): Promise<void> {
    // `case` decides what is evaluated; the operands of `or` may all be.
    const [row] = await connection.query<{ pid: number; held: boolean }>(
      `select pg_backend_pid() as pid,
         case when pg_backend_pid() = $1 then true else pg_try_advisory_lock($2, $3) end as held
       from proxylist.installation where schema <= $4`,
      [pid, LOCK_CLASS, LOCKS[work], SCHEMA_VERSION],
    )
    pid = row?.held ? row.pid : 0
    if (row === undefined) connection.renew() // ends the lock, too
  }

  return {
    /** Tries for the lock, or verifies that it is still held; to be called every second. */
    async tick(): Promise<void> {
      if (isTrying) return
      isTrying = true
      await tryLock().catch(() => {
        pid = 0 // the session may have ended
      })
      isTrying = false
    },
    isHeld: (): boolean => pid !== 0 && connection.isOpen(),
    release(): void {
      pid = 0
      connection.renew()
    },
    async close(): Promise<void> {
      pid = 0
      await connection.close().catch(() => {})
    },
  }
}

const CONNECT_SECONDS = 2

/**
 * Listens for notifications. `ensure` connects to `host()` unless it is connected. Each connect is a message, too
 * (`null`): earlier ones may be lost.
 */
export function createListener(host: () => string, onMessage: (message: string | null) => void) {
  let sql: SQL | null = null

  function end(): void {
    const ended = sql
    sql = null
    void ended?.close({ timeout: 0 }).catch(() => {})
  }

  return {
    ensure(): void {
      if (sql !== null) return
      const endThis = (): void => {
        if (sql === opened) end() // the next call tries again
      }
      const hear = (message: string | null): void => {
        if (sql === opened) onMessage(message)
      }
      const opened: SQL = new Bun.SQL({
        ...{ url: host(), max: 1, connectionTimeout: CONNECT_SECONDS },
        connection: sessionOf({ timeoutMs: 0, name: 'proxylist' }),
        onclose: endThis, // else the client tries by itself, and says on stderr that it fails
      })
      sql = opened
      opened.listen('proxylist', hear, () => hear(null)).catch(endThis)
    },
    end,
  }
}
