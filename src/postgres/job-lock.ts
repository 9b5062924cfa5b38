/**
 * Owns which node runs the jobs that one node runs for all: the one whose session holds an advisory
 * lock. The lock ends with its session: that of a node that is killed is free at once, and that of one
 * that is frozen after some seconds.
 */
import { type ConnectionOptions, openConnection } from './connection.ts'
import { LOCK_CLASS, LOCKS, SCHEMA_VERSION } from './schema.ts'

/** After 11 s without a sign of life, the server ends the session of a machine that is gone. */
const KEEPALIVE = { tcp_keepalives_idle: 5, tcp_keepalives_interval: 2, tcp_keepalives_count: 3 }

/** A process that is frozen sends nothing, while its machine still answers for it. */
const SILENT_MS_MAX = 10_000

/**
 * The lock, tried for whenever `tick` is called; left to others when a newer program has migrated the
 * schema, and lost when `tick` is not called for `silentMsMax`.
 */
export function createJobLock(options: ConnectionOptions, silentMsMax = SILENT_MS_MAX) {
  const session = { ...options.session, ...KEEPALIVE, idle_session_timeout: silentMsMax }
  const connection = openConnection({ ...options, session })
  /** The backend that holds the lock; 0: none of ours does. */
  let holder = 0
  let isTrying = false

  async function tryLock(): Promise<void> {
    // `case` decides what is evaluated; the operands of `and` and `or` may all be.
    const [row] = await connection.query<{ pid: number; held: boolean }>(
      `select pg_backend_pid() as pid,
         case when version > $4
             then case when pg_backend_pid() = $1 then not pg_advisory_unlock($2, $3) else false end
           when pg_backend_pid() = $1 then true
           else pg_try_advisory_lock($2, $3) end as held
       from proxylist.installation`,
      [holder, LOCK_CLASS, LOCKS.jobs, SCHEMA_VERSION],
    )
    holder = row?.held ? row.pid : 0
  }

  return {
    /** Tries for the lock, or verifies that it is still held; to be called every second. */
    async tick(): Promise<void> {
      if (isTrying) return
      isTrying = true
      try {
        await tryLock()
      } catch {
        holder = 0 // whether the session lives is not known
      } finally {
        isTrying = false
      }
    },
    isHeld: (): boolean => holder !== 0,
    /** Frees the lock. */
    async close(): Promise<void> {
      holder = 0
      await connection.close().catch(() => {})
    },
  }
}
