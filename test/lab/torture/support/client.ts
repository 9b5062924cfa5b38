/**
 * A client with one keep-alive connection, which sends each request once and one at a time:
 * it is known exactly which answers had begun to arrive when a server died.
 */
import type { Socket, SocketHandler } from 'bun'
import type { Where } from '../../../support/launch.ts'

export type HttpAnswer = {
  status: number
  /** Names in lower case; of several fields with one name, the last. */
  headers: Map<string, string>
  /** As it was sent, chunks joined. */
  body: string
}

const HEAD_END = '\r\n\r\n'

/** The head that `text` begins with, and where its body begins; `null` while it is incomplete. */
export function readHead(text: string) {
  const end = text.indexOf(HEAD_END)
  if (end < 0) return null
  const [first = '', ...fields] = text.slice(0, end).split('\r\n')
  const status = /^HTTP\/1\.1 ([1-5]\d\d) /.exec(first)?.[1]
  if (status === undefined) throw new Error(`no status line: ${JSON.stringify(first)}`)
  const headers = new Map<string, string>()
  for (const field of fields) {
    const [, name, value] = /^([\w-]+): *([^\r\n\0]*)$/.exec(field) ?? []
    if (name === undefined) throw new Error(`no header field: ${JSON.stringify(field)}`)
    headers.set(name.toLowerCase(), value ?? '')
  }
  return { status: Number(status), headers, from: end + HEAD_END.length }
}

/** The joined chunks of a body that begins at `from`, or `null` while its end is missing. */
function readChunks(text: string, from: number): { body: string; end: number } | null {
  let at = from
  let body = ''
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = text.slice(at, lineEnd)
    if (!/^[0-9a-f]{1,8}$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`)
    const length = Number.parseInt(size, 16)
    const end = lineEnd + 2 + length
    if (text.length < end + 2) return null
    if (text.slice(end, end + 2) !== '\r\n') throw new Error('a chunk has no end')
    body += text.slice(lineEnd + 2, end)
    at = end + 2
    if (length === 0) return { body, end: at }
  }
}

/**
 * The first answer in `text` and the index behind it; `null` while it is incomplete.
 * @param isHead the answer is to HEAD and has no body
 */
export function readAnswer(
  text: string,
  isHead: boolean,
): { answer: HttpAnswer; end: number } | null {
  const head = readHead(text)
  if (head === null) return null
  const { from, status, headers } = head
  if (isHead || status < 200 || status === 204 || status === 304) {
    return { answer: { status, headers, body: '' }, end: from }
  }
  if (headers.get('transfer-encoding') === 'chunked') {
    const chunks = readChunks(text, from)
    return chunks && { answer: { status, headers, body: chunks.body }, end: chunks.end }
  }
  const length = Number(headers.get('content-length') ?? 0)
  if (!Number.isSafeInteger(length)) throw new Error('no length')
  if (text.length < from + length) return null
  return { answer: { status, headers, body: text.slice(from, from + length) }, end: from + length }
}

/** An answer whose head arrived; `isComplete`: its body arrived too. */
export type Reply = Pick<HttpAnswer, 'status' | 'headers'> & { isComplete: boolean }

export type Client = {
  /**
   * Sends a request; `fields` are header lines, each with its end.
   * @throws Disconnected when the connection ends before the head of the answer.
   */
  ask: (target: string, fields?: string) => Promise<Reply>
  isOpen: () => boolean
  close: () => void
}

/** The connection has ended, and with it the request that was under way. */
class Disconnected extends Error {}

/** Turns a lost connection into `null`. */
export function nullIfDisconnected(error: unknown): null {
  if (error instanceof Disconnected) return null
  throw error
}

/** Connects. @throws Disconnected when nothing listens there. */
export async function openClient(where: Where): Promise<Client> {
  let text = ''
  let isOpen = true
  let waiting: { resolve: (reply: Reply) => void; reject: (error: Disconnected) => void } | null =
    null

  function take(chunk: Buffer): void {
    text += chunk.toString('latin1')
    const found = readAnswer(text, false)
    if (found === null) return
    waiting?.resolve({ ...found.answer, isComplete: true })
    waiting = null
  }

  function leave(): void {
    isOpen = false
    const head = readHead(text)
    if (head) waiting?.resolve({ ...head, isComplete: false })
    else waiting?.reject(new Disconnected('the connection ended'))
    waiting = null
  }

  const handler = {
    data: (_: Socket, chunk: Buffer) => take(chunk),
    close: leave,
    error: leave,
    end: leave,
  }
  const socket = await connectTo(where, handler).catch(() => {
    throw new Disconnected('nothing listens')
  })

  return {
    ask(target, fields = '') {
      if (!isOpen) return Promise.reject(new Disconnected('the connection has ended'))
      const { promise, resolve, reject } = Promise.withResolvers<Reply>()
      waiting = { resolve, reject }
      text = ''
      socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}\r\n`)
      return promise
    },
    isOpen: () => isOpen,
    close: () => void socket.end(),
  }
}

/** Opens a connection; `from` is the address of 127.0.0.0/8 it comes from. */
export function connectTo(where: Where, socket: SocketHandler, from?: string) {
  if (where.kind === 'unix') return Bun.connect({ unix: where.path, socket })
  const { hostname, port } = where
  const source = from !== undefined && { localAddress: from } // Bun knows it, its types do not
  return Bun.connect({ hostname, port, ...source, socket })
}

/** An answer as it came, head and body, in Latin-1; `ms` is from connecting to its end. */
export type RawAnswer = { status: number; text: string; ms: number }

const ANSWER_MS_MAX = 10_000

/** Sends the bytes of one request over a new connection and reads until the server closes it. */
export function exchange(where: Where, request: string, from?: string): Promise<RawAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
  const startMs = performance.now()
  let text = ''
  const end = (): void => {
    clearTimeout(timer)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
    resolve({ status, text, ms: performance.now() - startMs })
  }
  const timer = setTimeout(() => reject(new Error('no answer in 10 s')), ANSWER_MS_MAX)
  const handler: SocketHandler = {
    open: socket => void socket.write(request),
    data(_, chunk) {
      text += chunk.toString('latin1')
    },
    close: end,
    error: end,
  }
  connectTo(where, handler, from).catch(reject)
  return promise
}
