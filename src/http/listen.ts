/** Binding a service to a TCP port or a unix socket, also beside a server that it takes over from. */
import { chmodSync, linkSync, lstatSync, renameSync, rmSync, unlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Settings } from '../config/settings.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, codeOf, messageOf, nextTurn } from '../lib/errors.ts'
import { failureOfConnecting, whyNotListening } from '../lib/listening.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { METHODS } from './reply.ts'
import type { HttpApp } from './requests.ts'
import { openPortSharing } from './reuse-port.ts'

/**
 * Seconds without progress after which a connection is closed. Progress is a request, or a byte of an
 * answer that the client reads. Bun checks every 4 seconds, so the connection is closed after 24 to 28.
 * If a request head is incomplete after 12, it is closed then; bytes that drip in extend neither.
 */
const IDLE_TIMEOUT_SECONDS = 28
/** No route of the list reads a body. Bun holds this for `Content-Length` of other methods than GET and HEAD. */
const REQUEST_BODY_MAX_BYTES = 1024

/** What answers requests; `server` is set before the first one comes. */
export type Listening = Pick<HttpApp, 'fetch' | 'server'>

export type ListenOptions = {
  bodyBytesMax?: number
  /** Whether connections should end after their answer. */
  endsConnections?: () => boolean
  /** Whether a server that listens there shares the address: this one is given all new connections. */
  takesOver?: boolean
}

/**
 * Starts listening. @throws CommandError when the address cannot be bound.
 */
export async function listen(
  service: Listening,
  { listen: where, socketMode }: Settings<'listen' | 'socketMode'>,
  {
    bodyBytesMax = REQUEST_BODY_MAX_BYTES,
    endsConnections = () => false,
    takesOver = false,
  }: ListenOptions = {},
) {
  const bound = where.kind === 'unix' ? await placeFor(where, takesOver) : ''
  try {
    // Not `service.listen`: it registers routes and WebSockets, too, and Bun 1.4.4 sends a
    // `100 Continue` for each of them that a request passes.
    service.server = Bun.serve({
      // Bun's types declare idleTimeout for ports only, but it works for unix sockets, too.
      ...((where.kind === 'unix' ? { unix: bound } : where) as Extract<Listen, { kind: 'tcp' }>),
      development: false,
      maxRequestBodySize: bodyBytesMax,
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      reusePort: takesOver && where.kind === 'tcp',
      fetch(request) {
        const answer = service.fetch(request)
        if (endsConnections() || hasEndlessBody(request)) return ending(answer)
        return laterTurn().then(() => answer)
      },
    })
    if (where.kind === 'unix') giveName(bound, where.path, socketMode, takesOver)
  } catch (error) {
    await service.server?.stop(true) // which removes the socket that did not get its name
    throw cannotListen(where, await reasonOf(error, where))
  }
  const { server } = service
  const at = where.kind === 'unix' ? where : { ...where, port: server.port ?? where.port }
  const sharing = at.kind === 'unix' ? null : await openPortSharing(at.port).catch(messageOf)
  if (takesOver && typeof sharing === 'object') sharing?.giveToNewcomer()
  const socket = where.kind === 'unix' ? lstatSync(where.path, { bigint: true }) : null
  return {
    at,
    shown: showListen(at),
    /** Lets another server listen there, too, or no longer. @throws Error where that cannot be. */
    share(isShared: boolean): void {
      if (typeof sharing === 'string') throw new Error(sharing)
      sharing?.share(isShared)
    },
    /** Ends when all requests are answered, or at once; removes the socket unless another server has it. */
    async stop(atOnce = false): Promise<void> {
      if (where.kind === 'unix' && socket !== null) {
        const found = lstatSync(where.path, { bigint: true, throwIfNoEntry: false })
        if (found?.ino === socket.ino) rmSync(where.path, { force: true })
      }
      await server.stop(atOnce)
    },
  }
}

/**
 * Whether a body comes in chunks, or is long where nothing reads it: it may have no end, and Bun reads what nobody
 * asks for as fast as it comes.
 */
const hasEndlessBody = ({ headers, method }: Request): boolean =>
  headers.get('transfer-encoding') !== null ||
  // Bun refuses those of other methods.
  (METHODS.includes(method) && Number(headers.get('content-length')) > REQUEST_BODY_MAX_BYTES)

/**
 * Bun takes all requests that one read of a connection brings, ten thousand perhaps, before it turns to others, unless
 * an answer waits for a later turn of the event loop: then it ends the connection at the next request. A promise may
 * resolve within the turn, as that of a wrong key does.
 */
const laterTurn = oncePerTurn(nextTurn)

/** An answer after which the connection ends. */
async function ending(answer: Awaitable<Response>): Promise<Response> {
  const response = await answer
  response.headers.set('connection', 'close')
  return response
}

/**
 * Where a socket is bound, until it gets its name: under one of its own, which Bun removes when it stops; by then
 * another server may have that of the socket. @throws CommandError when it cannot get its name.
 */
async function placeFor(where: Extract<Listen, { kind: 'unix' }>, takesOver: boolean) {
  if (Buffer.byteLength(where.path) > SOCKET_BYTES_MAX) throw cannotListen(where, TOO_LONG)
  if (!takesOver) await removeStaleSocket(where)
  const bound = join(dirname(where.path), `.${process.pid}`)
  // What a killed process with the same id has left: in a container, each start has it.
  if (lstatSync(bound, { throwIfNoEntry: false })?.isSocket()) rmSync(bound)
  return bound
}

/** Gives a socket its name, in place of that of the predecessor. Until here, the umask lets only its owner connect. */
function giveName(bound: string, path: string, mode: number, takesOver: boolean): void {
  chmodSync(bound, mode)
  if (takesOver) return renameSync(bound, path)
  linkSync(bound, path)
  unlinkSync(bound)
}

const cannotListen = (where: Listen, reason: string): CommandError =>
  new CommandError(`cannot listen on ${showListen(where)}: ${reason}`)

/** Why an address cannot be bound. Bun calls most failures a port in use. */
const reasonOf = async (error: unknown, where: Listen): Promise<string> =>
  where.kind === 'tcp'
    ? whyNotListening(error, where)
    : (SOCKET_REASONS[codeOf(error)] ?? messageOf(error))

/** Bytes of `sun_path` in `sockaddr_un`, less the zero at its end. */
const SOCKET_BYTES_MAX = 107
const TOO_LONG = `the path of a socket may have at most ${SOCKET_BYTES_MAX} bytes`
const IN_USE = 'another server is using it'
const SOCKET_REASONS: { readonly [code: string]: string } = {
  EADDRINUSE: IN_USE,
  EEXIST: IN_USE,
  ENOENT: 'there is no such directory',
  EACCES: 'this user has no permission to write to its directory',
  EROFS: 'its file system is read-only',
  ENAMETOOLONG: TOO_LONG,
}

/**
 * Removes the socket that a killed server left.
 * @throws CommandError when it is no socket, or when a server may still use it.
 */
async function removeStaleSocket(where: Extract<Listen, { kind: 'unix' }>): Promise<void> {
  const { path } = where
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw cannotListen(where, 'there is a file that is not a socket')
  let failure = await failureOfConnecting(path)
  if (failure === 'ECONNREFUSED') {
    await Bun.sleep(50) // one that is just starting refuses, too, for some microseconds
    failure = await failureOfConnecting(path)
  }
  if (failure === null) throw cannotListen(where, IN_USE)
  if (failure === 'ENOENT') return
  // Only this says that no process has it open: a server may be busy, or not for this user.
  if (failure !== 'ECONNREFUSED') {
    throw cannotListen(where, `there is a socket that a server may be using (${failure})`)
  }
  // Another server may have replaced it since then. A socket that is moved still works.
  const aside = `${path}.${process.pid}`
  try {
    renameSync(path, aside)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return // another one has removed it
    throw cannotListen(where, messageOf(error))
  }
  const moved = lstatSync(aside, { bigint: true })
  const isStale = moved.ino === found.ino && moved.mtimeNs === found.mtimeNs
  if (!isStale) linkSync(aside, path)
  unlinkSync(aside)
  if (!isStale) throw cannotListen(where, IN_USE)
}
