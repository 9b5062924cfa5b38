/**
 * The environment of the process. No other file reads or writes it; `settings.ts` says which variables are settings.
 * It imports nothing at run time, because `bootstrap.ts` needs it before anything else is loaded.
 */
import type { Manager } from '../lib/systemd.ts'

export type Environment = { readonly [name: string]: string | undefined }

export const processEnvironment = (): Environment => process.env

/**
 * Makes production the default. Elysia reads NODE_ENV when it is loaded. Without it, Elysia's development mode puts
 * internals into responses.
 */
export function setDefaultNodeEnv(): void {
  // Not process.env.NODE_ENV: the build replaces that by its value.
  Bun.env.NODE_ENV ??= 'production'
}

/** Names a file of Unix milliseconds, with which tests of the binary set its clock. */
export const TEST_CLOCK = 'PROXYLIST_TEST_CLOCK'

/** The variables that are no settings, for a child that gets its settings in its task. */
export const foreignEnvironment = (): Environment =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !name.startsWith('PROXYLIST_') || name === TEST_CLOCK,
    ),
  )

export const testClockFile = (): string | undefined => process.env[TEST_CLOCK] || undefined

/**
 * The service manager that started the process (sd_notify(3), sd_watchdog_enabled(3)), or `null`.
 * It ignores a watchdog for another process, and one that is not a number of microseconds.
 */
export function serviceManager(env: Environment = process.env): Manager | null {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec = '', WATCHDOG_PID: pid } = env
  if (!socket) return null
  const isMeant = /^[1-9]\d{0,11}$/.test(usec) && (pid === undefined || pid === String(process.pid))
  return { socket, watchdogMs: isMeant ? Number(usec) / 1000 : null }
}

/** The environment of a process that becomes the main one of the service: the watchdog is then its own. */
export function successorEnvironment(): Environment {
  const { WATCHDOG_PID, ...env } = process.env
  return env
}

/** A command line of the shell that shows long text on a terminal, and its environment. */
export type Pager = { command: string; env: Environment }

/** The pager that `$PAGER` names; `null` without one. `less` ends by itself if the text fits. */
export const pagerOf = (env: Environment = process.env): Pager | null =>
  env.PAGER ? { command: env.PAGER, env: { LESS: 'FRX', ...env } } : null

/** Bun's own variables, except the ones that shells and container images set for other reasons. */
const STEERING = /^BUN_(?!INSTALL|RUNTIME_TRANSPILER_CACHE_PATH$|TMPDIR$|WHICH_IGNORE_CWD$)/

/** The name of a variable that gives the runtime other code, options or a debugger. */
export const steeringVariable = (env: Environment = process.env): string | undefined =>
  Object.keys(env).find(name => STEERING.test(name) && env[name])
