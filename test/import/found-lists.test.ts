/**
 * Lists as they are found (contract D3a): each form, recognised by its content, in a file of its
 * own in fixtures/found/; how tables are read; and what is said of forms that are refused.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ImportOptions } from '../../src/import/import.ts'
import { CommandError } from '../../src/lib/errors.ts'
import type { IncomingProxy, ProxyType } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'
import { ROOT } from '../support/program.ts'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

const NOW = T0 / 1000
const FOUND = join(ROOT, 'test/fixtures/found')
const fixture = (name: string): Uint8Array => readFileSync(join(FOUND, name))

type Expected = Partial<Omit<IncomingProxy, 'services'>> & { services?: string[] }
type Form = { type?: ProxyType; proxies: readonly Expected[]; rejected?: readonly string[] }

const typed = (type: ProxyType): Partial<ImportOptions> => ({ defaults: { ...DEFAULTS, type } })

/** What is known of each proxy; `checkedAt` is that of the import where it is left out. */
const FORMS: { readonly [file: string]: Form } = {
  'geonode.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.10', port: 1080, type: 'socks5', anon: 'elite', country: 'DE' },
        ...{ city: 'Frankfurt am Main', pingMs: 4804, works: 99, checkedAt: NOW - 60 },
      },
      {
        ...{ ip: '192.0.2.11', port: 8080, type: 'http', anon: 'transparent', country: 'US' },
        ...{ pingMs: 96, works: 93, checkedAt: NOW - 40, services: ['google'] },
      },
    ],
  },
  'proxyscrape.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.20', port: 8080, type: 'https', anon: 'elite', country: 'FR' },
        ...{ city: 'Strasbourg', pingMs: 863, works: 96, checkedAt: NOW - 60 },
      },
      {
        ...{ ip: '192.0.2.21', port: 4145, type: 'socks4', anon: 'anonymous', pingMs: 100 },
        ...{ works: 50, checkedAt: NOW - 40 },
      },
    ],
  },
  'proxybroker.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.30', port: 3128, type: 'https', anon: 'elite', country: 'NL' },
        ...{ city: 'Amsterdam', pingMs: 1110, works: 75 },
      },
      { ip: '192.0.2.31', port: 1080, type: 'socks5', pingMs: 400, works: 100 },
    ],
  },
  'scylla.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.40', port: 3128, type: 'https', anon: 'anonymous', country: 'TW' },
        ...{ city: 'Taipei', pingMs: 321, works: 75, checkedAt: NOW - 60 },
      },
      { ip: '192.0.2.41', port: 8080, type: 'http', pingMs: 90, works: 100, checkedAt: NOW - 40 },
    ],
    type: 'http',
  },
  'monosans.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.50', port: 1080, type: 'socks5', country: 'DE', city: 'Берлин' },
        ...{ cityEn: 'Berlin', pingMs: 610, ipOut: '198.51.100.50' },
      },
      {
        ...{ ip: '192.0.2.52', port: 8080, type: 'http', country: 'US', city: 'Ashburn' },
        ...{ cityEn: 'Ashburn', pingMs: 90_500, ipOut: '192.0.2.52' },
      },
    ],
    rejected: ['2: ip has a user and a password, which are not supported'],
  },
  'proxifly.json': {
    proxies: [
      {
        ...{ ip: '192.0.2.60', port: 8080, type: 'https', anon: 'transparent', country: 'US' },
        city: 'Washington D.C.',
      },
      { ip: '192.0.2.61', port: 4145, type: 'socks4', anon: 'anonymous' },
    ],
  },
  'thespeedx.txt': {
    type: 'http',
    proxies: [
      { ip: '192.0.2.70', port: 8080, type: 'http' },
      { ip: '192.0.2.71', port: 3128, type: 'http' },
    ],
  },
  'thespeedx.json': {
    proxies: [
      { ip: '192.0.2.70', port: 8080, type: 'http' },
      { ip: '192.0.2.71', port: 1080, type: 'socks5' },
      { ip: '192.0.2.72', port: 1080, type: 'socks5' },
    ],
  },
  'strings.json': {
    type: 'http',
    proxies: [
      { ip: '192.0.2.70', port: 8080, type: 'http' },
      { ip: '192.0.2.71', port: 1080, type: 'socks5' },
      { ip: '192.0.2.72', port: 3128, type: 'http', country: 'DE' },
    ],
  },
  'urls.json': {
    proxies: [
      { ip: '192.0.2.73', port: 1080, type: 'socks5' },
      { ip: '192.0.2.74', port: 80, type: 'http' },
    ],
  },
  'spys.txt': {
    type: 'http',
    proxies: [
      {
        ...{ ip: '192.0.2.80', port: 8080, type: 'https', country: 'RU', anon: 'elite' },
        services: ['google'],
      },
      { ip: '192.0.2.81', port: 3128, type: 'http', country: 'US', anon: 'transparent' },
      { ip: '192.0.2.82', port: 80, type: 'http', country: 'BR', anon: 'anonymous' },
    ],
  },
  'countries.txt': {
    type: 'socks4',
    proxies: [
      { ip: '192.0.2.90', port: 8080, type: 'socks4', country: 'DE' },
      { ip: '192.0.2.91', port: 3128, type: 'socks4', country: 'US' },
    ],
  },
  'spaces.txt': {
    type: 'http',
    proxies: [
      { ip: '192.0.2.92', port: 8080, type: 'http' },
      { ip: '192.0.2.93', port: 3128, type: 'http' },
    ],
  },
  'urls.txt': {
    proxies: [
      { ip: '192.0.2.94', port: 1080, type: 'socks5' },
      { ip: '192.0.2.95', port: 443, type: 'https' },
      { ip: '192.0.2.96', port: 4145, type: 'socks4', country: 'FR', anon: 'elite' },
    ],
  },
  'free_table.csv': {
    type: 'http',
    proxies: [
      {
        ...{ ip: '192.0.2.100', port: 8080, type: 'https', anon: 'elite', country: 'ID' },
        checkedAt: NOW - 60,
      },
      {
        ...{ ip: '192.0.2.101', port: 3128, type: 'http', anon: 'anonymous', country: 'US' },
        ...{ checkedAt: NOW - 40, services: ['google'] },
      },
    ],
  },
  'sep.csv': {
    proxies: [
      {
        ...{ ip: '192.0.2.110', port: 1080, type: 'socks5', country: 'DE', city: 'Berlin' },
        ...{ pingMs: 530, works: 97 },
      },
      {
        ...{ ip: '192.0.2.111', port: 8080, type: 'https', country: 'RU', city: 'Москва' },
        ...{ pingMs: 80, works: 100 },
      },
    ],
  },
  'milliseconds.tsv': {
    proxies: [
      { ip: '192.0.2.120', port: 80, type: 'http', checkedAt: NOW - 60 },
      { ip: '192.0.2.121', port: 81, type: 'socks5', checkedAt: NOW - 60 },
    ],
  },
  'markdown.txt': {
    proxies: [
      { ip: '192.0.2.130', port: 80, type: 'http', country: 'DE' },
      { ip: '192.0.2.131', port: 1080, type: 'socks5', country: 'FR' },
    ],
  },
  'no_header.csv': {
    proxies: [
      { ip: '192.0.2.140', port: 8080, type: 'http', country: 'US', anon: 'elite' },
      { ip: '192.0.2.141', port: 3128, type: 'https', country: 'DE', anon: 'anonymous' },
    ],
  },
  'no_header_pipes.txt': {
    proxies: [
      { ip: '192.0.2.142', port: 8080, type: 'socks5', pingMs: 120 },
      { ip: '192.0.2.143', port: 1080, type: 'socks4', pingMs: 90 },
    ],
  },
  'unnamed_address.csv': {
    type: 'http',
    proxies: [
      { ip: '192.0.2.150', port: 8080, type: 'http' },
      { ip: '192.0.2.151', port: 3128, type: 'http' },
    ],
  },
  'carriage_returns.csv': {
    proxies: [
      { ip: '192.0.2.160', port: 80, type: 'http', city: 'Berlin' },
      { ip: '192.0.2.161', port: 81, type: 'socks5' },
    ],
  },
  'utf16le.txt': {
    proxies: [
      { ip: '192.0.2.170', port: 80, type: 'http' },
      { ip: '192.0.2.171', port: 1080, type: 'socks5' },
    ],
  },
  'utf16be.csv': {
    proxies: [
      { ip: '192.0.2.170', port: 80, type: 'http', city: 'Берлин' },
      { ip: '192.0.2.171', port: 1080, type: 'socks5' },
    ],
  },
  'compressed.gz': {
    proxies: [
      { ip: '192.0.2.180', port: 80, type: 'http' },
      { ip: '192.0.2.181', port: 1080, type: 'socks5' },
    ],
  },
  'compressed.zst': {
    proxies: [
      { ip: '192.0.2.180', port: 80, type: 'http' },
      { ip: '192.0.2.181', port: 1080, type: 'socks5' },
    ],
  },
}

const UNSAID: Expected = {
  ...{ ipOut: '', anon: '', speed: null, pingMs: null, checkedAt: NOW, country: '', city: '' },
  ...{ cityEn: '', works: null, services: [] },
}
const shown = ({ servicesStated: _, services, ...proxy }: IncomingProxy): Expected => ({
  ...proxy,
  services: [...services],
})

describe('a list as it is found', () => {
  for (const [name, { type, proxies, rejected = [] }] of Object.entries(FORMS)) {
    for (const size of [1, 4096]) {
      test(`${name}, in chunks of ${size}, is recognised and read`, async () => {
        const source = sourceOf(name, fixture(name), size)
        const found = await imported([source], type === undefined ? {} : typed(type))
        const expected: Expected[] = proxies.map(proxy => ({ ...UNSAID, ...proxy }))
        expect(found.proxies.map(shown)).toEqual(expected)
        expect(found.rejected.map(([, line, field, why]) => `${line}: ${field} ${why}`)).toEqual([
          ...rejected,
        ])
      })
    }
  }
  test('has a case for each file', () => {
    expect(readdirSync(FOUND).sort()).toEqual(Object.keys(FORMS).sort())
  })
  test('of a known tool is read without a note for each of its other members', async () => {
    for (const tool of ['geonode', 'proxyscrape', 'proxybroker', 'scylla', 'monosans']) {
      const name = `${tool}.json`
      expect((await imported([sourceOf(name, fixture(name))], typed('http'))).ignored).toEqual([])
    }
  })
  test('without a header says which columns it ignores', async () => {
    const { ignored } = await imported([sourceOf('f', fixture('no_header.csv'))])
    expect(ignored).toEqual([['f', 1, 'column 6']])
  })
})

type Options = Partial<ImportOptions>
const map = (...pairs: [string, string][]): Options => ({ mapping: new Map(pairs) })
const inUnit = (pingUnit: 's' | 'ms'): Options => ({ defaults: { ...DEFAULTS, pingUnit } })

type Reading = readonly [what: string, text: string, options: Options, proxies: Expected[]]
const ONE = { ip: '192.0.2.1', port: 80, type: 'http' } as const
const READ: readonly Reading[] = [
  ['semicolons', 'ip;port;type\n192.0.2.1;80;http\n', {}, [ONE]],
  ['tabs', 'ip\tport\ttype\n192.0.2.1\t80\thttp\n', {}, [ONE]],
  ['bars', 'ip|port|type\n192.0.2.1|80|http\n', {}, [ONE]],
  ['spaced bars', 'ip | port | type\n192.0.2.1 | 80 | http\n', {}, [ONE]],
  ['sep= with a comma', 'sep=,\nip,port,type\n192.0.2.1,80,http\n', {}, [ONE]],
  ['a tab without a header', '192.0.2.1\t80\thttp\n', {}, [ONE]],
  ['semicolons without a header', '192.0.2.1;80;http\n192.0.2.1;80;http\n', {}, [ONE, ONE]],
  ['a comment above rows', '# today\n192.0.2.1,80,http\n# end\n', {}, [ONE]],
  ['addresses in one cell', 'http://192.0.2.1:80,DE\n', {}, [{ ...ONE, country: 'DE' }]],
  ['a comma within a comment', 'http://192.0.2.1:80 # a, b\nhttp://192.0.2.1:80\n', {}, [ONE, ONE]],
  ['other names, in any case', 'HOST,PORT,PROTOCOL\n192.0.2.1,80,HTTP\n', {}, [ONE]],
  ['underscores', 'ip_address,proxy_port,proxy_type\n192.0.2.1,80,http\n', {}, [ONE]],
  ['Russian names', 'IP адрес;Порт;Тип\n192.0.2.1;80;http\n', {}, [ONE]],
  [
    'a code beside a country',
    'ip,port,type,country,country_code\n192.0.2.1,80,http,Germany,de\n',
    {},
    [{ ...ONE, country: 'DE' }],
  ],
  [
    'an unknown city and country',
    'host,port,type,country,city\n192.0.2.1,80,http,ZZ,Unknown\n',
    {},
    [ONE],
  ],
  [
    'what a mapping names',
    'Where,Kind,Lag\n192.0.2.1:80,http,0.5\n',
    map(['where', 'ip'], ['Kind', 'type'], ['lag', 'ping']),
    [{ ...ONE, pingMs: 500 }],
  ],
  [
    'what a mapping names by number',
    '192.0.2.1,80,http,250\n192.0.2.1,80,http,50\n',
    { ...map(['4', 'ping']), ...inUnit('ms') },
    [
      { ...ONE, pingMs: 250 },
      { ...ONE, pingMs: 50 },
    ],
  ],
  [
    'not what a mapping ignores',
    'ip,port,type,last checked\n192.0.2.1,80,http,2 mins ago\n',
    map(['Last Checked', '-']),
    [ONE],
  ],
  [
    'a member of a member that a mapping names',
    '[{"ip":"192.0.2.1:80","type":"http","lag":3}]',
    { ...map(['lag', 'ping']) },
    [{ ...ONE, pingMs: 3000 }],
  ],
  [
    'milliseconds',
    'ip,type,ping\n192.0.2.1:80,http,530\n',
    inUnit('ms'),
    [{ ...ONE, pingMs: 530 }],
  ],
  ['seconds', 'ip,type,ping\n192.0.2.1:80,http,530\n', inUnit('s'), [{ ...ONE, pingMs: 530_000 }]],
  ['a minute', 'ip,type,ping\n192.0.2.1:80,http,60\n', {}, [{ ...ONE, pingMs: 60_000 }]],
  ['a unit in the name', 'ip,type,ping_ms\n192.0.2.1:80,http,530\n', {}, [{ ...ONE, pingMs: 530 }]],
  [
    'a unit in the value',
    'ip,type,ping\n192.0.2.1:80,http,530 ms\n',
    {},
    [{ ...ONE, pingMs: 530 }],
  ],
  [
    'seconds in our own CSV, however many',
    'ip,ip_out,type,anon,speed,ping,timecheck,country,city,works,smtp,telegram,avito,google,the service\n192.0.2.1:80,,http,,,530,,,,,,,,,\n',
    {},
    [{ ...ONE, pingMs: 530_000 }],
  ],
  [
    'seconds in our own JSON, however many',
    '[{"ip":"192.0.2.1:80","type":"http","ping":530}]',
    {},
    [{ ...ONE, pingMs: 530_000 }],
  ],
  [
    'our type for ssl',
    '192.0.2.1:80 DE-N-S -\n',
    typed('socks5'),
    [{ ...ONE, type: 'socks5', country: 'DE', anon: 'transparent' }],
  ],
]

describe('in lists as they are found, an import reads', () => {
  for (const [what, text, options, proxies] of READ) {
    test(what, async () => {
      const found = await imported([sourceOf('f', text)], options)
      expect(found.rejected).toEqual([])
      expect<unknown>(found.proxies.map(shown)).toEqual(proxies.map(p => ({ ...UNSAID, ...p })))
    })
  }
})

const GOOD = 'http://192.0.2.1:80\n'
/** Rows that are rejected, and what is said of them. */
const REJECTED: readonly (readonly [what: string, text: string, says: RegExp])[] = [
  ['user:pass@ip:port', `${GOOD}http://user:pass@192.0.2.2:80\n`, /^ip has a user and a password/],
  ['ip:port:user:pass', `${GOOD}192.0.2.2:80:user:pass\n`, /^ip has a user and a password/],
  ['ip:port@user:pass', `${GOOD}192.0.2.2:80@user:pass\n`, /^ip has a user and a password/],
  [
    'a user in a column',
    'ip,port,type,username\n192.0.2.1,80,http,\n192.0.2.2,80,http,joe\n',
    /^ip has a user and a password/,
  ],
  [
    'a proxy that its source found dead',
    '[{"ip":"192.0.2.1:80","type":"http","alive":true},{"ip":"192.0.2.2:80","type":"http","alive":false}]',
    /^row is marked as not working$/,
  ],
  [
    'a ping of more than a minute in a table',
    'ip,type,ping\n192.0.2.1:80,http,0.5\n192.0.2.2:80,http,530\n',
    /^ping is over 60 s; if it is in milliseconds, give --ping-unit ms$/,
  ],
  [
    'the same under a name of another tool',
    '[{"host":"192.0.2.1","port":80,"type":"http"},{"host":"192.0.2.2","port":80,"type":"http","latency":530}]',
    /^ping is over 60 s; /,
  ],
  [
    'a serial date of a spreadsheet',
    'ip,type,checked_at\n192.0.2.1:80,http,\n192.0.2.2:80,http,46346.5\n',
    /^checked_at is a spreadsheet's serial date; .*YYYY-MM-DD HH:MM:SS/,
  ],
  [
    'the same as timecheck',
    'ip,type,timecheck\n192.0.2.1:80,http,\n192.0.2.2:80,http,46346\n',
    /^timecheck is a spreadsheet's serial date; /,
  ],
  [
    '21.11.2026',
    'ip,type,timecheck\n192.0.2.1:80,http,\n192.0.2.2:80,http,21.11.2026 10:00\n',
    /^timecheck must be written YYYY-MM-DD HH:MM:SS: in this form, some write the day first and some the month$/,
  ],
  [
    '11/21/26',
    'ip,type,last checked\n192.0.2.1:80,http,\n192.0.2.2:80,http,11/21/26\n',
    /^checked_at must be written YYYY-MM-DD HH:MM:SS: /,
  ],
  [
    '2 minutes ago',
    'ip,type,last checked\n192.0.2.1:80,http,\n192.0.2.2:80,http,2 minutes ago\n',
    /^checked_at is relative.* --map COLUMN=-/,
  ],
  [
    'a ping with a decimal comma',
    'ip;type;ping\n192.0.2.1:80;http;0.21\n192.0.2.2:80;http;0,21\n',
    /^ping must be a number of seconds, at least 0; it has a comma: decimals need a point, such as 0\.5$/,
  ],
  [
    'the same with a unit',
    'host;port;type;latency\n192.0.2.1;80;http;210 ms\n192.0.2.2;80;http;210,5 ms\n',
    /^ping .*; it has a comma: /,
  ],
  [
    'a decimal comma in works',
    'ip;type;works\n192.0.2.1:80;http;97.5%\n192.0.2.2:80;http;97,5%\n',
    /^works must be a number from 0 to 100; it has a comma: /,
  ],
  [
    'no IPv4, where that is the first line and begins with a bracket',
    '[2001:db8::1]:80\nhttp://192.0.2.1:80\n',
    /^ip must be an IPv4 address with a port, a\.b\.c\.d:port$/,
  ],
  [
    'a country that is none',
    'host,port,type,country\n192.0.2.1,80,http,\n192.0.2.2,80,http,Atlantis\n',
    /^country must be a two-letter country code$/,
  ],
  [
    'an unquoted delimiter in a value',
    'ip,type,city\n192.0.2.1:80,http,"Washington, D.C."\n192.0.2.2:80,http,Washington, D.C.\n',
    /^row has 4 columns, the header has 3; a value that holds the delimiter needs quotes$/,
  ],
]

describe('in lists as they are found, a row is rejected for', () => {
  for (const [what, text, says] of REJECTED) {
    test(what, async () => {
      const { proxies, rejected } = await imported([sourceOf('f', text)])
      expect(proxies.map(({ ip }) => ip)).toEqual(['192.0.2.1'])
      expect(rejected.map(([, , field, reason]) => `${field} ${reason}`)).toEqual([
        expect.stringMatching(says),
      ])
    })
  }
})

const bytes = (...values: number[]): Uint8Array => Uint8Array.from([...values, 0, 0, 0, 0, 0, 0])
/** Files that are refused, and what is said of them. */
const REFUSED: readonly (readonly [what: string, data: string | Uint8Array, says: RegExp])[] = [
  ['a spreadsheet', bytes(0x50, 0x4b, 3, 4), /is a spreadsheet .*; save it as CSV/],
  ['an old spreadsheet', bytes(0xd0, 0xcf, 0x11, 0xe0), /is a spreadsheet .*; save it as CSV/],
  ['a PDF', '%PDF-1.7\n', /is a PDF; get the list itself/],
  ['bzip2', 'BZh91AY', /is compressed with bzip2; gzip and zstd can be read/],
  ['xz', bytes(0xfd, 0x37, 0x7a, 0x58, 0x5a), /is compressed with xz; /],
  ['damaged gzip', bytes(0x1f, 0x8b, 8, 0), /is damaged or truncated gzip data/],
  ['damaged zstd', bytes(0x28, 0xb5, 0x2f, 0xfd), /is damaged or truncated zstd data/],
  ['truncated gzip', fixture('compressed.gz').subarray(0, -9), /is damaged or truncated gzip data/],
  [
    'truncated zstd',
    fixture('compressed.zst').subarray(0, -9),
    /is damaged or truncated zstd data/,
  ],
  ['a page', '<!DOCTYPE html>\n<table><td>192.0.2.1</td>', /looks like an HTML or XML page: get /],
  ['bare addresses', '192.0.2.1\n192.0.2.2\n', /looks like addresses without ports: /],
  ['names of hosts', 'proxy.example.com:8080\n', /addresses that are not IPv4: only a.b.c.d:port/],
  ['IPv6', 'socks5://[2001:db8::1]:1080\n', /addresses that are not IPv4: only a.b.c.d:port/],
  ['a table without addresses', 'name;kind\na;http\n', /looks like a table .*--map COLUMN=ip/],
  [
    'IPv6 at the first line',
    '[2001:db8::1]:80\n',
    /addresses that are not IPv4: only a.b.c.d:port/,
  ],
  [
    'the configuration of proxychains',
    '[ProxyList]\nsocks5 192.0.2.1 1080\n',
    /looks like the configuration of proxychains: a line must read type:\/\/a.b.c.d:port/,
  ],
  [
    'an array without quotes',
    '[192.0.2.1:80, 192.0.2.2:80]',
    /looks like a JSON array whose values have no quotes: write it as \["a.b.c.d:port", …\]/,
  ],
  [
    'JSON with single quotes',
    "['192.0.2.1:80']",
    /line 1: not valid JSON; names and texts need double quotes/,
  ],
  [
    'a table in cp1251',
    Buffer.concat([Buffer.from('ip,type,city\n192.0.2.1:80,http,'), bytes(0xcc, 0xee)]),
    /is not UTF-8 text; save it as UTF-8/,
  ],
  [
    'UTF-16 without its mark',
    Buffer.from('ip,type\n192.0.2.1:80,http\n', 'utf16le'),
    /is not text: it has NUL characters, as UTF-16 without its mark has; save it as UTF-8/,
  ],
  [
    'the same in Russian',
    Buffer.from('ip,type,город\n192.0.2.1:80,http,Москва\n', 'utf16le'),
    /save it as UTF-8/,
  ],
  ['prose', 'come back\nlater\n', /looks like text: a line must read a.b.c.d:port/],
  ['a column twice', 'ip,type,type\n192.0.2.1:80,http,https\n', /has the column 'type' twice/],
  [
    'lines with credentials only',
    'user:pass@192.0.2.1:80\n192.0.2.1:80:user:pass\n',
    /no row is usable/,
  ],
]

describe('in lists as they are found, a file is refused for being', () => {
  for (const [what, data, says] of REFUSED) {
    test(what, async () => {
      const outcome = imported([sourceOf('f', data)])
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(says)
      await expect(outcome).rejects.toThrow(/^f: .*; nothing was imported$/)
    })
  }
  for (const empty of ['', '\n', '# nothing today\n', 'ip,type\n', '[]', '{"proxies":[]}']) {
    test(`nothing, which is said: ${JSON.stringify(empty)}`, async () => {
      const found = await imported([sourceOf('f', empty)])
      expect([found.totals.read, found.empty]).toEqual([0, ['f']])
    })
  }
})
