/**
 * Proxies on loopback, of which `checker/proxy-behaviours.ts` makes honest and lying ones. Each has an address of its own, and goes out from `EXIT` unless it says otherwise: addresses of 127.0.0.0/8 stand for hosts.
 * All host names are this one. Knows nothing of the checker.
 */
import { readFileSync } from 'node:fs'
import { connect, createServer, isIPv4, type Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { onCleanUp } from './temporary.ts'

/** What proxies see of the checker, and where they go out. */
export const US = '127.0.0.1'
export const EXIT = '127.5.0.9'

/** What a proxy does with a connection. */
export type Behaviour = (client: Socket) => void

let started = 0

/** Starts a proxy, at an address of its own unless one is given; `cleanUp` stops it. */
export async function startProxy(behave: Behaviour, given?: string) {
  started += 1
  const ip = given ?? `127.64.${started >> 8}.${started & 255}`
  const open = new Set<Socket>()
  const server = createServer(client => {
    open.add(client)
    client.on('error', () => {}).on('close', () => open.delete(client))
    behave(client)
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, ip, resolve)
  await promise
  async function stop(): Promise<void> {
    for (const client of open) client.destroy()
    await new Promise(closed => server.close(closed))
  }
  onCleanUp(stop)
  const bound = server.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0
  return { ip, port, open: () => open.size, stop }
}

// -----------------------------------------------------------------------------------------------
// Parts

/** What a client sends, taken piece by piece. */
export function inboxOf(client: Socket) {
  let held: Buffer = Buffer.alloc(0)
  let wake = (): void => {}
  let passed = 0
  client.on('data', (bytes: Buffer) => {
    held = Buffer.concat([held, bytes])
    wake()
  })
  return {
    /** The first bytes, as many as `lengthOf` says; -1: not yet known. Waits for ever if they do not come. */
    async take(lengthOf: (held: Buffer) => number): Promise<Buffer> {
      for (;;) {
        const length = lengthOf(held)
        if (length >= 0 && length <= held.length) {
          const taken = held.subarray(0, length)
          held = held.subarray(length)
          return taken
        }
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
    },
    /** Whether what was not taken yet is the beginning of TLS. */
    isTls: (): boolean => held[0] === 0x16,
    /** Passes on what came and what will come. */
    passTo(other: Socket): void {
      const pass = (bytes: Buffer): void => {
        passed += 1
        other.write(bytes)
      }
      if (held.length > 0) pass(held)
      held = Buffer.alloc(0)
      client.removeAllListeners('data')
      client.on('data', pass)
      client.on('end', () => other.end())
    },
    /** How often bytes were passed on. */
    passed: () => passed,
  }
}
type Inbox = ReturnType<typeof inboxOf>

export const headLength = (held: Buffer): number => {
  const end = held.indexOf('\r\n\r\n')
  return end < 0 ? -1 : end + 4
}

/** A connection onwards, which ends with that of the client. */
export function goTo(host: string, port: number, exit: string, client: Socket): Socket {
  const upstream = connect({ host: isIPv4(host) ? host : US, port, localAddress: exit })
  upstream.on('error', () => client.destroy())
  client.on('close', () => upstream.destroy())
  return upstream
}

export function relay(client: Socket, inbox: Inbox, upstream: Socket, spoils = false): void {
  upstream.on('connect', () => inbox.passTo(upstream))
  upstream.on('data', (bytes: Buffer) => {
    // The second thing that a client of TLS says is encrypted, and so is all that follows.
    const middle = bytes.length >> 1
    if (spoils && inbox.passed() > 1) bytes[middle] = (bytes[middle] ?? 0) ^ 1
    client.write(bytes)
  })
  upstream.on('end', () => client.end())
}

/** A response of HTTP. */
export const page = (status: number, body = '', fields = ''): string =>
  `HTTP/1.1 ${status} X\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** Files of a certificate and its key. */
type Middle = { cert: string; key: string }

/** Ends TLS in the middle with a certificate of its own, and speaks TLS again with the destination. */
function intercept(client: Socket, inbox: Inbox, middle: Middle, upstreamPort: number): void {
  const [cert, key] = [readFileSync(middle.cert), readFileSync(middle.key)]
  const server = createTlsServer({ cert, key }, inside => {
    const upstream = connectTls({ host: US, port: upstreamPort, rejectUnauthorized: false })
    upstream.on('error', () => client.destroy())
    inside.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
    inside.on('data', (bytes: Buffer) => upstream.write(bytes))
    upstream.on('data', (bytes: Buffer) => inside.write(bytes))
    upstream.on('end', () => inside.end())
  })
  client.on('close', () => server.close())
  server.listen(0, US, () => {
    const bound = server.address()
    const port = typeof bound === 'object' && bound !== null ? bound.port : 0
    relay(client, inbox, goTo(US, port, US, client))
  })
}

// -----------------------------------------------------------------------------------------------
// Proxies

export type Http = {
  /** Header lines that are added. */
  add?: readonly string[]
  /** What becomes of the head of a request. */
  edit?: (head: string) => string | Promise<string>
  exit?: string
  /** Where tunnels go out. */
  tunnelExit?: string
  /** `forward`, or the answer to every plain request; and likewise to CONNECT. */
  plain?: 'forward' | string
  tunnel?: 'forward' | string
  /** What becomes of a whole answer; it may send a part of it. */
  change?: (answer: Buffer, client: Socket) => Buffer | Promise<Buffer>
  /** Whether an answer is sent byte by byte. */
  isSlow?: boolean
  middle?: Middle
  /** Whether bytes of a tunnel are changed once it is open at both ends. */
  spoils?: boolean
}

/** What is no HTTP is not waited for; -1: not yet known. */
const requestLength = (held: Buffer): number =>
  /^[A-Z]*[^A-Z ]/.test(held.toString('latin1', 0, 8)) ? 0 : headLength(held)

/** An http proxy, without tunnels unless `tunnel` is `forward`. */
export const http =
  (options: Http = {}): Behaviour =>
  async client => {
    const inbox = inboxOf(client)
    const head = (await inbox.take(requestLength)).toString('latin1')
    const [method, target = ''] = head.split(' ', 2)
    const { plain = 'forward', tunnel = page(405) } = options
    if (method === 'CONNECT') {
      if (tunnel === 'forward') openTunnel(client, inbox, target, options)
      else client.end(tunnel)
    } else if (!URL.canParse(target)) client.end(page(400))
    else if (plain === 'forward') await forward(client, inbox, head, options)
    else client.end(plain)
  }

function openTunnel(client: Socket, inbox: Inbox, target: string, options: Http): void {
  const [host = '', port] = target.split(':')
  const { exit = EXIT, tunnelExit = exit, middle, spoils = false } = options
  client.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (middle) intercept(client, inbox, middle, Number(port))
  else relay(client, inbox, goTo(host, Number(port), tunnelExit, client), spoils)
}

async function forward(client: Socket, inbox: Inbox, head: string, options: Http): Promise<void> {
  const { add = [], edit = asked => asked, exit = EXIT, change, isSlow = false } = options
  const [line = '', ...lines] = head.trimEnd().split('\r\n')
  const url = new URL(line.split(' ')[1] ?? '')
  const asked = [`GET ${url.pathname}${url.search} HTTP/1.1`, ...lines, ...add, '', ''].join('\r\n')
  const upstream = goTo(url.hostname, Number(url.port || 80), exit, client)
  upstream.write(Buffer.from(await edit(asked), 'latin1'))
  if (change === undefined && !isSlow) return relay(client, inbox, upstream)
  const chunks: Buffer[] = []
  upstream.on('data', (bytes: Buffer) => chunks.push(bytes))
  upstream.on('end', async () => {
    const answer = Buffer.concat(chunks)
    if (isSlow) await dribble(client, answer)
    client.end(isSlow || change === undefined ? '' : await change(answer, client))
  })
}

type Socks = {
  exit?: string
  middle?: Middle
  /** What is said when the destination is reached, or instead. */
  reply?: Uint8Array
  /** Whether everything is sent byte by byte. */
  isSlow?: boolean
  /** A port to which it connects nobody. */
  denies?: () => number
}

const SOCKS5_DONE = Uint8Array.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
const SOCKS5_DENIED = Uint8Array.from([5, 2, 0, 1, 0, 0, 0, 0, 0, 0])
const SOCKS4_DENIED = Uint8Array.from([0, 91, 0, 0, 0, 0, 0, 0])
const SOCKS4_DONE = Uint8Array.from([0, 90, 0, 0, 0, 0, 0, 0])

/** Sends bytes one at a time, each in a turn of its own. */
async function dribble(client: Socket, bytes: Uint8Array): Promise<void> {
  for (const byte of bytes) {
    client.write(Uint8Array.of(byte))
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** The destination of a request of SOCKS4, and of SOCKS5, whose greeting is accepted: IPv4 address and port. */
async function destinationOf(inbox: Inbox, version: number, say: (b: number[]) => void) {
  if (version === 4) {
    const rest = await inbox.take(held => held.indexOf(0, 7) + 1 || -1)
    return Buffer.concat([rest.subarray(3, 7), rest.subarray(1, 3)])
  }
  const [methods = 0] = await inbox.take(() => 1)
  await inbox.take(() => methods)
  say([5, 0])
  const [, command, , kind] = await inbox.take(() => 4)
  return command === 1 && kind === 1 ? inbox.take(() => 6) : null
}

/** A SOCKS proxy of these versions, which closes on anything else. */
export const socks =
  (versions: readonly (4 | 5)[], options: Socks = {}): Behaviour =>
  async client => {
    const { exit = EXIT, middle, isSlow = false, denies, reply } = options
    const inbox = inboxOf(client)
    const say = async (bytes: ArrayLike<number>): Promise<void> => {
      if (isSlow) await dribble(client, Uint8Array.from(bytes))
      else client.write(Uint8Array.from(bytes))
    }
    const [version = 0] = await inbox.take(() => 1)
    const isKnown = versions.some(known => known === version)
    const destination = isKnown ? await destinationOf(inbox, version, say) : null
    if (destination === null) return void client.end()
    const port = destination.readUInt16BE(4)
    if (denies?.() === port) return void client.end(version === 5 ? SOCKS5_DENIED : SOCKS4_DENIED)
    await say(reply ?? (version === 5 ? SOCKS5_DONE : SOCKS4_DONE))
    const isTls = middle && (await inbox.take(held => (held.length > 0 ? 0 : -1)).then(inbox.isTls))
    if (isTls) return intercept(client, inbox, middle, port)
    relay(client, inbox, goTo([...destination.subarray(0, 4)].join('.'), port, exit, client))
  }

/** A port that speaks SOCKS and another protocol: the first byte of a request tells. */
export const socks5And =
  (other: Behaviour, onSocks: Behaviour = socks([5])): Behaviour =>
  client =>
    client.once('data', bytes => {
      client.pause()
      client.unshift(bytes)
      const behave = Number(bytes[0]) < 6 ? onSocks : other
      behave(client)
      client.resume()
    })

/** Sends this at the first bytes of a client, and hangs up, or does nothing more. */
export const says =
  (bytes: string | Uint8Array, then: 'ends' | 'hangs' = 'ends'): Behaviour =>
  client => {
    client.once('data', () => (then === 'ends' ? client.end(bytes) : client.write(bytes)))
  }

/** Where the judge listens, to which some lead, and the certificates of those who listen in. */
export type World = { judgePort: number; middle: Middle; otherName: Middle }
