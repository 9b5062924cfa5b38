/**
 * Graceful shutdown. A command ends at the first SIGTERM or SIGINT, and `serve` after the requests in flight;
 * a second signal ends the process at once. SIGHUP is one of them where stdin is a terminal, which was closed;
 * a server elsewhere reloads at it.
 */
import { isatty } from 'node:tty'
import type { App } from '../app.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { withTimeout } from '../lib/clock.ts'
import { CommandError, orAborted } from '../lib/errors.ts'

/** The exit status of a command that a signal ended: 128 and its number. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
type Signal = keyof typeof EXIT_CODES

/** Calls `stop` at the first signal. Returns a function that stops waiting for one. */
function onSignal(stop: (signal: Signal) => void): () => void {
  const all = Object.keys(EXIT_CODES) as Signal[] // of the table itself
  const signals = all.filter(signal => signal !== 'SIGHUP' || isatty(0))
  const off = (): void => {
    for (const signal of signals) process.off(signal, once)
  }
  const once = (signal: Signal): void => {
    off()
    stop(signal)
  }
  for (const signal of signals) process.on(signal, once)
  return off
}

/**
 * Runs work that ends early, with the reason of its signal, when that is aborted by a signal
 * that ends commands: a `CommandError` with the text `kept`.
 */
export async function interruptible<T>(
  kept: string,
  work: (signal: AbortSignal) => Awaitable<T>,
): Promise<T> {
  const controller = new AbortController()
  const off = onSignal(signal =>
    controller.abort(new CommandError(`interrupted; ${kept}`, EXIT_CODES[signal])),
  )
  try {
    return await work(controller.signal)
  } finally {
    off()
  }
}

/** Runs work that has nothing to clean up: a signal abandons it. */
export const abandonable = <T>(
  kept: string,
  work: (signal: AbortSignal) => Awaitable<T>,
): Promise<T> => interruptible(kept, signal => orAborted((async () => work(signal))(), signal))

type Server = { stop(atOnce?: boolean): Promise<void> }

/** The longest a timer can run; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

/**
 * Stops the servers of the service and of the console. Requests in flight have `graceMs` to finish; then their
 * connections are closed. Requests that wait for a slot are refused if `refusesWaiting`. `stopped` is called when
 * no new requests are accepted.
 */
export async function shutDown(
  app: App,
  servers: readonly (Server | undefined)[],
  graceMs: number,
  { refusesWaiting, stopped }: { refusesWaiting: boolean; stopped?: () => void },
): Promise<void> {
  if (refusesWaiting) app.refuseWaiting()
  const drain = async (server: Server): Promise<void> => {
    const ended = server.stop()
    stopped?.()
    await withTimeout(ended, Math.min(graceMs, TIMER_MS_MAX))
    await server.stop(true)
  }
  await Promise.all(servers.map(server => server && drain(server)))
}
