/**
 * A server on 127.0.0.1 that answers feeds byte by byte as a test says: also as no honest
 * server would. Knows nothing of what a feed should do about it.
 */
import { createServer, type Socket } from 'node:net'
import { onCleanUp } from './temporary.ts'

/** A request as it came: the first line, and header fields with names in lower case. */
export type Asked = { path: string; headers: Map<string, string> }

/** Answers a request on a socket, which it must end. */
export type Answerer = (asked: Asked, socket: Socket) => void

function readHead(head: string): Asked {
  const [first = '', ...lines] = head.split('\r\n')
  const fields = lines.map((line): [string, string] => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  })
  return { path: first.split(' ')[1] ?? '', headers: new Map(fields) }
}

/** An answer with these header fields; `Content-Length` is right unless it is given. */
export const reply =
  (
    status: number,
    fields: { [name: string]: string } = {},
    body: string | Uint8Array = '',
  ): Answerer =>
  (_, socket) => {
    const bytes = Buffer.from(body)
    const all = { 'Content-Length': String(bytes.length), ...fields, Connection: 'close' }
    const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 ${status} X\r\n${head.join('')}\r\n`), bytes]))
  }

/** Starts a server; `answers` may be changed while it runs. Unknown paths get 404. */
export async function startFeedServer(answers: { [path: string]: Answerer } = {}) {
  const asked: Asked[] = []
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    let head = ''
    socket.on('data', chunk => {
      if (head.includes('\r\n\r\n')) return
      head += chunk.toString('latin1')
      if (!head.includes('\r\n\r\n')) return
      const request = readHead(head.split('\r\n\r\n')[0] ?? '')
      asked.push(request)
      const path = request.path.split('?')[0] ?? ''
      ;(answers[path] ?? reply(404))(request, socket)
    })
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  onCleanUp(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${port}`, port, asked, answers }
}
