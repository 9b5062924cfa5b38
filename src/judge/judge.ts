/**
 * The judge (contract H2): answers who asks with a token of the checker what it saw of the request, signed. It
 * reads heads itself, because it must tell the two forms of a request apart, and say headers as they came.
 * Nobody without a token gets a byte more than they sent, nor a place that others need.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type Listen, showListen } from '../config/parsers.ts'
import type { Clock, Every } from '../lib/clock.ts'
import { counted } from '../lib/counted.ts'
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
  writeTime,
} from './protocol.ts'

/** How long a head may take, and how long the reply and the end of the connection. */
const HEAD_MS = 10 * SECOND_MS
const REPLY_MS = 30 * SECOND_MS
export const CONNECTIONS_MAX = 4096
/** A change of the certificate is noticed within a minute. */
const REFRESH_EVERY_MS = 30 * SECOND_MS

// -----------------------------------------------------------------------------------------------
// What is answered.

const REQUEST_LINE = new RegExp(`^GET (https?://[^/\\s]+)?/(${TOKEN}) HTTP/1\\.([01])$`)
const CONTROL = /[^\t\r\n\x20-\x7e\x80-\xff]/

/** Without the white space around a value (RFC 9110, 5.6.3); `trim` would take more than that. */
const stripped = (value: string): string => /^[ \t]*(.*[^ \t])?/s.exec(value)?.[1] ?? ''

/** Header lines as pairs; a line that begins with a space goes on with the one before. */
function readHeaders(lines: readonly string[]): [name: string, value: string][] {
  const headers: [string, string][] = []
  for (const line of lines) {
    const last = headers.at(-1)
    const colon = line.indexOf(':')
    if (last && /^[ \t]/.test(line)) last[1] += ` ${stripped(line)}`
    else if (colon < 0) headers.push([line, ''])
    else headers.push([line.slice(0, colon), stripped(line.slice(colon + 1))])
  }
  return headers
}

/** An answer, with the token and the size of the payload that follows it; or a refusal. */
export type Reply =
  | { kind: 'answer'; text: string; token: string; size: number }
  | { kind: 'refusal'; text: string }

/** Smaller than any request: nobody can use the judge to send others more than they sent themselves. */
const REFUSAL: Reply = { kind: 'refusal', text: 'HTTP/1.1 404 \r\n\r\n' }

/** Decides on heads of requests, in Latin-1 and without their empty line; the judge begins now. */
export function createReplies(keys: Keys, clock: Clock) {
  const startedMs = clock()
  /** Used tokens, and until when they would be valid; only the checker can make them more. */
  const used = new Map<string, number>()

  function forgetInvalid(nowMs: number): void {
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
    forgetInvalid(nowMs)
    if (used.has(token)) return REFUSAL
    if (!isTimely(opened.timeMs, nowMs, startedMs)) {
      const time = writeTime(keys, token, nowMs)
      return { kind: 'refusal', text: `HTTP/1.1 404 \r\nTime: ${time}\r\n\r\n` }
    }
    used.set(token, nowMs + TOKEN_AGE_MAX_MS + TOKEN_AHEAD_MAX_MS)
    const body = writeAnswer(keys, {
      ...{ token, peer, headers: readHeaders(lines) },
      form: authority === undefined ? 'origin' : 'absolute',
      ...{ tls: kind === 'tls', time: nowMs, started: startedMs },
    })
    const text =
      `HTTP/1.${minor} 200 OK\r\nContent-Type: application/octet-stream\r\n` +
      `Content-Length: ${Buffer.byteLength(body) + opened.size}\r\n` +
      `Cache-Control: no-store, no-transform\r\nConnection: close\r\n\r\n${body}`
    return { kind: 'answer', text, token, size: opened.size }
  }

  return { reply, remembered: (): number => used.size }
}

// -----------------------------------------------------------------------------------------------
// Connections.

type Endpoint = Extract<Listen, { kind: 'tcp' }>

export type JudgeOptions = {
  keys: Keys
  /** It must not step: tokens are valid by it. */
  clock: Clock
  every: Every
  say: (sentence: string) => void
  listen: Endpoint
  tls: { listen: Endpoint; certificate: Certificate } | null
  connectionsMax?: number
}

/** Starts a judge; `where` and `whereTls` are its addresses. @throws CommandError when one cannot be bound. */
export async function startJudge(options: JudgeOptions) {
  const { keys, clock, every, say, listen, tls, connectionsMax = CONNECTIONS_MAX } = options
  const { reply } = createReplies(keys, clock)
  /** Connections that have not asked yet, and those that were replied to, with the end of their time. */
  const waiting = new Map<Socket, number>()
  const replied = new Map<Socket, number>()
  const counts = { accepted: 0, answered: 0, refused: 0 }
  let wasFull = false

  function close(raw: Socket): void {
    waiting.delete(raw)
    replied.delete(raw)
    raw.destroy()
  }

  /** When all places are taken, the connection that has waited longest gives up its own. */
  function makeRoom(): void {
    if (waiting.size + replied.size < connectionsMax) return
    if (!wasFull) say(`all ${counted(connectionsMax)} connections are taken: idle ones are closed`)
    wasFull = true
    const [oldest = null] = waiting.keys()
    if (oldest !== null) close(oldest)
  }

  function accept(raw: Socket, kind: TokenKind): void {
    counts.accepted += 1
    makeRoom()
    const peer = canonicalIp(raw.remoteAddress ?? '')
    if (peer === null || waiting.size + replied.size >= connectionsMax) return void raw.destroy()
    waiting.set(raw, clock() + HEAD_MS)
    raw.on('error', () => close(raw)).on('close', () => close(raw))
    if (kind === 'plain' || tls === null) return read(raw, raw, kind, peer)
    const secureContext = tls.certificate.context()
    const secure = new TLSSocket(raw, { isServer: true, secureContext })
    secure.on('error', () => close(raw))
    read(raw, secure, kind, peer)
  }

  /** Reads the head of a request, and replies to it. What follows is ignored. */
  function read(raw: Socket, socket: Socket, kind: TokenKind, peer: string): void {
    let head = ''
    socket.on('data', chunk => {
      if (!waiting.has(raw)) return
      const end = /\r?\n\r?\n/g
      end.lastIndex = Math.max(0, head.length - 3)
      head += chunk.toString('latin1')
      const found = end.exec(head)
      const length = found === null ? head.length : end.lastIndex
      if (length > HEAD_BYTES_MAX) refuse(raw)
      else if (found !== null) {
        waiting.delete(raw)
        replied.set(raw, clock() + REPLY_MS)
        send(raw, socket, length, reply(head.slice(0, found.index), kind, peer))
      }
    })
    socket.on('end', () => {
      if (waiting.has(raw)) close(raw)
    })
  }

  function refuse(raw: Socket): void {
    counts.refused += 1
    close(raw)
  }

  /** Sends a reply to a request of so many bytes; no refusal that is not smaller. */
  function send(raw: Socket, socket: Socket, bytes: number, given: Reply): void {
    if (given.kind === 'refusal') {
      if (given.text.length >= bytes) return refuse(raw)
      counts.refused += 1
      return void socket.end(given.text, () => close(raw))
    }
    counts.answered += 1
    const payload = payloadOf(keys, given.token, given.size) // our own checker asks for few
    socket.end(Buffer.concat([Buffer.from(given.text), payload]))
  }

  function sweep(): void {
    const nowMs = clock()
    for (const [raw, endMs] of waiting) if (endMs <= nowMs) refuse(raw)
    for (const [raw, endMs] of replied) if (endMs <= nowMs) close(raw)
    wasFull &&= waiting.size + replied.size >= connectionsMax / 2
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
  const tlsServer =
    tls &&
    (await bind(tls.listen, 'tls').catch(error => {
      server.close()
      throw error
    }))
  const timers = [
    every(sweep, SECOND_MS),
    every(() => void tls?.certificate.refresh(), REFRESH_EVERY_MS),
  ]
  return {
    where: boundTo(server, listen),
    whereTls: tls && tlsServer && boundTo(tlsServer, tls.listen),
    /** Connections since the start, and those that are open; requests answered and refused. */
    counts: () => ({ ...counts, open: waiting.size + replied.size }),
    stop(): void {
      for (const end of timers) end()
      for (const raw of [...waiting.keys(), ...replied.keys()]) close(raw)
      server.close()
      tlsServer?.close()
    },
  }
}

/** An address with the port that was taken. */
const boundTo = (server: Server, at: Endpoint): Endpoint => {
  const bound = server.address()
  return typeof bound === 'object' && bound !== null ? { ...at, port: bound.port } : at
}
