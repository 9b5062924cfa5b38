/** Why a program cannot listen on a port of TCP, for the operator; and whether one listens on a unix socket. */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { codeOf, messageOf } from './errors.ts'

/** The host may be a name. Bun calls most failures a port in use, so the name is looked up first. */
export async function whyNotListening(
  error: unknown,
  { hostname, port }: { hostname: string; port: number },
): Promise<string> {
  if (isIP(hostname) === 0) {
    const found = await lookup(hostname).catch(() => null)
    if (found === null) return `there is no host named ${hostname}`
  }
  const code = codeOf(error)
  if (code === 'EADDRINUSE') return `port ${port} is in use`
  if (code === 'EADDRNOTAVAIL') return `${hostname} is not an address of this machine`
  if (code === 'EACCES') return `this user has no permission to use port ${port}`
  return messageOf(error)
}

/** Connects to a socket; the code of the error, or `null` when a server accepts. */
export const failureOfConnecting = (path: string): Promise<string | null> =>
  Bun.connect({ unix: path, socket: { data() {} } }).then(
    socket => {
      socket.end()
      return null
    },
    (error: unknown) => codeOf(error) || 'unknown',
  )
