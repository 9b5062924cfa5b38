/**
 * A control for the times after which a server closes connections: a bare `Bun.serve` with the same
 * idle timeout, and connections to it that idle. What they last longer than the timeout is the
 * delay of the machine, not of the server under test. A script, see `runAsScript`.
 */
import { runAsScript } from '../../support/script.ts'
import { connectTo } from '../support/client.ts'

/** Opens a connection every second for `seconds`. */
export type ControlInput = { seconds: number }
/** The longest time from the last byte of an answer until the connection was closed. */
export type ControlResult = { longestMs: number }

/** That of the server under test, see src/http/listen.ts. */
const IDLE_TIMEOUT_SECONDS = 28
const ONE_SECOND_MS = 1_000

async function run({ seconds }: ControlInput): Promise<ControlResult> {
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, development: false, idleTimeout: IDLE_TIMEOUT_SECONDS },
    fetch: () => new Response('ok'),
  })
  const where = { kind: 'tcp', hostname: '127.0.0.1', port: server.port ?? 0 } as const

  /** One connection that asks once; resolves to how long it lasts then. */
  async function idle(): Promise<number> {
    const closed = Promise.withResolvers<number>()
    let answeredMs = performance.now()
    await connectTo(where, {
      open: socket => void socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
      data() {
        answeredMs = performance.now()
      },
      close: () => closed.resolve(performance.now() - answeredMs),
    })
    return closed.promise
  }

  const lasted: Promise<number>[] = []
  for (let n = 0; n < seconds; n += 1) {
    lasted.push(idle())
    await Bun.sleep(ONE_SECOND_MS)
  }
  const longestMs = Math.max(...(await Promise.all(lasted)))
  await server.stop(true)
  return { longestMs }
}

if (import.meta.main) await runAsScript(run)
