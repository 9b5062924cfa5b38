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
    expect(result).toMatchObject({ ok: true, proxy: { type: 'socks4' } })
  })
  test('keeps its own type when the import names another', () => {
    const result = readRow(MINIMAL, { ...DEFAULTS, type: 'socks4' })
    expect(result).toMatchObject({ ok: true, proxy: { type: 'http' } })
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
})

type Addressed = readonly [what: string, row: RawRow, listedAs: string | undefined, got: string]
const ADDRESSES: readonly Addressed[] = [
  ['ip with port', { ip: '1.2.3.4:80' }, undefined, '1.2.3.4:80'],
  ['ip and port, a text', { ip: '1.2.3.4', port: '80' }, undefined, '1.2.3.4:80'],
  ['ip and port, a number', { ip: '1.2.3.4', port: 80 }, undefined, '1.2.3.4:80'],
  ['ip with port, and the same port', { ip: '1.2.3.4:80', port: 80 }, undefined, '1.2.3.4:80'],
  ['the key of an object', {}, '1.2.3.4:80', '1.2.3.4:80'],
  ['ip without port, and a key', { ip: '1.2.3.4' }, '1.2.3.4:80', '1.2.3.4:80'],
  ['ip, port and a key', { ip: '1.2.3.4', port: '80' }, '1.2.3.4:80', '1.2.3.4:80'],
  ['lowest port', { ip: '1.2.3.4:1' }, undefined, '1.2.3.4:1'],
  ['highest port', { ip: '255.255.255.255:65535' }, undefined, '255.255.255.255:65535'],
]
const NO_ADDRESSES: readonly (readonly [
  row: RawRow,
  listedAs: string | undefined,
  field: string,
])[] = [
  [{}, undefined, 'ip'],
  [{ ip: '' }, undefined, 'ip'],
  [{ ip: '1.2.3.4' }, undefined, 'ip'],
  [{ ip: '1.2.3.4', port: '' }, undefined, 'ip'],
  [{ ip: '1.2.3.4:0' }, undefined, 'ip'],
  [{ ip: '1.2.3.4:65536' }, undefined, 'ip'],
  [{ ip: '1.2.3.4:8o' }, undefined, 'ip'],
  [{ ip: '1.2.3.4: 80' }, undefined, 'ip'],
  [{ ip: '1.2.3.4:-80' }, undefined, 'ip'],
  [{ ip: '1.2.3:80' }, undefined, 'ip'],
  [{ ip: '1.2.3.256:80' }, undefined, 'ip'],
  [{ ip: '01.2.3.4:80' }, undefined, 'ip'],
  [{ ip: '0x1.2.3.4:80' }, undefined, 'ip'],
  [{ ip: '[2001:db8::1]:80' }, undefined, 'ip'],
  [{ ip: '2001:db8::1' }, undefined, 'ip'],
  [{ ip: 'example.org:80' }, undefined, 'ip'],
  [{ ip: 'http://1.2.3.4:80' }, undefined, 'ip'],
  [{ ip: 16909060 }, undefined, 'ip'],
  [{ ip: ['1.2.3.4:80'] }, undefined, 'ip'],
  [{ ip: '1.2.3.4' }, '5.6.7.8:80', 'ip'],
  [{ ip: '1.2.3.4', port: '0' }, undefined, 'ip'],
  [{ ip: '1.2.3.4', port: 80.5 }, undefined, 'ip'],
  [{ ip: '1.2.3.4:80', port: '81' }, undefined, 'port'],
  [{ ip: '1.2.3.4:80', port: 'http' }, undefined, 'port'],
  [{ ip: '1.2.3.4:80', port: {} }, undefined, 'port'],
  [{ port: '81' }, '1.2.3.4:80', 'port'],
]

describe('the address of a row', () => {
  for (const [what, row, listedAs, got] of ADDRESSES) {
    test(`comes from ${what}`, () => {
      const { ip, port } = proxyOf({ type: 'http', ...row }, listedAs)
      expect(`${ip}:${port}`).toBe(got)
    })
  }
  for (const [row, listedAs, field] of NO_ADDRESSES) {
    test(`is rejected: ${JSON.stringify(row)} listed as ${listedAs}`, () => {
      const result = readRow({ type: 'http', ...row }, DEFAULTS, listedAs)
      expect(result).toMatchObject({ ok: false, field })
    })
  }
})

type Member = readonly [member: string, value: unknown, field: keyof IncomingProxy, got: unknown]
const TAKEN: readonly Member[] = [
  ...TYPES.map(type => ['type', type, 'type', type] satisfies Member),
  ...ANONS.map(anon => ['anon', anon, 'anon', anon] satisfies Member),
  ['type', ' HTTPS ', 'type', 'https'],
  ['type', 'http,https', 'type', 'https'],
  ['type', 'HTTP, SOCKS4/SOCKS5', 'type', 'socks5'],
  ['type', 'ftp http', 'type', 'http'],
  ['type', ['http', 'socks4'], 'type', 'socks4'],
  ['type', [{ type: 'HTTP' }, { type: 'HTTPS' }, { type: 'CONNECT:80' }], 'type', 'https'],
  ['type', 'socks5h', 'type', 'socks5'],
  ['type', 'socks4a', 'type', 'socks4'],
  ['anon', 'high', 'anon', 'elite'],
  ['anon', 'Elite proxy', 'anon', 'elite'],
  ['anon', 'Anm', 'anon', 'anonymous'],
  ['anon', 'NOA', 'anon', 'transparent'],
  ['works', '97%', 'works', 97],
  ['ping', '532ms', 'pingMs', 532],
  ['ping', ' 532 MS ', 'pingMs', 532],
  ['ping', '0.532 s', 'pingMs', 532],
  ['works', 0, 'works', 0],
  ['works', '0', 'works', 0],
  ['works', 100, 'works', 100],
  ['works', '100', 'works', 100],
  ['works', '97.9', 'works', 97],
  ['speed', 0, 'speed', 0],
  ['speed', '1250000', 'speed', 1_250_000],
  ['speed', 10.4, 'speed', 10],
  ['speed', 999_999_999_999_999, 'speed', 999_999_999_999_999],
  ['ping', 0, 'pingMs', 0],
  ['ping', '0.532', 'pingMs', 532],
  ['ping', 1.5, 'pingMs', 1500],
  ['ping', 1e-7, 'pingMs', 0],
  ['ping', 999_999_999_999.999, 'pingMs', 999_999_999_999_999],
  ['country', 'de', 'country', 'DE'],
  ['country', 'Ru', 'country', 'RU'],
  ['city', 'Ё', 'city', 'Ё'],
  ['city', 'x'.repeat(200), 'city', 'x'.repeat(200)],
  ['city', 'Washington, D.C.', 'city', 'Washington D.C.'],
  ['city', ', a ,, b,', 'city', 'a b'],
  ['city_en', 'New York', 'cityEn', 'New York'],
  ['city_en', 'Washington,D.C.', 'cityEn', 'Washington D.C.'],
  ['ip_out', '9.8.7.6', 'ipOut', '9.8.7.6'],
  ['ip_out', '::FFFF:9.8.7.6', 'ipOut', '9.8.7.6'],
  ['ip_out', '2001:db8:0:0:0:0:0:1', 'ipOut', '2001:db8::1'],
  ['ip_out', '1:2:3:4::9.8.7.6', 'ipOut', '1:2:3:4::908:706'],
]
const REFUSED: readonly (readonly [member: string, value: unknown])[] = [
  ...['ftp', 'socks', 'ftp,gopher', 'constructor', 5, true, {}].map(v => ['type', v] as const),
  ...['very', 'unknown', 'elite or so', 1, []].map(v => ['anon', v] as const),
  ...[-1, 101, 100.5, '1e2', '+5', '0x10', '101%', '%', '97%%', true, [97], {}].map(
    v => ['works', v] as const,
  ),
  ...[-1, '-1', '1e3', 'fast', 1e15, '1,5', [], false].map(v => ['speed', v] as const),
  ...[-0.001, '-1', 'NaN', 'Infinity', '532 m', 'ms', '0,532', '0,532s', 1e12, {}].map(
    v => ['ping', v] as const,
  ),
  ...['D', 'DEU', 'Germany', 'd1', '??', 'ß', 'ﬁ', 49, {}].map(v => ['country', v] as const),
  ...['x'.repeat(201), 'a\nb', 'a\u0000b', 'a\u007f', {}, []].map(v => ['city', v] as const),
  ...['x'.repeat(201), 'a\tb', false].map(v => ['city_en', v] as const),
  ...['9.8.7.6:80', '9.8.7', 'example.org', '[::1]', {}].map(v => ['ip_out', v] as const),
]

describe('a member of a row', () => {
  for (const [member, value, field, got] of TAKEN) {
    test(`${member} ${JSON.stringify(value)} is taken`, () => {
      expect(proxyOf({ ...MINIMAL, [member]: value })[field]).toEqual(got as never)
    })
  }
  for (const [member, value] of REFUSED) {
    test(`${member} ${JSON.stringify(value)} is rejected, and named`, () => {
      const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
      expect(result).toMatchObject({ ok: false, field: member, reason: expect.stringMatching(/./) })
    })
  }
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

const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()
const TIMES: readonly (readonly [row: RawRow, checkedAt: number])[] = [
  [{ timecheck: '2026-11-20 13:59:30' }, NOW - 30],
  [{ timecheck: '2026-07-01 02:00:00' }, Date.UTC(2026, 6, 1) / 1000],
  [{ timecheck: '1970-01-01 02:00:00' }, 0],
  [{ timecheck: '2028-02-29 12:00:00', checked_at: 7 }, 7],
  [{ checked_at: NOW - 30 }, NOW - 30],
  [{ checked_at: `${NOW - 30}` }, NOW - 30],
  [{ checked_at: NOW - 29.5 }, NOW - 30],
  [{ checked_at: NOW * 1000 }, NOW],
  [{ checked_at: `${NOW * 1000 - 1}` }, NOW - 1],
  [{ checked_at: 100_000_000_000 }, 100_000_000],
  [{ checked_at: 0 }, 0],
  [{ checked_at: 19_999 }, 19_999],
  [{ checked_at: 80_000 }, 80_000],
  [{ checked_at: '2026-11-20T11:59:30Z' }, NOW - 30],
  [{ checked_at: '2026-11-20T11:59:30.999Z' }, NOW - 30],
  [{ checked_at: '2026-11-20T13:59:30+02:00' }, NOW - 30],
  [{ checked_at: '2026-11-20T05:59:30-0600' }, NOW - 30],
  [{ checked_at: '2026-11-20T11:59:30' }, NOW - 30],
  [{ checked_at: '2026-11-20 11:59:30' }, NOW - 30],
  [{ checked_at: '2026-11-20T11:59Z' }, NOW - 60],
  [{ checked_at: '2026-11-20' }, NOW - 43_200],
  [{ checked_at: '2024-02-29T00:00:00Z' }, Date.UTC(2024, 1, 29) / 1000],
  [{ checked_at: NOW + 300 }, NOW + 300],
  [{ checked_at: iso(NOW + 300) }, NOW + 300],
  [{ timecheck: '2026-11-20 14:05:00' }, NOW + 300],
  [{ timecheck: '' }, NOW],
]
const NO_TIMES: readonly (readonly [member: 'timecheck' | 'checked_at', value: unknown])[] = [
  ['timecheck', '2026-11-20 14:05:01'],
  ['timecheck', '2026-11-20T13:59:30'],
  ['timecheck', '2026-11-20 13:59'],
  ['timecheck', '2026-02-29 12:00:00'],
  ['timecheck', '2026-11-31 12:00:00'],
  ['timecheck', '2026-13-01 12:00:00'],
  ['timecheck', '2026-11-20 24:00:00'],
  ['timecheck', '2026-11-20 12:60:00'],
  ['timecheck', '1970-01-01 01:59:59'],
  ['timecheck', NOW],
  ['timecheck', '2 minutes ago'],
  ['checked_at', NOW + 301],
  ['checked_at', iso(NOW + 301)],
  ['checked_at', (NOW + 301) * 1000],
  ['checked_at', -1],
  ['checked_at', '1e9'],
  ['checked_at', '1969-12-31T23:59:59Z'],
  ['checked_at', '2026-11-31T00:00:00Z'],
  ['checked_at', '2026-02-29'],
  ['checked_at', '2026-11-20T25:00:00Z'],
  ['checked_at', '20.11.2026 12:00'],
  ['checked_at', 'Fri, 20 Nov 2026 11:59:30 GMT'],
  ['checked_at', true],
  ['checked_at', {}],
]

describe('the time of a check', () => {
  for (const [row, checkedAt] of TIMES) {
    test(`${JSON.stringify(row)} is read`, () => {
      expect(proxyOf({ ...MINIMAL, ...row }).checkedAt).toBe(checkedAt)
    })
  }
  for (const [member, value] of NO_TIMES) {
    test(`${member} ${JSON.stringify(value)} is rejected`, () => {
      const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
      expect(result).toMatchObject({ ok: false, field: member })
    })
  }
  test('may lie 5 minutes in the future, as the message says', () => {
    const result = readRow({ ...MINIMAL, checked_at: NOW + 301 }, DEFAULTS)
    expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/ 5 minutes /) })
  })
  test('is the second the import began when the row names none', () => {
    const result = readRow(MINIMAL, { ...DEFAULTS, nowMs: T0 + 999 })
    expect(result).toMatchObject({ ok: true, proxy: { checkedAt: NOW } })
  })
})
