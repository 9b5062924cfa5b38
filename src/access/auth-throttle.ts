/**
 * Slows down guessing of the console's token: refusals to a client that has sent many wrong tokens are
 * delayed. Requests with the right token never are.
 */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { type Later, timerLater } from '../lib/clock.ts'
import { MINUTE_MS } from '../lib/time.ts'

/** Failures of one client within the window that are refused without delay. */
export const FAILURES_FREE = 10
export const FAILURES_WINDOW_MS = MINUTE_MS
/** Delay of each further refusal. Under a second, like every other answer of the service. */
export const FAILURE_DELAY_MS = 300

/** Most clients in memory; the one that failed longest ago is replaced by a new one. */
const CLIENTS_MAX = 10_000
/**
 * Most refusals delayed at once; the oldest is sent when there is one more. This bounds the memory
 * that a flood of requests takes.
 */
export const DELAYED_MAX = 1_000

export type AuthThrottle = ReturnType<typeof createAuthThrottle>

/** Creates a throttle that knows no client yet. `later` ends the delays. */
export function createAuthThrottle(later: Later = timerLater) {
  /** The instants of each client's last failures, at most `FAILURES_FREE`, oldest first. */
  const failures = createBoundedMap<string, number[]>(CLIENTS_MAX)
  /** Functions that end the delays, the oldest delay first. */
  const delayed = new Set<() => void>()
  let isReleased = false

  /** Records a failure; returns whether it is one too many. */
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
    /** Records that `client` sent a wrong token at `nowMs`; resolves when the refusal may be sent. */
    async failed(client: string, nowMs: number): Promise<void> {
      if (isThrottled(client, nowMs) && !isReleased) await delay()
    },
    /** Ends every delay, and stops delaying. */
    release(): void {
      isReleased = true
      for (const end of delayed) end()
    },
  }
}
