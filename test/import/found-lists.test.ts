/**
 * Lists as they are found (contract D3a): each form, recognised by its content, in a file of its
 * own in fixtures/found/; how tables are read; and what is said of forms that are refused.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { ImportOptions } from '../../src/import/import.ts'
import { CommandError } from '../../src/lib/errors.ts'
import type { IncomingProxy, ProxyType } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'
import { ROOT } from '../support/program.ts'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

const NOW = T0 / 1000
const FOUND = join(ROOT, 'test/fixtures/found')
const fixture = (name: string): Uint8Array => readFileSync(join(FOUND, name))

const typed = (type: ProxyType): Partial<ImportOptions> => ({ defaults: { ...DEFAULTS, type } })

/**
 * A proxy as the cases write it: address and type, then what is known of it, as `name=value`; `age` in
 * seconds, unless it is checked now, and services without their values.
 */
function shown({ ip, port, type, services, servicesStated: _, ...proxy }: IncomingProxy): string {
  const { country, city, cityEn, pingMs: ping, checkedAt, ipOut: out, ...more } = proxy
  const known = { ...more, ping, out, country, city, cityEn, age: NOW - checkedAt || null }
  const facts = Object.entries(known).filter(([, value]) => value !== '' && value !== null)
  const parts = facts.map(([name, value]) => `${name}=${value}`)
  return [`${ip}:${port}`, type, ...parts, ...services].join(' ')
}

/** The type of the import, where it has one; the proxies; and rejected rows. */
type Form = { type?: ProxyType; proxies: string; rejected?: string }

const FORMS: { readonly [file: string]: Form } = {
  'geonode.json': {
    proxies: `
      192.0.2.10:1080 socks5 anon=elite works=99 ping=4804 country=DE city=Frankfurt am Main age=60
      192.0.2.11:8080 http anon=transparent works=93 ping=96 country=US age=40 google`,
  },
  'proxyscrape.json': {
    proxies: `
      192.0.2.20:8080 https anon=elite works=96 ping=863 country=FR city=Strasbourg age=60
      192.0.2.21:4145 socks4 anon=anonymous works=50 ping=100 age=40`,
  },
  'proxybroker.json': {
    proxies: `
      192.0.2.30:3128 https anon=elite works=75 ping=1110 country=NL city=Amsterdam
      192.0.2.31:1080 socks5 works=100 ping=400`,
  },
  'scylla.json': {
    proxies: `
      192.0.2.40:3128 https anon=anonymous works=75 ping=321 country=TW city=Taipei age=60
      192.0.2.41:8080 http works=100 ping=90 age=40`,
  },
  'monosans.json': {
    proxies: `
      192.0.2.50:1080 socks5 ping=610 out=198.51.100.50 country=DE city=Берлин cityEn=Berlin
      192.0.2.52:8080 http ping=90500 out=192.0.2.52 country=US city=Ashburn cityEn=Ashburn`,
    rejected: '2: ip has a user and a password, which are not supported',
  },
  'jq.json': { proxies: '192.0.2.62:1080 socks5 country=DE\n192.0.2.63:8080 http' },
  'proxifly.json': {
    proxies: `
      192.0.2.60:8080 https anon=transparent country=US city=Washington D.C.
      192.0.2.61:4145 socks4 anon=anonymous`,
  },
  'thespeedx.txt': { type: 'http', proxies: '192.0.2.70:8080 http\n192.0.2.71:3128 http' },
  'thespeedx.json': {
    proxies: '192.0.2.70:8080 http\n192.0.2.71:1080 socks5\n192.0.2.72:1080 socks5',
  },
  'strings.json': {
    type: 'http',
    proxies: '192.0.2.70:8080 http\n192.0.2.71:1080 socks5\n192.0.2.72:3128 http country=DE',
  },
  'urls.json': { proxies: '192.0.2.73:1080 socks5\n192.0.2.74:80 http' },
  'spys.txt': {
    type: 'http',
    proxies: `
      192.0.2.80:8080 https anon=elite country=RU google
      192.0.2.81:3128 http anon=transparent country=US
      192.0.2.82:80 http anon=anonymous country=BR`,
  },
  'countries.txt': {
    type: 'socks4',
    proxies: '192.0.2.90:8080 socks4 country=DE\n192.0.2.91:3128 socks4 country=US',
  },
  'spaces.txt': { type: 'http', proxies: '192.0.2.92:8080 http\n192.0.2.93:3128 http' },
  'urls.txt': {
    proxies: `
      192.0.2.94:1080 socks5
      192.0.2.95:443 https
      192.0.2.96:4145 socks4 anon=elite country=FR`,
  },
  'free_table.csv': {
    type: 'http',
    proxies: `
      192.0.2.100:8080 https anon=elite country=ID age=60
      192.0.2.101:3128 http anon=anonymous country=US age=40 google`,
  },
  'sep.csv': {
    proxies: `
      192.0.2.110:1080 socks5 works=97 ping=530 country=DE city=Berlin
      192.0.2.111:8080 https works=100 ping=80 country=RU city=Москва`,
  },
  'milliseconds.tsv': { proxies: '192.0.2.120:80 http age=60\n192.0.2.121:81 socks5 age=60' },
  'markdown.txt': { proxies: '192.0.2.130:80 http country=DE\n192.0.2.131:1080 socks5 country=FR' },
  'no_header.csv': {
    proxies: `
      192.0.2.140:8080 http anon=elite country=US
      192.0.2.141:3128 https anon=anonymous country=DE`,
  },
  'no_header_pipes.txt': {
    proxies: '192.0.2.142:8080 socks5 ping=120\n192.0.2.143:1080 socks4 ping=90',
  },
  'unnamed_address.csv': { type: 'http', proxies: '192.0.2.150:8080 http\n192.0.2.151:3128 http' },
  'carriage_returns.csv': { proxies: '192.0.2.160:80 http city=Berlin\n192.0.2.161:81 socks5' },
  'utf16le.txt': { proxies: '192.0.2.170:80 http\n192.0.2.171:1080 socks5' },
  'utf16be.csv': { proxies: '192.0.2.170:80 http city=Берлин\n192.0.2.171:1080 socks5' },
  'compressed.gz': { proxies: '192.0.2.180:80 http\n192.0.2.181:1080 socks5' },
  'compressed.zst': { proxies: '192.0.2.180:80 http\n192.0.2.181:1080 socks5' },
}

describe('a list as it is found', () => {
  for (const [name, { type, proxies, rejected }] of Object.entries(FORMS)) {
    for (const size of [1, 4096]) {
      test(`${name}, in chunks of ${size}, is recognised and read`, async () => {
        const source = sourceOf(name, fixture(name), size)
        const found = await imported([source], type === undefined ? {} : typed(type))
        expect(found.proxies.map(shown)).toEqual(proxies.trim().split(/\n\s*/))
        const said = found.rejected.map(([, line, field, why]) => `${line}: ${field} ${why}`)
        expect(said).toEqual(rejected === undefined ? [] : [rejected])
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
  test('of scylla has its own types, whatever --type says of others', async () => {
    const { proxies } = await imported(
      [sourceOf('scylla.json', fixture('scylla.json'))],
      typed('socks5'),
    )
    expect(proxies.map(({ type }) => type)).toEqual(['https', 'http'])
  })
  test('without a header says which columns it ignores', async () => {
    const { ignored } = await imported([sourceOf('f', fixture('no_header.csv'))])
    expect(ignored).toEqual([['f', 1, 'column 6']])
  })
})

type Options = Partial<ImportOptions>
const map = (...pairs: [string, string][]): Options => ({ mapping: new Map(pairs) })
const inUnit = (pingUnit: 's' | 'ms'): Options => ({ defaults: { ...DEFAULTS, pingUnit } })

const OWN_HEADER =
  'ip,ip_out,type,anon,speed,ping,timecheck,country,city,works,smtp,telegram,avito,google,the service'
const ONE = '192.0.2.1:80 http'

/** What is read, in which form, and what it says beside the address and type of `ONE`. */
const READ: readonly (readonly [what: string, text: string, says: string[], options?: Options])[] =
  [
    ['semicolons', 'ip;port;type\n192.0.2.1;80;http\n', ['']],
    ['tabs', 'ip\tport\ttype\n192.0.2.1\t80\thttp\n', ['']],
    ['bars', 'ip|port|type\n192.0.2.1|80|http\n', ['']],
    ['spaced bars', 'ip | port | type\n192.0.2.1 | 80 | http\n', ['']],
    ['sep= with a comma', 'sep=,\nip,port,type\n192.0.2.1,80,http\n', ['']],
    ['a tab without a header', '192.0.2.1\t80\thttp\n', ['']],
    ['semicolons without a header', '192.0.2.1;80;http\n192.0.2.1;80;http\n', ['', '']],
    ['a comment above rows', '# today\n192.0.2.1,80,http\n# end\n', ['']],
    ['addresses in one cell', 'http://192.0.2.1:80,DE\n', [' country=DE']],
    ['a comma in a comment', 'http://192.0.2.1:80 # a, b\nhttp://192.0.2.1:80\n', ['', '']],
    ['other names, in any case', 'HOST,PORT,PROTOCOL\n192.0.2.1,80,HTTP\n', ['']],
    ['underscores', 'ip_address,proxy_port,proxy_type\n192.0.2.1,80,http\n', ['']],
    ['Russian names', 'IP адрес;Порт;Тип\n192.0.2.1;80;http\n', ['']],
    ['a code, not a name', 'ip,country,cc,type\n192.0.2.1:80,Germany,de,http\n', [' country=DE']],
    ['unknown places', 'host,port,type,country,city\n192.0.2.1,80,http,ZZ,Unknown\n', ['']],
    [
      'what a mapping names',
      'Where,Kind,Lag\n192.0.2.1:80,http,0.5\n',
      [' ping=500'],
      map(['where', 'ip'], ['Kind', 'type'], ['lag', 'ping']),
    ],
    [
      'what a mapping names by number',
      '192.0.2.1,80,http,250\n192.0.2.1,80,http,50\n',
      [' ping=250', ' ping=50'],
      { ...map(['4', 'ping']), ...inUnit('ms') },
    ],
    [
      'not what a mapping ignores',
      'ip,port,type,last checked\n192.0.2.1,80,http,2 mins ago\n',
      [''],
      map(['Last Checked', '-']),
    ],
    [
      'a member that a mapping names',
      '[{"ip":"192.0.2.1:80","type":"http","lag":3}]',
      [' ping=3000'],
      map(['lag', 'ping']),
    ],
    [
      'lists of one text',
      '[{"host":"192.0.2.1","port":80,"protocols":["http"],"level":["high"],"country":["Germany"],"city":["Berlin"]}]',
      [' anon=elite country=DE city=Berlin'],
    ],
    ['milliseconds', 'ip,type,ping\n192.0.2.1:80,http,530\n', [' ping=530'], inUnit('ms')],
    ['seconds', 'ip,type,ping\n192.0.2.1:80,http,530\n', [' ping=530000'], inUnit('s')],
    ['a minute', 'ip,type,ping\n192.0.2.1:80,http,60\n', [' ping=60000']],
    ['a unit in the name', 'ip,type,ping_ms\n192.0.2.1:80,http,530\n', [' ping=530']],
    ['a unit in the value', 'ip,type,ping\n192.0.2.1:80,http,530 ms\n', [' ping=530']],
    ['seconds in our CSV', `${OWN_HEADER}\n192.0.2.1:80,,http,,,530,,,,,,,,,\n`, [' ping=530000']],
    ['seconds in our JSON', '[{"ip":"192.0.2.1:80","type":"http","ping":530}]', [' ping=530000']],
  ]

describe('in lists as they are found, an import reads', () => {
  for (const [what, text, says, options = {}] of READ) {
    test(what, async () => {
      const found = await imported([sourceOf('f', text)], options)
      expect(found.rejected).toEqual([])
      expect(found.proxies.map(shown)).toEqual(says.map(more => ONE + more))
    })
  }
  test('our type for ssl', async () => {
    const { proxies } = await imported([sourceOf('f', '192.0.2.1:80 DE-N-S -\n')], typed('socks5'))
    expect(proxies.map(shown)).toEqual(['192.0.2.1:80 socks5 anon=transparent country=DE'])
  })
})

const GOOD = 'http://192.0.2.1:80\n'
const JSON_OF = (...rows: object[]): string =>
  JSON.stringify(
    rows.map((row, i) => ({ host: `192.0.2.${i + 1}`, port: 80, type: 'http', ...row })),
  )
/** A table with a good row, and one with this value. */
const TABLE = (column: string, value: string, good = '', delimiter = ','): string =>
  [['ip', 'type', column], ['192.0.2.1:80', 'http', good], ['192.0.2.2:80', 'http', value], []]
    .map(cells => cells.join(delimiter))
    .join('\n')
/** Rows whose second one has this member, JSON of any depth. */
const JSON_WITH = (member: string): string => JSON_OF({}, { x: 1 }).replace('"x":1', member)
const DEEP = '['.repeat(200_000) + ']'.repeat(200_000)
/** Files of a good row and one that is rejected, and what is said of that. */
const REJECTED: readonly (readonly [what: string, text: string, says: RegExp])[] = [
  ['user:pass@ip:port', `${GOOD}http://user:pass@192.0.2.2:80\n`, /^ip has a user and a password/],
  ['ip:port:user:pass', `${GOOD}192.0.2.2:80:user:pass\n`, /^ip has a user and a password/],
  ['ip:port@user:pass', `${GOOD}192.0.2.2:80@user:pass\n`, /^ip has a user and a password/],
  ['a user in a column', TABLE('username', 'joe'), /^ip has a user and a password/],
  ['one found dead', JSON_OF({ alive: true }, { alive: false }), /^row is marked as not working$/],
  [
    'a ping of more than a minute in a table',
    TABLE('ping', '530', '0.5'),
    /^ping is over 60 s; if it is in milliseconds, give --ping-unit ms$/,
  ],
  ['a long ping of another tool', JSON_OF({}, { latency: 530 }), /^ping is over 60 s; /],
  [
    'a serial date of a spreadsheet',
    TABLE('checked_at', '46346.5'),
    /^checked_at is a spreadsheet's serial date; .*YYYY-MM-DD HH:MM:SS/,
  ],
  ['one as timecheck', TABLE('timecheck', '46346'), /^timecheck is a spreadsheet's serial date; /],
  [
    '21.11.2026',
    TABLE('timecheck', '21.11.2026 10:00'),
    /^timecheck must be written YYYY-MM-DD HH:MM:SS: in this form, some write the day first and some the month$/,
  ],
  [
    '11/21/26',
    TABLE('last checked', '11/21/26'),
    /^checked_at must be written YYYY-MM-DD HH:MM:SS: /,
  ],
  [
    '2 minutes ago',
    TABLE('last checked', '2 minutes ago'),
    /^checked_at is relative.* --map COLUMN=-/,
  ],
  [
    'a ping with a decimal comma',
    TABLE('ping', '0,21', '0.21', ';'),
    /^ping must be a number of seconds, at least 0; it has a comma: decimals need a point, such as 0\.5$/,
  ],
  ['one with a unit', TABLE('latency', '210,5 ms', '210 ms', ';'), /^ping .*; it has a comma: /],
  [
    'a decimal comma in works',
    TABLE('works', '97,5%', '97.5%', ';'),
    /^works must be a number from 0 to 100; it has a comma: /,
  ],
  [
    'no IPv4, where that is the first line and begins with a bracket',
    '[2001:db8::1]:80\nhttp://192.0.2.1:80\n',
    /^ip must be an IPv4 address with a port, a\.b\.c\.d:port$/,
  ],
  [
    'an IPv6 address in the first row of a table without a header',
    '2001:db8::1,80,http,DE\n192.0.2.1,80,http,DE\n',
    /^ip must be an IPv4 address with a port, a\.b\.c\.d:port$/,
  ],
  [
    'one cell too many there',
    '192.0.2.2,80,80,http\n192.0.2.1,80,http\n',
    /^row has 4 columns, the header has 3; /,
  ],
  [
    'a country that is none',
    'host,port,type,country\n192.0.2.1,80,http,\n192.0.2.2,80,http,Atlantis\n',
    /^country must be a two-letter country code$/,
  ],
  ['a list as a country', JSON_WITH('"country":[{"toString":1}]'), /^country must be a text$/],
  ['a list as a ping', JSON_WITH('"latency_ms":[{"toString":1}]'), /^ping must be a text$/],
  [
    'a list as a share',
    JSON_WITH('"stability":[{"toString":1,"valueOf":1}]'),
    /^works must be a text$/,
  ],
  ['a deep list as a country', JSON_WITH(`"country":${DEEP}`), /^country must be a text$/],
  ['a deep list as a place', JSON_WITH(`"geolocation":${DEEP}`), /^row has a list in a list$/],
  [
    'an unquoted delimiter in a value',
    TABLE('city', 'Washington, D.C.', '"Washington, D.C."'),
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
  ['gzip twice', gzipSync(fixture('compressed.gz')), /is compressed twice; decompress it once/],
  ['gzip around zstd', gzipSync(fixture('compressed.zst')), /is compressed twice; /],
  [
    'a proxy auto-configuration',
    'function FindProxyForURL(url, host) {\n  return "PROXY 192.0.2.1:80; SOCKS5 192.0.2.2:80";\n}\n',
    /is a proxy auto-configuration \(PAC\); get the list itself/,
  ],
  [
    'YAML for Clash',
    '# free\nmixed-port: 7890\nproxies:\n  - {name: "a, b", type: ss, server: 192.0.2.1, port: 443}\n',
    /looks like YAML: get the list itself, as TXT, CSV or JSON/,
  ],
  ['bare addresses', '192.0.2.1\n192.0.2.2\n', /looks like addresses without ports: /],
  ['names of hosts', 'proxy.example.com:8080\n', /addresses that are not IPv4: only a.b.c.d:port/],
  ['IPv6', 'socks5://[2001:db8::1]:1080\n', /addresses that are not IPv4: only a.b.c.d:port/],
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
    'a table in cp1251',
    Buffer.concat([Buffer.from('ip,type,city\n192.0.2.1:80,http,'), Buffer.of(0xcc, 0xee)]),
    /no row is usable, .*not UTF-8; save the file as UTF-8/,
  ],
  [
    'UTF-16 without its mark',
    Buffer.from('ip,type\n192.0.2.1:80,http\n', 'utf16le'),
    /is not text: it has NUL characters, as UTF-16 without its mark has; save it as UTF-8/,
  ],
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
})
