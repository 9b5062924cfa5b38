/** A server for tests that accepts connections and never says a word, as a database that hangs does. */
import { createServer, type Socket } from 'node:net'
import { onCleanUp } from './temporary.ts'

/** Starts it on a free port of 127.0.0.1; `connected` resolves at the first connection. */
export async function startSilentServer() {
  const { promise: connected, resolve } = Promise.withResolvers<void>()
  const listening = Promise.withResolvers<number>()
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}) // the client may go first
    resolve()
  }).listen(0, '127.0.0.1', () => {
    const address = server.address()
    listening.resolve(typeof address === 'object' && address ? address.port : 0)
  })
  onCleanUp(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: await listening.promise, connected }
}
