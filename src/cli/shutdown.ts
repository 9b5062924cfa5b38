/**
 * Graceful shutdown of `serve`: refusals that are delayed go out, requests that wait for their turn are
 * refused, and those in flight have `--grace` to finish. Then their connections are closed and logged.
 */
import type { App } from '../app.ts'

type Server = { stop(closeActive?: boolean): Promise<void> }

/** The longest a timer can run; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** Stops the servers of the service and of the console. */
export async function shutDown(
  app: App,
  servers: readonly (Server | undefined)[],
  graceMs: number,
): Promise<void> {
  app.releaseDelayed()
  app.refuseWaiting()
  await Promise.all(servers.map(server => server && drain(server, graceMs)))
  await app.logUnfinished()
}

/** Waits for requests in flight, for at most `graceMs`; then closes their connections. */
async function drain(server: Server, graceMs: number): Promise<void> {
  const { promise: deadline, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(graceMs, TIMER_MS_MAX))
  await Promise.race([server.stop(), deadline])
  clearTimeout(timer)
  await server.stop(true)
}
