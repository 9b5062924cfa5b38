/** Owns binding the service to a TCP port or a unix socket. */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import type { Listen } from '../config/parsers.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import type { HttpApp } from './app.ts'

/**
 * Seconds without progress after which a connection is closed. Progress is a request, or a byte of
 * an answer that the client reads. Bun checks every 4 seconds, so the connection is closed after 24
 * to 28. If a request head is incomplete after 12, it is closed then; bytes that drip in extend
 * neither.
 */
const IDLE_TIMEOUT_SECONDS = 28
/** No route reads a body. */
const REQUEST_BODY_MAX_BYTES = 1024

/**
 * Starts listening; returns the address to show and the running server.
 * @throws CommandError when the address cannot be bound.
 */
export async function listen(service: HttpApp, where: Listen) {
  if (where.kind === 'unix') await removeStaleSocket(where.path)
  try {
    service.listen({
      // Bun's types declare idleTimeout for ports only, but it works for unix sockets, too.
      ...(addressOf(where) as Extract<Listen, { kind: 'tcp' }>),
      development: false,
      maxRequestBodySize: REQUEST_BODY_MAX_BYTES,
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      reusePort: false,
    })
  } catch (error) {
    throw new CommandError(`cannot listen on ${show(where)}: ${messageOf(error)}`)
  }
  const { server } = service
  if (!server) throw new CommandError(`cannot listen on ${show(where)}`)
  if (where.kind === 'unix') chmodSync(where.path, 0o660)
  const at = where.kind === 'unix' ? where : { ...where, port: server.port ?? where.port }
  return { server, shown: show(at) }
}

/** The address in the form that `Bun.serve` accepts. */
const addressOf = (where: Listen) =>
  where.kind === 'unix' ? { unix: where.path } : { hostname: where.hostname, port: where.port }

function show(where: Listen): string {
  if (where.kind === 'unix') return `unix:${where.path}`
  const { hostname, port } = where
  return `http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`
}

/** Removes the socket that a killed server left. @throws CommandError when one still uses it. */
async function removeStaleSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket()) {
    throw new CommandError(`cannot listen on unix:${path}: there is a file that is not a socket`)
  }
  const isAlive = await Bun.connect({ unix: path, socket: { data() {} } }).then(
    socket => {
      socket.end()
      return true
    },
    () => false,
  )
  if (isAlive) throw new CommandError(`cannot listen on unix:${path}: another server is using it`)
  unlinkSync(path)
}
