/**
 * Owns hearing what other machines announce: `list`, `keys` and `usage KIND ID`. Those of
 * `list` and `keys` only save time. One of `usage` that is missed is made up for by forgetting all that is
 * known of usage whenever listening begins.
 */
import { SQL } from 'bun'
import { eachHost } from '../config/parsers.ts'
import { KEEPALIVE, MEANING } from './connection.ts'

const CHANNEL = 'proxylist'
const CONNECT_SECONDS = 2

/**
 * Listens as soon as `ensure` is called. `onListening` is called whenever it has begun to listen: what
 * was announced before may have been missed.
 */
export function createListener(
  url: string,
  onMessage: (message: string) => void,
  onListening: () => void,
) {
  const urls = eachHost(url)
  let at = 0 // of the host that is used
  let sql: SQL | null = null

  function end(): void {
    const ended = sql
    sql = null
    void ended?.close({ timeout: 0 }).catch(() => {})
  }

  return {
    /** Listens, unless it does already. */
    ensure(): void {
      if (sql !== null) return
      const isCurrent = (): boolean => sql === opened
      const endThis = (): void => {
        if (!isCurrent()) return
        at = (at + 1) % urls.length
        end() // the next call tries again, with the next host
      }
      const opened: SQL = new SQL({
        ...{ url: urls[at] ?? '', max: 1, connectionTimeout: CONNECT_SECONDS },
        // No standby. It is idle for hours, also where a server ends idle sessions.
        connection: {
          ...{ ...KEEPALIVE, ...MEANING, application_name: 'proxylist' },
          ...{ transaction_read_only: 'off', idle_session_timeout: 0, statement_timeout: 0 },
        },
        onclose: endThis, // else the client tries by itself, and says on stderr that it fails
      })
      sql = opened
      opened
        .listen(
          CHANNEL,
          message => void (isCurrent() && onMessage(message)),
          () => void (isCurrent() && onListening()),
        )
        .catch(endThis)
    },
    /** Ends listening: the connection may be lost without a sign of it, or is not needed any more. */
    end,
  }
}
