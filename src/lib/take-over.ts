/**
 * How a server takes over from a running one without a failed request (contract G6). The running one listens
 * on a socket in its data directory, whose name follows from the address that it serves: only the same user, with
 * the same data, finds it there. The newcomer asks it to share its address, listens there too, is given all new
 * connections, and says so; the old one then ends what it has begun, and exits.
 *
 * What they say, a line of JSON each: the old one who it is; the newcomer `"share"`; the old one why not, or
 * `null`; the newcomer who it is, once it is ready. A connection that ends before that changes nothing.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { CommandError, messageOf } from './errors.ts'
import { failureOfConnecting } from './listening.ts'

/** A server, as it says of itself. */
export type Running = {
  pid: number
  version: string
  commit: string
  /** Unix milliseconds. */
  startedMs: number
  /** Whether the file of its program is another one by now. */
  isReplaced: boolean
  /** Where its admin listener is, as sentences have it; `null` without one. */
  admin: string | null
}

/** Bytes of `sun_path` in `sockaddr_un`, less the zero at its end. */
const PATH_BYTES_MAX = 107
/** How long a running server, which may be busy, has for a line. */
const LINE_MS = 5_000
const SHARE = 'share'

/** How the names of these sockets begin. */
const NAME = 'serve-'

/** The socket of the server of a data directory at an address, as sentences have it. */
const socketOf = (dir: string, address: string): string =>
  join(dir, `${NAME}${createHash('sha256').update(address).digest('hex').slice(0, 8)}.sock`)

const send = (socket: Socket, value: unknown): void =>
  void socket.write(`${JSON.stringify(value)}\n`)

/** Returns a function that resolves to the next line, parsed; `undefined` once there is none. */
function linesOf(socket: Socket): () => Promise<unknown> {
  socket.on('error', () => {}) // the other side may go at any time
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

/** Connects to a server; `null` where none runs. */
async function openConversation(path: string) {
  const socket = connect(path)
  const next = linesOf(socket)
  socket.setTimeout(LINE_MS, () => socket.destroy())
  const running = (await next()) as Running | undefined // of this program
  if (running === undefined) socket.destroy()
  return running === undefined ? null : { socket, next, running }
}

/** The sockets of servers in a data directory. */
const socketsIn = (dir: string): string[] =>
  (existsSync(dir) ? readdirSync(dir) : [])
    .filter(name => name.startsWith(NAME) && name.endsWith('.sock'))
    .map(name => join(dir, name))

/** The servers that run with a data directory. */
export async function findRunning(dir: string): Promise<Running[]> {
  const found = await Promise.all(socketsIn(dir).map(openConversation))
  return found.flatMap(conversation => {
    conversation?.socket.destroy()
    return conversation?.running ?? []
  })
}

/** One that stays, as in a directory without write permission, does no harm: the next server replaces it. */
function removeSocket(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {}
}

/** Removes what killed servers left: nobody listens there, and a server listens before its socket has this name. */
async function removeStale(dir: string): Promise<void> {
  for (const path of socketsIn(dir)) {
    if ((await failureOfConnecting(path)) === 'ECONNREFUSED') removeSocket(path)
  }
}

/** A server that shares its address; it goes on serving until `ready`. */
export type Predecessor = {
  running: Running
  /** This process listens at the address and serves; `me` says who it is. */
  ready(me: Running): void
  /** Whether it listens no more. */
  isGone(): boolean
  /** Gives the take-over up. */
  close(): void
}

/**
 * Asks the server that runs at an address with this data directory to share it; `null` where none runs.
 * @throws CommandError when it does not.
 */
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
  /** As sentences have it. */
  address: string
  me: () => Running
  /** Lets a newcomer listen at the address, too, or no longer. @throws Error where that cannot be. */
  share(isShared: boolean): void
  say(sentence: string): void
}

/**
 * Waits for a newcomer. `taken` resolves when one is ready; `close` ends the wait.
 */
export async function offerTakeOver({ dir, address, me, share, say }: Offer) {
  await removeStale(dir)
  const path = socketOf(dir, address)
  const own = `${path}.${process.pid}`
  removeSocket(own) // of a killed process with the same id
  const { promise: taken, resolve: take } = Promise.withResolvers<Running>()
  let newcomer: Socket | null = null
  let isTaken = false

  function tryToShare(): string | null {
    if (newcomer !== null) return 'another one is taking over from it'
    try {
      share(true)
      return null
    } catch (error) {
      return messageOf(error)
    }
  }

  async function converse(socket: Socket): Promise<void> {
    const next = linesOf(socket)
    send(socket, me())
    if ((await next()) !== SHARE) return
    const refusal = tryToShare()
    if (refusal === null) newcomer = socket
    send(socket, refusal)
    const successor = (await next()) as Running | undefined // of this program
    if (newcomer !== socket) return
    if (successor === undefined) {
      newcomer = null
      share(false)
      return
    }
    isTaken = true
    take(successor)
  }

  const server = createServer(socket => {
    void converse(socket).finally(() => {
      if (socket !== newcomer) socket.destroy() // it ends when this server listens no more
    })
  })
  const failure = await new Promise<string | null>(resolve => {
    if (Buffer.byteLength(own) > PATH_BYTES_MAX)
      return resolve('the path of a socket there is too long')
    server.once('error', error => resolve(messageOf(error)))
    server.listen(own, () => resolve(null))
  })
  // In place of one that a killed server has left, or of that of the predecessor.
  if (failure === null) renameSync(own, path)
  else say(`no server can take over from this one: ${failure}`)
  return {
    taken,
    close(): void {
      server.close()
      newcomer?.destroy()
      if (failure === null && !isTaken) removeSocket(path)
    },
  }
}
