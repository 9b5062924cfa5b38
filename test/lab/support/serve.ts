/** Starting the compiled program's server, and where the files of a data directory are. */
import { join } from 'node:path'
import { launchServer, type Server } from '../../support/launch.ts'

export type ServeOptions = {
  data: string
  /** As `--listen` takes it; by default a free port of 127.0.0.1. */
  listen?: string
  /** Options beside `--data` and `--listen`. */
  more?: readonly string[]
  /** A file of Unix milliseconds that is the server's clock. */
  clock?: string
  /** The file of its access log; by default the log is dropped. */
  log?: string
  /** A command that runs the server, such as `prlimit`. */
  wrapper?: readonly string[]
}

/** Starts a server and waits until it listens. @throws Error with its stderr when it ends. */
export function startServe(binary: string, options: ServeOptions): Promise<Server> {
  const { data, listen = '127.0.0.1:0', more = [], clock, log, wrapper = [] } = options
  const command = [...wrapper, binary, 'serve', '--data', data, '--listen', listen, ...more]
  return launchServer(command, {
    env: { PROXYLIST_TEST_CLOCK: clock },
    stdout: log === undefined ? 'ignore' : { file: log },
  })
}

/** The database files of a data directory: the list, and the registry with its usage. */
export const files = (data: string) => ({
  list: join(data, 'proxies.db'),
  access: join(data, 'access.db'),
})
