/**
 * Every setting of the command line: accepted and rejected values, the message, its default,
 * and that flags win over the environment (contract C).
 */
import { describe, expect, test } from 'bun:test'
import { BlockList } from 'node:net'
import type { Environment } from '../../src/config/environment.ts'
import {
  environmentNameOf,
  flagOf,
  readSettings,
  SETTINGS,
  type SettingName,
} from '../../src/config/settings.ts'
import { CommandError } from '../../src/lib/errors.ts'

/**
 * The default of a setting; accepted texts with their values (a list: each text is its own value),
 * rejected texts, and the values that the message names.
 */
type Case = readonly [
  fallback: unknown,
  accepted: readonly string[] | { readonly [text: string]: unknown },
  refused?: readonly string[],
  expected?: string,
]

const DAY = 86_400_000
const [K, N40] = ['k'.repeat(256), 'a'.repeat(40)]

const words = (texts: string): string[] => texts.split(' ')
/** Texts that are their own values, beside others. */
const same = (texts: readonly string[]) => Object.fromEntries(texts.map(text => [text, text]))
const tcp = (hostname: string, port: number) => ({ kind: 'tcp', hostname, port })
const unix = (path: string) => ({ kind: 'unix', path })
const origins = (...list: string[]) => ({ kind: 'some', list })
const until = (...utc: Parameters<typeof Date.UTC>) => ({ kind: 'at', ms: Date.UTC(...utc) })

const NOT_ON = ['2', '-1', 'y', 'enabled', ' 1', 'constructor', '__proto__']
const [ON, OFF] = [words('1 true TRUE yes on'), words('0 false False no off')]
const RANGES: Case = [
  undefined,
  [], // see "a list of trusted ranges" below
  [
    ...words('localhost 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/ 10.0.0.0/8/8 10.0.0.0/+8 10.0.0/8 /8'),
    ...words('::1/129 [::1] 10.0.0.0/8, 10.0.0.0/8;10.0.0.1 10.0.0.0/8,,10.0.0.1'),
    '10.0.0.0/255.0.0.0',
  ],
  'a comma-separated list of addresses or CIDR ranges, such as 10.0.0.0/8,::1',
]
const SWITCHED = Object.fromEntries([...ON, ...OFF].map(text => [text, ON.includes(text)]))
const SWITCH: Case = [false, SWITCHED, NOT_ON, '1 or 0']

const durationCase = (fallback: number): Case => [
  fallback,
  {
    ...{ '90s': 90_000, '15m': 900_000, '24h': DAY, '7d': 7 * DAY, '2w': 14 * DAY },
    ...{ '500ms': 500, '0s': 0 },
  },
  ['7', '-1s', '1.5h', '1 h', '1H', '1h30m', 'forever', 'never', '1000000000s'],
  'a duration such as 90s, 15m, 24h or 30d',
]

const LIMIT: Case = [
  undefined,
  { '1': 1, '34560': 34_560, '999999999999': 999_999_999_999, unlimited: null },
  ['0', '01', '-1', '+1', '1.5', '1e3', '0x10', ' 1', 'Unlimited', '1000000000000'],
  'an integer of at least 1, or unlimited',
]

/** The URL of a database; the message does not repeat a wrong one. */
const DATABASE: Case = [
  undefined,
  [
    'postgres://10.0.0.1/proxylist',
    'postgresql://proxylist:secret@db.example.com:5432/proxylist?sslmode=verify-full',
    'postgres:///proxylist?path=/run/postgresql',
  ],
  [
    ...['db.example.com', 'mysql://10.0.0.1/x', 'postgres://10.0.0.1', 'postgres:///x'],
    // Parts of a password that would be a host, a port or a name of a database.
    ...['postgres://u:a/b@h/x', 'postgres://u:1/b@h/x', 'postgres://u:1?b@h/x'],
    ...['postgres://u:1#b@h/x', 'postgres://u:1/b?c@h/x', 'postgres://u:1/b#c@h/x'],
    ...['postgres://u:5%zz@h/x', ' ', 'postgres://u:a%00b@h/x', 'postgres://u:p@h:0/x'],
  ],
  'a URL such as postgres://USER:PASSWORD@HOST:5432/DATABASE with a host and a database, ' +
    'and / ? # @ % in its parts percent-encoded',
]

const ADDRESS = 'HOST:PORT, :PORT or unix:/PATH'

const FILE: Case = [undefined, ['judge.pem', '/etc/judge/key.pem']]
const TCP = {
  ':80': tcp('::', 80),
  '127.0.0.1:0': tcp('127.0.0.1', 0),
  '[::1]:443': tcp('::1', 443),
}
const NOT_TCP = ['unix:/run/judge.sock', '80', 'localhost', ':65536', 'a b:80', ':']

const LINK: Case = [
  undefined,
  ['https://example.com/keys?a=b', 'HTTP://example.com', 'mailto:ops@example.com?subject=key'],
  [
    ...['example.com', 'javascript:alert(1)', 'data:text/html,x', '/keys', '//example.com'],
    ...['https://', 'https:///x', 'mailto:', 'mailto:x', ' https://example.com', 'https://a b'],
  ],
  'a URL of http, https or mailto',
]

/** Exhaustive: a setting without a case does not compile. */
const CASES: { [name in SettingName]: Case } = {
  data: ['./data', ['/var/lib/proxylist', 'data dir']],
  listen: [
    tcp('127.0.0.1', 8080),
    {
      '127.0.0.1:8080': tcp('127.0.0.1', 8080),
      '0.0.0.0:80': tcp('0.0.0.0', 80),
      'localhost:0': tcp('localhost', 0),
      '[::1]:65535': tcp('::1', 65535),
      ':8080': tcp('::', 8080),
      'unix:/run/proxylist.sock': unix('/run/proxylist.sock'),
      'unix:relative.sock': unix('relative.sock'),
    },
    [
      ...['8080', ':', 'localhost', 'localhost:', 'localhost:http', 'localhost:65536'],
      ...['localhost:-1', 'localhost:0x50', '::1:8080', '[::1]', '[localhost]:80', 'local host:80'],
      ...['http://localhost:80', 'unix:'],
    ],
    ADDRESS,
  ],
  socketMode: [
    '660',
    words('600 660 666'),
    ['777', '640', '0660', 'rw', ' 660'],
    '660 or 600 or 666',
  ],
  sample: SWITCH,
  page: ['on', ['on', 'off'], ['yes', 'ON', '1'], 'on or off'],
  publicStats: ['full', words('full totals off'), words('none on FULL'), 'full or totals or off'],
  siteName: [
    'proxylist',
    ['Acme Proxies', '<b>Прокси</b> "1"', 'x'.repeat(40)],
    [' ', ' x', 'x'.repeat(41), 'a\nb'],
    'a name of up to 40 printable characters',
  ],
  contact: LINK,
  keyUrl: LINK,
  adminListen: [
    undefined,
    { '127.0.0.1:8081': tcp('127.0.0.1', 8081), 'unix:/run/admin.sock': unix('/run/admin.sock') },
    ['8081', 'http://127.0.0.1:8081', 'unix:'],
    ADDRESS,
  ],
  alertUrl: [
    undefined,
    ['https://ntfy.example.com/topic', 'http://127.0.0.1:9000/message?token=a'],
    ['ntfy.example.com', 'mailto:ops@example.com', 'https://', 'https://a b'],
    'a URL of http or https',
  ],
  metricsOpen: SWITCH,
  judge: [
    undefined,
    {
      'http://judge.example.com': new URL('http://judge.example.com'),
      'http://127.0.0.1:8090/': new URL('http://127.0.0.1:8090'),
    },
    ['judge.example.com', 'https://judge.example.com', 'http://a/b', 'http://u:p@a', 'http://'],
    'the URL of a judge, such as http://judge.example.com',
  ],
  judgeTls: [
    undefined,
    { 'https://judge.example.com:444': new URL('https://judge.example.com:444') },
    ['http://judge.example.com', 'https://203.0.113.7', 'https://[::1]', 'https://a?b'],
    'the URL of a judge by a name that its certificate has, such as https://judge.example.com',
  ],
  judgeCa: [undefined, ['ca.pem']],
  once: SWITCH,
  get: [
    'json',
    words('json ndjson csv txt'),
    words('JSON json.file xml'),
    'json or ndjson or csv or txt',
  ],
  rate: [
    20,
    { '1/s': 1, '5000/s': 5000 },
    ['0/s', '5001/s', '20', '20/m', '1.5/s', '-1/s'],
    'a rate from 1/s to 5000/s, such as 20/s',
  ],
  inFlight: [
    500,
    { '1': 1, '20000': 20_000 },
    ['0', '20001', '-1', '1e3'],
    'an integer from 1 to 20000',
  ],
  speedBytes: [
    2 ** 30,
    { '0': 0, '64MiB': 64 * 2 ** 20 },
    ['-1', '1GB'],
    'a number of bytes such as 67108864 or 64MiB',
  ],
  target: [undefined, ['google=https://www.google.com/']],
  smtpTarget: [undefined, ['mail.example.com:25']],
  ownAddress: [
    [],
    { '203.0.113.7': ['203.0.113.7'], '203.0.113.7,2001:db8::1': ['203.0.113.7', '2001:db8::1'] },
    ['localhost', '203.0.113.0/24'],
    'an IPv4 or IPv6 address',
  ],
  allowPrivate: SWITCH,
  dryRun: SWITCH,
  retain: [
    7 * DAY,
    { '1m': 60_000, '60s': 60_000, '2w': 14 * DAY },
    ['0s', '0', '59s', '59999ms', '1', 'long', '-1d', '1.5d'],
    'a duration of at least 1m, such as 24h or 7d',
  ],
  feed: [
    undefined,
    ['https://example.com/list.csv', '/a\n/b'],
    [' '],
    'a URL or the path of a file or directory',
  ],
  feeds: [undefined, ['/etc/my feeds.conf']],
  feedEvery: [
    60_000,
    { '1s': 1000, '7d': 7 * DAY },
    ['0s', '999ms', '8d', '60', 'often'],
    'a duration from 1s to 7d, such as 60s',
  ],
  geoip: [
    [],
    {
      '/a.mmdb': ['/a.mmdb'],
      '/a.mmdb\n/b.mmdb': ['/a.mmdb', '/b.mmdb'],
      '/my city.mmdb, /b.mmdb': ['/my city.mmdb', '/b.mmdb'],
    },
  ],
  cacheBytes: [
    64 * 2 ** 20,
    { '0': 0, '1000': 1000, '1KiB': 1024, '3GiB': 3 * 2 ** 30 },
    ['-1', '1.5MiB', '64MB', '64 MiB', 'MiB', '0x10'],
    'a number of bytes such as 67108864 or 64MiB',
  ],
  trustProxy: RANGES,
  exclude: RANGES,
  cors: [
    undefined,
    {
      '*': { kind: 'all' },
      'https://app.example.com': origins('https://app.example.com'),
      'http://localhost:3000, https://App.Example.com:443': {
        ...origins('http://localhost:3000', 'https://app.example.com'),
      },
      'http://[::1]:80': origins('http://[::1]'),
      'chrome-extension://AbC': origins('chrome-extension://abc'),
      'https://пример.example': origins('https://xn--e1afmkfd.example'),
    },
    [
      ...words('app.example.com https:// https://app.example.com/ https://app.example.com/path'),
      ...['https://app.example.com?a', 'https://user@app.example.com', 'https://*.example.com'],
      ...['https://app.example.com:99999', 'https://a b', 'https://a.example,', 'null'],
      ...['*,https://a.example', 'https:\\\\a.example'],
    ],
    '* or a comma-separated list of origins (scheme, host and port, without a path), such as https://app.example.com',
  ],
  errors: ['json', ['json', 'text'], ['JSON', 'xml', 'json,text'], 'json or text'],
  log: ['json', ['json', 'off'], ['text', 'on', '0'], 'json or off'],
  grace: durationCase(10_000),
  database: DATABASE,
  databaseTimeout: [
    2_000,
    { '100ms': 100, '30s': 30_000, '10m': 600_000 },
    ['0s', '99ms', '11m', '2', '-1s', 'forever'],
    'a duration from 100ms to 10m, such as 2s',
  ],
  maxLag: [
    60_000,
    { '2s': 2_000, '10m': 600_000, '1d': 86_400_000 },
    ['0s', '1s', '25h', '60', 'off'],
    'a duration from 2s to 1d, such as 60s',
  ],
  providerService: [
    'the service',
    {
      ...same(['the service', '2captcha', 'mail.example-1', 'яндекс', N40]),
      ...{ the_service: 'the service', Example: 'example' },
    },
    [
      ...[' ', ' example', 'example ', 'a,b', 'a&b', 'a"b', 'a\nb', '.a', `${N40}a`],
      '123', // an integer-like member name would move to the front of a JSON object
      ...['smtp', 'Google', 'ip', 'ip_out', 'ip out', 'timecheck'],
      ...['age', 'count'], // columns of the statistics
    ],
    'a name of lower-case letters, digits, spaces, dots or dashes that is not yet a field',
  ],
  format: [
    'auto',
    {
      ...same(words('auto txt csv json ndjson')),
      ...{ CSV: 'csv', NdJson: 'ndjson' },
    },
    ['xml', ' csv', 'jsonl'],
    'auto or txt or csv or json or ndjson',
  ],
  type: [
    undefined,
    {
      ...same(words('http https socks4 socks5')),
      ...{ SOCKS5: 'socks5', Http: 'http' },
    },
    ['socks', ' http', 'http,https'],
    'http or https or socks4 or socks5',
  ],
  map: [
    undefined,
    {
      'Where=ip': new Map([['Where', 'ip']]),
      ' a b = PORT ': new Map([['a b', 'port']]),
      '3=-': new Map([['3', '-']]),
      'a=ip,b=port\nc, d=type': new Map(Object.entries({ a: 'ip', b: 'port', 'c, d': 'type' })),
    },
    ['ip', '=ip', ' =ip', 'a=', 'a= ', 'a=ip,b', 'a=ip\nb', 'a=b=c'],
    'COLUMN=FIELD, or COLUMN=-',
  ],
  pingUnit: [undefined, ['s', 'ms'], ['sec', 'MS', 'us'], 's or ms'],
  allowEmpty: SWITCH,
  allowShrink: SWITCH,
  replace: SWITCH,
  force: SWITCH,
  progress: SWITCH,
  strict: SWITCH,
  json: SWITCH,
  plan: [
    undefined,
    ['classic', '2026', 'gold.v2_x-y', N40],
    ['Gold', 'a b', '-a', '.a', 'a/b', 'ä', `${N40}a`],
    'a name of lower-case letters, digits, dots, dashes or underscores',
  ],
  label: [
    undefined,
    ['Bob’s crawler, 2nd key', 'x'.repeat(200)],
    ['a\nb', 'a\tb', 'a\u001b[31m', 'a\u0000', 'x'.repeat(201)],
    'up to 200 printable characters',
  ],
  from: [
    undefined,
    { any: '', '192.0.2.7, 2001:db8::/32': '192.0.2.7,2001:db8::/32' },
    ['all', '192.0.2.0/33', '192.0.2.7,', 'example.com'],
    'any, or a comma-separated list of addresses or CIDR ranges, such as 10.0.0.0/8,::1',
  ],
  note: [undefined, ['owes us money'], ['a\nb', 'x'.repeat(201)], 'up to 200 printable characters'],
  expires: [
    undefined,
    {
      '30d': { kind: 'in', ms: 30 * DAY },
      never: { kind: 'never' },
      '2027-01-31T00:00:00Z': until(2027, 0, 31),
      '2027-01-31': until(2027, 0, 31),
      '2027-01-31T02:00+02:00': until(2027, 0, 31),
    },
    ['Never', '30', 'tomorrow', '2027-06-31', '31.01.2027', '2027-01-31T25:00Z'],
    'a duration such as 30d, a time such as 2027-01-31T00:00:00Z, or never',
  ],
  overlap: durationCase(DAY),
  window: SWITCH,
  day: SWITCH,
  address: [
    undefined,
    ['198.51.100.7', '2001:db8::1'],
    ['198.51.100.7:80', '198.51.100.0/24', 'localhost', '1.2.3', 'fe80::1%eth0'],
    'an IPv4 or IPv6 address',
  ],
  enabled: [undefined, ['on', 'off'], ['1', 'ON', 'true'], 'on or off'],
  key: [
    undefined,
    ['0123456789abcdef', 'pl_old-0123456789', 'tmp_0123456789ab', 'a/b+c==&d0123456789', K, '-'],
    ['demo', '0123456789abcde', 'temp_0123456789abc', `${K}k`].concat(
      ['a b', ' a', 'a\n', 'a\u0000'].map(start => `${start}0123456789abcdef`),
    ),
    '16 to 256 characters without white space, not demo and not starting with temp_',
  ],
  ttl: durationCase(DAY),
  burst: [
    undefined,
    {
      '5/5s': { requests: 5, seconds: 5 },
      '1/1s': { requests: 1, seconds: 1 },
      '2/2000ms': { requests: 2, seconds: 2 },
      '60/1m': { requests: 60, seconds: 60 },
      '1000/24h': { requests: 1000, seconds: 86_400 },
      '1/1d': { requests: 1, seconds: 86_400 },
      unlimited: null,
    },
    [
      ...['5 / 5s', '5', '5/', '/5s', '5/5', '0/5s', '05/5s', '5.5/5s', '1001/5s', '5/0s'],
      ...['5/500ms', '5/1500ms', '5/25h', '5/5s/5s'],
    ],
    'REQUESTS/DURATION such as 5/5s (up to 1000/24h), or unlimited',
  ],
  daily: LIMIT,
  subnets: LIMIT,
  clients: LIMIT,
  count: LIMIT,
  downloads: LIMIT,
  judgeListen: [tcp('::', 80), TCP, NOT_TCP, 'HOST:PORT or :PORT'],
  judgeListenTls: [undefined, TCP, NOT_TCP, 'HOST:PORT or :PORT'],
  judgeCert: FILE,
  judgeKey: FILE,
  judgeSecret: FILE,
}
const NAMES = Object.keys(SETTINGS) as SettingName[] // its keys are exactly the setting names

const byFlag = (name: SettingName, text: string | boolean): unknown =>
  readSettings([name], { [name]: text }, {})[name]
const byEnvironment = (name: SettingName, text: string, env: Environment = {}): unknown =>
  readSettings([name], {}, { ...env, [environmentNameOf(name)]: text })[name]

/** The usage error that `read` throws. */
function refusal(read: () => unknown): CommandError {
  let value: unknown
  try {
    value = read()
  } catch (error) {
    if (error instanceof CommandError) return error
    throw error
  }
  throw new Error(`nothing was rejected, but read as ${Bun.inspect(value)}`)
}

describe.each(NAMES)('the setting %s', name => {
  const [fallback, accepted, refused = [], expected = ''] = CASES[name]
  const read = Array.isArray(accepted)
    ? accepted.map(text => [text, text])
    : Object.entries(accepted)

  test('has its default', () => {
    expect(readSettings([name], {}, {})[name]).toEqual(fallback as never)
  })

  test('reads accepted values, by flag and by environment variable', () => {
    for (const [text, value] of read) {
      expect([text, byFlag(name, text)]).toEqual([text, value])
      expect([text, byEnvironment(name, text)]).toEqual([text, value])
    }
  })

  test('rejects other values as wrong usage, with the option and its allowed values', () => {
    const flag = flagOf(name).split(' ')[0]
    for (const text of refused) {
      const failure = refusal(() => byFlag(name, text))
      expect([text, failure.message]).toEqual([text, `${flag} must be ${expected}`])
      expect(failure.exitCode).toBe(2)
      const inEnvironment = refusal(() => byEnvironment(name, text))
      const variable = environmentNameOf(name)
      expect([text, inEnvironment.message]).toEqual([text, `${variable} must be ${expected}`])
    }
  })

  test('has its default when its environment variable is empty', () => {
    expect(byEnvironment(name, '')).toEqual(fallback)
  })
})

describe('settings', () => {
  test('come from the flag, even over a bad variable, else the environment, else the default', () => {
    const env = { PROXYLIST_RETAIN: 'x', PROXYLIST_DATA: '/from/environment' }
    const names = ['retain', 'data', 'grace'] as const
    expect(readSettings(names, { retain: '3d' }, env)).toEqual({
      ...{ retain: 3 * DAY, data: '/from/environment', grace: 10_000 },
    })
    const bad = () => readSettings(['retain'], { retain: 'x' }, { PROXYLIST_RETAIN: '3d' })
    expect(refusal(bad).message).toStartWith('--retain must be ')
  })

  test('turn a switch on by its flag, or off despite the environment', () => {
    expect(byFlag('sample', true)).toBe(true)
    const env = { PROXYLIST_SAMPLE: '1' }
    expect(readSettings(['sample'], { sample: false }, env).sample).toBe(false)
  })

  test('take the data directory from the flag, PROXYLIST_DATA, STATE_DIRECTORY or ./data', () => {
    const systemd = { STATE_DIRECTORY: '/var/lib/proxylist' }
    const both = { ...systemd, PROXYLIST_DATA: '/srv' }
    expect(readSettings(['data'], { data: '/flag' }, both).data).toBe('/flag')
    expect(readSettings(['data'], {}, both).data).toBe('/srv')
    expect(readSettings(['data'], {}, systemd).data).toBe('/var/lib/proxylist')
    expect(readSettings(['data'], {}, { STATE_DIRECTORY: '' }).data).toBe('./data')
    const several = { STATE_DIRECTORY: '/var/lib/a:/var/lib/b' }
    expect(readSettings(['data'], {}, several).data).toBe('/var/lib/a')
  })
})

describe('a setting', () => {
  test('has the variable PROXYLIST_ (judge: PROXYLIST_JUDGE_) and its flag in capitals', () => {
    expect(environmentNameOf('data')).toBe('PROXYLIST_DATA')
    expect(environmentNameOf('trustProxy')).toBe('PROXYLIST_TRUST_PROXY')
    for (const name of NAMES) {
      const flag = flagOf(name).split(' ', 1)[0] ?? ''
      const variable = flag.slice(2).toUpperCase().replaceAll('-', '_')
      const ofJudge = 'flag' in SETTINGS[name] ? 'JUDGE_' : ''
      expect(environmentNameOf(name)).toBe(`PROXYLIST_${ofJudge}${variable}`)
    }
  })

  test('has a sentence of help', () => {
    for (const name of NAMES) expect(SETTINGS[name].help.length).toBeGreaterThan(8)
  })
})

describe('a list of trusted ranges', () => {
  const ranges = [
    ['10.0.0.0/8', ['10.0.0.0', '10.255.255.255'], ['9.255.255.255', '11.0.0.0', '::1']],
    ['10.1.2.3', ['10.1.2.3'], ['10.1.2.2', '10.1.2.4']],
    ['10.1.2.3/24', ['10.1.2.0', '10.1.2.255'], ['10.1.3.0']],
    ['192.0.2.4/31', ['192.0.2.4', '192.0.2.5'], ['192.0.2.3', '192.0.2.6']],
    ['0.0.0.0/0', ['1.2.3.4'], ['::1']],
    ['::1', ['::1'], ['::2', '0.0.0.1']],
    ['2001:db8::/32', ['2001:db8:ffff::1'], ['2001:db9::', '10.0.0.1']],
    [' 10.0.0.0/8 , ::1 ', ['10.0.0.1', '::1'], ['192.0.2.1', '::2']],
  ] as const

  test.each(ranges)('%j holds %j, not %j', (text, inside, outside) => {
    for (const given of [byFlag('trustProxy', text), byEnvironment('trustProxy', text)]) {
      if (!(given instanceof BlockList)) throw new Error('the value is no BlockList')
      const holds = (ip: string) => given.check(ip, ip.includes(':') ? 'ipv6' : 'ipv4')
      expect(inside.filter(ip => !holds(ip))).toEqual([])
      expect(outside.filter(holds)).toEqual([])
    }
  })
})
