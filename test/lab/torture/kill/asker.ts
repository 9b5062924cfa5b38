/**
 * Owns asking over one keep-alive connection, a request at a time and each of them once, so that
 * it is known exactly which answers had begun to come when a server died.
 */
import type { Socket } from 'bun'

export type Where = { port: number } | { unix: string }

/** An answer whose head came; `isWhole`: its body came too. */
export type Reply = { status: number; head: string; isWhole: boolean }

export type Asker = {
  /**
   * Sends a request; `fields` are header lines, each with its end.
   * @throws Gone when the connection ends before the head of the answer.
   */
  ask: (target: string, fields?: string) => Promise<Reply>
  isOpen: () => boolean
  close: () => void
}

/** The connection ended, and with it whatever was on its way. */
export class Gone extends Error {}

const HEAD_END = '\r\n\r\n'

/**
 * The answer that `text`, one character a byte, begins with; `null` without a whole head. Of an
 * answer without a length it cannot be told where it ends: it is taken for whole.
 */
function replyIn(text: string): Reply | null {
  const end = text.indexOf(HEAD_END)
  if (end < 0) return null
  const head = text.slice(0, end)
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  const isWhole = text.length >= end + HEAD_END.length + length
  return { status: Number(head.slice(9, 12)), head, isWhole }
}

/** Connects. @throws Gone when nobody listens there. */
export async function openAsker(where: Where): Promise<Asker> {
  let text = ''
  let isOpen = true
  let waiting: { resolve: (reply: Reply) => void; reject: (gone: Gone) => void } | null = null
  let socket: Socket | null = null

  function take(chunk: Buffer): void {
    text += chunk.toString('latin1')
    const reply = replyIn(text)
    if (!reply?.isWhole) return
    waiting?.resolve(reply)
    waiting = null
  }

  function leave(): void {
    isOpen = false
    const reply = replyIn(text)
    if (reply && waiting) waiting.resolve(reply)
    else waiting?.reject(new Gone('the connection ended'))
    waiting = null
  }

  const handlers = {
    data: (_: Socket, chunk: Buffer) => take(chunk),
    close: leave,
    error: leave,
    end: leave,
  }
  try {
    socket = await ('unix' in where
      ? Bun.connect({ unix: where.unix, socket: handlers })
      : Bun.connect({ hostname: '127.0.0.1', port: where.port, socket: handlers }))
  } catch {
    throw new Gone('nobody listens')
  }

  return {
    ask(target, fields = '') {
      if (!isOpen) return Promise.reject(new Gone('the connection has ended'))
      const { promise, resolve, reject } = Promise.withResolvers<Reply>()
      waiting = { resolve, reject }
      text = ''
      socket?.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}\r\n`)
      return promise
    },
    isOpen: () => isOpen,
    close: () => void socket?.end(),
  }
}
