/**
 * The environment of the process: the only file that reads or writes it. Which settings its
 * variables set is in `settings.ts`. Imports nothing at run time, because `bootstrap.ts`
 * needs it before anything else is loaded.
 */
import type { Manager } from '../lib/systemd.ts'

export type Environment = { readonly [name: string]: string | undefined }

export const processEnvironment = (): Environment => process.env

/**
 * Makes production the default. Elysia reads NODE_ENV when it is loaded, and without it runs in
 * its development mode, which puts internals into responses.
 */
export function setDefaultNodeEnv(): void {
  // Not process.env.NODE_ENV, which the build replaces by its value.
  Bun.env.NODE_ENV ??= 'production'
}

/** Tests of the binary set its clock by writing Unix milliseconds to the file that it names. */
export const TEST_CLOCK = 'PROXYLIST_TEST_CLOCK'

/** The variables that set nothing of this program: for a process that gets its settings in another way. */
export const foreignEnvironment = (): Environment =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !name.startsWith('PROXYLIST_') || name === TEST_CLOCK,
    ),
  )

export const testClockFile = (): string | undefined => process.env[TEST_CLOCK] || undefined

/**
 * The service manager that started the process (sd_notify(3), sd_watchdog_enabled(3)), or `null`.
 * A watchdog that is meant for another process, or is not a number of microseconds, is ignored.
 */
export function serviceManager(env: Environment = process.env): Manager | null {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec = '', WATCHDOG_PID: pid } = env
  if (!socket) return null
  const isMeant = /^[1-9]\d{0,11}$/.test(usec) && (pid === undefined || pid === String(process.pid))
  return { socket, watchdogMs: isMeant ? Number(usec) / 1000 : null }
}

/** The environment for a process that becomes the main one of a service: the watchdog is meant for it. */
export function successorEnvironment(): Environment {
  const { WATCHDOG_PID, ...env } = process.env
  return env
}

/** What shows long text on a terminal: a command line of the shell, and the environment for it. */
export type Pager = { command: string; env: Environment }

/** The pager that `$PAGER` names; `null` without one. `less` ends by itself where the text fits. */
export const pagerOf = (env: Environment = process.env): Pager | null =>
  env.PAGER ? { command: env.PAGER, env: { LESS: 'FRX', ...env } } : null

/** Bun's own variables except those that shells and container images set for other reasons. */
const STEERING = /^BUN_(?!INSTALL|RUNTIME_TRANSPILER_CACHE_PATH$|TMPDIR$|WHICH_IGNORE_CWD$)/

/** The name of a set variable that gives the runtime other code, options or a debugger. */
export const steeringVariable = (env: Environment = process.env): string | undefined =>
  Object.keys(env).find(name => STEERING.test(name) && env[name])
