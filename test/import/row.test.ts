/** What a row of a file may say: its address, members, services and time, and what is rejected. */
import { describe, expect, test } from 'bun:test'
import { type RawRow, readRow } from '../../src/import/row.ts'
import { ANONS, type IncomingProxy, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'

const NOW = T0 / 1000
const PROVIDER = 'the service'
const DEFAULTS = { type: undefined, nowMs: T0, provider: PROVIDER }
const MINIMAL = { ip: '1.2.3.4:80', type: 'http' }

/** The proxy of a row that must be good. */
function proxyOf(row: RawRow, listedAs?: string): IncomingProxy {
  const result = readRow(row, DEFAULTS, listedAs)
  if (!result.ok) throw new Error(`rejected: ${result.field} ${result.reason}`)
  return result.proxy
}

describe('a row', () => {
  test('needs only address and type; all else is unknown, checked now', () => {
    expect(proxyOf(MINIMAL)).toEqual({
      ...{ ip: '1.2.3.4', port: 80, ipOut: '', type: 'http', anon: '', speed: null, pingMs: null },
      ...{ checkedAt: NOW, country: '', city: '', cityEn: '', works: null },
      ...{ services: new Set(), servicesStated: new Set() },
    })
  })
  for (const nothing of ['', '  ', null, undefined]) {
    test(`means unknown by ${JSON.stringify(nothing)}`, () => {
      const members = ['ip_out', 'anon', 'speed', 'ping', 'timecheck', 'checked_at', 'country']
      const more = ['city', 'city_en', 'works', 'smtp', 'telegram', 'avito', 'google', PROVIDER]
      const row = Object.fromEntries([...members, ...more].map(name => [name, nothing]))
      expect(proxyOf({ ...MINIMAL, ...row })).toEqual(proxyOf(MINIMAL))
    })
  }
  test('takes its type from the import when it names none', () => {
    const result = readRow({ ip: '1.2.3.4:80' }, { ...DEFAULTS, type: 'socks4' })
    expect(result).toMatchObject({ ok: true, proxy: { type: 'socks4', isTypeAssumed: true } })
  })
  test('keeps its own type when the import names another', () => {
    const result = readRow(MINIMAL, { ...DEFAULTS, type: 'socks4' })
    expect(result).toMatchObject({ ok: true, proxy: { type: 'http' } })
    expect(result).not.toHaveProperty('proxy.isTypeAssumed')
  })
  test('with every member is read', () => {
    const row = {
      ...{ ip: ' 185.162.7.9:8080 ', ip_out: '2001:DB8:0::7', type: 'SOCKS5', anon: 'Elite' },
      ...{ speed: 1250000, ping: 0.532, timecheck: '2026-11-20 13:59:30', country: 'de' },
      ...{ city: ' Берлин ', city_en: 'Berlin', works: '97', smtp: false, telegram: true },
      ...{ avito: 0, google: 1, 'the service': 'true' },
    }
    expect(proxyOf(row)).toEqual({
      ...{ ip: '185.162.7.9', port: 8080, ipOut: '2001:db8::7', type: 'socks5', anon: 'elite' },
      ...{ speed: 1_250_000, pingMs: 532, checkedAt: NOW - 30, country: 'DE', city: 'Берлин' },
      ...{ cityEn: 'Berlin', works: 97, services: new Set(['telegram', 'google', 'provider']) },
      servicesStated: new Set(SERVICES),
    })
  })
  test('may have lists of one type, level, country or city; one of several types is taken', () => {
    const row = { type: 'http', country: 'RU', city: 'Berlin', city_en: 'B', anon: 'high' }
    const listed = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, [value]]))
    expect(proxyOf({ ...MINIMAL, ...listed })).toEqual(proxyOf({ ...MINIMAL, ...row }))
    expect(proxyOf({ ...MINIMAL, type: ['http', 'socks5'] }).type).toBe('socks5')
    for (const country of [['RU', 'DE'], [['RU']], [{}], []]) {
      const reason = 'must be a text'
      expect(readRow({ ...MINIMAL, country }, DEFAULTS)).toMatchObject({ field: 'country', reason })
    }
  })
})

/** Rows with the address 1.2.3.4:80, and the keys under which they are listed. */
const ADDRESSED: readonly (readonly [row: RawRow, listedAs?: string])[] = [
  [{ ip: '1.2.3.4:80' }],
  [{ ip: '1.2.3.4', port: '80' }],
  [{ ip: '1.2.3.4', port: 80 }],
  [{ ip: '1.2.3.4:80', port: 80 }],
  [{}, '1.2.3.4:80'],
  [{ ip: '1.2.3.4' }, '1.2.3.4:80'],
  [{ ip: '1.2.3.4', port: '80' }, '1.2.3.4:80'],
]
const NO_ADDRESSES =
  '|1.2.3.4|1.2.3.4:0|1.2.3.4:65536|1.2.3.4:8o|1.2.3.4: 80|1.2.3.4:-80|1.2.3:80|1.2.3.256:80|01.2.3.4:80|' +
  '0x1.2.3.4:80|[2001:db8::1]:80|2001:db8::1|example.org:80|http://1.2.3.4:80'
const NOT_ADDRESSED: readonly (readonly [field: string, row: RawRow, listedAs?: string])[] = [
  ...NO_ADDRESSES.split('|').map(ip => ['ip', { ip }] as const),
  ...[{}, { ip: 16909060 }, { ip: ['1.2.3.4:80'] }].map(row => ['ip', row] as const),
  ...['', '0', 80.5].map(port => ['ip', { ip: '1.2.3.4', port }] as const),
  ['ip', { ip: '1.2.3.4' }, '5.6.7.8:80'],
  ...['81', 'http', {}].map(port => ['port', { ip: '1.2.3.4:80', port }] as const),
  ['port', { port: '81' }, '1.2.3.4:80'],
]

describe('the address of a row', () => {
  for (const [row, listedAs] of ADDRESSED) {
    test(`comes from ${JSON.stringify(row)}, listed as ${listedAs}`, () => {
      expect(proxyOf({ type: 'http', ...row }, listedAs)).toMatchObject({ ip: '1.2.3.4', port: 80 })
    })
  }
  const ENDS =
    '1.0.0.0:1 223.255.255.255:65535 127.0.0.1:80 10.0.0.1:80 100.64.0.1:80 169.253.0.1:80'
  test.each([...ENDS.split(' '), '192.168.0.1:80', '198.51.100.0:80'])('may be %s', address => {
    const { ip, port } = proxyOf({ type: 'http', ip: address })
    expect(`${ip}:${port}`).toBe(address)
  })
  const UNUSABLE =
    '0.0.0.0 0.255.255.255 169.254.169.254 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255'
  test.each(UNUSABLE.split(' '))('cannot be %s, which nobody can use', ip => {
    for (const row of [{ ip: `${ip}:80` }, { ip, port: '80' }]) {
      const result = readRow({ type: 'http', ...row }, DEFAULTS)
      const reason = expect.stringContaining('nobody can use, of 0.0.0.0/8, 169.254.0.0/16, ')
      expect(result).toEqual({ ok: false, field: 'ip', reason })
    }
  })
  for (const [field, row, listedAs] of NOT_ADDRESSED) {
    test(`is rejected: ${JSON.stringify(row)} listed as ${listedAs}`, () => {
      const result = readRow({ type: 'http', ...row }, DEFAULTS, listedAs)
      expect(result).toMatchObject({ ok: false, field })
    })
  }
})

/** Each member with its field, and what values become. */
const TAKEN: {
  [member: string]: [field: keyof IncomingProxy, ...(readonly [value: unknown, got: unknown])[]]
} = {
  type: [
    'type',
    ...TYPES.map(type => [type, type] as const),
    ...[' HTTPS ', 'http,https'].map(text => [text, 'https'] as const),
    [[{ type: 'HTTP' }, { type: 'HTTPS' }, { type: 'CONNECT:80' }], 'https'],
    ...['HTTP, SOCKS4/SOCKS5', 'socks5h'].map(text => [text, 'socks5'] as const),
    ...[['http', 'socks4'], 'socks4a'].map(given => [given, 'socks4'] as const),
    ['ftp http', 'http'],
  ],
  anon: [
    'anon',
    ...ANONS.map(anon => [anon, anon] as const),
    ...['high', 'Elite proxy'].map(text => [text, 'elite'] as const),
    ['Anm', 'anonymous'],
    ['NOA', 'transparent'],
  ],
  works: [
    'works',
    ...['97%', '97.9'].map(text => [text, 97] as const),
    ...[0, '0'].map(given => [given, 0] as const),
    ...[100, '100'].map(given => [given, 100] as const),
  ],
  ping: [
    'pingMs',
    ...['532ms', ' 532 MS ', '0.532 s', '0.532'].map(text => [text, 532] as const),
    ...[0, 1e-7].map(seconds => [seconds, 0] as const),
    [1.5, 1500],
    [999_999_999_999.999, 999_999_999_999_999],
  ],
  speed: [
    'speed',
    [0, 0],
    ['1250000', 1_250_000],
    [10.4, 10],
    [999_999_999_999_999, 999_999_999_999_999],
  ],
  country: ['country', ['de', 'DE'], ['Ru', 'RU']],
  city: [
    'city',
    ...['Ё', "'s-Hertogenbosch", 'x'.repeat(200)].map(name => [name, name] as const),
    ['Washington, D.C.', 'Washington D.C.'],
    [', a ,, b,', 'a b'],
    ['-', ''],
  ],
  city_en: ['cityEn', ['New York', 'New York'], ['Washington,D.C.', 'Washington D.C.']],
  ip_out: [
    'ipOut',
    ...['9.8.7.6', '::FFFF:9.8.7.6'].map(text => [text, '9.8.7.6'] as const),
    ['2001:db8:0:0:0:0:0:1', '2001:db8::1'],
    ['1:2:3:4::9.8.7.6', '1:2:3:4::908:706'],
  ],
}
const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()
const REFUSED: { [member: string]: readonly unknown[] } = {
  type: ['ftp', 'socks', 'ftp,gopher', 'constructor', 5, true, {}],
  anon: ['very', 'unknown', 'elite or so', 1, []],
  works: [-1, 101, 100.5, '1e2', '+5', '0x10', '101%', '%', '97%%', true, [97], {}],
  speed: [-1, '-1', '1e3', 'fast', 1e15, '1,5', [], false],
  ping: [-0.001, '-1', 'NaN', 'Infinity', '532 m', 'ms', '0,532', '0,532s', 1e12, {}],
  country: ['D', 'DEU', 'Germany', 'd1', '??', 'ß', 'ﬁ', 49, {}],
  city: [
    'x'.repeat(201),
    'a\nb',
    'a\u0000b',
    'a\u007f',
    'a\u009b2J',
    'a\u2028b',
    '\u202eb',
    ...["=cmd|' /C calc'!A0", '+1+1', '-2', '@SUM(1)', 'Berlin;=1+1', 'Berlin; @SUM(1)'],
    {},
    [],
  ],
  city_en: ['x'.repeat(201), 'a\tb', false],
  ip_out: ['9.8.7.6:80', '9.8.7', 'example.org', '[::1]', {}],
  timecheck: [
    ...['2026-11-20 14:05:01', '2026-11-20T13:59:30', '2026-11-20 13:59', '2026-02-29 12:00:00'],
    ...['2026-11-31 12:00:00', '2026-13-01 12:00:00', '2026-11-20 24:00:00', '2 minutes ago'],
    ...['2026-11-20 12:60:00', '1970-01-01 01:59:59', NOW],
  ],
  checked_at: [
    ...[NOW + 301, iso(NOW + 301), (NOW + 301) * 1000, -1, '1e9', '1969-12-31T23:59:59Z', true, {}],
    ...['2026-11-31T00:00:00Z', '2026-02-29', '2026-11-20T25:00:00Z', '20.11.2026 12:00'],
    'Fri, 20 Nov 2026 11:59:30 GMT',
  ],
}

describe('a member of a row', () => {
  for (const [member, [field, ...cases]] of Object.entries(TAKEN)) {
    test.each(cases)(`${member} %p is taken as %p`, (value, got) => {
      expect(proxyOf({ ...MINIMAL, [member]: value })[field]).toEqual(got as never)
    })
  }
  for (const [member, values] of Object.entries(REFUSED)) {
    for (const value of values) {
      test(`${member} ${JSON.stringify(value)} is rejected, and named`, () => {
        const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
        const reason = expect.stringMatching(/./)
        expect(result).toMatchObject({ ok: false, field: member, reason })
      })
    }
  }
  test.each(['ip', 'port', ...Object.keys(REFUSED)])(
    '%s is read no further than a line',
    member => {
      const text = `a${' '.repeat(990)},b`
      for (const [value, isLong] of [
        [text, false],
        [`${text}${text}`, true],
      ] as const) {
        const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
        const reason = result.ok ? '' : result.reason
        expect(reason === 'is longer than 1000 characters').toBe(isLong)
      }
    },
  )
  test('that makes anything fail costs that row only', () => {
    const translate = (): never => {
      throw new RangeError('Maximum call stack size exceeded.')
    }
    const result = readRow(MINIMAL, DEFAULTS, undefined, translate)
    expect(result).toEqual({ ok: false, field: 'row', reason: 'cannot be read' })
  })
  test('type is required when the import names none', () => {
    const result = readRow({ ip: '1.2.3.4:80' }, DEFAULTS)
    expect(result).toMatchObject({
      ok: false,
      field: 'type',
      reason: expect.stringMatching(/^is req/),
    })
  })
})

const FLAGS: readonly (readonly [value: unknown, granted: boolean])[] = [
  ...[true, 'true', 'TRUE', ' True ', 1, '1', 'yes'].map(value => [value, true] as const),
  ...[false, 'false', 'False', 0, '0', 'No'].map(value => [value, false] as const),
]
const NO_FLAGS = [2, -1, 0.5, 'maybe', 'on', 'constructor', '__proto__', {}, [], [true], [[1]]]

describe('a service of a row', () => {
  for (const [i, service] of SERVICES.entries()) {
    const member = ['smtp', 'telegram', 'avito', 'google', PROVIDER][i] ?? ''
    for (const [value, granted] of FLAGS) {
      test(`${member} ${JSON.stringify(value)} states ${granted}`, () => {
        const { services, servicesStated } = proxyOf({ ...MINIMAL, [member]: value })
        expect(servicesStated).toEqual(new Set([service]))
        expect(services).toEqual(new Set(granted ? [service] : []))
      })
    }
  }
  for (const value of NO_FLAGS) {
    test(`is neither true nor false: ${JSON.stringify(value)}`, () => {
      const result = readRow({ ...MINIMAL, google: value }, DEFAULTS)
      expect(result).toMatchObject({ ok: false, field: 'google' })
    })
  }
  test('of the provider may be written with an underscore', () => {
    const { services } = proxyOf({ ...MINIMAL, the_service: 1 })
    expect(services).toEqual(new Set(['provider'] as const))
  })
  test('of the provider has the name the provider gave it', () => {
    const renamed = { ...DEFAULTS, provider: 'acme' }
    const granted = { ok: true, proxy: { services: new Set(['provider']) } }
    expect(readRow({ ...MINIMAL, acme: true }, renamed)).toMatchObject(granted)
    const stated = readRow({ ...MINIMAL, 'the service': true }, renamed)
    expect(stated).toMatchObject({ ok: true, proxy: { servicesStated: new Set() } })
  })
})

/** Times of a check, and what is written for them. */
const TIMES: readonly (readonly [checkedAt: number, ...written: RawRow[string][]])[] = [
  [0, 0],
  [19_999, 19_999],
  [80_000, 80_000],
  [100_000_000, 100_000_000_000],
  [Date.UTC(2024, 1, 29) / 1000, '2024-02-29T00:00:00Z'],
  [NOW - 43_200, '2026-11-20'],
  [NOW - 60, '2026-11-20T11:59Z'],
  [NOW - 30, NOW - 30, `${NOW - 30}`, NOW - 29.5, '2026-11-20T11:59:30', '2026-11-20 11:59:30'],
  [NOW - 30, '2026-11-20T11:59:30Z', '2026-11-20T11:59:30.999Z', '2026-11-20T13:59:30+02:00'],
  [NOW - 30, '2026-11-20T05:59:30-0600'],
  [NOW - 1, `${NOW * 1000 - 1}`],
  [NOW, NOW * 1000],
  [NOW + 300, NOW + 300, iso(NOW + 300)],
]

describe('the time of a check', () => {
  for (const [checkedAt, ...written] of TIMES) {
    test.each(written)(`%p as checked_at is ${checkedAt}`, checked_at => {
      expect(proxyOf({ ...MINIMAL, checked_at }).checkedAt).toBe(checkedAt)
    })
  }
  test.each([
    ['2026-11-20 13:59:30', NOW - 30],
    ['2026-07-01 02:00:00', Date.UTC(2026, 6, 1) / 1000],
    ['1970-01-01 02:00:00', 0],
    ['2026-11-20 14:05:00', NOW + 300],
    ['', NOW],
  ])('%p as timecheck is %d', (timecheck, checkedAt) => {
    expect(proxyOf({ ...MINIMAL, timecheck }).checkedAt).toBe(checkedAt)
  })
  test('is checked_at where there is a timecheck, too', () => {
    const row = { ...MINIMAL, timecheck: '2028-02-29 12:00:00', checked_at: 7 }
    expect(proxyOf(row).checkedAt).toBe(7)
  })
  test('may lie 5 minutes in the future, as the message says', () => {
    const result = readRow({ ...MINIMAL, checked_at: NOW + 301 }, DEFAULTS)
    expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/ 5 minutes /) })
  })
  test('is the second the import began when the row names none', () => {
    const result = readRow(MINIMAL, { ...DEFAULTS, nowMs: T0 + 999 })
    expect(result).toMatchObject({ ok: true, proxy: { checkedAt: NOW } })
  })
})
