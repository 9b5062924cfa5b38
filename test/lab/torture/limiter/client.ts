/**
 * Clients of the limiter in processes of their own: each sends its next request as soon as the last is
 * answered, over a keep-alive connection or a new one each time. Requests and answers are noted in
 * files with their times.
 */
import { join } from 'node:path'
import type { Where } from '../../../support/launch.ts'
import { pick, randomOf } from '../../../support/random.ts'
import { type Client, nullIfDisconnected, openClient } from '../../support/client.ts'
import { script } from '../../support/script.ts'
import type { Run } from '../part.ts'
import { createTraffic, headOf, type Request } from './traffic.ts'

/** What all processes of clients do. */
export type Load = {
  /** How many clients a process has. */
  clients: number
  /** Requests of all processes, by which subjects are as many as their kinds say. */
  allRequests: number
  /**
   * `amount`: so many requests, each connection must hold. `steady`: until SIGTERM, going over all
   * subjects in so many seconds, by the clock; a lost connection is opened again.
   */
  length: { kind: 'amount'; requests: number } | { kind: 'steady'; lapSeconds: number }
}
type ClientInput = Load & {
  /** The servers, which the clients ask in turns. */
  servers: readonly Where[]
  seed: number
  name: string
  file: string
}
type ClientResult = { answered: number; broken: number; connections: number }

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

/** A function that gives the next request, `null` after the last. */
function createNext({ length, ...input }: ClientInput, isOver: () => boolean) {
  const traffic = createTraffic(input.allRequests, randomOf(input.seed, input.name))
  if (length.kind === 'amount') {
    let sent = 0
    return () => (sent < length.requests ? traffic(sent++ / length.requests) : null)
  }
  const lapMs = length.lapSeconds * 1000
  return () => (isOver() ? null : traffic((Date.now() % lapMs) / lapMs))
}

async function run(input: ClientInput): Promise<ClientResult> {
  const { servers, clients, file } = input
  const isSteady = input.length.kind === 'steady'
  const notes = Bun.file(file).writer({ highWaterMark: 1 << 20 })
  const result: ClientResult = { answered: 0, broken: 0, connections: 0 }
  let isOver = false
  process.on('SIGTERM', () => {
    isOver = true
  })
  const next = createNext(input, () => isOver)

  async function ask(client: Client, request: Request, inHeader: boolean): Promise<void> {
    const { from: _, ...asked } = request
    const sentMs = Date.now()
    const { answer } = await client.exchange(headOf(request, inHeader))
    const times = { sentMs, receivedMs: Date.now() }
    const note = (answered: Omit<Note, keyof typeof asked | keyof typeof times>): void =>
      void notes.write(`${JSON.stringify({ ...asked, ...times, ...answered })}\n`)
    if (answer === null) {
      result.broken += 1
      if (isSteady) note(NO_ANSWER)
      return
    }
    const { status, headers, body } = answer
    result.answered += 1
    note({
      ...{ status, body, id: headers.get('x-request-id') ?? '' },
      rateLimit: headers.get('ratelimit') ?? '',
      retryAfter: headers.get('retry-after') ?? '',
    })
  }

  /** The `n`-th client. */
  async function work(n: number): Promise<void> {
    let client: Client | null = null
    let turn = n
    for (let request = next(); request !== null; request = next()) {
      if (!client?.isOpen()) {
        result.connections += 1
        const where = pick(() => (turn % servers.length) / servers.length, servers)
        client = await openClient(where).catch(nullIfDisconnected)
      }
      if (client === null) {
        if (!isSteady) throw new Error('a server does not listen')
        await Bun.sleep(RECONNECT_MS)
        continue
      }
      await ask(client, request, turn % 5 === 0)
      if (n % NEW_CONNECTIONS === 0) client.close()
      turn += 1
    }
    client?.close()
  }

  await Promise.all(Array.from({ length: clients }, (_, n) => work(n)))
  await notes.end()
  return result
}

const start = script(import.meta, run)

/** A run that takes longer has failed. */
const DEADLINE_SECONDS = 1_800

/**
 * Starts a process of clients for each group of servers; gives the files of their notes, and how they
 * end: by themselves, or by `stop`.
 */
export function startClients(
  torture: Pick<Run, 'seed' | 'directory'>,
  groups: readonly (readonly Where[])[],
  load: Load,
) {
  const directory = torture.directory('notes')
  const files = groups.map((_, n) => join(directory, String(n)))
  const scripts = groups.map((servers, n) => {
    const own = { servers, seed: torture.seed, name: `client ${n}`, file: files[n] ?? '' }
    return start({ ...load, ...own }, DEADLINE_SECONDS)
  })
  const ended = async () => {
    const results = await Promise.all(scripts.map(({ result }) => result))
    const sum = (of: (result: ClientResult) => number): number =>
      results.reduce((total, result) => total + of(result), 0)
    return {
      answered: sum(({ answered }) => answered),
      broken: sum(({ broken }) => broken),
      connections: sum(({ connections }) => connections),
    }
  }
  return {
    files,
    ended,
    async stop(): Promise<void> {
      await Promise.all(scripts.map(script => script.stop()))
      await ended()
    },
  }
}
