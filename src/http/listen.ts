/** Binds a service to a TCP port or a unix socket, also beside a server that it takes over from. */
import { chmodSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Settings } from '../config/settings.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, messageOf, nextTurn, reasonOf } from '../lib/errors.ts'
import { failureOfConnecting, whyNotListening } from '../lib/listening.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { METHODS } from './reply.ts'
import { openPortSharing } from './reuse-port.ts'

/** Idle seconds until Bun closes a connection, checked every 4. An incomplete request head gets 12. */
const IDLE_TIMEOUT_SECONDS = 28
/** No route of the list reads a body. Bun enforces this for methods other than GET and HEAD. */
const REQUEST_BODY_MAX_BYTES = 1024

/** What answers requests. `server` is set before the first one, except in process. */
export type Service = {
  fetch: (request: Request) => Awaitable<Response>
  server: Bun.Server<undefined> | null
}

export type ListenOptions = {
  bodyBytesMax?: number
  /** Whether a connection ends after its next response. */
  endsConnections?: () => boolean
  /** Whether a server that listens there shares the address. This one then gets all new connections. */
  takesOver?: boolean
}

/** Starts listening. @throws CommandError when the address cannot be bound. */
export async function listen(
  service: Service,
  { listen: where, socketMode }: Settings<'listen' | 'socketMode'>,
  {
    bodyBytesMax = REQUEST_BODY_MAX_BYTES,
    endsConnections = () => false,
    takesOver = false,
  }: ListenOptions = {},
) {
  const bound = where.kind === 'unix' ? await temporaryPath(where, takesOver) : ''
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
        if (endsConnections() || asksToClose(request) || hasEndlessBody(request)) {
          return ending(answer)
        }
        return laterTurn().then(() => answer)
      },
    })
    if (where.kind === 'unix') {
      chmodSync(bound, socketMode) // until here, the umask lets only its owner connect
      renameSync(bound, where.path)
    }
  } catch (error) {
    await service.server?.stop(true) // which removes a socket that was not renamed
    const isTcp = where.kind === 'tcp'
    throw cannotListen(where, isTcp ? await whyNotListening(error, where) : reasonOf(error))
  }
  const { server } = service
  const at = where.kind === 'unix' ? where : { ...where, port: server.port ?? where.port }
  const sharing = at.kind === 'unix' ? null : await openPortSharing(at.port).catch(messageOf)
  if (takesOver && typeof sharing === 'object') sharing?.giveToNewcomer()
  const socket = where.kind === 'unix' ? lstatSync(where.path, { bigint: true }) : null
  return {
    at,
    shown: showListen(at),
    /** Allows another server to listen there too, or forbids it. @throws Error where that is impossible. */
    share(isShared: boolean): void {
      if (typeof sharing === 'string') throw new Error(sharing)
      sharing?.share(isShared)
    },
    /** Resolves when all requests are answered, or at once. Removes the socket unless another server has it. */
    async stop(atOnce = false): Promise<void> {
      if (where.kind === 'unix' && socket !== null) {
        const found = lstatSync(where.path, { bigint: true, throwIfNoEntry: false })
        if (found?.ino === socket.ino) rmSync(where.path, { force: true })
      }
      await server.stop(atOnce)
    },
  }
}

/** Whether a body may never end, on a method that has none. Bun would read it as fast as it comes. */
const hasEndlessBody = ({ headers, method }: Request): boolean =>
  headers.get('transfer-encoding') !== null ||
  // Bun refuses long bodies of other methods.
  (METHODS.includes(method) && Number(headers.get('content-length')) > REQUEST_BODY_MAX_BYTES)

/** Bun closes the connection, but does not say so. Clients would send another request on it (RFC 9112, 9.6). */
const asksToClose = ({ headers }: Request): boolean =>
  /\bclose\b/i.test(headers.get('connection') ?? '')

/**
 * Every response waits for the next turn. Bun then closes a connection that pipelines, so it cannot block the others.
 * Awaiting the response is not enough: its promise may resolve within the turn, for example for a wrong key.
 */
const laterTurn = oncePerTurn(nextTurn)

async function ending(answer: Awaitable<Response>): Promise<Response> {
  const response = await answer
  response.headers.set('connection', 'close')
  return response
}

/** A temporary path of a socket. Bun removes this path when it stops, not the socket of its successor. */
async function temporaryPath(where: Extract<Listen, { kind: 'unix' }>, takesOver: boolean) {
  if (Buffer.byteLength(where.path) > SOCKET_BYTES_MAX) throw cannotListen(where, TOO_LONG)
  if (!takesOver) await requireFree(where)
  const bound = join(dirname(where.path), `.${process.pid}`)
  // A killed process with the same id has left it: in a container, each start has that id.
  if (lstatSync(bound, { throwIfNoEntry: false })?.isSocket()) rmSync(bound)
  return bound
}

/** @throws CommandError unless the path is free, or holds the socket of a killed server: that may be replaced. */
async function requireFree(where: Extract<Listen, { kind: 'unix' }>): Promise<void> {
  const found = lstatSync(where.path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) throw cannotListen(where, 'there is a file that is not a socket')
  const failure = await failureOfConnecting(where.path)
  if (failure === null) throw cannotListen(where, 'another server is using it')
  // Only this code says that no process has it open: a server may be busy, or not for this user.
  if (failure === 'ECONNREFUSED' || failure === 'ENOENT') return
  throw cannotListen(where, `there is a socket that a server may be using (${failure})`)
}

const cannotListen = (where: Listen, reason: string): CommandError =>
  new CommandError(`cannot listen on ${showListen(where)}: ${reason}`)

/** Bytes of `sun_path` in `sockaddr_un`, less the zero at its end. */
const SOCKET_BYTES_MAX = 107
const TOO_LONG = `the path of a socket may have at most ${SOCKET_BYTES_MAX} bytes`
