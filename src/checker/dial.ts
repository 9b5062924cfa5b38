/**
 * One connection of a check: dials a proxy, shakes hands as its type does, speaks TLS where asked to, sends a
 * request and hears the answer. Bounded in time; every end releases its socket and its timer. Says which failures
 * are ours. Knows nothing of judges.
 *
 * `node:net`, because nothing else here can give up a connection that hangs; handshakes of our own, because every
 * byte of a proxy is judged.
 */
import { connect, type Socket } from 'node:net'
import { type SecureContext, connect as secure } from 'node:tls'
import type { Later } from '../lib/clock.ts'
import { codeOf } from '../lib/errors.ts'
import { ipv4ToNumber } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Address, ProxyType } from '../proxies/proxy.ts'
import type { Reason, Stopping } from './ports.ts'
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

/** How long a connection may take to be there, and the answer to begin after that. */
export const CONNECT_MS_MAX = 5 * SECOND_MS
export const FIRST_BYTE_MS_MAX = 7 * SECOND_MS

/** Where a proxy is asked to connect to: by name in HTTP, by its IPv4 address in SOCKS. */
export type Destination = { host: string; ip: string; port: number }

/** One part of a handshake: what is said, and what the bytes that follow mean; `done` says how many were read. */
type Step = {
  say(to: Destination, userAgent: string): string | Uint8Array
  parse(bytes: Buffer): ParseResult<number>
}

const ipBytes = (ip: string): number[] => {
  const number = ipv4ToNumber(ip)
  return [number >>> 24, (number >> 16) & 255, (number >> 8) & 255, number & 255]
}
const portBytes = (port: number): number[] => [port >> 8, port & 255]

/** HTTP: a tunnel to the destination. */
const CONNECT: Step = {
  say({ host, port }, userAgent) {
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

/** SOCKS4: granted is 90; 92 and 93 ask for a user that this machine vouches for. */
const SOCKS4: Step = {
  say: ({ ip, port }) => Uint8Array.from([4, 1, ...portBytes(port), ...ipBytes(ip), 0]),
  parse([version, code = 0, ...rest]) {
    if (version !== 0) return failed('not a proxy', 'no answer of SOCKS4')
    if (rest.length === 0 && code === 0) return MORE
    if (code === 90) return rest.length < 6 ? MORE : done(8)
    if (code < 90 || code > 93) return failed('not a proxy', 'no answer of SOCKS4')
    return failed(code === 91 ? 'proxy error' : 'credentials', `SOCKS4 reply ${code}`)
  },
}

/** SOCKS5: the only method that is offered is to need no credentials. */
const GREETING: Step = {
  say: () => Uint8Array.from([5, 1, 0]),
  parse([version, method]) {
    if (version !== 5) return failed('not a proxy', 'no answer of SOCKS5')
    if (method === undefined) return MORE
    if (method === 0) return done(2)
    const wants = method === 2 || method === 255
    return failed(wants ? 'credentials' : 'not a proxy', `SOCKS5 method ${method}`)
  },
}

const SOCKS5: Step = {
  say: ({ ip, port }) => Uint8Array.from([5, 1, 0, 1, ...ipBytes(ip), ...portBytes(port)]),
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

/** How each type is asked to connect; `none` is the destination itself. */
const HANDSHAKES: { readonly [T in ProxyType | 'none']: readonly Step[] } = {
  none: [],
  http: [],
  https: [CONNECT],
  socks4: [SOCKS4],
  socks5: [GREETING, SOCKS5],
}

/** Who may vouch for a server; and what it gave to resume TLS with, which takes a third less time. */
export type Trust = { readonly authorities: SecureContext; session: Buffer | null }

/** What one connection is for. */
export type Call<T> = {
  to: Address
  type: ProxyType | 'none'
  /** Where the proxy is to connect to; http proxies read it in the request. */
  destination: Destination
  /** When TLS is spoken with the destination, which then has a name. */
  tls: Trust | null
  /** What is said first, and what hears the answer; with `''`, the destination speaks first. Most are never open. */
  open(): { request: string; reader: Reader<T> }
  /** What is said once the reader is done. */
  closingMessage?: string
}

/** What a connection came to. `localFailure` says nothing of the proxy: something of ours was missing. */
type End<T> =
  | { kind: 'done'; value: T }
  | ReturnType<typeof failed>
  | { kind: 'localFailure'; why: string }
export type Dialed<T> = End<T> & {
  isConnected: boolean
  /** The first byte that came, of which type it may be. */
  firstByte: number | null
  /** Milliseconds: in all; from dialing to the first byte of the answer; from that to the last. */
  ms: number
  firstMs: number
  transferMs: number
  /** Sent and received. */
  bytes: number
}

export type DialContext = {
  later: Later
  /** Milliseconds of a clock that never steps. */
  elapsedMs: () => number
  userAgent: string
}

/** What a TLS handshake sends, which the socket does not count: about so many bytes. */
const TLS_SENT_BYTES = 700

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

const TOO_MANY = { kind: 'localFailure', why: 'too many TLS handshakes are under way' } as const

/** Why the system would not even send: almost always one of these. */
const SHORTAGE = 'this machine has no descriptor left, or no way there'

/** Stops several connections. The signal of an `AbortController` takes a tenth of the time of a check. */
export class Stop implements Stopping {
  aborted = false
  readonly #runs = new Set<() => void>()
  addEventListener(_: 'abort', run: () => void): void {
    this.#runs.add(run)
  }
  removeEventListener(_: 'abort', run: () => void): void {
    this.#runs.delete(run)
  }
  abort(): void {
    this.aborted = true
    for (const run of this.#runs) run()
  }
}

/**
 * Bun reads five TLS handshakes in a turn of the event loop, and lets the longest waiting of further ones wait, some for
 * ten seconds: they would look like dead proxies. One that takes longer than this is on its way, and makes room.
 */
const HANDSHAKES_MAX = 5
export const HANDSHAKE_MS = 5
let handshakes = 0
const waiting: (() => void)[] = []

/** Calls `start` when a TLS handshake may begin, with what is to be called once it is over. */
function queueHandshake(start: (over: () => void) => void, later: Later): void {
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

/** When work must end: at once when `signal` is aborted, and at an instant of `elapsedMs`. */
export type Until = { readonly signal: Stopping; readonly deadlineMs: number }

/** Never rejects. */
export function dial<T>(
  { to, type, destination, tls, closingMessage, ...call }: Call<T>,
  { later, elapsedMs, userAgent }: DialContext,
  { signal, deadlineMs }: Until,
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
  /** Whether a connection failed that was under way: else the system has not begun it. */
  let wasUnderWay = false
  let cancel = (): void => {}
  const socket = connect({ host: to.ip, port: to.port })
  /** The socket, or TLS over it. */
  let wire: Socket = socket

  /** Gives what follows so many milliseconds, if the deadline does. */
  function limit(ms: number): void {
    cancel()
    cancel = later(onTimeout, Math.max(0, Math.min(ms, deadlineMs - elapsedMs())))
  }

  function settle(end: End<T>): void {
    if (phase === 'over') return
    phase = 'over'
    cancel()
    handshakeOver()
    signal.removeEventListener('abort', onTimeout)
    const sent = wire === socket ? 0 : TLS_SENT_BYTES + wire.bytesWritten
    const bytes = socket.bytesRead + socket.bytesWritten + sent
    const ms = elapsedMs() - startMs
    const transferMs = firstMs === 0 ? 0 : ms - firstMs
    wire.destroy()
    socket.destroy()
    resolve({ isConnected, firstByte, ms, firstMs, transferMs, bytes, ...end })
  }
  /** Nobody waits for us for ever: who gives up in the queue is not to blame. */
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
    } else if (!(isConnected || wasUnderWay) || OURS.includes(code)) {
      settle({ kind: 'localFailure', why: SHORTAGE })
    } else fail(REASON_OF[code] ?? 'closed', code)
  }

  const onEnd = (): void => (phase === 'open' ? conclude(reader.end()) : fail('closed'))

  function conclude(parsed: ParseResult<T>): void {
    if (parsed.kind === 'more') return
    if (parsed.kind === 'done' && closingMessage !== undefined) wire.write(closingMessage)
    settle(parsed)
  }

  /** What follows a part of the handshake, or the last of them. */
  function proceed(): void {
    const next = steps[step]
    if (next !== undefined) socket.write(next.say(destination, userAgent))
    else if (tls === null) open()
    else if (pending.length > 0) fail('proxy error', 'bytes before TLS')
    else if (type === 'none')
      startTls(tls) // the judge itself: whether it is there must show at once
    else queueTls(tls)
  }

  function queueTls(trust: Trust): void {
    phase = 'queued'
    limit(Infinity) // what others take is not its time
    queueHandshake(over => {
      if (phase !== 'queued') return over()
      handshakeOver = over
      startTls(trust)
    }, later)
  }

  function startTls(trust: Trust): void {
    phase = 'tls'
    limit(FIRST_BYTE_MS_MAX)
    socket.removeListener('data', onData)
    const { authorities: secureContext, session } = trust
    const servername = destination.host
    const wrapped = secure({ socket, servername, secureContext, ...(session && { session }) })
    wire = wrapped
    // Bun looks at the certificate also when a session was resumed, Node does not: a tenth of a check's time.
    const look = wrapped.getPeerCertificate
    const getPeerCertificate = () => (wrapped.isSessionReused() ? null : look.call(wrapped, true))
    Object.assign(wrapped, { getPeerCertificate })
    wrapped.on('secureConnect', () => {
      if (!wrapped.isSessionReused()) wrapped.once('session', given => (trust.session = given))
      open()
    })
    wrapped.on('data', onData)
    wrapped.on('error', onError)
    wrapped.on('end', onEnd)
    wrapped.on('close', onEnd)
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

  // What the system refuses to begin shows as ECONNREFUSED too, a full table of descriptors for one; but Bun says
  // this only of attempts that it has begun.
  socket.on('connectionAttemptFailed', () => {
    wasUnderWay = true
  })
  socket.on('connect', () => {
    if (phase !== 'connecting') return
    isConnected = true
    phase = 'handshake'
    limit(FIRST_BYTE_MS_MAX)
    proceed()
  })
  socket.on('data', onData)
  socket.on('error', onError)
  socket.on('end', onEnd)
  socket.on('close', onEnd)
  limit(CONNECT_MS_MAX)
  signal.addEventListener('abort', onTimeout)
  if (signal.aborted) onTimeout()
  return promise
}
