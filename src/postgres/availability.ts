/**
 * Owns whether a database is there: once it was away, attempts to reach it are made in the background,
 * and everything fails at once meanwhile, on all connections that share this.
 */
import type { SQL } from 'bun'
import { StoreError } from '../lib/errors.ts'
import { reasonOf } from './errors.ts'

/** The pause between two attempts to reach a database that is away, and how long each may take. */
const PROBE_PAUSE_MS = 250
const PROBE_MS_MAX = 1000

/** Closes a client, which rejects what it has under way. */
export const discard = (sql: SQL): void => void sql.close({ timeout: 0 }).catch(() => {})

/** Rejects with what `reason` returns when the time is over; `null`: never. Call `stop` at the end. */
export function deadline(ms: number | null, reason: () => Error) {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = ms === null ? undefined : setTimeout(() => reject(reason()), ms)
  promise.catch(() => {}) // it may pass when nobody waits for it any more
  return { passed: promise, stop: () => clearTimeout(timer) }
}

export type Availability = ReturnType<typeof createAvailability>

/** `open` makes a client for an attempt; `shown` is the name of the database. */
export function createAvailability(open: () => SQL, shown: string) {
  let away: string | null = null
  let timer: ReturnType<typeof setTimeout> | undefined

  function probeLater(pauseMs: number): void {
    timer = setTimeout(() => void probe(), pauseMs)
    timer.unref()
  }

  async function probe(): Promise<void> {
    const sql = open()
    const { passed, stop } = deadline(PROBE_MS_MAX, () => new StoreError('it does not answer'))
    try {
      await Promise.race([sql.unsafe('select 1'), passed])
      timer = undefined
      away = null
    } catch (failure) {
      away = reasonOf(failure)
      if (timer !== undefined) probeLater(PROBE_PAUSE_MS)
    } finally {
      stop()
      discard(sql)
    }
  }

  return {
    /** @throws StoreError while the database is away. */
    require(): void {
      if (away !== null) throw new StoreError(`the database ${shown} cannot be used: ${away}`)
    },

    /** The database is away: everything fails at once until an attempt to reach it succeeds. */
    leave(reason: string): void {
      away = reason
      if (timer === undefined) probeLater(0)
    },

    /** Ends the attempts. */
    close(): void {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
