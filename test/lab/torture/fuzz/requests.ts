/**
 * The fuzzer's requests, as arbitraries of fast-check, which makes the one that fails shorter. Strings hold bytes
 * (Latin-1). Requests of the grammar are valid HTTP, and the statuses that they may get are known; others are changed
 * at random.
 */
import fc, { type Arbitrary } from 'fast-check'
import { addKeys } from '../../../support/fixtures.ts'
import { pick, randomOf } from '../../../support/random.ts'

/** One request; `statuses` are those it may get, `null` is any below 500. */
export type Case = { text: string; isHead: boolean; statuses: readonly number[] | null }

const words = (text: string): string[] => text.trim().split(/\s+/)
const bytes = (text: string): string => Buffer.from(text).toString('latin1')
const anyOf = <T>(items: readonly T[]): Arbitrary<T> => fc.constantFrom(...items)

// Keys consist of five letters that form such a sequence nowhere else.

const KINDS = ['free', 'limited', 'temp', 'unknown'] as const
type Kind = (typeof KINDS)[number]
export type Keys = { readonly [kind in Kind]: readonly string[] }

export function keysOf(seed: number): Keys {
  const random = randomOf(seed, 'keys')
  const letters = (length: number): string =>
    Array.from({ length }, () => pick(random, [...'QXZJV'])).join('')
  const odd = `${letters(11)}"${letters(11)}\\&+%41=${letters(11)}?#/${letters(11)}é;`
  return {
    free: [`pl_${letters(32)}`, letters(16), letters(200), odd],
    limited: [`pl_${letters(32)}`, `pl_${letters(32)}`],
    temp: Array.from({ length: 20 }, () => `temp_${letters(32)}`),
    unknown: [`pl_${letters(32)}`, `temp_${letters(32)}`, letters(1000), '__proto__'],
  }
}

const DAY_MS = 86_400_000

/** Adds the plans and all keys but the unknown ones to a data directory. */
export function addFuzzKeys(data: string, keys: Keys, nowMs: number): void {
  const plans = { free: 'unlimited', limited: 'classic', temp: null }
  const added = (['free', 'limited', 'temp'] as const).flatMap(kind =>
    keys[kind].map(key => ({
      ...{ key, label: kind, plan: plans[kind] },
      expiresAt: kind === 'temp' ? nowMs + DAY_MS : null,
    })),
  )
  addKeys(data, { unlimited: {} }, added, nowMs)
}

const REFLECTION = /[qxzjv]{10}/i
/** Text with its escapes of URLs and JSON undone once. */
const unescaped = (text: string): string =>
  text.replace(/%([0-9a-f]{2})|\\u00([0-9a-f]{2})/gi, (_, url, json) =>
    String.fromCharCode(Number.parseInt(url ?? json, 16)),
  )
/** Whether the text holds ten characters of a key, in any case, plain or escaped. */
export const isReflected = (text: string): boolean =>
  REFLECTION.test(text) || (/%|\\u/.test(text) && REFLECTION.test(unescaped(text)))

/** Every byte of the text percent-encoded. */
const escaped = (text: string): string =>
  [...Buffer.from(text)].map(byte => `%${byte.toString(16).padStart(2, '0')}`).join('')

/** What a request carries a key in: a piece of its query, and header fields. */
type Credential = readonly [piece: string, ...headers: string[]]

/** The ways in which a key may be given. */
function allowed(key: string): Credential[] {
  const plain = encodeURIComponent(key)
  const bearer = `Authorization: Bearer ${bytes(key)}`
  return [
    ...[`key=${plain}`, `%6b%65%79=${plain}`, `key=${escaped(key)}`].map(
      (piece): Credential => [piece],
    ),
    ...[bearer, bearer.replace('Bearer ', 'bearer   ')].map((field): Credential => ['', field]),
    [`key=${plain}`, bearer],
    [`key=${plain}`, 'Authorization: Basic eDp5'],
  ]
}

/** A key in a wrong place, or one of several. */
function misplaced(key: string, other: string): Credential[] {
  const plain = encodeURIComponent(key)
  const bearer = `Authorization: Bearer ${bytes(key)}`
  const pieces = [
    ...[`key=${plain}&key=${plain}`, `key=${plain}&key=`, `key=${plain}&${plain}=1`],
    ...[`key=${plain}&key=${encodeURIComponent(other)}`, `key=${plain}&${escaped(key)}`],
    ...[`key=${plain.slice(0, 9)}&${plain.slice(9)}=1`, `KEY=${plain}`, `key[]=${plain}`],
    ...[`key==${plain}`, `key=%20${plain}+`, `key=${plain}%00`, `key=${plain}?key=${plain}`],
    ...[`key=${plain}#${plain}`, `key=${plain};type=http`, `type=${plain}&key=${plain}`],
    `key=demo&city=${plain}`,
  ]
  const fields = [bearer.replace('Bearer ', 'Bearer'), bearer.replace('Bearer', 'Token')]
  return [
    ...pieces.map((piece): Credential => [piece]),
    ...[...fields, `${bearer} x`, `${bearer}, ${key}`].map((field): Credential => ['', field]),
    ['', bearer, bearer],
    ['', `Cookie: key=${plain}`, `Referer: http://a/?key=${plain}`],
    ['', `User-Agent: ${plain}`, `X-Request-Id: ${plain}`, `X-${plain.replace(/\W/g, '')}: 1`],
    [`get=${plain}&fields=${plain}`, bearer],
    ['key=', bearer],
  ]
}

// Values of the parameters: accepted ones, narrowly refused ones, and hostile ones.

type Values = { readonly [name: string]: readonly string[] }

const INTEGERS = words('0 1 30 999 000123 999999999999999 %30').concat('')
const FLAGS = ['1', '0', '%31', '']
const FILTERS: Values = {
  type: words('http socks5 HTTP,Socks4 http%2Chttps ,,http, %73ocks5 %20http,+https'),
  anon: words('elite anonymous,elite transparent,, ELITE'),
  ping: INTEGERS,
  speed: INTEGERS,
  time: words('600 900 000600 7200 86400').concat(''),
  works: words('0 100 090 7').concat(''),
  country: words('de DE,fr xx de%20,+fr us,US,uS'),
  city: ['Berlin', bytes('Берлин'), encodeURIComponent('Берлин'), 'New+York', "O'"],
  port: words('1 65535 08080 1080').concat(''),
  ip: words('203.0.113.1:1080 0.0.0.0:1 255.255.255.255:65535 203.0.113.1%3A1080').concat(''),
  service: words('smtp the_service the+service google,TELEGRAM avito,avito The%20Service'),
  sort: words('checked ping speed works random %72andom').concat(''),
  count: words('0 1 3 30 999999999999999').concat(''),
  lang: words('ru en').concat(''),
}
const TXT: Values = { type_prefix: FLAGS }
const RECORDS: Values = {
  fields: words('ip ip,port IP,type,works the_service,smtp timecheck,ping,speed,city ,'),
  split_ip: FLAGS,
}
const JSON_ONLY: Values = { format: words('array object').concat(''), wrap: FLAGS, pretty: FLAGS }

/** What `get` may say, the parameters that go with it, and those that it ignores. */
const FORMS: readonly { get: readonly string[]; own: Values; ignored: readonly string[] }[] = [
  { get: ['', 'get=', 'get=txt', 'get=txt.file'], own: TXT, ignored: Object.keys(JSON_ONLY) },
  { get: ['get=JSON', 'get=%6Ason'], own: { ...RECORDS, ...JSON_ONLY }, ignored: ['type_prefix'] },
  { get: ['get=csv.file', 'get=cs%76'], own: RECORDS, ignored: Object.keys(JSON_ONLY) },
  { get: ['get=ndjson'], own: RECORDS, ignored: ['type_prefix', 'wrap'] },
]

/** Percent sequences that are not UTF-8. */
const BROKEN = words('% %z %zz %E0%A4%A %C0%80 %ED%A0%80 %FF%FE %F4%90%80%80')
const NO_INTEGERS = [
  ...words(`
    -1 -0 %2B5 %205 5%20 5.0 1e3 0x10 0b1 5_0 1,000 %D9%A5 9999999999999999 NaN Infinity 5%0a 5%00
    5; 1/1 null true [] 5%EF%BB%BF 1'%20or%201=1`),
  ...[bytes('５'), ...BROKEN],
]
const NO_LIST = [...words('htp http;socks5 http|socks5 [http] http%00 all * http%252C'), ...BROKEN]
const NO_WORD = [...words('RU de ru,en ru%00 2 yes null %01 toString'), ...BROKEN]
const BAD: Values = {
  type: NO_LIST,
  anon: [...NO_LIST, 'eliteelite'],
  ping: NO_INTEGERS,
  speed: NO_INTEGERS,
  time: NO_INTEGERS,
  works: [...NO_INTEGERS, '101', '999'],
  country: [...words('d deu d1 %D0%B4%D0%B5 de;fr d%00 __'), ...BROKEN],
  cm: [...NO_WORD, 'Except', 'include,except'],
  city: [...words('%00 a%0Ab %7F %1b[31m Berlin,a%0d%0ab'), 'x'.repeat(201), ...BROKEN],
  port: [...NO_INTEGERS, '0', '65536'],
  ip: [...words('1.2.3.4 1.2.3.4:0 256.1.1.1:80 1.2.3:80 %5B::1%5D:80 1.2.3.4:080'), ...BROKEN],
  service: [...NO_LIST, 'the', 'the__service'],
  sort: [...NO_WORD, 'Ping', 'ping,speed', '-ping'],
  count: NO_INTEGERS,
  lang: NO_WORD,
  get: [...NO_WORD, ...words('xml json. json.file.gz jsonp csv.gz')],
}
const STRANGE_NAMES = words(`
  contry Type typ offset token api_key callback __proto__ constructor toString type[] type.x type%00
  %20 %20type %3Cscript%3E %ff % %D0%B4 city%0d%0aSet-Cookie:x %22 { $where ..%2f..`)
const HOSTILE = [
  ...words(`
    %00 %0d%0aX:1 %1b %7f %u0041 %25%25 %2500 %EF%BF%BF %E2%80%AE ?a=b #frag a;b ; = == %26key%3Dx
    %23 " | ^ {} <script> $%7B7*7%7D {{7*7}} %s%n%d ../../etc/passwd a%27%20union%20select * __proto__
    null NaN [object%20Object] 1e999`),
  ...[...BROKEN, '\xd0', '\xff\xfe', '\xc0\x80', '\\', "');drop%20table%20keys;--"],
  ...['a'.repeat(300), '%41'.repeat(200), ','.repeat(500), '('.repeat(300), '9'.repeat(2000)],
  ...['%F0%9F%98%80'.repeat(60), 'k'.repeat(7000), 'b'.repeat(9000)],
]

/** Header fields that must not change the answer; a request with If-None-Match may get 304. */
const HARMLESS = [
  ...[
    'Accept-Encoding: gzip',
    'Accept-Encoding: zstd, gzip;q=0.5',
    'Accept-Encoding: gzip;q=x,,;=',
  ],
  ...['Accept-Encoding: identity', 'Accept-Encoding: *;q=0', 'X-Forwarded-For: ,;\xff,::%1'],
  ...[`Accept-Encoding: ${'gzip,'.repeat(100)}`, `X-Forwarded-For: ${'1.1.1.1,'.repeat(200)}`],
  ...['Range: bytes=0-1', 'If-None-Match: *', 'Cookie: a=b; __proto__=1', 'User-Agent: \x80\xff'],
  ...['X-Request-Id: 1', 'Forwarded: for=_x', 'Origin: null', 'X: \t', `X: ${'x'.repeat(2000)}`],
  ...['Content-Type: application/json', 'Content-Length: 0', 'TE: trailers', 'Accept: */*;q=\\'],
]

// Requests of the grammar.

const LIMITED = [200, 404, 429]
/** The statuses of a valid and of an invalid query with each kind of key. */
const STATUSES = {
  free: { good: [200, 404], bad: [400] },
  limited: { good: LIMITED, bad: [400] },
  temp: { good: LIMITED, bad: [400] },
  demo: { good: LIMITED, bad: [400] },
  unknown: { good: [403], bad: [403] },
  none: { good: [400], bad: [400] },
} as const

type Who = { kind: keyof typeof STATUSES; key: string }
const whoOf = (keys: Keys): Arbitrary<Who> => {
  const of = (kind: Kind): Arbitrary<Who> => anyOf(keys[kind]).map(key => ({ kind, key }))
  return fc.oneof(
    { weight: 30, arbitrary: of('free') },
    { weight: 4, arbitrary: of('unknown') },
    { weight: 2, arbitrary: of('limited') },
    { weight: 2, arbitrary: of('temp') },
    { weight: 2, arbitrary: fc.constant<Who>({ kind: 'demo', key: 'demo' }) },
    { weight: 1, arbitrary: fc.constant<Who>({ kind: 'none', key: '' }) },
  )
}

/** Pieces of a query for some parameters of a table. */
const someOf = (table: Values, max: number): Arbitrary<string[]> =>
  fc
    .uniqueArray(anyOf(Object.keys(table)), { maxLength: max })
    .chain(names =>
      fc.tuple(...names.map(name => anyOf(table[name] ?? ['']).map(value => `${name}=${value}`))),
    )

const goodQuery: Arbitrary<string[]> = anyOf(FORMS).chain(({ get, own, ignored }) =>
  fc
    .tuple(
      someOf(FILTERS, 4),
      someOf(own, 2),
      fc.option(fc.tuple(anyOf(ignored), anyOf(['x', 'no', '7']))),
      anyOf(get),
      anyOf(['', '', '', 'cm=include', 'country_mode=except', 'cm=%65xcept']),
    )
    .map(([filters, others, odd, form, mode]) =>
      [...filters, ...others, odd ? odd.join('=') : '', form, mode].filter(piece => piece !== ''),
    ),
)

/** What makes a valid query invalid. */
const flaw: Arbitrary<string> = fc.oneof(
  {
    weight: 3,
    arbitrary: anyOf(Object.keys(BAD)).chain(name =>
      anyOf(BAD[name] ?? []).map(value => `${name}=${value}`),
    ),
  },
  { weight: 1, arbitrary: anyOf(STRANGE_NAMES).map(name => `${name}=1`) },
  { weight: 1, arbitrary: anyOf(['works=1&works=1', 'cm=include&country_mode=except']) },
)

/** The target with everything percent-encoded that would end the request line. */
const contained = (target: string): string => {
  const safe = target.replace(/[\0-\x20\x7f]/g, found => escaped(found))
  return safe.startsWith('/') ? safe : `/${safe}`
}

const textOf = (method: string, target: string, headers: readonly string[]): string =>
  `${method} ${contained(target)} HTTP/1.1\r\n${[...new Set(headers)].join('\r\n')}\r\n\r\n`

const fields = fc.array(anyOf(HARMLESS), { maxLength: 2 })
const method = fc.oneof(
  { weight: 20, arbitrary: fc.constant('GET') },
  { weight: 2, arbitrary: fc.constant('HEAD') },
  { weight: 1, arbitrary: anyOf(words('POST PUT DELETE OPTIONS PATCH')) },
)

const known = (keys: Keys): Arbitrary<Case> =>
  fc
    .tuple(whoOf(keys), goodQuery, fc.option(flaw, { freq: 2 }), fields, method, fc.nat())
    .map(([{ kind, key }, query, bad, more, verb, n]) => {
      const ways = allowed(key)
      const [piece = '', ...headers] = ways[n % ways.length] ?? []
      const all = [piece, ...query, bad ?? ''].filter(text => text !== '')
      const target = `/api${n % 5 === 0 ? '/' : ''}?${n % 2 ? all.join('&') : all.reverse().join('&')}`
      const isOther = verb !== 'GET' && verb !== 'HEAD'
      const text = textOf(verb, target, [
        ...['Host: a', ...headers, ...more],
        ...(isOther ? ['Content-Length: 0'] : []),
      ])
      const statuses = isOther ? [405] : STATUSES[kind][bad === null ? 'good' : 'bad']
      return { text, isHead: verb === 'HEAD', statuses }
    })

const PATHS = words(`
  /api /api /api /api/ //api /API /%61pi /api%00 /api;x /api// /healthz /readyz / /favicon.ico /key
  /stats /../api /api/.. /* /api/x/y`)
const HOSTS = ['a', '', 'a b/c?d#e', 'x?key=other', '[::1]:80', '\xff', 'a'.repeat(300)]

/** Parts in any combination: valid HTTP, any status below 500. */
const wild = (keys: Keys): Arbitrary<Case> => {
  const names = anyOf([...Object.keys(BAD), 'key', 'fields', 'pretty', ...STRANGE_NAMES])
  const values = anyOf([...HOSTILE, ...Object.values(FILTERS).flat()])
  const piece = fc.tuple(names, anyOf(['=', '=', '', '==', '%3D']), values).map(all => all.join(''))
  return fc
    .tuple(
      ...([whoOf(keys), whoOf(keys), fc.array(piece, { maxLength: 8 })] as const),
      ...([anyOf(['&', '&', '&&', ';', '?', '%26', '#', ',']), anyOf(PATHS)] as const),
      ...([anyOf(HOSTS), fields, fc.nat()] as const),
    )
    .map(([one, other, pieces, glue, path, host, more, n]) => {
      const ways = [...allowed(one.key), ...misplaced(one.key, other.key)]
      const [piece = '', ...fields] = ways[n % ways.length] ?? []
      const target = `${path}?${[piece, ...pieces].join(glue)}`
      const headers = [`Host: ${host}`, ...fields, ...more]
      return { text: textOf('GET', target, headers), isHead: false, statuses: null }
    })
}

/** A request of valid HTTP. */
export const validCase = (keys: Keys): Arbitrary<Case> =>
  fc.oneof({ weight: 3, arbitrary: known(keys) }, { weight: 1, arbitrary: wild(keys) })

// Bytes that are no valid HTTP, or nearly.

const ODD_LINES = [
  ...['no colon here', ': no name', 'X : space before', ' folded: yes', 'X', '\0: nul', 'X: a\0b'],
  ...['\xff\xfe: \xff', 'X\r: y', 'Host: b', 'Host', 'Host: \0', 'Content-Length: 5'],
  ...['Content-Length: -1', 'Content-Length: 0x5', 'Content-Length: 5, 6', 'Content-Length: 2000'],
  ...['Content-Length: 99999999999999999999', 'Transfer-Encoding: chunked', 'Transfer-Encoding: x'],
  ...['Transfer-Encoding:\x0bchunked', 'Expect: 100-continue', 'Expect: x', 'Upgrade: websocket'],
  ...['Upgrade: h2c', 'Connection: Upgrade', 'Connection: close', 'Range: bytes=-1,0-,-'],
  ...['Authorization: Bearer', 'Authorization: Bearer \xff\xfe', `X: ${'x'.repeat(9000)}`],
  ...[`${'X'.repeat(9000)}: x`, 'X: 1\r\n'.repeat(300).slice(0, -2)],
]
const BODIES = [
  ...[
    '',
    'hello',
    '{}',
    '5\r\nhello\r\n0\r\n\r\n',
    '0\r\n\r\n',
    'zz\r\n',
    '-1\r\n\r\n',
    '5;x=y\r\nhel',
  ],
  ...['ffffffffffffffff\r\na', '5\r\nhello0\r\n', '\0'.repeat(100), 'b'.repeat(3000)],
]
const GREETINGS = [
  ...[
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
    '\r\n\r\n\r\n',
  ],
  ...['SSH-2.0-OpenSSH_9\r\n', '\x05\x01\0', 'GET\r\n\r\n', 'GET /api\r\n\r\n', ''],
]
/** What replaces the first word, the version, or an end of line. */
const SWAPS: readonly (readonly [from: RegExp, to: string])[] = [
  ...['get', 'G', '', '\0GET', 'M-SEARCH', 'TRACE', 'CONNECT', 'A'.repeat(5000)].map(
    to => [/^\w+/, to] as const,
  ),
  ...['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.1\0', 'HTTP', ''].map(
    to => [/HTTP\/1\.1/, to] as const,
  ),
  ...['\n', '\r', '\r\r\n', '\0\r\n'].map(to => [/\r\n/g, to] as const),
  ...['http://example.org/', '//', '', '/../../', ' '].map(to => [/\//, to] as const),
]

type Edit = { at: number; removed: number; added: string }
const anyEdit: Arbitrary<Edit> = fc.record({
  at: fc.nat({ max: 2000 }),
  removed: fc.nat({ max: 8 }),
  added: fc.oneof(
    fc.string({ unit: fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code)) }),
    anyOf([...'%&=?#;:/\\ \r\n\t\0"\'+,.@[]{}\x7f\x80\xc0\xff']),
  ),
})
const edited = (text: string, edits: readonly Edit[]): string =>
  edits.reduce((all, { at, removed, added }) => {
    const from = at % (all.length + 1)
    return all.slice(0, from) + added + all.slice(from + removed)
  }, text)

/** The bytes of one connection. */
export const anyBytes = (keys: Keys): Arbitrary<string> => {
  const odd = fc
    .tuple(
      ...([validCase(keys), fc.array(anyOf(SWAPS), { maxLength: 2 })] as const),
      ...([fc.array(anyOf(ODD_LINES), { maxLength: 3 }), anyOf(BODIES)] as const),
    )
    .map(([{ text }, swaps, lines, body]) => {
      const withLines = [text.slice(0, -4), ...lines].join('\r\n')
      const swapped = swaps.reduce(
        (all, [from, to]) => all.replace(from, to),
        `${withLines}\r\n\r\n`,
      )
      return swapped + body
    })
  return fc
    .tuple(
      anyOf(GREETINGS),
      fc.array(odd, { minLength: 1, maxLength: 5 }),
      fc.array(anyEdit, { maxLength: 5 }),
    )
    .map(([greeting, requests, edits]) => edited(greeting + requests.join(''), edits))
}
