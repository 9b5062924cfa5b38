/**
 * The clients of the long runs, byte by byte. Each sends a request once and one at a time: it is known
 * exactly which answers had begun to arrive when a server died.
 */
import { connect } from 'node:net'
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
export type Arrived = { text: string; answer: HttpAnswer | null; error: string | null }

/** An answer whose head arrived; `isComplete`: its body arrived too. */
export type Reply = Pick<HttpAnswer, 'status' | 'headers'> & { isComplete: boolean }

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
  let text = ''
  let isOpen = true
  let check = (): void => {}
  const leave = (): void => {
    isOpen = false
    check()
  }
  const socket = await connectTo(where, {
    data(_, chunk) {
      text += chunk.toString('latin1')
      check()
    },
    ...{ close: leave, error: leave, end: leave },
  }).catch(() => {
    throw new Disconnected('nothing listens')
  })
  socket.setNoDelay(true)

  /** The outcome of a request, or `null` while more may come. */
  function take(isHead: boolean): Arrived | null {
    try {
      const found = readAnswer(text, isHead)
      if (found?.answer.status === 100) {
        text = text.slice(found.end)
        return take(isHead)
      }
      if (found === null) return isOpen ? null : { text, answer: null, error: null }
      const error = found.end < text.length ? 'more bytes than the answer has' : null
      return { text, answer: found.answer, error }
    } catch (thrown) {
      return { text, answer: null, error: String(thrown) }
    }
  }

  /** Sends the bytes of a request; gives what arrived until the end of its answer, or of the connection. */
  async function exchange(request: string, isHead = false): Promise<Arrived> {
    text = ''
    const { promise, resolve } = Promise.withResolvers<Arrived>()
    check = () => {
      const arrived = take(isHead)
      if (arrived) resolve(arrived)
    }
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
  const { answer } = await client.exchange(requestOf(target))
  client.close()
  return answer?.status ?? 0
}

/** Opens a connection. */
export const connectTo = (where: Where, socket: SocketHandler) =>
  where.kind === 'unix'
    ? Bun.connect({ unix: where.path, socket })
    : Bun.connect({ hostname: where.hostname, port: where.port, socket })

/** All that a server sent over a connection, as Latin-1; `ms` is from connecting to its end. */
export type RawAnswer = { status: number; text: string; isClosed: boolean; ms: number }

type ExchangeOptions = {
  /** The address of 127.0.0.0/8 that the connection comes from. */
  from?: string | undefined
  /** Whether to close our side after the request. */
  isEnded?: boolean
}

/** Sends the bytes of one request over a new connection and reads until the server closes it. */
export function exchange(
  where: Where,
  request: string | Buffer,
  { from, isEnded = false }: ExchangeOptions = {},
): Promise<RawAnswer> {
  const { promise, resolve } = Promise.withResolvers<RawAnswer>()
  const startMs = performance.now()
  let text = ''
  const socket =
    where.kind === 'unix'
      ? connect(where.path)
      : connect({ host: where.hostname, port: where.port, ...(from && { localAddress: from }) })
  const finish = (isClosed: boolean): void => {
    socket.destroy()
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
    resolve({ status, text, isClosed, ms: performance.now() - startMs })
  }
  socket.setTimeout(SILENCE_MS_MAX, () => finish(false))
  socket.on('connect', () => void (isEnded ? socket.end(request) : socket.write(request)))
  socket.on('data', chunk => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => finish(true)) // it may be reset while we still send
  socket.on('close', () => finish(true))
  return promise
}
