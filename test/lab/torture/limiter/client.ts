/**
 * Clients of the limiter in a process of their own: each sends its next request as soon as the last
 * is answered, over a keep-alive connection or a new one each time. Requests and answers are noted
 * in a file with their times. A script, see `runAsScript`.
 */
import type { Socket } from 'bun'
import { randomOf } from '../../../support/random.ts'
import { runAsScript } from '../../support/script.ts'
import { readAnswer } from '../support/client.ts'
import { createTraffic, headOf, type Kind, type Request } from './traffic.ts'

export type ClientInput = {
  /** Ports of the servers on 127.0.0.1. */
  ports: number[]
  clients: number
  kinds: readonly Kind[]
  /** Requests of all processes, by which subjects are as many as their kinds say. */
  allRequests: number
  /**
   * `amount`: so many requests, each connection must hold. `steady`: until SIGTERM, going over all
   * subjects in so many seconds, by the clock; a lost connection is opened again.
   */
  length: { kind: 'amount'; requests: number } | { kind: 'steady'; lapSeconds: number }
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
  /** 0: the connection ended before the answer. */
  status: number
  /** The field RateLimit, and Retry-After in seconds. */
  rateLimit: string
  retryAfter: string
  body: string
}

/** How long a steady client waits before it connects again. */
const RECONNECT_MS = 20
const NO_ANSWER = { status: 0, id: '', rateLimit: '', retryAfter: '', body: '' }

/** Every NEW_CONNECTIONS-th client opens a new connection for each request. */
const NEW_CONNECTIONS = 4

/** What the clients of a process share. */
type Shared = {
  ports: readonly number[]
  kinds: readonly Kind[]
  isSteady: boolean
  /** The next request, or `null` when all are sent. */
  next: () => Request | null
  note: (note: Note) => void
  result: ClientResult
  isOver: () => boolean
  /** Is called when a client has nothing more to send. */
  left: () => void
}

/** Starts the `n`-th client. */
function startClient(n: number, shared: Shared): void {
  const { ports, kinds, isSteady, next, note, result, left } = shared
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
    const of = kinds[request.kind]
    if (of === undefined) throw new Error(`there is no kind ${request.kind}`)
    opened.write(headOf(of, request, turn % 5 === 0))
    turn += 1
  }

  function take(chunk: Buffer): void {
    text += chunk.toString('latin1')
    const found = readAnswer(text, false)
    if (found === null || request === null || socket === null) return
    const { status, headers, body } = found.answer
    const { from: _, ...asked } = request
    note({
      ...{ ...asked, sentMs, receivedMs: Date.now(), status, body },
      id: headers.get('x-request-id') ?? '',
      rateLimit: headers.get('ratelimit') ?? '',
      retryAfter: headers.get('retry-after') ?? '',
    })
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
    const { from: _, ...asked } = request
    request = null
    if (!isSteady) return connect()
    note({ ...asked, sentMs, receivedMs: Date.now(), ...NO_ANSWER })
    setTimeout(connect, RECONNECT_MS)
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
      if (isSteady && !shared.isOver()) return void setTimeout(connect, RECONNECT_MS)
      if (!isSteady) result.broken += 1
      left()
    })
  }
  connect()
}

/** A function that gives the next request, `null` after the last. */
function createNext({ length, ...input }: ClientInput, isOver: () => boolean) {
  const traffic = createTraffic(input.kinds, input.allRequests, randomOf(input.seed, input.name))
  if (length.kind === 'amount') {
    let sent = 0
    return () => (sent < length.requests ? traffic(sent++ / length.requests) : null)
  }
  const lapMs = length.lapSeconds * 1000
  return () => (isOver() ? null : traffic((Date.now() % lapMs) / lapMs))
}

async function run(input: ClientInput): Promise<ClientResult> {
  const { ports, clients, kinds, file } = input
  const notes = Bun.file(file).writer({ highWaterMark: 1 << 20 })
  const result: ClientResult = { answered: 0, broken: 0, connections: 0 }
  const { promise: over, resolve } = Promise.withResolvers<void>()
  let open = clients
  let isOver = false
  process.on('SIGTERM', () => {
    isOver = true
  })
  const shared: Shared = {
    ...{ ports, kinds, result, isSteady: input.length.kind === 'steady' },
    isOver: () => isOver,
    next: createNext(input, () => isOver),
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
