/**
 * Owns a server that is killed and started again on the same data and address, how long it takes
 * until it is ready, and the load that goes on meanwhile.
 */
import type { Subprocess } from 'bun'
import { childEnvironment, freePort, keepTrack } from '../../bench/processes.ts'
import { pick } from '../part.ts'
import { type Asker, Gone, openAsker, type Where } from './asker.ts'
import { isRunning } from './kill.ts'
import { note, type Request, requestOf, type Subject } from './subjects.ts'

/** Longest wait for a server; far above what is promised. */
const PATIENCE_MS = 20_000
/** Between two looks whether a server is ready. */
const LOOK_EVERY_MS = 2
/** How long a worker waits before it connects again; more often would keep the start busy. */
const RECONNECT_MS = 10

export type Serving = {
  where: Where
  child: () => Subprocess<'ignore', 'ignore', 'pipe'>
  /** Starts it anew. */
  start: () => void
  /** Resolves to the milliseconds from the start to the first 200 of /readyz. */
  ready: () => Promise<number>
}

/** A server of `data`, not started yet: on a port of its own, or on a unix socket. */
export function createServing(binary: string, data: string, socket: string | null): Serving {
  const port = freePort()
  const where = socket === null ? { port } : { unix: socket }
  const command = [
    ...[binary, 'serve', '--data', data, '--trust-proxy', '127.0.0.1', '--grace', '1s'],
    ...['--listen', socket === null ? `127.0.0.1:${port}` : `unix:${socket}`],
  ]
  let startMs = 0
  const spawn = () =>
    keepTrack(
      Bun.spawn(command, {
        env: childEnvironment(),
        stdin: 'ignore',
        stdout: 'ignore',
        stderr: 'pipe',
      }),
    )
  let child: ReturnType<typeof spawn> | null = null
  const running = (): ReturnType<typeof spawn> => {
    if (child === null) throw new Error('the server was never started')
    return child
  }
  return {
    where,
    child: running,
    start(): void {
      startMs = performance.now()
      child = spawn()
    },
    async ready(): Promise<number> {
      while (performance.now() - startMs < PATIENCE_MS) {
        const status = await openAsker(where)
          .then(asker => asker.ask('/readyz').finally(asker.close))
          .then(reply => reply.status)
          .catch(ignoreGone)
        if (status === 200) return performance.now() - startMs
        if (!isRunning(running())) {
          throw new Error(`a server ended: ${await new Response(running().stderr).text()}`)
        }
        await Bun.sleep(LOOK_EVERY_MS)
      }
      throw new Error(`a server was not ready within ${PATIENCE_MS} ms`)
    },
  }
}

function ignoreGone(error: unknown): null {
  if (error instanceof Gone) return null
  throw error
}

/** Asks once and notes what came; gives what should not have come. */
async function askOnce(asker: Asker, subject: Subject, request: Request): Promise<string | null> {
  const reply = await asker.ask(request.target, request.fields).catch(ignoreGone)
  return note(subject, request, reply?.status ?? null)
}

/** Workers that ask, each over its own connection, until they are told to stop. */
export function startLoad(
  servings: readonly Serving[],
  workers: number,
  subjects: readonly Subject[],
  random: () => number,
) {
  const odd: string[] = []
  let isOver = false
  async function work({ where }: Serving): Promise<void> {
    let asker: Asker | null = null
    while (!isOver) {
      if (!asker?.isOpen()) asker = await openAsker(where).catch(ignoreGone)
      if (asker === null) {
        await Bun.sleep(RECONNECT_MS)
        continue
      }
      const subject = pick(random, subjects)
      const wrong = await askOnce(asker, subject, requestOf(subject, random))
      if (wrong !== null) odd.push(wrong)
    }
    asker?.close()
  }
  const working = Array.from({ length: workers }, (_, n) => work(pickAt(servings, n)))
  return {
    /** Lets every request on its way come to its end; gives the answers nobody should get. */
    async stop(): Promise<string[]> {
      isOver = true
      await Promise.all(working)
      return odd
    },
  }
}

const pickAt = <T>(items: readonly T[], n: number): T => {
  const item = items[n % items.length]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}
