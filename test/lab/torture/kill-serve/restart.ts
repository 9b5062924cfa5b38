/**
 * A server that is killed and started again on the same data and address, how long it takes
 * until it is ready, and the load that continues meanwhile.
 */
import { type Child, freePort, launch, type Where } from '../../../support/launch.ts'
import { pick } from '../../../support/random.ts'
import { type Client, nullIfDisconnected, openClient } from '../support/client.ts'
import { note, type Request, requestOf, type Subject } from './subjects.ts'

/** Longest wait for a server that has its data; far above what is promised. */
const READY_MS_MAX = 20_000
/** Between two requests for /readyz. */
const PROBE_EVERY_MS = 2
/** How long a client waits before it connects again; less would slow the start down. */
const RECONNECT_MS = 10

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
  /** The path of its unix socket; by default it listens on a port. */
  socket?: string | null
  /** Further options. */
  more?: readonly string[]
  env?: { readonly [name: string]: string }
}

/**
 * A server of `data`, not started yet, on a port of its own or on a unix socket. Not `startServe`:
 * it can be killed before it listens.
 */
export function createRestartable({
  program,
  data,
  socket = null,
  more = [],
  env = {},
}: RestartOptions): Restartable {
  const port = freePort()
  const where: Where =
    socket === null ? { kind: 'tcp', hostname: '127.0.0.1', port } : { kind: 'unix', path: socket }
  const command = [
    ...[...program, 'serve', '--data', data, '--trust-proxy', '127.0.0.1', '--grace', '1s'],
    ...['--listen', socket === null ? `127.0.0.1:${port}` : `unix:${socket}`, ...more],
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
        const status = await openClient(where)
          .then(client => client.ask('/readyz').finally(client.close))
          .then(reply => reply.status)
          .catch(nullIfDisconnected)
        if (status === 200) return performance.now() - startMs
        const { isRunning, ended, written } = running()
        if (!isRunning()) throw new Error(`serve exited with ${await ended}: ${written.stderr}`)
        await Bun.sleep(PROBE_EVERY_MS)
      }
      throw new Error(`a server was not ready within ${mostMs} ms`)
    },
  }
}

/** Asks once and notes the answer; gives what no server should have answered. */
async function askOnce(client: Client, subject: Subject, request: Request): Promise<string | null> {
  const reply = await client.ask(request.target, request.fields).catch(nullIfDisconnected)
  return note(subject, request, reply?.status ?? null)
}

/** Clients that ask, each over its own connection, until they are stopped. */
export function startLoad(
  servers: readonly Restartable[],
  clients: number,
  subjects: readonly Subject[],
  random: () => number,
) {
  const unexpected: string[] = []
  let isOver = false
  async function askOn({ where }: Restartable): Promise<void> {
    let client: Client | null = null
    while (!isOver) {
      if (!client?.isOpen()) client = await openClient(where).catch(nullIfDisconnected)
      if (client === null) {
        await Bun.sleep(RECONNECT_MS)
        continue
      }
      const subject = pick(random, subjects)
      const wrong = await askOnce(client, subject, requestOf(subject, random))
      if (wrong !== null) unexpected.push(wrong)
    }
    client?.close()
  }
  const asking = Array.from({ length: clients }, (_, n) => {
    const server = servers[n % servers.length]
    return server && askOn(server)
  })
  return {
    /** Waits for the requests under way; gives the answers that no client should get. */
    async stop(): Promise<string[]> {
      isOver = true
      await Promise.all(asking)
      return unexpected
    },
  }
}
