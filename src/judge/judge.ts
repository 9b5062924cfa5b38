/**
 * The judge (contract H2) replies to a request that has a token with a signed copy of that request. It parses requests
 * itself, because an HTTP library changes headers. Without a token, a client gets fewer bytes than it sent.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Clock, Every } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import { canonicalIp } from '../lib/ip.ts'
import { whyNotListening } from '../lib/listening.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Certificate } from './certificate.ts'
import {
  HEAD_BYTES_MAX,
  isTimely,
  type Keys,
  openToken,
  payloadOf,
  TOKEN,
  TOKEN_AGE_MAX_MS,
  TOKEN_AHEAD_MAX_MS,
  type TokenKind,
  writeAnswer,
} from './protocol.ts'

const HEAD_MS = 10 * SECOND_MS
const REPLY_MS = 30 * SECOND_MS
export const CONNECTIONS_MAX = 4096
const REFRESH_EVERY_MS = 30 * SECOND_MS

// -----------------------------------------------------------------------------------------------
// Replies

const REQUEST_LINE = new RegExp(`^GET (https?://[^/\\s]+)?/(${TOKEN}) HTTP/1\\.([01])$`)
const CONTROL = /[^\t\r\n\x20-\x7e\x80-\xff]/

const toHeader = (line: string): [name: string, value: string] => {
  const colon = line.indexOf(':')
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).trim()]
}

export type Reply =
  | { kind: 'answer'; text: string; payload: Buffer }
  | { kind: 'refusal'; text: string }

/** Smaller than any request, so that the judge cannot amplify traffic. */
const REFUSAL: Reply = { kind: 'refusal', text: 'HTTP/1.1 404 \r\n\r\n' }

/** Replies to the heads of requests, in Latin-1 and without the empty line. Refuses tokens minted before now. */
export function createReplies(keys: Keys, clock: Clock) {
  const startedMs = clock()
  /** Used tokens, and when they expire. */
  const used = new Map<string, number>()

  function forgetExpired(nowMs: number): void {
    for (const [token, endMs] of used) {
      if (endMs >= nowMs) return
      used.delete(token)
    }
  }

  function reply(head: string, kind: TokenKind, peer: string): Reply {
    const [line = '', ...lines] = head.split(/\r?\n/)
    const [, authority, token = '', minor] = REQUEST_LINE.exec(line) ?? []
    const opened = openToken(keys, token)
    if (opened?.kind !== kind || CONTROL.test(head)) return REFUSAL
    const nowMs = clock()
    forgetExpired(nowMs)
    if (used.has(token)) return REFUSAL
    if (!isTimely(opened.timeMs, nowMs, startedMs)) {
      // A checker whose clock differs reads the header `Time`.
      return { kind: 'refusal', text: `HTTP/1.1 404 \r\nTime: ${nowMs}\r\n\r\n` }
    }
    used.set(token, nowMs + TOKEN_AGE_MAX_MS + TOKEN_AHEAD_MAX_MS)
    const body = writeAnswer(keys, {
      ...{ token, peer, headers: lines.map(toHeader) },
      form: authority === undefined ? 'origin' : 'absolute',
      ...{ tls: kind === 'tls', time: nowMs, started: startedMs },
    })
    const payload = payloadOf(keys, token, opened.size) // small: only our checker can mint tokens
    // Proxies that change pages look for HTML, and respect `no-transform`.
    const [type, cache] =
      opened.size === 0
        ? ['text/html; charset=utf-8', 'no-store']
        : ['application/octet-stream', 'no-store, no-transform']
    const text =
      `HTTP/1.${minor} 200 OK\r\nContent-Type: ${type}\r\n` +
      `Content-Length: ${Buffer.byteLength(body) + payload.length}\r\n` +
      `Cache-Control: ${cache}\r\nConnection: close\r\n\r\n${body}`
    return { kind: 'answer', text, payload }
  }

  return { reply, remembered: (): number => used.size }
}

// -----------------------------------------------------------------------------------------------
// Connections

type Endpoint = Extract<Listen, { kind: 'tcp' }>

export type JudgeOptions = {
  keys: Keys
  /** A clock that never steps: it decides which tokens are valid. */
  clock: Clock
  every: Every
  listen: Endpoint
  tls: { listen: Endpoint; certificate: Certificate } | null
  connectionsMax?: number
}

/** Starts a judge on `where` and `whereTls`. @throws CommandError when it cannot listen there. */
export async function startJudge(options: JudgeOptions) {
  const { keys, clock, every, listen, tls, connectionsMax = CONNECTIONS_MAX } = options
  const { reply } = createReplies(keys, clock)
  /** Open connections, and when each times out. */
  const connections = new Map<Socket, number>()
  const counts = { answered: 0, refused: 0 }

  function close(raw: Socket): void {
    connections.delete(raw)
    raw.destroy()
  }

  function accept(raw: Socket, kind: TokenKind): void {
    const peer = canonicalIp(raw.remoteAddress ?? '')
    if (peer === null || connections.size >= connectionsMax) return void raw.destroy()
    connections.set(raw, clock() + HEAD_MS)
    raw.on('error', () => close(raw)).on('close', () => close(raw))
    if (kind === 'plain' || tls === null) return read(raw, raw, kind, peer)
    const secureContext = tls.certificate.context()
    const secure = new TLSSocket(raw, { isServer: true, secureContext })
    secure.on('error', () => close(raw))
    read(raw, secure, kind, peer)
  }

  /** Reads the head of a request, replies, and ignores the rest. */
  function read(raw: Socket, socket: Socket, kind: TokenKind, peer: string): void {
    let head = ''
    let isRead = false
    socket.on('data', chunk => {
      if (isRead) return
      const end = /\r?\n\r?\n/g
      end.lastIndex = Math.max(0, head.length - 3)
      head += chunk.toString('latin1')
      const found = end.exec(head)
      const length = found === null ? head.length : end.lastIndex
      isRead = found !== null || length > HEAD_BYTES_MAX
      if (length > HEAD_BYTES_MAX) refuse(raw)
      else if (found !== null) {
        connections.set(raw, clock() + REPLY_MS)
        send(raw, socket, length, reply(head.slice(0, found.index), kind, peer))
      }
    })
    socket.on('end', () => {
      if (!isRead) close(raw)
    })
  }

  function refuse(raw: Socket): void {
    counts.refused += 1
    close(raw)
  }

  /** Sends a reply to a request of `bytes` bytes. A refusal must be smaller than the request. */
  function send(raw: Socket, socket: Socket, bytes: number, given: Reply): void {
    if (given.kind === 'refusal') {
      if (given.text.length >= bytes) return refuse(raw)
      counts.refused += 1
      return void socket.end(given.text, () => close(raw))
    }
    counts.answered += 1
    socket.end(Buffer.concat([Buffer.from(given.text), given.payload]))
  }

  function closeLate(): void {
    const nowMs = clock()
    for (const [raw, endMs] of connections) if (endMs <= nowMs) close(raw)
  }

  async function bind(at: Endpoint, kind: TokenKind): Promise<Server> {
    const server = createServer({ allowHalfOpen: true }, raw => accept(raw, kind))
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    server.on('error', reject).listen({ host: at.hostname, port: at.port }, resolve)
    await promise.catch(async error => {
      const shown = showListen(at, kind === 'tls' ? 'https' : 'http')
      throw new CommandError(`cannot listen on ${shown}: ${await whyNotListening(error, at)}`)
    })
    return server
  }

  const server = await bind(listen, 'plain')
  const tlsServer = tls && (await bind(tls.listen, 'tls'))
  const timers = [
    every(closeLate, SECOND_MS),
    every(() => void tls?.certificate.refresh(), REFRESH_EVERY_MS),
  ]
  return {
    where: boundTo(server, listen),
    whereTls: tls && tlsServer && boundTo(tlsServer, tls.listen),
    counts: () => ({ ...counts, open: connections.size }),
    stop(): void {
      for (const end of timers) end()
      for (const raw of connections.keys()) close(raw)
      server.close()
      tlsServer?.close()
    },
  }
}

/** The address with its real port: the given one may be 0. */
const boundTo = (server: Server, at: Endpoint): Endpoint => {
  const bound = server.address()
  return typeof bound === 'object' && bound !== null ? { ...at, port: bound.port } : at
}
