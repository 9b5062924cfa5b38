/** Explains why a program cannot listen on a TCP port, and checks whether a server listens on a unix socket. */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { codeOf, messageOf } from './errors.ts'

/** Looks up the name of a host first, because Bun reports most failures as a port in use. */
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

/** Connects to a socket. Returns the code of the error; `null` if a server accepts. */
export const failureOfConnecting = (path: string): Promise<string | null> =>
  Bun.connect({ unix: path, socket: { data() {} } }).then(
    socket => {
      socket.end()
      return null
    },
    (error: unknown) => codeOf(error) || 'unknown',
  )
