/**
 * The clients of the long runs, byte by byte. Each sends a request once and one at a time: it is known
 * exactly which answers had begun to arrive when a server died.
 */
import type { SocketHandler } from 'bun'
import type { Where } from '../../support/launch.ts'

export type HttpAnswer = {
  status: number
  /** Names in lower case; of several fields with one name, the last. */
  headers: Map<string, string>
  /** As it was sent, chunks joined. */
  body: string
}

const HEAD_END = '\r\n\r\n'

/** The head that `text` begins with, and where its body begins; `null` while it is incomplete. */
function readHead(text: string) {
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

/** What arrived after a request, as Latin-1; `answer`: complete, `error`: how it is malformed. */
type Arrived = { text: string; answer: HttpAnswer | null; error: string | null }

/** What the bytes of a connection are, or `null` while the answer is not complete and may be yet. */
function arrivedIn(text: string, isHead: boolean, isOpen: boolean): Arrived | null {
  try {
    const found = readAnswer(text, isHead)
    if (found?.answer.status === 100) return arrivedIn(text.slice(found.end), isHead, isOpen)
    if (found === null) return isOpen ? null : { text, answer: null, error: null }
    const error = found.end < text.length ? 'more bytes than the answer has' : null
    return { text, answer: found.answer, error }
  } catch (thrown) {
    return { text, answer: null, error: String(thrown) }
  }
}

/** An answer whose head arrived; `isComplete`: its body arrived too. */
type Reply = Pick<HttpAnswer, 'status' | 'headers'> & { isComplete: boolean }

/** The bytes of a request; `fields` are header lines, each with its end. */
export const requestOf = (target: string, fields = ''): string =>
  `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}\r\n`

/** The connection has ended, and with it the request that was under way. */
class Disconnected extends Error {}

/** Turns a lost connection into `null`. */
export function nullIfDisconnected(error: unknown): null {
  if (error instanceof Disconnected) return null
  throw error
}

/** A connection that is silent for so long is closed. */
const SILENCE_MS_MAX = 10_000

export type Client = Awaited<ReturnType<typeof openClient>>

/** Opens a keep-alive connection. @throws Disconnected when nothing listens there. */
export async function openClient(where: Where) {
  let isOpen = true
  /** What the request under way does with what arrives, and with the end of the connection. */
  let take = (_: Buffer): void => {}
  let leave = (): void => {}
  const ended = (): void => {
    isOpen = false
    leave()
  }
  const handler: SocketHandler = {
    data: (_, chunk) => take(chunk),
    ...{ close: ended, error: ended, end: ended },
  }
  const opening =
    where.kind === 'unix'
      ? Bun.connect({ unix: where.path, socket: handler })
      : Bun.connect({ hostname: where.hostname, port: where.port, socket: handler })
  const socket = await opening.catch(() => {
    throw new Disconnected('nothing listens')
  })
  socket.setNoDelay(true)

  /** Sends the bytes of a request; gives what arrived until the end of its answer, or of the connection. */
  async function exchange(request: string, isHead = false): Promise<Arrived> {
    const { promise, resolve } = Promise.withResolvers<Arrived>()
    let text = ''
    const check = (): void => {
      const arrived = arrivedIn(text, isHead, isOpen)
      if (arrived) resolve(arrived)
    }
    take = chunk => {
      text += chunk.toString('latin1')
      check()
    }
    leave = check
    const timer = setTimeout(() => socket.terminate(), SILENCE_MS_MAX)
    socket.write(Buffer.from(request, 'latin1'))
    check()
    const arrived = await promise
    clearTimeout(timer)
    return arrived
  }

  return {
    exchange,
    /**
     * Asks for a target with these header lines.
     * @throws Disconnected when the connection ends before the head of the answer.
     */
    async ask(target: string, fields = ''): Promise<Reply> {
      const { text: all, answer, error } = await exchange(requestOf(target, fields))
      if (error !== null) throw new Error(error)
      if (answer !== null) return { ...answer, isComplete: true }
      const head = readHead(all)
      if (head === null) throw new Disconnected('the connection ended')
      return { ...head, isComplete: false }
    },
    /**
     * Asks for a target whose answer has a Content-Length, and does not read it further: cheap, for
     * generators of load. Gives its status; 0: the connection has ended.
     */
    status(target: string, fields = ''): Promise<number> {
      const { promise, resolve } = Promise.withResolvers<number>()
      let head = ''
      let status = 0
      let missingBytes = 0
      take = chunk => {
        if (status !== 0) missingBytes -= chunk.length
        else {
          head += chunk.toString('latin1')
          const end = head.indexOf(HEAD_END)
          if (end < 0) return
          status = Number(head.slice(9, 12))
          const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
          missingBytes = Number(length) - (head.length - end - HEAD_END.length)
        }
        if (missingBytes === 0) {
          if (/\r\nconnection: *close/i.test(head)) isOpen = false // for the next request
          resolve(status)
        } else if (!(missingBytes > 0)) socket.terminate() // no length, or more bytes
      }
      leave = () => resolve(0)
      if (isOpen) socket.write(requestOf(target, fields))
      else resolve(0)
      return promise
    },
    isOpen: () => isOpen,
    close(): void {
      isOpen = false
      socket.end()
    },
  }
}

/** The status of the answer to one request over a new connection; 0: there was none. */
export async function statusOf(where: Where, target: string): Promise<number> {
  const client = await openClient(where).catch(nullIfDisconnected)
  if (client === null) return 0
  return client.status(target).finally(client.close)
}
