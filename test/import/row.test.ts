/** What a row may say, which values are unknown, and what makes `readRow` reject the row. */
import { describe, expect, test } from 'bun:test'
import type { Context, RawRow } from '../../src/import/reader.ts'
import { type Defaults, readRow } from '../../src/import/row.ts'
import { ANONS, type IncomingProxy, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { typeBits, typesOf } from '../../src/proxies/types.ts'
import { T0 } from '../support/fixtures.ts'
import { BARE, NOW } from '../support/incoming.ts'

const PROVIDER = 'the service'
/** A check is known to the second. */
const DEFAULTS = { type: undefined, nowMs: T0 + 999, provider: PROVIDER }
const MINIMAL = { ip: '1.2.3.4:80', type: 'http' }

/** The proxy of a row that must be good, and the values that it leaves out. */
function read(row: RawRow, context?: Context, defaults: Defaults = DEFAULTS) {
  const unread: unknown[] = []
  const result = readRow(row, defaults, context, null, (field, value) =>
    unread.push([field, value]),
  )
  if (result.kind !== 'good') throw new Error(JSON.stringify(result))
  return { proxy: result.proxy, isTypeAssumed: result.isTypeAssumed, unread }
}
const proxyOf = (...given: Parameters<typeof read>): IncomingProxy => read(...given).proxy

const OPTIONAL = 'ip_out anon speed ping timecheck checked_at country city city_en works'.split(' ')
const FLAGS = ['smtp', 'telegram', 'avito', 'google', PROVIDER]

describe('a row', () => {
  test('needs only an address and a type; the rest is unknown, and the check is now', () => {
    expect(proxyOf(MINIMAL)).toEqual({ ...BARE, ip: '1.2.3.4', port: 80, checkedAt: NOW })
  })
  test.each(['', '  ', null, undefined])('has unknown values for members that are %p', nothing => {
    const row = Object.fromEntries([...OPTIONAL, ...FLAGS].map(name => [name, nothing]))
    expect(read({ ...MINIMAL, ...row })).toEqual(read(MINIMAL))
  })
  test('has its own type, or the type of its list, or the type of the import', () => {
    const typeOf = (row: RawRow, context: Context = {}) => {
      const { proxy, isTypeAssumed } = read(row, context, { ...DEFAULTS, type: 'socks4' })
      return [...typesOf(proxy.types), isTypeAssumed]
    }
    const { ip } = MINIMAL
    expect(typeOf(MINIMAL, { types: 8 })).toEqual(['http', false])
    expect(typeOf({ ip }, { types: 8 })).toEqual(['socks5', false])
    expect(typeOf({ ip })).toEqual(['socks4', true])
  })
  test('of a candidate needs no type', () => {
    const defaults = { ...DEFAULTS, isTypeOptional: true }
    const { ip } = MINIMAL
    expect(proxyOf({ ip }, {}, defaults).types).toBe(0)
    expect(read({ ip, type: 'x' }, {}, defaults)).toMatchObject({ unread: [['type', 'x']] })
  })
  test('has its own values, or the values of its list', () => {
    const ofList = { country: 'DE', anon: 'elite' } as const
    const context = { ...ofList, checked_at: NOW - 9 }
    expect(proxyOf(MINIMAL, context)).toMatchObject({ ...ofList, checkedAt: NOW - 9 })
    const own = { country: 'FR', anon: 'anonymous' }
    const proxy = proxyOf({ ...MINIMAL, ...own, checked_at: NOW - 5 }, context)
    expect(proxy).toMatchObject({ ...own, checkedAt: NOW - 5 })
    for (const checked_at of [54, NOW + 1]) {
      expect(proxyOf(MINIMAL, { checked_at }).checkedAt).toBe(NOW)
    }
  })
})

/** Rows with the address 1.2.3.4:80. */
const ADDRESSED: readonly RawRow[] = [
  ...['1.2.3.4:80', ['1.2.3.4:80'], 'http://1.2.3.4: 80'].map(ip => ({ ip })),
  ...['80', 80].map(port => ({ ip: '1.2.3.4', port })),
  { ip: '1.2.3.4:80', port: 80 },
]
const NO_ADDRESSES =
  '|1.2.3.4|1.2.3.4:0|1.2.3.4:65536|1.2.3.4:8o|1.2.3.4:-80|1.2.3:80|1.2.3.256:80|01.2.3.4:80|' +
  '0x1.2.3.4:80|[2001:db8::1]:80|2001:db8::1|example.org:80|1.2.3.4:80 1.2.3.5:80'
const NOT_ADDRESSED: readonly (readonly [field: string, row: RawRow])[] = [
  ...NO_ADDRESSES.split('|').map(ip => ['ip', { ip }] as const),
  ...[{}, { ip: 16909060 }].map(row => ['ip', row] as const),
  ...['', '0', 80.5].map(port => ['ip', { ip: '1.2.3.4', port }] as const),
  ...['81', 'http'].map(port => ['port', { ip: '1.2.3.4:80', port }] as const),
]

describe('the address of a row', () => {
  for (const row of ADDRESSED) {
    test(`comes from ${JSON.stringify(row)}`, () => {
      const proxy = proxyOf({ type: 'http', ...row })
      expect(proxy).toMatchObject({ ip: '1.2.3.4', port: 80 })
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
  test.each(UNUSABLE.split(' '))('cannot be %s, in any form', ip => {
    for (const row of [{ ip: `${ip}:80` }, { ip, port: '80' }]) {
      const reason = expect.stringContaining('cannot be used: it is in 0.0.0.0/8, 169.254.0.0/16, ')
      const result = readRow({ type: 'http', ...row }, DEFAULTS)
      expect(result).toEqual({ kind: 'rejected', field: 'ip', reason })
    }
  })
  for (const [field, row] of NOT_ADDRESSED) {
    test(`is not in ${JSON.stringify(row)}`, () => {
      const result = readRow({ type: 'http', ...row }, DEFAULTS)
      expect(result).toMatchObject({ kind: 'rejected', field })
    })
  }
})

const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()
const atHalf = (written: unknown) => [written, NOW - 30] as const
/** The bounds of each member: its field, values, and how they are read. Words and units are in forms.test.ts. */
const READ: {
  [member: string]: [field: keyof IncomingProxy, ...(readonly [value: unknown, got: unknown])[]]
} = {
  type: [
    'types',
    ...TYPES.map(type => [type, typeBits([type])] as const),
    [' HTTPS ', typeBits(['https'])],
    ['HTTP, SOCKS4/SOCKS5', typeBits(['http', 'socks4', 'socks5'])],
    [['http', 'socks4'], typeBits(['http', 'socks4'])],
    ['ftp http', typeBits(['http'])],
  ],
  types: [
    'types',
    [['socks5', 'http'], typeBits(['http', 'socks5'])],
    ['socks5;socks4', typeBits(['http', 'socks4', 'socks5'])],
    ['', typeBits(['http'])],
  ],
  anon: ['anon', ...ANONS.map(anon => [anon, anon] as const)],
  works: ['works', ['97.9', 97], [0, 0], ['0', 0], [100, 100], ['100', 100]],
  ping: [
    'pingMs',
    ...[' 532 MS ', '0.532'].map(text => [text, 532] as const),
    ...[0, 1e-7].map(seconds => [seconds, 0] as const),
    [60, 60_000],
  ],
  speed: ['speed', [0, 0], [10.4, 10], [999_999_999_999_999, 999_999_999_999_999]],
  country: ['country', ['Ru', 'RU']],
  city: [
    'city',
    ...['Ё', "'s-Hertogenbosch", 'x'.repeat(200)].map(name => [name, name] as const),
    ['Washington, D.C.', 'Washington D.C.'],
    [', a ,, b,', 'a b'],
    ['-', ''],
  ],
  city_en: ['cityEn', ['Washington,D.C.', 'Washington D.C.']],
  ip_out: [
    'ipOut',
    ...['9.8.7.6', '::FFFF:9.8.7.6'].map(text => [text, '9.8.7.6'] as const),
    ['2001:db8:0:0:0:0:0:1', '2001:db8::1'],
  ],
  checked_at: [
    'checkedAt',
    ...[NOW - 30, `${NOW - 30}`, NOW - 29.5, '2026-11-20T11:59:30'].map(atHalf),
    ...['2026-11-20 11:59:30', '2026-11-20T11:59:30.999Z', '2026-11-20T05:59:30-0600'].map(atHalf),
    ...[946_684_800, '2000-01-01'].map(written => [written, 946_684_800] as const),
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29) / 1000],
    ['2026-11-20', NOW - 43_200],
    ['2026-11-20T11:59Z', NOW - 60],
    [`${NOW * 1000 - 1}`, NOW - 1],
    [NOW * 1000, NOW],
    ...[NOW + 300, iso(NOW + 300)].map(written => [written, NOW + 300] as const),
  ],
  timecheck: [
    'checkedAt',
    ['2026-11-20 13:59:30', NOW - 30],
    ['2026-07-01 02:00:00', Date.UTC(2026, 6, 1) / 1000],
    ['2000-01-01 02:00:00', 946_684_800],
    ['2026-11-20 14:05:00', NOW + 300],
  ],
}
const LONG = 'x'.repeat(1001)
const NOT_FLAGS = [2, -1, 0.5, 'maybe', 'on', 'constructor', '__proto__', {}, [], [true], [[1]]]
/** Values that are unknown because the importer does not understand them. */
const UNREAD: { [member: string]: readonly unknown[] } = {
  types: ['ftp', {}, [{ type: 'socks5' }], 5],
  anon: ['very', 'elite or so', 5, []],
  works: [-1, 101, 100.5, '1e2', '+5', '0x10', '101%', '%', '97%%', true, [97], {}],
  speed: [-1, '-1', '1e3', 'fast', 1e15, '1,5', [], false],
  ping: [
    -0.001,
    '-1',
    'NaN',
    'Infinity',
    '532 m',
    'ms',
    '0,532',
    '0,532s',
    60.001,
    '61 s',
    '60001 ms',
    1e12,
    {},
  ],
  country: ['D', 'Atlantis', 'd1', '??', 'ß', 'ﬁ', 49, {}, ['RU', 'DE'], [['RU']], [{}], []],
  city: [
    ...['x'.repeat(201), 'a\nb', 'a\0b', 'a\u007f', 'a\u009b2J', 'a\u2028b', '\u202eb'],
    ...["=cmd|' /C calc'!A0", '+1+1', '-2', '@SUM(1)', 'Berlin;=1+1', 'Berlin; @SUM(1)', {}, []],
  ],
  city_en: ['x'.repeat(201), 'a\tb', false],
  ip_out: ['9.8.7.6:80', '9.8.7', 'example.org', '[::1]', {}],
  timecheck: [
    ...['2026-11-20T13:59:30', '2026-11-20 13:59', '2026-02-29 12:00:00', '2026-11-31 12:00:00'],
    ...['2026-13-01 12:00:00', '2026-11-20 24:00:00', '2026-11-20 12:60:00', '2 minutes ago', NOW],
  ],
  checked_at: [
    ...[-1, '1e9', true, {}, '2026-11-31T00:00:00Z', '2026-02-29', '2026-11-20T25:00:00Z'],
    ...['11/12/2026 12:00', 'yesterday'],
  ],
  google: NOT_FLAGS,
  [PROVIDER]: NOT_FLAGS,
}
const REJECTED: { [member: string]: readonly unknown[] } = {
  type: ['ftp', 'socks', 'ftp,gopher', 'constructor', 5, true, {}, LONG],
  timecheck: ['2026-11-20 14:05:01', '1999-12-31 12:00:00'],
  checked_at: [
    ...[NOW + 301, iso(NOW + 301), (NOW + 301) * 1000, 0, 54, '1999-12-31T23:59:59Z'],
    '1969-12-31T23:59:59Z',
  ],
}

const short = (value: unknown): string => JSON.stringify(value).slice(0, 40)
/** A note names one field for cities of both languages. */
const named = (member: string): string => member.replace('_en', '')

describe('a member of a row', () => {
  for (const [member, [field, ...cases]] of Object.entries(READ)) {
    test.each(cases)(`${member} %p is read as %p`, (value, got) => {
      expect(proxyOf({ ...MINIMAL, [member]: value })[field]).toEqual(got as never)
    })
  }
  for (const [member, values] of Object.entries(UNREAD)) {
    for (const value of [...values, LONG]) {
      test(`${member} ${short(value)} is unknown, and named`, () => {
        const result = read({ ...MINIMAL, [member]: value })
        expect(result).toEqual({ ...read(MINIMAL), unread: [[named(member), value]] })
      })
    }
  }
  for (const [member, values] of Object.entries(REJECTED)) {
    for (const value of values) {
      test(`${member} ${short(value)} rejects the row`, () => {
        const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
        expect(result).toMatchObject({ kind: 'rejected', field: member })
      })
    }
  }
  test.each([['ftp'], { a: 1 }])('types with %p rejects a row without another type', types => {
    const reason = 'must be a list of http, https, socks4, socks5'
    const result = readRow({ ip: '1.2.3.4:80', types }, DEFAULTS)
    expect(result).toEqual({ kind: 'rejected', field: 'types', reason })
  })
  test('comes from checked_at, not from timecheck', () => {
    const row = { ...MINIMAL, timecheck: '2028-02-29 12:00:00', checked_at: NOW - 7 }
    expect(proxyOf(row).checkedAt).toBe(NOW - 7)
  })
})

describe('a service of a row', () => {
  const states = (value: unknown, isGranted: boolean): void => {
    for (const [i, service] of SERVICES.entries()) {
      const proxy = proxyOf({ ...MINIMAL, [FLAGS[i] ?? '']: value })
      expect(proxy.servicesStated).toEqual(new Set([service]))
      expect(proxy.services).toEqual(new Set(isGranted ? [service] : []))
    }
  }
  test.each([true, 'true', 'TRUE', ' True ', 1, '1', 'yes'])('%p is true', value => {
    states(value, true)
  })
  test.each([false, 'false', 'False', 0, '0', 'No'])('%p is false', value => {
    states(value, false)
  })
  test('of the provider may be written with an underscore', () => {
    expect(proxyOf({ ...MINIMAL, the_service: 1 }).services).toEqual(new Set(['provider'] as const))
  })
  test('of the provider has the name that the provider gave it', () => {
    const defaults = { ...DEFAULTS, provider: 'acme' }
    const { services } = proxyOf({ ...MINIMAL, acme: true }, {}, defaults)
    expect(services).toEqual(new Set(['provider'] as const))
    const { servicesStated } = proxyOf({ ...MINIMAL, 'the service': true }, {}, defaults)
    expect(servicesStated).toEqual(new Set())
  })
})
