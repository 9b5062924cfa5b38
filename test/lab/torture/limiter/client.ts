/**
 * Clients of the limiter in a process of their own: each sends its next request as soon as the last
 * is answered, over a keep-alive connection or a new one each time. Requests and answers are noted
 * in a file with their times. A script, see `runAsScript`.
 */
import type { Socket } from 'bun'
import { randomOf } from '../../../support/random.ts'
import { runAsScript } from '../../support/script.ts'
import { createTraffic, headOf, type Request } from './traffic.ts'

export type ClientInput = {
  /** Ports of the servers on 127.0.0.1. */
  ports: number[]
  clients: number
  /** Requests of this process, and of all together. */
  requests: number
  allRequests: number
  seed: number
  name: string
  file: string
}
export type ClientResult = { answered: number; broken: number; connections: number }

/** One request and its answer, as a line of the file. */
export type Note = Omit<Request, 'from'> & {
  id: string
  sentMs: number
  receivedMs: number
  status: number
  /** The field RateLimit, and Retry-After in seconds. */
  rateLimit: string
  retryAfter: string
  body: string
}

/** Every NEW_CONNECTIONS-th client opens a new connection for each request. */
const NEW_CONNECTIONS = 4

const fieldOf = (head: string, name: string): string =>
  new RegExp(`\\r\\n${name}: *([^\\r]*)`, 'i').exec(head)?.[1] ?? ''

/** A complete answer, or `null` while some of it is missing. */
function readAnswer(text: string) {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return null
  const head = text.slice(0, end)
  const body = text.slice(end + 4)
  if (body.length < Number(fieldOf(head, 'content-length'))) return null
  return {
    status: Number(head.slice(9, 12)),
    id: fieldOf(head, 'x-request-id'),
    rateLimit: fieldOf(head, 'ratelimit'),
    retryAfter: fieldOf(head, 'retry-after'),
    body,
  }
}

/** What the clients of a process share. */
type Shared = {
  ports: readonly number[]
  /** The next request, or `null` when all are sent. */
  next: () => Request | null
  note: (note: Note) => void
  result: ClientResult
  /** Is called when a client has nothing more to send. */
  left: () => void
}

/** Starts the `n`-th client. */
function startClient(n: number, { ports, next, note, result, left }: Shared): void {
  const isKept = n % NEW_CONNECTIONS !== 0
  let turn = n
  let socket: Socket | null = null
  let request: Request | null = null
  let sentMs = 0
  let text = ''

  function send(opened: Socket): void {
    request = next()
    if (request === null) {
      opened.end()
      return left()
    }
    text = ''
    sentMs = Date.now()
    opened.write(headOf(request, turn % 5 === 0))
    turn += 1
  }

  function take(chunk: Buffer): void {
    text += chunk.toString('latin1')
    const answer = readAnswer(text)
    if (answer === null || request === null || socket === null) return
    const { from: _, ...asked } = request
    note({ ...asked, sentMs, receivedMs: Date.now(), ...answer })
    result.answered += 1
    request = null
    if (isKept) return send(socket)
    socket.end()
    connect()
  }

  /** Handles a connection that ends before its answer. */
  function lose(closed: Socket): void {
    if (closed !== socket || request === null) return
    result.broken += 1
    request = null
    connect()
  }

  function connect(): void {
    result.connections += 1
    Bun.connect({
      hostname: '127.0.0.1',
      port: ports[turn % ports.length] ?? 0,
      socket: {
        open(opened) {
          socket = opened
          opened.setNoDelay(true)
          send(opened)
        },
        data: (_, chunk) => take(chunk),
        close: lose,
        error: lose,
      },
    }).catch(() => {
      result.broken += 1
      left()
    })
  }
  connect()
}

async function run(input: ClientInput): Promise<ClientResult> {
  const { ports, clients, requests, allRequests, file } = input
  const traffic = createTraffic(allRequests, randomOf(input.seed, input.name))
  const notes = Bun.file(file).writer({ highWaterMark: 1 << 20 })
  const result: ClientResult = { answered: 0, broken: 0, connections: 0 }
  const { promise: over, resolve } = Promise.withResolvers<void>()
  let sent = 0
  let open = clients
  const shared: Shared = {
    ports,
    result,
    next: () => (sent < requests ? traffic(sent++ / requests) : null),
    note: note => void notes.write(`${JSON.stringify(note)}\n`),
    left: () => {
      open -= 1
      if (open === 0) resolve()
    },
  }
  for (let n = 0; n < clients; n += 1) startClient(n, shared)
  await over
  await notes.end()
  return result
}

if (import.meta.main) await runAsScript(run)
