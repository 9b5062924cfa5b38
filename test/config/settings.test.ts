/**
 * Every setting of the command line: what it accepts and rejects, with the message, its default,
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

/** Accepted texts with their values, rejected texts, and what the message says is accepted. */
type Case = {
  fallback: unknown
  accepted: readonly (readonly [text: string, value: unknown])[]
  refused: readonly string[]
  expected: string
}

const DAY = 86_400_000

/** Texts that are read as they are. */
const same = (...texts: string[]): Case['accepted'] => texts.map(text => [text, text])
const words = (texts: string): string[] => texts.split(' ')
const SWITCH: Case = {
  fallback: false,
  accepted: [
    ...words('1 true TRUE yes on').map(text => [text, true] as const),
    ...words('0 false False no off').map(text => [text, false] as const),
  ],
  refused: ['2', '-1', 'y', 'enabled', ' 1', 'constructor', '__proto__'],
  expected: '1 or 0',
}

const durationCase = (fallback: number): Case => ({
  fallback,
  accepted: [
    ['90s', 90_000],
    ['15m', 900_000],
    ['24h', DAY],
    ['7d', 7 * DAY],
    ['2w', 14 * DAY],
    ['500ms', 500],
  ],
  refused: ['7', '-1s', '1.5h', '1 h', '1H', '1h30m', 'forever', '1000000000s'],
  expected: 'a duration such as 90s, 15m, 24h or 30d',
})

const LIMIT: Case = {
  fallback: undefined,
  accepted: [
    ['1', 1],
    ['34560', 34_560],
    ['999999999999', 999_999_999_999],
    ['unlimited', null],
  ],
  refused: ['0', '01', '-1', '+1', '1.5', '1e3', '0x10', ' 1', 'Unlimited', '1000000000000'],
  expected: 'an integer of at least 1, or unlimited',
}

/** The URL of a database; what is said of a wrong one does not repeat it, see below. */
const DATABASE: Case = {
  fallback: undefined,
  accepted: [
    'postgres://10.0.0.1/proxylist',
    'postgresql://proxylist:secret@db.example.com:5432/proxylist?sslmode=verify-full',
    'postgres:///proxylist?path=/run/postgresql',
  ].map(url => [url, url]),
  refused: [
    ...['db.example.com', 'mysql://10.0.0.1/x', 'postgres://10.0.0.1', 'postgres:///x'],
    // Parts of a password that would be a host, a port or a name of a database.
    ...[
      'postgres://u:a/b@h/x',
      'postgres://u:1/b@h/x',
      'postgres://u:1?b@h/x',
      'postgres://u:1#b@h/x',
    ],
    ...['postgres://u:1/b?c@h/x', 'postgres://u:1/b#c@h/x', 'postgres://u:5%zz@h/x', ' '],
    ...['postgres://u:a%00b@h/x', 'postgres://u:p@h:0/x'],
  ],
  expected:
    'a URL such as postgres://USER:PASSWORD@HOST:5432/DATABASE with a host and a database, ' +
    'and / ? # @ % in its parts percent-encoded',
}

const SERVER = {
  data: {
    fallback: './data',
    accepted: same('/var/lib/proxylist', 'data dir'),
    refused: [],
    expected: '',
  },
  listen: {
    fallback: { kind: 'tcp', hostname: '127.0.0.1', port: 8080 },
    accepted: [
      ['127.0.0.1:8080', { kind: 'tcp', hostname: '127.0.0.1', port: 8080 }],
      ['0.0.0.0:80', { kind: 'tcp', hostname: '0.0.0.0', port: 80 }],
      ['localhost:0', { kind: 'tcp', hostname: 'localhost', port: 0 }],
      ['[::1]:65535', { kind: 'tcp', hostname: '::1', port: 65535 }],
      [':8080', { kind: 'tcp', hostname: '::', port: 8080 }],
      ['unix:/run/proxylist.sock', { kind: 'unix', path: '/run/proxylist.sock' }],
      ['unix:relative.sock', { kind: 'unix', path: 'relative.sock' }],
    ],
    refused: [
      '8080',
      ':',
      'localhost',
      'localhost:',
      'localhost:http',
      'localhost:65536',
      'localhost:-1',
      'localhost:0x50',
      '::1:8080',
      '[::1]',
      '[localhost]:80',
      'local host:80',
      'http://localhost:80',
      'unix:',
    ],
    expected: 'HOST:PORT, :PORT or unix:/PATH',
  },
  socketMode: {
    fallback: 0o660,
    accepted: [
      ['600', 0o600],
      ['660', 0o660],
      ['0660', 0o660],
      ['666', 0o666],
    ],
    refused: ['777', '640', '66', '0o660', 'rw', '00660', '606', ' 660', '-660'],
    expected: '600, 660 or 666: who may connect is the owner, the group too, or all',
  },
  sample: SWITCH,
  page: {
    fallback: 'on',
    accepted: same('on', 'off'),
    refused: ['yes', 'ON', '1'],
    expected: 'on or off',
  },
  publicStats: {
    fallback: 'full',
    accepted: same('full', 'totals', 'off'),
    refused: ['none', 'on', 'FULL'],
    expected: 'full or totals or off',
  },
  adminListen: {
    fallback: undefined,
    accepted: [
      ['127.0.0.1:8081', { kind: 'tcp', hostname: '127.0.0.1', port: 8081 }],
      ['unix:/run/admin.sock', { kind: 'unix', path: '/run/admin.sock' }],
    ],
    refused: ['8081', 'http://127.0.0.1:8081', 'unix:'],
    expected: 'HOST:PORT, :PORT or unix:/PATH',
  },
  metricsOpen: SWITCH,
  retain: {
    fallback: 7 * DAY,
    accepted: [
      ['1m', 60_000],
      ['60s', 60_000],
      ['2w', 14 * DAY],
    ],
    refused: ['0s', '0', '59s', '59999ms', '1', 'long', '-1d', '1.5d'],
    expected: 'a duration of at least 1m, such as 24h or 7d',
  },
  feed: {
    fallback: undefined,
    accepted: same('https://example.com/list.csv', '/a\n/b'),
    refused: [' '],
    expected: 'a URL or the path of a file or directory',
  },
  feeds: {
    fallback: undefined,
    accepted: [['/etc/my feeds.conf', '/etc/my feeds.conf']],
    refused: [],
    expected: '',
  },
  feedEvery: {
    fallback: 60_000,
    accepted: [
      ['1s', 1000],
      ['7d', 7 * DAY],
    ],
    refused: ['0s', '999ms', '8d', '60', 'often'],
    expected: 'a duration from 1s to 7d, such as 60s',
  },
  due: SWITCH,
  geoip: {
    fallback: [],
    accepted: [
      ['/a.mmdb', ['/a.mmdb']],
      ['/a.mmdb\n/b.mmdb', ['/a.mmdb', '/b.mmdb']],
      ['/my city.mmdb, /b.mmdb', ['/my city.mmdb', '/b.mmdb']],
    ],
    refused: [],
    expected: '',
  },
  cacheBytes: {
    fallback: 64 * 2 ** 20,
    accepted: [
      ['0', 0],
      ['1000', 1000],
      ['1KiB', 1024],
      ['3GiB', 3 * 2 ** 30],
    ],
    refused: ['-1', '1.5MiB', '64MB', '64 MiB', 'MiB', '0x10'],
    expected: 'a number of bytes such as 67108864 or 64MiB',
  },
  trustProxy: {
    fallback: undefined,
    accepted: [], // see "lists of trusted ranges" below
    refused: [
      ...words(
        'localhost 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/ 10.0.0.0/8/8 10.0.0.0/+8 10.0.0/8 /8 ::1/129 [::1] 10.0.0.0/8, 10.0.0.0/8;10.0.0.1 10.0.0.0/8,,10.0.0.1 10.0.0.0/255.0.0.0',
      ),
    ],
    expected: 'a comma-separated list of addresses or CIDR ranges, such as 10.0.0.0/8,::1',
  },
  cors: {
    fallback: undefined,
    accepted: [
      ['*', { kind: 'all' }],
      ['https://app.example.com', { kind: 'some', list: ['https://app.example.com'] }],
      [
        'http://localhost:3000, https://App.Example.com:443',
        { kind: 'some', list: ['http://localhost:3000', 'https://app.example.com'] },
      ],
      ['http://[::1]:80', { kind: 'some', list: ['http://[::1]'] }],
      ['chrome-extension://AbC', { kind: 'some', list: ['chrome-extension://abc'] }],
      ['https://пример.example', { kind: 'some', list: ['https://xn--e1afmkfd.example'] }],
    ],
    refused: [
      'app.example.com',
      'https://',
      'https://app.example.com/',
      'https://app.example.com/path',
      'https://app.example.com?a',
      'https://user@app.example.com',
      'https://*.example.com',
      'https://app.example.com:99999',
      'https://a b',
      'https://a.example,',
      '*,https://a.example',
      'null',
      'https:\\\\a.example',
    ],
    expected:
      '* or a comma-separated list of origins (scheme, host and port, without a path), such as https://app.example.com',
  },
  errors: {
    fallback: 'json',
    accepted: same('json', 'text'),
    refused: ['JSON', 'xml', 'json,text'],
    expected: 'json or text',
  },
  log: {
    fallback: 'json',
    accepted: same('json', 'off'),
    refused: ['text', 'on', '0'],
    expected: 'json or off',
  },
  grace: durationCase(10_000),
  database: DATABASE,
  fromDatabase: DATABASE,
  databaseTimeout: {
    fallback: 2_000,
    accepted: [
      ['100ms', 100],
      ['30s', 30_000],
      ['10m', 600_000],
    ],
    refused: ['0s', '99ms', '11m', '2', '-1s', 'forever'],
    expected: 'a duration from 100ms to 10m, such as 2s',
  },
  providerService: {
    fallback: 'the service',
    accepted: [
      ['the service', 'the service'],
      ['the_service', 'the service'],
      ['Example', 'example'],
      ['2captcha', '2captcha'],
      ['mail.example-1', 'mail.example-1'],
      ['яндекс', 'яндекс'],
      ['a'.repeat(40), 'a'.repeat(40)],
    ],
    refused: [
      ' ',
      ' example',
      'example ',
      'a,b',
      'a&b',
      'a"b',
      'a\nb',
      '.a',
      '123', // an integer-like member name would move to the front of a JSON object
      'a'.repeat(41),
      'smtp',
      'Google',
      'ip',
      'ip_out',
      'ip out',
      'age', // with count, a column of the statistics
      'count',
      'timecheck',
    ],
    expected:
      'a name of lower-case letters, digits, spaces, dots or dashes that is not yet a field',
  },
} satisfies { [name: string]: Case }

const OPERATOR = {
  format: {
    fallback: 'auto',
    accepted: [
      ...['auto', 'txt', 'csv', 'json', 'ndjson'].map(name => [name, name] as const),
      ['CSV', 'csv'],
      ['NdJson', 'ndjson'],
    ],
    refused: ['xml', ' csv', 'jsonl'],
    expected: 'auto or txt or csv or json or ndjson',
  },
  type: {
    fallback: undefined,
    accepted: [
      ...['http', 'https', 'socks4', 'socks5'].map(name => [name, name] as const),
      ['SOCKS5', 'socks5'],
      ['Http', 'http'],
    ],
    refused: ['socks', ' http', 'http,https'],
    expected: 'http or https or socks4 or socks5',
  },
  map: {
    fallback: undefined,
    accepted: [
      ['Where=ip', new Map([['Where', 'ip']])],
      [' a b = PORT ', new Map([['a b', 'port']])],
      ['3=-', new Map([['3', '-']])],
      [
        'a=ip,b=port\nc, d=type',
        new Map([
          ['a', 'ip'],
          ['b', 'port'],
          ['c, d', 'type'],
        ]),
      ],
    ],
    refused: ['ip', '=ip', ' =ip', 'a=', 'a= ', 'a=ip,b', 'a=ip\nb', 'a=b=c'],
    expected: 'COLUMN=FIELD, or COLUMN=-',
  },
  pingUnit: {
    fallback: undefined,
    accepted: same('s', 'ms'),
    refused: ['sec', 'MS', 'us'],
    expected: 's or ms',
  },
  allowEmpty: SWITCH,
  allowShrink: SWITCH,
  replace: SWITCH,
  force: SWITCH,
  progress: SWITCH,
  strict: SWITCH,
  json: SWITCH,
  plan: {
    fallback: undefined,
    accepted: [
      ['classic', 'classic'],
      ['2026', '2026'],
      ['gold.v2_x-y', 'gold.v2_x-y'],
      ['a'.repeat(40), 'a'.repeat(40)],
    ],
    refused: ['Gold', 'a b', '-a', '.a', 'a/b', 'ä', 'a'.repeat(41)],
    expected: 'a name of lower-case letters, digits, dots, dashes or underscores',
  },
  label: {
    fallback: undefined,
    accepted: [
      ['Bob’s crawler, 2nd key', 'Bob’s crawler, 2nd key'],
      ['x'.repeat(200), 'x'.repeat(200)],
    ],
    refused: ['a\nb', 'a\tb', 'a\u001b[31m', 'a\u0000', 'x'.repeat(201)],
    expected: 'up to 200 printable characters',
  },
  expires: {
    fallback: undefined,
    accepted: [
      ['30d', { kind: 'in', ms: 30 * DAY }],
      ['never', { kind: 'never' }],
      ['2027-01-31T00:00:00Z', { kind: 'at', ms: Date.UTC(2027, 0, 31) }],
      ['2027-01-31', { kind: 'at', ms: Date.UTC(2027, 0, 31) }],
      ['2027-01-31T02:00+02:00', { kind: 'at', ms: Date.UTC(2027, 0, 31) }],
    ],
    refused: ['Never', '30', 'tomorrow', '2027-06-31', '31.01.2027', '2027-01-31T25:00Z'],
    expected: 'a duration such as 30d, a time such as 2027-01-31T00:00:00Z, or never',
  },
  overlap: {
    fallback: DAY,
    accepted: [
      ['0s', 0],
      ['24h', DAY],
      ['30d', 30 * DAY],
    ],
    refused: ['24', '-1h', '1.5h', 'never'],
    expected: 'a duration such as 90s, 15m, 24h or 30d',
  },
  window: SWITCH,
  day: SWITCH,
  address: {
    fallback: undefined,
    accepted: same('198.51.100.7', '2001:db8::1'),
    refused: ['198.51.100.7:80', '198.51.100.0/24', 'localhost', '1.2.3', 'fe80::1%eth0'],
    expected: 'an IPv4 or IPv6 address',
  },
  enabled: {
    fallback: undefined,
    accepted: same('on', 'off'),
    refused: ['1', 'ON', 'true'],
    expected: 'on or off',
  },
  key: {
    fallback: undefined,
    accepted: [
      ['k', 'k'],
      ['pl_old', 'pl_old'],
      ['DEMO', 'DEMO'],
      ['demo2', 'demo2'],
      ['tmp_x', 'tmp_x'],
      ['a/b+c==&d', 'a/b+c==&d'],
      ['k'.repeat(256), 'k'.repeat(256)],
    ],
    refused: ['demo', 'temp_', 'temp_abc', 'a b', ' a', 'a\n', 'a\u0000', 'k'.repeat(257)],
    expected: '1 to 256 characters without white space, not demo and not starting with temp_',
  },
  ttl: durationCase(DAY),
  burst: {
    fallback: undefined,
    accepted: [
      ['5/5s', { requests: 5, seconds: 5 }],
      ['1/1s', { requests: 1, seconds: 1 }],
      ['2/2000ms', { requests: 2, seconds: 2 }],
      ['60/1m', { requests: 60, seconds: 60 }],
      ['1000/24h', { requests: 1000, seconds: 86_400 }],
      ['1/1d', { requests: 1, seconds: 86_400 }],
      ['unlimited', null],
    ],
    refused: [
      '5 / 5s',
      ...words('5 5/ /5s 5/5 0/5s 05/5s 5.5/5s 1001/5s 5/0s 5/500ms 5/1500ms 5/25h 5/5s/5s'),
    ],
    expected: 'REQUESTS/DURATION such as 5/5s (up to 1000/24h), or unlimited',
  },
  daily: LIMIT,
  subnets: LIMIT,
  clients: LIMIT,
  count: LIMIT,
  downloads: LIMIT,
} satisfies { [name: string]: Case }

/** Exhaustive: a setting without a case does not compile. */
const CASES: { [name in SettingName]: Case } = { ...SERVER, ...OPERATOR }
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
  const { fallback, accepted, refused, expected } = CASES[name]

  test('has its default', () => {
    expect(readSettings([name], {}, {})[name]).toEqual(fallback as never)
  })

  test('reads what it accepts, by flag and by environment variable', () => {
    for (const [text, value] of accepted) {
      expect([text, byFlag(name, text)]).toEqual([text, value])
      expect([text, byEnvironment(name, text)]).toEqual([text, value])
    }
  })

  test('rejects everything else as wrong usage, saying which option must be what', () => {
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

describe('where a value comes from', () => {
  test('a flag wins over the environment, the environment over the default', () => {
    const env = { PROXYLIST_RETAIN: '2d', PROXYLIST_DATA: '/from/environment' }
    const names = ['retain', 'data', 'grace'] as const
    expect(readSettings(names, { retain: '3d' }, env)).toEqual({
      retain: 3 * DAY,
      data: '/from/environment',
      grace: 10_000,
    })
    expect(readSettings(names, {}, env).retain).toBe(2 * DAY)
    expect(readSettings(names, {}, {}).retain).toBe(7 * DAY)
  })

  test('a good flag hides a bad variable, a good variable does not hide a bad flag', () => {
    expect(readSettings(['retain'], { retain: '3d' }, { PROXYLIST_RETAIN: 'x' }).retain).toBe(
      3 * DAY,
    )
    const bad = () => readSettings(['retain'], { retain: 'x' }, { PROXYLIST_RETAIN: '3d' })
    expect(refusal(bad).message).toStartWith('--retain must be ')
  })

  test('only the named settings are read', () => {
    const env = { PROXYLIST_RETAIN: 'nonsense', PROXYLIST_LOG: 'off' }
    expect(readSettings(['log'], { grace: 'nonsense' }, env)).toEqual({ log: 'off' })
  })

  test('a switch given as a flag is on, and can be turned off over the environment', () => {
    expect(byFlag('sample', true)).toBe(true)
    const env = { PROXYLIST_SAMPLE: '1' }
    expect(readSettings(['sample'], { sample: false }, env).sample).toBe(false)
  })

  test.each(['0', 'false', 'no', 'off', ''])('the switch PROXYLIST_STRICT=%j is off', text => {
    expect(byEnvironment('strict', text)).toBe(false)
  })

  test('the data directory: flag, else PROXYLIST_DATA, else STATE_DIRECTORY, else ./data', () => {
    const systemd = { STATE_DIRECTORY: '/var/lib/proxylist' }
    const both = { ...systemd, PROXYLIST_DATA: '/srv' }
    expect(readSettings(['data'], { data: '/flag' }, both).data).toBe('/flag')
    expect(readSettings(['data'], {}, both).data).toBe('/srv')
    expect(readSettings(['data'], {}, systemd).data).toBe('/var/lib/proxylist')
    expect(readSettings(['data'], {}, { STATE_DIRECTORY: '' }).data).toBe('./data')
    const several = { STATE_DIRECTORY: '/var/lib/a:/var/lib/b' }
    expect(readSettings(['data'], {}, several).data).toBe('/var/lib/a')
  })

  test('a rejected key is not repeated', () => {
    const secret = 'temp_SecretSecret'
    expect(refusal(() => byFlag('key', secret)).message).not.toContain(secret)
    expect(refusal(() => byEnvironment('key', secret)).message).not.toContain(secret)
  })
})

describe('the names of settings', () => {
  test('flags are dashed and say their argument', () => {
    expect(flagOf('trustProxy')).toBe('--trust-proxy <CIDR,…>')
    expect(flagOf('listen')).toBe('--listen <ADDRESS>')
    expect(flagOf('sample')).toBe('--sample')
  })

  test('environment variables are PROXYLIST_ and the flag in capitals', () => {
    expect(environmentNameOf('data')).toBe('PROXYLIST_DATA')
    expect(environmentNameOf('trustProxy')).toBe('PROXYLIST_TRUST_PROXY')
    for (const name of NAMES) {
      const flag = flagOf(name).split(' ', 1)[0] ?? ''
      const variable = flag.slice(2).toUpperCase().replaceAll('-', '_')
      expect(environmentNameOf(name)).toBe(`PROXYLIST_${variable}`)
    }
  })

  test('every setting has a sentence of help', () => {
    for (const name of NAMES) expect(SETTINGS[name].help.length).toBeGreaterThan(8)
  })
})

describe('lists of trusted ranges', () => {
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
