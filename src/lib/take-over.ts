/**
 * A new server takes over from a running one (contract G6). They talk over a socket in the data directory, named after
 * the address. Each message is a line of JSON:
 *
 * 1. old server: its `Running`
 * 2. new server: `"share"`
 * 3. old server: `null` after it has shared its address, or the reason why it cannot
 * 4. new server: its `Running`, once it listens and gets all new connections; then the old server drains and exits
 *
 * If the connection ends before the last message, the old server goes on.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { CommandError, messageOf } from './errors.ts'

export type Running = {
  pid: number
  version: string
  commit: string
  /** The address of its admin listener; `null` without one. */
  admin: string | null
}

/** Bytes of `sun_path` in `sockaddr_un`, less the zero at its end. */
const PATH_BYTES_MAX = 107
/** How long to wait for a line of the old server, which may be busy. */
const LINE_MS = 5_000
const SHARE = 'share'

const NAME = 'serve-'

/** The socket of the server that uses a data directory and serves at an address. */
const socketOf = (dir: string, address: string): string =>
  join(dir, `${NAME}${createHash('sha256').update(address).digest('hex').slice(0, 8)}.sock`)

const send = (socket: Socket, value: unknown): void =>
  void socket.write(`${JSON.stringify(value)}\n`)

/** Returns a function that resolves to the next line, parsed; `undefined` at the end or for invalid JSON. */
function linesOf(socket: Socket): () => Promise<unknown> {
  socket.on('error', () => {}) // the other side may close at any time
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  return async () => {
    try {
      const { value, done } = await lines.next()
      return done === true ? undefined : JSON.parse(value)
    } catch {
      return undefined
    }
  }
}

/** Connects to a server; `null` when none runs. */
async function openConversation(path: string) {
  const socket = connect(path)
  const next = linesOf(socket)
  socket.setTimeout(LINE_MS, () => socket.destroy())
  const running = (await next()) as Running | undefined // of this program
  if (running === undefined) socket.destroy()
  return running === undefined ? null : { socket, next, running }
}

const socketsIn = (dir: string): string[] =>
  (existsSync(dir) ? readdirSync(dir) : [])
    .filter(name => name.startsWith(NAME) && name.endsWith('.sock'))
    .map(name => join(dir, name))

/** The servers that use a data directory. */
export async function findRunning(dir: string): Promise<Running[]> {
  const found = await Promise.all(socketsIn(dir).map(openConversation))
  return found.flatMap(conversation => {
    conversation?.socket.destroy()
    return conversation?.running ?? []
  })
}

/** The old server, which shares its address and serves until `ready`. */
export type Predecessor = {
  running: Running
  /** Reports that this process listens at the address and serves. */
  ready(me: Running): void
  /** Whether it has stopped listening. */
  isGone(): boolean
  close(): void
}

/** Asks the server at this address to share it; `null` when none runs. @throws CommandError when it refuses. */
export async function findPredecessor(dir: string, address: string): Promise<Predecessor | null> {
  const found = await openConversation(socketOf(dir, address))
  if (found === null) return null
  const { socket, next, running } = found
  send(socket, SHARE)
  const refusal = await next()
  socket.setTimeout(0)
  if (refusal !== null) {
    socket.destroy()
    const why = typeof refusal === 'string' ? refusal : 'it does not answer'
    throw new CommandError(`cannot take over from the server that runs at ${address}: ${why}`)
  }
  return {
    running,
    ready: me => send(socket, me),
    isGone: () => socket.destroyed,
    close: () => void socket.destroy(),
  }
}

type Offer = {
  dir: string
  address: string
  me: () => Running
  /** Allows or forbids other servers to listen at the address too. @throws Error if it cannot. */
  share(isShared: boolean): void
  say(sentence: string): void
}

/** Waits for a new server. `taken` resolves when it is ready; `close` ends the wait. */
export async function offerTakeOver({ dir, address, me, share, say }: Offer) {
  const path = socketOf(dir, address)
  const own = `${path}.${process.pid}`
  rmSync(own, { force: true }) // left by a killed process with the same id
  const { promise: taken, resolve: take } = Promise.withResolvers<Running>()
  let successorSocket: Socket | null = null
  let isTaken = false

  async function converse(socket: Socket): Promise<void> {
    const next = linesOf(socket)
    send(socket, me())
    if ((await next()) !== SHARE) return
    if (successorSocket !== null) return send(socket, 'another one is taking over from it')
    try {
      share(true)
    } catch (error) {
      return send(socket, messageOf(error))
    }
    successorSocket = socket
    send(socket, null)
    const successor = (await next()) as Running | undefined // of this program
    if (successor === undefined) {
      successorSocket = null
      share(false)
    } else {
      isTaken = true
      take(successor)
    }
  }

  const server = createServer(socket => {
    void converse(socket).finally(() => {
      if (socket !== successorSocket) socket.destroySoon() // that one closes when this server stops listening
    })
  })
  const failure = await new Promise<string | null>(resolve => {
    if (Buffer.byteLength(own) > PATH_BYTES_MAX)
      return resolve('the path of a socket there is too long')
    server.once('error', error => resolve(messageOf(error)))
    server.listen(own, () => resolve(null))
  })
  // Replaces the socket of a killed server, or of the predecessor.
  if (failure === null) renameSync(own, path)
  else say(`no server can take over from this one: ${failure}`)
  return {
    taken,
    close(): void {
      server.close()
      successorSocket?.destroy()
      if (failure === null && !isTaken) rmSync(path, { force: true })
    },
  }
}
