/**
 * Owns the throttle against guessing keys by brute force: a client that has sent many wrong keys
 * gets each further refusal late. Only refusals are delayed, so valid keys never notice. Knows
 * nothing of keys or HTTP.
 */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { MINUTE_MS } from '../lib/time.ts'

/** Failures of one client within the window that are refused without delay. */
export const FAILURES_FREE = 10
export const FAILURES_WINDOW_MS = MINUTE_MS
/** Delay of each further refusal: under a second, as every answer of the service is. */
export const FAILURE_DELAY_MS = 300

/** Clients in memory; the one that failed longest ago makes room for a new one. */
const CLIENTS_MAX = 10_000
/**
 * Refusals that are delayed at once; the oldest is sent to make room for a new one. So a flood
 * costs no more memory than this.
 */
export const DELAYED_MAX = 1_000

/** Calls `run` in `ms`, never at once. The function it returns cancels that. */
export type Later = (run: () => void, ms: number) => () => void

export const timerLater: Later = (run, ms) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

export type AuthThrottle = ReturnType<typeof createAuthThrottle>

export function createAuthThrottle(later: Later = timerLater) {
  /** The instants of each client's last failures, at most `FAILURES_FREE`, oldest first. */
  const failures = createBoundedMap<string, number[]>(CLIENTS_MAX)
  /** What ends each delay, the oldest delay first. */
  const delayed = new Set<() => void>()
  let isReleased = false

  /** Records a failure; says whether it is one too many. */
  function isThrottled(client: string, nowMs: number): boolean {
    const instants = failures.get(client)
    if (instants === undefined) {
      failures.set(client, [nowMs])
      return false
    }
    instants.push(nowMs)
    if (instants.length <= FAILURES_FREE) return false
    return nowMs - (instants.shift() ?? nowMs) < FAILURES_WINDOW_MS
  }

  function delay(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = (): void => {
      cancel()
      delayed.delete(end)
      resolve()
    }
    const cancel = later(end, FAILURE_DELAY_MS)
    delayed.add(end)
    const [oldest] = delayed
    if (delayed.size > DELAYED_MAX) oldest?.()
    return promise
  }

  return {
    /** Records that `client` sent a wrong key at `nowMs`; resolves when the refusal may be sent. */
    async failed(client: string, nowMs: number): Promise<void> {
      if (isThrottled(client, nowMs) && !isReleased) await delay()
    },
    /** Ends every delay, and delays nothing from now on. */
    release(): void {
      isReleased = true
      for (const end of delayed) end()
    },
  }
}
