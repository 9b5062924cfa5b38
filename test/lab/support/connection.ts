/**
 * One keep-alive connection of a load generator: one request at a time, and answers that are
 * framed by Content-Length and not parsed further, so that the generator is cheap.
 */
import type { Socket } from 'bun'

export type Connection = {
  /** Sends a request; at most one may be under way. */
  send(target: string): void
  close(): void
}

export type Listeners = {
  open(connection: Connection): void
  answer(connection: Connection, status: number): void
  /** The connection has closed; `wasBusy`: a request was under way. */
  closed(connection: Connection, wasBusy: boolean): void
}

const HEAD_END = '\r\n\r\n'
/** Longest head of an answer. */
const HEAD_MAX_BYTES = 16_384

/** A function that takes chunks; it gives an answer's status once it is complete, else `null`. */
function createFraming(): (chunk: Buffer) => number | null {
  let head = ''
  let status = 0
  let missingBytes = 0

  function takeHead(chunk: Buffer): void {
    head += chunk.toString('latin1')
    const end = head.indexOf(HEAD_END)
    if (end < 0) {
      if (head.length > HEAD_MAX_BYTES) throw new Error('an answer has no end of head')
      missingBytes = 1 // unknown yet: at least one byte
      return
    }
    const length = /\r\ncontent-length: *(\d+)/i.exec(head.slice(0, end))?.[1]
    if (length === undefined) throw new Error('an answer has no Content-Length')
    status = Number(head.slice(9, 12))
    missingBytes = Number(length) - (head.length - end - HEAD_END.length)
    head = ''
  }

  return chunk => {
    if (status === 0) takeHead(chunk)
    else missingBytes -= chunk.length
    if (missingBytes > 0) return null
    if (missingBytes < 0) throw new Error('more bytes than the answer has')
    const done = status
    status = 0
    return done
  }
}

/** Opens a connection to 127.0.0.1; `closed` is also called when it cannot be opened. */
export async function connect(port: number, listeners: Listeners): Promise<void> {
  let isBusy = false
  let isClosed = false
  let socket: Socket | undefined
  const framing = createFraming()
  const connection: Connection = {
    send(target) {
      const request = `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`
      isBusy = true
      if (socket?.write(request) !== request.length) leave()
    },
    close: () => leave(),
  }

  function leave(): void {
    if (isClosed) return
    isClosed = true
    socket?.end()
    listeners.closed(connection, isBusy)
  }

  function take(chunk: Buffer): void {
    try {
      const status = framing(chunk)
      if (status === null) return
      isBusy = false
      listeners.answer(connection, status)
    } catch (error) {
      process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
      leave()
    }
  }

  try {
    await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        open(opened) {
          socket = opened
          opened.setNoDelay(true)
          listeners.open(connection)
        },
        data: (_, chunk) => take(chunk),
        close: leave,
        error: leave,
      },
    })
  } catch {
    leave()
  }
}
