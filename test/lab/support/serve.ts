/** Starting the program's server, also again and again, and where the files of a data directory are. */
import { join } from 'node:path'
import {
  type Child,
  freePort,
  launch,
  launchServer,
  type Server,
  type Where,
} from '../../support/launch.ts'
import { statusOf } from './client.ts'

export type ServeOptions = {
  data: string
  /** Options beside `--data` and `--listen`. */
  more?: readonly string[]
  /** A file of Unix milliseconds that is the server's clock. */
  clock?: string
  /** A command that runs the server, such as `prlimit`. */
  wrapper?: readonly string[]
}

/** Starts a server and waits until it listens. @throws Error with its stderr when it ends. */
export function startServe(binary: string, options: ServeOptions): Promise<Server> {
  const { data, more = [], clock, wrapper = [] } = options
  const command = [...wrapper, binary, 'serve', '--data', data, '--listen', '127.0.0.1:0', ...more]
  return launchServer(command, {
    env: { PROXYLIST_TEST_CLOCK: clock },
    stdout: 'ignore',
  })
}

/** The database files of a data directory: the list, and the registry with its usage. */
export const files = (data: string) => ({
  list: join(data, 'proxies.db'),
  access: join(data, 'access.db'),
})

/** Longest wait for a server that has its data; far above what is promised. */
const READY_MS_MAX = 20_000
/** Between two requests for /readyz. */
const PROBE_EVERY_MS = 2

export type Restartable = {
  where: Where
  child: () => Child
  /** Starts it, the first time or again. */
  start: () => void
  /** Resolves to the milliseconds from the start to the first 200 of /readyz, `mostMs` at most. */
  ready: (mostMs?: number) => Promise<number>
}

export type RestartOptions = {
  /** The program, as the beginning of a command. */
  program: readonly string[]
  data: string
  /** Further options. */
  more?: readonly string[]
  env?: { readonly [name: string]: string }
}

/**
 * A server of `data`, not started yet, on a port of its own. Not `startServe`:
 * it can be killed before it listens.
 */
export function createRestartable({
  program,
  data,
  more = [],
  env = {},
}: RestartOptions): Restartable {
  const port = freePort()
  const where: Where = { kind: 'tcp', hostname: '127.0.0.1', port }
  const command = [
    ...[...program, 'serve', '--data', data, '--trust-proxy', '127.0.0.1', '--grace', '1s'],
    ...['--listen', `127.0.0.1:${port}`, ...more],
  ]
  let startMs = 0
  let child: Child | null = null
  const running = (): Child => {
    if (child === null) throw new Error('the server was never started')
    return child
  }
  return {
    where,
    child: running,
    start(): void {
      startMs = performance.now()
      child = launch(command, { env, stdout: 'ignore' })
    },
    async ready(mostMs = READY_MS_MAX): Promise<number> {
      while (performance.now() - startMs < mostMs) {
        if ((await statusOf(where, '/readyz')) === 200) return performance.now() - startMs
        const { isRunning, ended, written } = running()
        if (!isRunning()) throw new Error(`serve exited with ${await ended}: ${written.stderr}`)
        await Bun.sleep(PROBE_EVERY_MS)
      }
      throw new Error(`a server was not ready within ${mostMs} ms`)
    },
  }
}
