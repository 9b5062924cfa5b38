/**
 * Owns how failed keys are slowed: who has sent many wrong ones waits a little for each further
 * refusal. It only ever holds a refusal back, so that no valid key can feel it. Knows nothing of
 * keys or HTTP.
 */
import { createLru } from '../lib/lru.ts'
import { MINUTE_MS } from '../lib/time.ts'

/** So many failures of one client within the window are refused at once. */
export const FAILURES_FREE = 10
export const FAILURES_WINDOW_MS = MINUTE_MS
/** How long each further refusal waits: short of a second, which nothing of ours takes. */
export const FAILURE_DELAY_MS = 300

/** Clients remembered; one that failed long ago is forgotten for a new one. */
const CLIENTS_MAX = 10_000
/**
 * Refusals that wait at once; the one that has waited longest goes for a new one. A flood is
 * thereby held up as much as so many sockets allow, and costs no more memory than they do.
 */
export const WAITING_MAX = 1_000

/** Calls `go` in `ms`, not before it returns, unless the function it gives is called earlier. */
export type Later = (go: () => void, ms: number) => () => void

export const timerLater: Later = (go, ms) => {
  const timer = setTimeout(go, ms)
  return () => clearTimeout(timer)
}

export type Guard = ReturnType<typeof createGuard>

export function createGuard(later: Later = timerLater) {
  /** The instants of each client's last failures, at most `FAILURES_FREE`, oldest first. */
  const failures = createLru<string, number[]>(CLIENTS_MAX)
  /** What ends each wait, the longest wait first. */
  const waiting = new Set<() => void>()
  let isReleased = false

  /** Notes a failure; says whether it is one too many. */
  function isSlowed(client: string, nowMs: number): boolean {
    const instants = failures.get(client)
    if (instants === undefined) {
      failures.set(client, [nowMs])
      return false
    }
    instants.push(nowMs)
    if (instants.length <= FAILURES_FREE) return false
    return nowMs - (instants.shift() ?? nowMs) < FAILURES_WINDOW_MS
  }

  function wait(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = (): void => {
      forget()
      waiting.delete(end)
      resolve()
    }
    const forget = later(end, FAILURE_DELAY_MS)
    waiting.add(end)
    const [longest] = waiting
    if (waiting.size > WAITING_MAX) longest?.()
    return promise
  }

  return {
    /** Notes that `client` sent a wrong key at `nowMs`; resolves when it may be told. */
    async failed(client: string, nowMs: number): Promise<void> {
      if (isSlowed(client, nowMs) && !isReleased) await wait()
    },
    /** Ends every wait, and lets nobody wait from now on. */
    release(): void {
      isReleased = true
      for (const end of waiting) end()
    },
  }
}
