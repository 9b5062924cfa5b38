/**
 * One connection of a check: connects to a proxy, shakes hands, starts TLS if needed, sends a request and reads the
 * response. It reports failures of this machine apart. It uses `node:net`, because `Bun.connect` cannot abort a pending
 * connect, and its own handshakes, because libraries hide the bytes that a proxy sends.
 */
import { connect, type Socket } from 'node:net'
import { type SecureContext, connect as secure } from 'node:tls'
import type { SetTimer } from '../lib/clock.ts'
import { codeOf } from '../lib/errors.ts'
import { ipv4ToNumber } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Address, ProxyType } from '../proxies/proxy.ts'
import type { Reason } from './ports.ts'
import {
  done,
  EMPTY,
  failed,
  MORE,
  type ParseResult,
  parseHead,
  type Reader,
  reasonOfStatus,
} from './response.ts'

export const CONNECT_MS_MAX = 5 * SECOND_MS
export const FIRST_BYTE_MS_MAX = 7 * SECOND_MS

/** The server that the proxy connects to: by name in HTTP, by IPv4 address in SOCKS. */
export type Destination = { host: string; ip: string; port: number }

/** A step of a handshake: a message, and a parser of the reply, which returns the length of the reply. */
type Step = {
  message(to: Destination, userAgent: string): string | Uint8Array
  parse(bytes: Buffer): ParseResult<number>
}

const ipBytes = (ip: string): number[] => {
  const number = ipv4ToNumber(ip)
  return [number >>> 24, (number >> 16) & 255, (number >> 8) & 255, number & 255]
}
const portBytes = (port: number): number[] => [port >> 8, port & 255]

const CONNECT: Step = {
  message({ host, port }, userAgent) {
    const to = `${host}:${port}`
    return `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\nUser-Agent: ${userAgent}\r\n\r\n`
  },
  parse(bytes) {
    const parsed = parseHead(bytes)
    if (parsed.kind !== 'done') return parsed
    const { status, size } = parsed.value
    if (status >= 200 && status < 300) return done(size)
    const reason = reasonOfStatus(status)
    return failed(reason === 'not the judge' ? 'proxy error' : reason, `status ${status}`)
  },
}

/** SOCKS4: 90 grants the request; 92 and 93 ask for an identd user. */
const SOCKS4: Step = {
  message: ({ ip, port }) => Uint8Array.from([4, 1, ...portBytes(port), ...ipBytes(ip), 0]),
  parse([version, code = 0, ...rest]) {
    if (version !== 0) return failed('not a proxy', 'no answer of SOCKS4')
    if (rest.length === 0 && code === 0) return MORE
    if (code === 90) return rest.length < 6 ? MORE : done(8)
    if (code < 90 || code > 93) return failed('not a proxy', 'no answer of SOCKS4')
    return failed(code === 91 ? 'proxy error' : 'credentials', `SOCKS4 reply ${code}`)
  },
}

/** SOCKS5: offers only the method without credentials. */
const GREETING: Step = {
  message: () => Uint8Array.from([5, 1, 0]),
  parse([version, method]) {
    if (version !== 5) return failed('not a proxy', 'no answer of SOCKS5')
    if (method === undefined) return MORE
    if (method === 0) return done(2)
    const wants = method === 2 || method === 255
    return failed(wants ? 'credentials' : 'not a proxy', `SOCKS5 method ${method}`)
  },
}

const SOCKS5: Step = {
  message: ({ ip, port }) => Uint8Array.from([5, 1, 0, 1, ...ipBytes(ip), ...portBytes(port)]),
  parse(bytes) {
    const [version, code, , kind, nameLength] = bytes
    if (version !== 5) return failed('not a proxy', 'no answer of SOCKS5')
    if (code !== undefined && code !== 0) return failed('proxy error', `SOCKS5 reply ${code}`)
    if (nameLength === undefined) return MORE
    const length = { 1: 10, 3: 7 + nameLength, 4: 22 }[Number(kind)]
    if (length === undefined) return failed('not a proxy', `SOCKS5 address of kind ${kind}`)
    return bytes.length < length ? MORE : done(length)
  },
}

/** The handshake of each type; `none` connects to the destination itself. */
const HANDSHAKES: { readonly [T in ProxyType | 'none']: readonly Step[] } = {
  none: [],
  http: [],
  https: [CONNECT],
  socks4: [SOCKS4],
  socks5: [GREETING, SOCKS5],
}

export type Call<T> = {
  to: Address
  type: ProxyType | 'none'
  /** http proxies don't use it: they read the URL of the request. */
  destination: Destination
  /** The authorities for TLS with the destination; its certificate must be for `destination.host`. */
  tls: SecureContext | null
  /** Returns the request and a reader of the response; with `''`, the destination speaks first. */
  open(): { request: string; reader: Reader<T> }
  /** Sent when the reader is done. */
  closingMessage?: string
}

/** The end of a connection. `localFailure`: this machine lacks something, so it says nothing about the proxy. */
type End<T> =
  | { kind: 'done'; value: T }
  | ReturnType<typeof failed>
  | { kind: 'localFailure'; why: string }
export type Dialed<T> = End<T> & {
  isConnected: boolean
  /** The first byte from the proxy; it shows the type. */
  firstByte: number | null
  /** Milliseconds from dialing to the end, and to the first byte of the response. */
  ms: number
  firstMs: number
  /** Sent and received, without the TLS handshake. */
  bytes: number
}

export type DialContext = {
  later: SetTimer
  /** Milliseconds of a clock that never steps. */
  elapsedMs: () => number
  userAgent: string
}

const REASON_OF: { readonly [code: string]: Reason } = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ETIMEDOUT: 'timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EHOSTDOWN: 'unreachable',
  ENOPROTOOPT: 'unreachable',
}
const OURS = ['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM']
const TLS = /SSL|EPROTO/
const CERTIFICATE = /CERT|ALTNAME|SELF_SIGNED|VERIFY|ISSUER|SIGNATURE_FAILURE|HOSTNAME/

const TOO_MANY = { kind: 'localFailure', why: 'too many TLS handshakes are in progress' } as const
/** The usual reasons when the system made no attempt to connect. */
const SHORTAGE = 'this machine has no file descriptor left, or no route to the address'

/**
 * Bun processes five TLS handshakes in a turn of the event loop. With more, the oldest ones wait, some for ten seconds,
 * and look like dead proxies. After `HANDSHAKE_MS` milliseconds, a handshake no longer counts.
 */
const HANDSHAKES_MAX = 5
export const HANDSHAKE_MS = 5
let handshakes = 0
const waiting: (() => void)[] = []

/** Calls `start` when a TLS handshake may begin; `start` must call `over` at the end of the handshake. */
function queueHandshake(start: (over: () => void) => void, later: SetTimer): void {
  function begin(): void {
    handshakes += 1
    let isOver = false
    const over = (): void => {
      if (isOver) return
      isOver = true
      cancel()
      handshakes -= 1
      waiting.shift()?.()
    }
    const cancel = later(over, HANDSHAKE_MS)
    start(over)
  }
  if (handshakes < HANDSHAKES_MAX) begin()
  else waiting.push(begin)
}

/** Makes a connection that ends at `deadlineMs` of `elapsedMs`. Never rejects. */
export function dial<T>(
  { to, type, destination, tls, closingMessage, ...call }: Call<T>,
  { later, elapsedMs, userAgent }: DialContext,
  deadlineMs: number,
): Promise<Dialed<T>> {
  const { promise, resolve } = Promise.withResolvers<Dialed<T>>()
  const startMs = elapsedMs()
  const steps = HANDSHAKES[type]
  let step = 0
  let pending: Buffer = EMPTY
  let reader: Reader<T>
  let phase: 'connecting' | 'handshake' | 'queued' | 'tls' | 'open' | 'over' = 'connecting'
  let handshakeOver = (): void => {}
  let firstByte: number | null = null
  let firstMs = 0
  let isConnected = false
  let wasAttempted = false
  let cancel = (): void => {}
  const socket = connect({ host: to.ip, port: to.port })
  let wire: Socket = socket

  /** Sets the timeout of the next phase, which ends at the deadline in any case. */
  function limit(ms: number): void {
    cancel()
    cancel = later(onTimeout, Math.max(0, Math.min(ms, deadlineMs - elapsedMs())))
  }

  function settle(end: End<T>): void {
    if (phase === 'over') return
    phase = 'over'
    cancel()
    handshakeOver()
    const sent = socket.bytesWritten + (wire === socket ? 0 : wire.bytesWritten)
    const bytes = socket.bytesRead + sent
    wire.destroy()
    socket.destroy()
    resolve({ isConnected, firstByte, ms: elapsedMs() - startMs, firstMs, bytes, ...end })
  }
  /** A proxy may give up while its connection waits for a TLS handshake: that is our fault. */
  const fail = (reason: Reason, detail = ''): void =>
    settle(phase === 'queued' ? TOO_MANY : failed(reason, detail))

  const onTimeout = (): void => fail(isConnected ? 'no answer' : 'timeout')

  function onError(error: unknown): void {
    const code = codeOf(error)
    const isTls = wire !== socket
    if (isTls && CERTIFICATE.test(code)) fail('intercepted', code)
    else if (isTls && TLS.test(code)) {
      if (phase === 'tls') fail('proxy error', 'no TLS behind it')
      else fail('altered', code)
    } else if (!(isConnected || wasAttempted) || OURS.includes(code)) {
      settle({ kind: 'localFailure', why: SHORTAGE })
    } else fail(REASON_OF[code] ?? 'closed', code)
  }

  const onEnd = (): void => (phase === 'open' ? conclude(reader.end()) : fail('closed'))

  function conclude(parsed: ParseResult<T>): void {
    if (parsed.kind === 'more') return
    if (parsed.kind === 'done' && closingMessage !== undefined) wire.write(closingMessage)
    settle(parsed)
  }

  /** Begins the next step of the handshake; after the last step, TLS or the request. */
  function proceed(): void {
    const next = steps[step]
    if (next !== undefined) socket.write(next.message(destination, userAgent))
    else if (tls === null) open()
    else if (pending.length > 0) fail('proxy error', 'bytes before TLS')
    // A self-check must not wait for checks.
    else if (type === 'none') startTls(tls)
    else queueTls(tls)
  }

  function queueTls(authorities: SecureContext): void {
    phase = 'queued'
    limit(Infinity) // up to the deadline: the proxy is not slow, we are
    queueHandshake(over => {
      if (phase !== 'queued') return over()
      handshakeOver = over
      startTls(authorities)
    }, later)
  }

  function startTls(authorities: SecureContext): void {
    phase = 'tls'
    limit(FIRST_BYTE_MS_MAX)
    socket.removeListener('data', onData)
    wire = secure({ socket, servername: destination.host, secureContext: authorities })
    wire.on('secureConnect', open)
    listen(wire)
  }

  function open(): void {
    phase = 'open'
    handshakeOver()
    const talk = call.open()
    reader = talk.reader
    if (talk.request !== '') wire.write(talk.request)
    if (pending.length === 0) return
    if (talk.request === '') onAnswer(pending)
    else fail('not a proxy', 'bytes before the request')
  }

  function onAnswer(bytes: Buffer): void {
    const isFirst = firstMs === 0
    if (isFirst) firstMs = elapsedMs() - startMs
    conclude(reader.push(bytes))
    if (isFirst && phase !== 'over') limit(Infinity)
  }

  function onHandshakeData(bytes: Buffer): void {
    pending = Buffer.concat([pending, bytes])
    const parsed = steps[step]?.parse(pending) ?? MORE
    if (parsed.kind === 'failed') settle(parsed)
    if (parsed.kind !== 'done') return
    pending = pending.subarray(parsed.value)
    step += 1
    if (pending.length > 0 && step < steps.length) fail('not a proxy', 'bytes before the request')
    else proceed()
  }

  function onData(bytes: Buffer): void {
    firstByte ??= bytes[0] ?? null
    if (phase === 'open') onAnswer(bytes)
    else if (phase === 'handshake') onHandshakeData(bytes)
    else if (phase === 'queued') settle(failed('proxy error', 'bytes before TLS'))
  }

  const listen = (to: Socket): Socket =>
    to.on('data', onData).on('error', onError).on('end', onEnd).on('close', onEnd)

  // When the descriptor table is full, Bun reports ECONNREFUSED, but does not emit this event.
  socket.on('connectionAttemptFailed', () => {
    wasAttempted = true
  })
  socket.on('connect', () => {
    if (phase !== 'connecting') return
    isConnected = true
    phase = 'handshake'
    limit(FIRST_BYTE_MS_MAX)
    proceed()
  })
  listen(socket)
  limit(CONNECT_MS_MAX)
  return promise
}
