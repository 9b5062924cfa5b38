/**
 * A client with one keep-alive connection, which sends each request once and one at a time:
 * it is known exactly which answers had begun to arrive when a server died.
 */
import type { Socket, SocketHandler } from 'bun'
import type { Where } from '../../../support/launch.ts'

/** An answer whose head arrived; `isComplete`: its body arrived too. */
export type Reply = { status: number; head: string; isComplete: boolean }

export type Client = {
  /**
   * Sends a request; `fields` are header lines, each with its end.
   * @throws Disconnected when the connection ends before the head of the answer.
   */
  ask: (target: string, fields?: string) => Promise<Reply>
  isOpen: () => boolean
  close: () => void
}

/** The connection has ended, and with it the request that was under way. */
class Disconnected extends Error {}

/** Turns a lost connection into `null`. */
export function nullIfDisconnected(error: unknown): null {
  if (error instanceof Disconnected) return null
  throw error
}

const HEAD_END = '\r\n\r\n'

/**
 * The answer at the start of `text`, which is Latin-1; `null` without a complete head. An answer
 * without a length counts as complete, because its end is not recognised here.
 */
function replyIn(text: string): Reply | null {
  const end = text.indexOf(HEAD_END)
  if (end < 0) return null
  const head = text.slice(0, end)
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  const isComplete = text.length >= end + HEAD_END.length + length
  return { status: Number(head.slice(9, 12)), head, isComplete }
}

/** Connects. @throws Disconnected when nothing listens there. */
export async function openClient(where: Where): Promise<Client> {
  let text = ''
  let isOpen = true
  let waiting: { resolve: (reply: Reply) => void; reject: (error: Disconnected) => void } | null =
    null

  function take(chunk: Buffer): void {
    text += chunk.toString('latin1')
    const reply = replyIn(text)
    if (!reply?.isComplete) return
    waiting?.resolve(reply)
    waiting = null
  }

  function leave(): void {
    isOpen = false
    const reply = replyIn(text)
    if (reply && waiting) waiting.resolve(reply)
    else waiting?.reject(new Disconnected('the connection ended'))
    waiting = null
  }

  const handler = {
    data: (_: Socket, chunk: Buffer) => take(chunk),
    close: leave,
    error: leave,
    end: leave,
  }
  const socket = await connectTo(where, handler).catch(() => {
    throw new Disconnected('nothing listens')
  })

  return {
    ask(target, fields = '') {
      if (!isOpen) return Promise.reject(new Disconnected('the connection has ended'))
      const { promise, resolve, reject } = Promise.withResolvers<Reply>()
      waiting = { resolve, reject }
      text = ''
      socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}\r\n`)
      return promise
    },
    isOpen: () => isOpen,
    close: () => void socket.end(),
  }
}

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
