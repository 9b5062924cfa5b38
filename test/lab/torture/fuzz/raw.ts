/**
 * The fuzzer's requests that are invalid HTTP, or nearly so, as the bytes of a connection:
 * request lines, header noise, contradictory lengths, chunks, several requests, truncated ones.
 */
import { between, pick } from '../../../support/random.ts'
import { bytesOf, type Case, makeCase, mutate } from './grammar.ts'
import type { Keys } from './keys.ts'
import { words } from './values.ts'

type Random = () => number

const METHODS = [
  ...words('GET GET GET HEAD POST OPTIONS TRACE CONNECT PROPFIND FETCH get G M-SEARCH'),
  ...['', 'GET ', '\0GET', 'G\x00ET', 'GE\r\nT'],
  'A'.repeat(5000),
  '\x16\x03\x01',
]
const VERSIONS = [
  ...['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/3', 'http/1.1'],
  ...['HTTP/1.1 ', 'HTTP/11', 'HTTP/1.1\0', 'HTTP', '', 'ICY/1.0', 'HTTP/1.1 HTTP/1.1', 'HTTP/9.9'],
]
const ENDS = ['\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\n\r', '\0\r\n']
const FIELDS = [
  ...[
    'no colon here',
    ': no name',
    ' : ',
    'X : space before',
    ' folded: yes',
    '\tfolded',
    'X:',
    'X',
  ],
  ...['\0: nul', 'X: a\0b', 'X: \x01\x02', '\xff\xfe: \xff', 'X\r: y', 'é: é', '(): x', 'X: \x7f'],
  ...[
    'Host: b',
    'Host',
    'Host: a:99999',
    'Host: \0',
    'Host: [',
    'host: a',
    'HOST:a',
    `Host: ${'h'.repeat(900)}`,
  ],
  ...['Content-Length: 5', 'Content-Length: -1', 'Content-Length: 0x5', 'Content-Length: 5, 6'],
  ...['Content-Length: 99999999999999999999', 'Content-Length: 2000', 'Content-Length: +1'],
  ...['Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: x'],
  ...['Transfer-Encoding:\x0bchunked', 'Transfer-Encoding: identity', 'Trailer: Host'],
  ...[
    'Expect: 100-continue',
    'Expect: x',
    'Upgrade: websocket',
    'Upgrade: h2c',
    'Connection: Upgrade',
  ],
  ...[
    'Connection: close',
    'Connection: keep-alive, close',
    'Connection: Host',
    'HTTP2-Settings: AAMAAABk',
  ],
  ...['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version: 13', 'Proxy: x'],
  ...['Accept-Encoding: \0', `Accept-Encoding: ${'zstd;q=1,'.repeat(300)}`, 'Range: bytes=-1,0-,-'],
  ...['Authorization: Bearer', 'Authorization: Bearer \xff\xfe', 'Authorization: \0'],
  `X: ${'x'.repeat(9000)}`,
  `${'X'.repeat(9000)}: x`,
  'X: 1\r\n'.repeat(120).slice(0, -2),
  'X: 1\r\n'.repeat(300).slice(0, -2),
]
const BODIES = [
  ...[
    '',
    '',
    'hello',
    '{}',
    '5\r\nhello\r\n0\r\n\r\n',
    '0\r\n\r\n',
    'zz\r\n',
    '-1\r\n\r\n',
    '5;x=y\r\nhel',
  ],
  ...[
    'ffffffffffffffff\r\na',
    '5\r\nhello0\r\n',
    '0\r\nX: y\r\n\r\n',
    '\n',
    '5\nhello\n0\n\n',
    '\0'.repeat(100),
  ],
  'b'.repeat(3000),
]
const GREETINGS = [
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
  '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
  '\r\n\r\n\r\n',
  '\0'.repeat(50),
  'SSH-2.0-OpenSSH_9\r\n',
  '\x05\x01\0',
  '{"a":1}\n',
  'GET\r\n\r\n',
  'GET /api\r\n\r\n',
]

/** The target in the forms of RFC 9112, section 3.2, and in invalid ones. */
function formOf(random: Random, target: string): string {
  const forms = [
    target,
    target,
    target,
    `http://example.org${target}`,
    `http://a${target}`,
    `https://u:p@h:1${target}#x`,
    `//${target}`,
    target.slice(1),
    target.replace('?', ' ?'),
    `${target} x`,
    'example.org:443',
    '*',
    '',
    '?',
    `/${'a/'.repeat(4000)}`,
    `/../..${target}`,
    `${target}\0`,
  ]
  return pick(random, forms)
}

/** One request with odd parts. */
function oddRequest(random: Random, { target, headers }: Case): string {
  const end = pick(random, ENDS)
  const start = [pick(random, METHODS), formOf(random, target), pick(random, VERSIONS)].join(' ')
  const own = between(random, 0, 9) === 0 ? headers.slice(1) : headers
  const extra = Array.from({ length: between(random, 0, 3) }, () => pick(random, FIELDS))
  return `${[start, ...own, ...extra].join(end)}${end}${end}${pick(random, BODIES)}`
}

/** The bytes of one connection. */
export function makeRaw(random: Random, keys: Keys): string {
  const one = (): string => {
    const made = makeCase(random, keys)
    return random() < 0.6 ? oddRequest(random, made) : bytesOf(made)
  }
  const shapes = [
    one,
    one,
    one,
    () => one() + one(),
    () => Array.from({ length: between(random, 3, 20) }, one).join(''),
    () => pick(random, GREETINGS) + one(),
    () => {
      const whole = one()
      return whole.slice(0, between(random, 0, whole.length))
    },
  ]
  const bytes = pick(random, shapes)()
  return random() < 0.5 ? bytes : mutate(random, bytes, one())
}
