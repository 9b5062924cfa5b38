import type { ProxyType } from '../../src/proxies/proxy.ts'
import {
  type Behaviour,
  EXIT,
  goTo,
  type Http,
  headLength,
  http,
  inboxOf,
  page,
  relay,
  says,
  socks,
  US,
  type World,
} from '../support/fake-proxies.ts'

/** Answers the messages of a handshake, and hangs up with the last answer, or does nothing more. */
const leaves =
  (answers: readonly (readonly number[] | string)[], then: 'ends' | 'hangs' = 'ends'): Behaviour =>
  client => {
    const left = [...answers]
    client.on('data', () => {
      const answer = left.shift() ?? ''
      const bytes = typeof answer === 'string' ? answer : Uint8Array.from(answer)
      if (bytes.length > 0) client.write(bytes)
      if (left.length === 0 && then === 'ends') client.end()
    })
  }

/** Sends the same bytes again and again, as fast as they are read. */
const pours =
  (start: string, bytes: string): Behaviour =>
  client => {
    client.once('data', () => {
      client.write(start)
      const chunk = Buffer.from(bytes.repeat(Math.ceil(65_536 / bytes.length)))
      const pour = (): void => {
        while (client.writable && client.write(chunk)) {}
      }
      client.on('drain', pour)
      pour()
    })
  }

const text = (change: (answer: string) => string) => (answer: Buffer) =>
  Buffer.from(change(answer.toString('latin1')), 'latin1')
/** An answer whose length is not said: it ends with the connection. */
const unmeasured = (answer: string): string => answer.replace(/Content-Length: \d+\r\n/, '')

/** The body of an answer in chunks of these many bytes. */
const chunked = (size: number) =>
  text(answer => {
    const [head = '', ...rest] = answer.split('\r\n\r\n')
    const body = rest.join('\r\n\r\n')
    const chunks = body.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const parts = chunks.map(chunk => `${chunk.length.toString(16)};x=y\r\n${chunk}\r\n`)
    const fields = head.replace(/Content-Length: \d+/, 'Transfer-Encoding: chunked')
    return `${fields}\r\n\r\n${parts.join('')}0\r\n\r\n`
  })

/** Gives the first answer that it gets to everybody. */
export function replays(): Behaviour {
  let first: Buffer | null = null
  return http({ change: answer => (first ??= answer) })
}

/** Passes every byte on to the judge. */
const forwards =
  (port: number): Behaviour =>
  client =>
    relay(client, inboxOf(client), goTo(US, port, EXIT, client))

/** Stands before the judge at another port, and adds what such proxies add. */
export const reverseProxy =
  (port: () => number): Behaviour =>
  async client => {
    const inbox = inboxOf(client)
    const head = (await inbox.take(headLength)).toString('latin1')
    const upstream = goTo(US, port(), US, client)
    upstream.write(head.replace('\r\n\r\n', '\r\nVia: 1.1 x\r\n\r\n'))
    relay(client, inbox, upstream)
  }

/** Lets each of two clients have the answer of the other. */
export function swaps(): Behaviour {
  let first: { line: string; swap: (line: string) => void } | null = null
  return http({
    async edit(head) {
      const [line = ''] = head.split('\r\n', 1)
      const other = first
      if (other !== null) {
        other.swap(line)
        return head.replace(line, other.line)
      }
      const { promise, resolve } = Promise.withResolvers<string>()
      first = { line, swap: resolve }
      return head.replace(line, await promise)
    },
  })
}

/** Changes the last byte of a long answer. */
export const flipsPayloads = (): Behaviour =>
  http({
    change(answer) {
      if (answer.length > 60_000) answer[answer.length - 1] = (answer.at(-1) ?? 0) ^ 1
      return answer
    },
  })

const SOCKS5_BY_NAME = Uint8Array.from([5, 0, 0, 3, 4, 97, 98, 99, 100, 0, 80])
const SOCKS5_BY_IPV6 = Uint8Array.from([5, 0, 0, 4, ...new Array<number>(18).fill(0)])
const NO_MORE = [0, 0, 0, 0, 0, 0]
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const GREETED = [5, 0]
const CONNECTED = [5, 0, 0, 1, ...NO_MORE]
const UNKNOWN_PAGE = page(200, '{"origin":"1.2.3.4"}')
const edits = (edit: (head: string) => string) => http({ edit })
const changes = (change: (answer: string) => string) => http({ change: text(change) })
const tunnels = (more: Http = {}) => http({ tunnel: 'forward', ...more })
const adds = (...add: string[]) => http({ add })

/** What a check finds: the type and the level with its evidence, or why it fails. */
type Row = readonly [what: string, behave: (world: World) => Behaviour, found: string]

export const HONEST: readonly Row[] = [
  ['http', () => http(), 'http elite'],
  ['http and CONNECT', () => tunnels(), 'https elite'],
  ['CONNECT only', () => tunnels({ plain: page(405) }), 'https elite'],
  ['CONNECT only, all else forbidden', () => tunnels({ plain: page(403) }), 'https elite'],
  ['HTTP/1.0', () => changes(it => it.replace('HTTP/1.1', 'HTTP/1.0')), 'http elite'],
  ['http, length not said', () => changes(unmeasured), 'http elite'],
  ['http, chunks of 7', () => http({ change: chunked(7) }), 'http elite'],
  ['http, one chunk', () => http({ change: chunked(1_000_000) }), 'http elite'],
  ['http, byte by byte', () => http({ isSlow: true }), 'http elite'],
  [
    'http, says yes to CONNECT and sends a page',
    () => http({ tunnel: UNKNOWN_PAGE }),
    'http elite',
  ],
  ['socks4', () => socks([4]), 'socks4 elite'],
  ['socks5', () => socks([5]), 'socks5 elite'],
  ['socks4 and socks5', () => socks([4, 5]), 'socks5 elite'],
  ['socks4, byte by byte', () => socks([4], { isSlow: true }), 'socks4 elite'],
  ['socks5, byte by byte', () => socks([5], { isSlow: true }), 'socks5 elite'],
  ['socks5, replies with a name', () => socks([5], { reply: SOCKS5_BY_NAME }), 'socks5 elite'],
  ['socks5, replies with IPv6', () => socks([5], { reply: SOCKS5_BY_IPV6 }), 'socks5 elite'],

  ['http that exits from our address', () => http({ exit: US }), 'http transparent by peer'],
  ['CONNECT from our address', () => tunnels({ tunnelExit: US }), 'https transparent by peer'],
  ['socks5 from our address', () => socks([5], { exit: US }), 'socks5 transparent by peer'],
  [
    'X-Forwarded-For',
    () => adds('Via: 1.1 x', `X-Forwarded-For: 10.0.0.1, ${US}`),
    'http transparent by X-Forwarded-For',
  ],
  [
    'Forwarded, quoted',
    () => adds(`Forwarded: for="${US}:1234";proto=http`),
    'http transparent by Forwarded',
  ],
  [
    'Forwarded, IPv4 in IPv6',
    () => adds('Forwarded: for="[::ffff:7f00:1]:80"'),
    'http transparent by Forwarded',
  ],
  [
    'an address that looks like ours',
    () => adds('X-Forwarded-For: 127.0.0.11'),
    'http anonymous by X-Forwarded-For',
  ],
  ['Via', () => tunnels({ add: ['Via: 1.1 squid'] }), 'https anonymous by Via'],
  ['an unknown header', () => adds('X-Something-New: abc'), 'http anonymous by X-Something-New'],
  [
    'another User-Agent',
    () => edits(head => head.replace(/User-Agent: .*/, 'User-Agent: x')),
    'http anonymous by User-Agent',
  ],
  [
    'no User-Agent',
    () => edits(head => head.replace(/User-Agent: .*\r\n/, '')),
    'http anonymous by User-Agent',
  ],
  [
    'another Connection',
    () => edits(head => head.replace('Connection: close', 'Connection: keep-alive')),
    'http elite',
  ],
]

export const LIARS: readonly Row[] = [
  ['407', () => http({ plain: page(407), tunnel: page(407) }), 'credentials'],
  ['socks5 with a password', () => leaves([[5, 2]]), 'credentials'],
  ['socks5 without a method for us', () => leaves([[5, 255]]), 'credentials'],
  ['socks4 that asks for a user', () => leaves([[0, 93, ...NO_MORE]]), 'credentials'],
  ['socks5 without a target', () => leaves([GREETED, [5, 5, 0, 1, ...NO_MORE]]), 'proxy error'],
  ['socks4 without a target', () => leaves([[0, 91, ...NO_MORE]]), 'proxy error'],
  ['does not know the name of the judge', () => tunnels({ plain: page(502) }), 'proxy error'],
  ['denies the judge', () => http({ plain: page(403), tunnel: page(403) }), 'not a proxy'],
  ['takes the judge for itself', () => tunnels({ plain: page(200, 'me') }), 'not the judge'],

  [
    'hides its exit address',
    () => changes(it => it.replace(/"peer":"[^"]*"/, '"peer":"127.5.0.8"')),
    'forged',
  ],
  [
    'hides a header',
    () => http({ add: ['Via: x'], change: text(it => unmeasured(it).replace(',["Via","x"]', '')) }),
    'forged',
  ],
  ['adds a script', () => changes(it => `${unmeasured(it)}<script>`), 'altered'],
  [
    'adds a script, and to its length',
    () =>
      http({
        change: text(it =>
          `${it}<script>`.replace(
            /(Content-Length: )(\d+)/,
            (_, name, size) => `${name}${Number(size) + 8}`,
          ),
        ),
      }),
    'altered',
  ],
  ['adds bytes after the end', () => changes(it => `${it}<script>`), 'too long'],
  [
    'breaks chunks',
    () =>
      http({
        change: text(it =>
          chunked(9)(Buffer.from(it, 'latin1')).toString('latin1').replaceAll(';x=y', 'z'),
        ),
      }),
    'altered',
  ],
  ['cuts the answer off', () => http({ change: answer => answer.subarray(0, -9) }), 'closed'],
  ['any page', () => says(UNKNOWN_PAGE), 'not the judge'],
  [
    'a page of another kind',
    () => says(page(200, 'a\n'.repeat(9999), 'Content-Type: text/html\r\n')),
    'not the judge',
  ],
  ['an empty page', () => says(page(200)), 'not the judge'],
  ['a redirect', () => says(page(302, '', 'Location: http://login.example/\r\n')), 'not the judge'],
  ['a web server', () => says(page(404, 'no such page')), 'not a proxy'],
  ['a page that never ends', () => pours('HTTP/1.1 200 OK\r\n\r\n', 'x'), 'not the judge'],
  ['a head that never ends', () => pours('HTTP/1.1 200 OK\r\n', 'X-Fill: y\r\n'), 'too long'],
  ['a chunk that never ends', () => pours(`${CHUNKED}fffffff\r\n`, 'x'), 'not the judge'],
  ['the line of a chunk that never ends', () => pours(CHUNKED, '1'), 'altered'],
  ['an invalid status line', () => says('HTTP/1.1 OK\r\n\r\n'), 'not a proxy'],
  [
    'echo',
    () => client => void client.on('data', (bytes: Buffer) => client.write(bytes)),
    'not a proxy',
  ],
  ['mail', () => client => void client.write('220 mail ready\r\n'), 'not a proxy'],
  ['SSH', () => client => void client.write('SSH-2.0-x\r\n'), 'not a proxy'],
  ['all messages of socks5 at once', () => leaves([[5, 0, 5, 0, 0, 1, ...NO_MORE]]), 'not a proxy'],
  [
    'socks5 and an answer before the request',
    () => leaves([GREETED, [...CONNECTED, ...Buffer.from(UNKNOWN_PAGE)]]),
    'not a proxy',
  ],
  [
    'socks5 with an unknown address',
    () => leaves([GREETED, [5, 0, 0, 9, 9, 9, 9, 9, 9, 9]]),
    'not a proxy',
  ],
  ['socks4 with an unknown reply', () => leaves([[0, 1, ...NO_MORE]]), 'not a proxy'],
  ['forwards plainly to the judge', ({ judgePort }) => forwards(judgePort), 'forwarder'],
  ['TLS with a certificate of its own', ({ middle }) => tunnels({ middle }), 'intercepted'],
  [
    'TLS with a certificate of another name',
    ({ otherName }) => tunnels({ middle: otherName }),
    'intercepted',
  ],
  ['changes bytes of TLS', () => tunnels({ spoils: true }), 'altered'],
  [
    'CONNECT only, and TLS of its own',
    ({ middle }) => tunnels({ plain: page(405), middle }),
    'intercepted',
  ],
]

/** Each point at which it hangs up; all are `closed`. */
export const LEAVING: readonly (readonly [where: string, behave: Behaviour])[] = [
  ['at once', client => void client.end()],
  ['at the first bytes', leaves([''])],
  ['in a status line', says('HTTP/1.1 2')],
  ['in a head', says('HTTP/1.1 200 OK\r\nContent-Le')],
  ['before a body', says('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')],
  ['before a chunk', says(CHUNKED)],
  ['in the greeting of socks5', leaves([[5]])],
  ['after the greeting of socks5', leaves([[5, 0]])],
  ['in the reply of socks5', leaves([GREETED, [5, 0, 0]])],
  ['in the address of socks5', leaves([GREETED, [5, 0, 0, 3, 200, 1]])],
  ['after the reply of socks5', leaves([GREETED, CONNECTED])],
  ['in the reply of socks4', leaves([[0]])],
  ['later in the reply of socks4', leaves([[0, 90, 0]])],
  ['after the reply of socks4', leaves([[0, 90, ...NO_MORE]])],
]

/** Each point at which it does nothing more, for a client of a type. */
export const HANGING: readonly (readonly [where: string, behave: Behaviour, type: ProxyType])[] = [
  ['at once', () => {}, 'http'],
  ['in a status line', says('HTTP/1.1 2', 'hangs'), 'http'],
  ['after a head that says yes', says('HTTP/1.1 200 OK\r\n\r\n', 'hangs'), 'http'],
  ['in a body', says('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1', 'hangs'), 'http'],
  ['in the answer to CONNECT', says('HTTP/1.1 200 OK\r\n', 'hangs'), 'https'],
  ['after the answer to CONNECT', says('HTTP/1.1 200 OK\r\n\r\n', 'hangs'), 'https'],
  ['in the greeting of socks5', leaves([[5]], 'hangs'), 'socks5'],
  ['after the greeting of socks5', leaves([[5, 0]], 'hangs'), 'socks5'],
  ['in the reply of socks5', leaves([GREETED, [5, 0, 0, 3, 200]], 'hangs'), 'socks5'],
  ['after the reply of socks5', leaves([GREETED, CONNECTED], 'hangs'), 'socks5'],
  ['in the reply of socks4', leaves([[0, 90, 0]], 'hangs'), 'socks4'],
  ['after the reply of socks4', leaves([[0, 90, ...NO_MORE]], 'hangs'), 'socks4'],
]
