/** The environment of the process. Imports nothing at run time, because `bootstrap.ts` loads it first. */
import type { Manager } from '../lib/systemd.ts'

export type Environment = { readonly [name: string]: string | undefined }

export const processEnvironment = (): Environment => process.env

/** Makes production the default. In its development mode, Elysia puts internals into responses. It reads NODE_ENV on load. */
export function setDefaultNodeEnv(): void {
  // Not process.env.NODE_ENV: the build replaces that by its value.
  Bun.env.NODE_ENV ??= 'production'
}

/** Names a file of Unix milliseconds, from which the binary reads the time in tests. */
export const TEST_CLOCK = 'PROXYLIST_TEST_CLOCK'

/** The variables besides the settings. A child gets its settings in its task instead. */
export const foreignEnvironment = (): Environment =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !name.startsWith('PROXYLIST_') || name === TEST_CLOCK,
    ),
  )

export const testClockFile = (): string | undefined => process.env[TEST_CLOCK] || undefined

/** The service manager (sd_notify(3)), or `null`. It ignores a watchdog for another process. */
export function serviceManager(env: Environment = process.env): Manager | null {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec = '', WATCHDOG_PID: pid } = env
  if (!socket) return null
  const isMeant = /^[1-9]\d{0,11}$/.test(usec) && (pid === undefined || pid === String(process.pid))
  return { socket, watchdogMs: isMeant ? Number(usec) / 1000 : null }
}

/** The environment for a process that becomes the main process of the service and takes over the watchdog. */
export function successorEnvironment(): Environment {
  const { WATCHDOG_PID, ...env } = process.env
  return env
}

/** A shell command that shows long text on a terminal, and its environment. */
export type Pager = { command: string; env: Environment }

/** The pager in `$PAGER`; `null` if it is not set. `less` exits if the text fits on the screen. */
export const pagerOf = (env: Environment = process.env): Pager | null =>
  env.PAGER ? { command: env.PAGER, env: { LESS: 'FRX', ...env } } : null

/** The variables of Bun. Left out: variables that shells and container images set for other reasons. */
const STEERING = /^BUN_(?!INSTALL|RUNTIME_TRANSPILER_CACHE_PATH$|TMPDIR$|WHICH_IGNORE_CWD$)/

/** The name of a variable that gives the runtime code, options or a debugger. */
export const steeringVariable = (env: Environment = process.env): string | undefined =>
  Object.keys(env).find(name => STEERING.test(name) && env[name])
