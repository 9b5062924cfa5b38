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

/**
 * Rejects with what `reason` returns when the time is over, and then calls `onPassed`; `null`: never.
 * Call `stop` at the end.
 */
export function deadline(ms: number | null, reason: () => Error, onPassed = (): void => {}) {
  const { promise, reject } = Promise.withResolvers<never>()
  const pass = (): void => {
    reject(reason()) // first: what `onPassed` closes fails, and says less
    onPassed()
  }
  const timer = ms === null ? undefined : setTimeout(pass, ms)
  promise.catch(() => {}) // it may pass when nobody waits for it any more
  return { passed: promise, stop: () => clearTimeout(timer) }
}

export type Availability = ReturnType<typeof createAvailability>

/** The host of a URL, with its port where it has one. */
export function shownHost(url: string): string {
  const { hostname, port, searchParams } = new URL(url)
  const host = hostname === '' ? (searchParams.get('path') ?? '') : hostname
  return port === '' ? host : `${host}:${port}`
}

/** The hosts of a database, of which one is used. */
function createHosts(urls: readonly string[]) {
  let at = 0
  /** Why a host could not be used when it was last tried. */
  const reasons = new Map<string, string>()
  return {
    count: urls.length,
    current: (): string => urls[at] ?? '',
    /** Notes why a host cannot be used; returns that of each host that was tried. */
    refused(url: string, reason: string): string {
      reasons.set(url, reason)
      if (urls.length === 1) return reason
      const tried = urls.filter(each => reasons.has(each))
      return tried.map(each => `${shownHost(each)}: ${reasons.get(each)}`).join('; ')
    },
    forgetReasons: (): void => reasons.clear(),
    /** Turns to the next one, if `url` is still the one in use. */
    turnFrom(url: string): void {
      if (urls[at] === url) at = (at + 1) % urls.length
    },
  }
}

/** `open` makes a client for an attempt, with the URL of a host; `shown` is the name of the database. */
export function createAvailability(
  urls: readonly string[],
  open: (url: string) => SQL,
  shown: string,
) {
  const hosts = createHosts(urls)
  let away: string | null = null
  let timer: ReturnType<typeof setTimeout> | undefined

  function probeLater(pauseMs: number): void {
    timer = setTimeout(() => void probe(), pauseMs)
    timer.unref()
  }

  async function probe(): Promise<void> {
    const host = hosts.current()
    const sql = open(host)
    const { passed, stop } = deadline(PROBE_MS_MAX, () => new StoreError('it does not answer'))
    try {
      await Promise.race([sql.unsafe('select 1'), passed])
      timer = undefined
      away = null
      hosts.forgetReasons()
    } catch (failure) {
      away = hosts.refused(host, reasonOf(failure))
      hosts.turnFrom(host)
      if (timer !== undefined) probeLater(PROBE_PAUSE_MS)
    } finally {
      stop()
      discard(sql)
    }
  }

  return {
    hosts,

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
