/** Slow clients, many in a process of their own, which ends when all connections are closed, or after `seconds`. */
import type { Socket } from 'bun'
import type { Where } from '../../support/launch.ts'
import { connectTo } from './client.ts'
import { script } from './script.ts'

/**
 * `idle`: asks once, then nothing. `drip`: sends a head byte by byte, every second client after a
 * complete request. `stall`: asks for a long answer and stops reading after its first bytes.
 * `steady`: reads a long answer slowly, to its end.
 */
export type Manner = 'idle' | 'drip' | 'stall' | 'steady'
type SlowInput = {
  where: Where
  manner: Manner
  clients: number
  /** What the clients ask for, in turns. */
  targets: readonly string[]
  seconds: number
  /** Whether a client opens a new connection when its own is closed. */
  again: boolean
}
type SlowResult = {
  opened: number
  /** Connections that could not be opened. */
  failed: number
  /** When the first bytes of an answer arrived (Unix milliseconds), by the client's port. */
  begun: [port: number, ms: number][]
  /** Bytes that a steady reader read, and whether the end of the answer was among them. */
  bytes: number
  isComplete: boolean
}

/** Connections that are opened at a time. */
const OPENED_AT_ONCE = 100
/** About a byte a second from each, no two in step. */
const dripMs = (n: number): number => 900 + (n % 200)
const LAST_CHUNK = '\r\n0\r\n\r\n'
const STEADY_BYTES_PER_SECOND = 500_000

const request = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`

/** Reads at the rate of a steady reader; gives whether the end of the answer has arrived. */
function createSlowReader(result: SlowResult): (socket: Socket, chunk: Buffer) => boolean {
  const startMs = performance.now()
  let tail = ''
  return (socket, chunk) => {
    result.bytes += chunk.length
    tail = (tail + chunk.toString('latin1')).slice(-LAST_CHUNK.length)
    result.isComplete = tail === LAST_CHUNK
    const dueMs = startMs + (result.bytes * 1000) / STEADY_BYTES_PER_SECOND
    const aheadMs = dueMs - performance.now()
    if (aheadMs > 0) {
      socket.pause()
      setTimeout(() => void socket.resume(), aheadMs)
    }
    return result.isComplete
  }
}

async function run(input: SlowInput): Promise<SlowResult> {
  const { where, manner, clients, targets, seconds, again } = input
  const result: SlowResult = {
    ...{ opened: 0, failed: 0, begun: [], bytes: 0, isComplete: false },
  }
  const over = Promise.withResolvers<void>()
  const dripping = new Map<Socket, ReturnType<typeof setInterval>>()
  const readSlowly = createSlowReader(result)
  let isOver = false
  let live = 0

  function took(socket: Socket, chunk: Buffer, isFirst: boolean, n: number): void {
    if (isFirst) result.begun.push([socket.localPort, Date.now()])
    if (manner === 'stall') socket.pause()
    if (manner === 'steady' && readSlowly(socket, chunk)) over.resolve()
    if (manner === 'drip' && isFirst) beginToDrip(socket, n)
  }

  function beginToDrip(socket: Socket, n: number): void {
    socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nX: ')
    dripping.set(
      socket,
      setInterval(() => void socket.write('a'), dripMs(n)),
    )
  }

  function ended(socket: Socket, n: number): void {
    live -= 1
    clearInterval(dripping.get(socket))
    dripping.delete(socket)
    if (again && !isOver) void open(n)
    else if (live === 0) over.resolve()
  }

  async function open(n: number): Promise<void> {
    let isFirst = true
    live += 1
    const socket = {
      open(opened: Socket) {
        result.opened += 1
        if (manner === 'drip' && n % 2 === 0) beginToDrip(opened, n)
        else opened.write(request(targets[n % targets.length] ?? '/'))
      },
      data(from: Socket, chunk: Buffer) {
        took(from, chunk, isFirst, n)
        isFirst = false
      },
      close: (closed: Socket) => ended(closed, n),
    }
    try {
      await connectTo(where, socket)
    } catch {
      result.failed += 1
      live -= 1
    }
  }

  const timer = setTimeout(over.resolve, seconds * 1000)
  for (let n = 0; n < clients; n += OPENED_AT_ONCE) {
    const some = Math.min(OPENED_AT_ONCE, clients - n)
    await Promise.all(Array.from({ length: some }, (_, i) => open(n + i)))
  }
  await over.promise
  isOver = true
  clearTimeout(timer)
  return result
}

export const startSlow = script(import.meta, run)
