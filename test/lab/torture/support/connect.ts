/** Raw connections: opening one to a server, and one that carries a single request. */
import type { SocketHandler } from 'bun'
import type { Where } from '../../../support/launch.ts'

/** Opens a connection; `from` is the address of 127.0.0.0/8 it comes from. */
export function connectTo(where: Where, socket: SocketHandler, from?: string) {
  if (where.kind === 'unix') return Bun.connect({ unix: where.path, socket })
  const { hostname, port } = where
  const source = from !== undefined && { localAddress: from } // Bun knows it, its types do not
  return Bun.connect({ hostname, port, ...source, socket })
}

/** An answer as it came, head and body, in Latin-1; `ms` is from connecting to its end. */
export type RawAnswer = { status: number; text: string; ms: number }

const ANSWER_MS_MAX = 10_000

/** Sends the bytes of one request over a new connection and reads until the server closes it. */
export function exchange(where: Where, request: string, from?: string): Promise<RawAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  const startMs = performance.now()
  let text = ''
  const end = (): void => {
    clearTimeout(timer)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
    resolve({ status, text, ms: performance.now() - startMs })
  }
  const timer = setTimeout(() => reject(new Error('no answer in 10 s')), ANSWER_MS_MAX)
  const handler: SocketHandler = {
    open: socket => void socket.write(request),
    data(_, chunk) {
      text += chunk.toString('latin1')
    },
    close: end,
    error: end,
  }
  connectTo(where, handler, from).catch(reject)
  return promise
}
