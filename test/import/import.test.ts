/**
 * Files in, proxies or reasons out: what a row may say, how rows are found in every format however
 * the bytes arrive, what is refused whole, and what an import reports. Whole files are in vectors/.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { CommandError } from '../../src/api/errors.ts'
import { createRenderer } from '../../src/api/render.ts'
import {
  detectFormat,
  type Format,
  HEAD_LENGTH,
  readRows,
} from '../../src/import/formats/formats.ts'
import { type ImportOptions, importSources, type Source } from '../../src/import/import.ts'
import { type RawRow, readRow } from '../../src/import/row.ts'
import { UnusableFile } from '../../src/import/sink.ts'
import {
  ANONS,
  cityIn,
  type Filter,
  type IncomingProxy,
  type Proxy,
  SERVICES,
  TYPES,
} from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'
import { ROOT } from '../support/program.ts'

const NOW = T0 / 1000
const BIG = 999_999_999_999_999
const PROVIDER = 'the service'
const DEFAULTS = { type: undefined, nowMs: T0, provider: PROVIDER }
const MINIMAL = { ip: '1.2.3.4:80', type: 'http' }

/** The proxy of a row that must be good. */
function proxyOf(row: RawRow, listedAs?: string): IncomingProxy {
  const result = readRow(row, DEFAULTS, listedAs)
  if (!result.ok) throw new Error(`refused: ${result.field} ${result.reason}`)
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
  test('is read whole when it says everything', () => {
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
    test(`is refused: ${JSON.stringify(row)} listed as ${listedAs}`, () => {
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
  ['city_en', 'New York', 'cityEn', 'New York'],
  ['ip_out', '9.8.7.6', 'ipOut', '9.8.7.6'],
  ['ip_out', '::FFFF:9.8.7.6', 'ipOut', '9.8.7.6'],
  ['ip_out', '2001:db8:0:0:0:0:0:1', 'ipOut', '2001:db8::1'],
]
const REFUSED: readonly (readonly [member: string, value: unknown])[] = [
  ...['ftp', 'socks', 'http,https', 'constructor', 5, true, {}].map(v => ['type', v] as const),
  ...['high', 'unknown', 'elite proxy', 1, []].map(v => ['anon', v] as const),
  ...[-1, 101, 100.5, '1e2', '+5', '0x10', '97%', true, [97], {}].map(v => ['works', v] as const),
  ...[-1, '-1', '1e3', 'fast', 1e15, '1,5', [], false].map(v => ['speed', v] as const),
  ...[-0.001, '-1', 'NaN', 'Infinity', '532ms', '0,532', 1e12, {}].map(v => ['ping', v] as const),
  ...['D', 'DEU', 'Germany', 'd1', '??', 'ß', 'ﬁ', 49, {}].map(v => ['country', v] as const),
  ...['x'.repeat(201), 'a,b', 'a\nb', 'a\u0000b', 'a\u007f', {}, []].map(v => ['city', v] as const),
  ...['x'.repeat(201), 'a,b', 'a\tb', false].map(v => ['city_en', v] as const),
  ...['9.8.7.6:80', '9.8.7', 'example.org', '[::1]', {}].map(v => ['ip_out', v] as const),
]

describe('a member of a row', () => {
  for (const [member, value, field, got] of TAKEN) {
    test(`${member} ${JSON.stringify(value)} is taken`, () => {
      expect(proxyOf({ ...MINIMAL, [member]: value })[field]).toEqual(got as never)
    })
  }
  for (const [member, value] of REFUSED) {
    test(`${member} ${JSON.stringify(value)} is refused, and named`, () => {
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
  ...[true, 'true', 'TRUE', ' True ', 1, '1'].map(value => [value, true] as const),
  ...[false, 'false', 'False', 0, '0'].map(value => [value, false] as const),
]
const NO_FLAGS = [2, -1, 0.5, 'yes', 'on', 'constructor', '__proto__', {}, [], [true], [[1]]]

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
  test('of the provider goes by the name the provider gave it', () => {
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
  [{ checked_at: 0 }, 0],
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
  ['checked_at', NOW * 1000],
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
    test(`${member} ${JSON.stringify(value)} is refused`, () => {
      const result = readRow({ ...MINIMAL, [member]: value }, DEFAULTS)
      expect(result).toMatchObject({ ok: false, field: member })
    })
  }
  test('may lie 5 minutes in the future, as the refusal says', () => {
    const result = readRow({ ...MINIMAL, checked_at: NOW + 301 }, DEFAULTS)
    expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/ 5 minutes /) })
  })
  test('is the second the import began when the row names none', () => {
    const result = readRow(MINIMAL, { ...DEFAULTS, nowMs: T0 + 999 })
    expect(result).toMatchObject({ ok: true, proxy: { checkedAt: NOW } })
  })
})

const DETECTED: readonly (readonly [head: string, format: Format])[] = [
  ['1.2.3.4:80\n', 'txt'],
  ['http://1.2.3.4:80', 'txt'],
  ['# only a comment', 'txt'],
  ['', 'txt'],
  ['\n\n  \n', 'txt'],
  ['# ip,type\nsocks5://1.2.3.4:80\n', 'txt'],
  ['rubbish\n1.2.3.4:80\n', 'txt'],
  ['ip,type\n1.2.3.4:80,http\n', 'csv'],
  ['ip\n1.2.3.4:80\n', 'csv'],
  ['Type , IP\r\nhttp,1.2.3.4:80\r\n', 'csv'],
  ['\n\nip,port,type\n', 'csv'],
  ['"ip","type"\n"1.2.3.4:80","http"\n', 'csv'],
  ['"the ""note""",type,"ip"\nx,http,1.2.3.4:80\n', 'csv'],
  ['[]', 'json'],
  ['  \n[{"ip":"1.2.3.4:80"}]', 'json'],
  ['{}', 'json'],
  ['{\n  "1.2.3.4:80": {}\n}', 'json'],
  ['{"1.2.3.4:80":{"ip":"1.2.3.4:80","type":"http"}}', 'json'],
  ['{"status":"ok","count":0,"data":[]}', 'json'],
  ['{"status":"ok","count":0,"data":[{"ip":"1.2.3', 'json'],
  ['{\n  "status": "ok",', 'json'],
  ['{"ip":"1.2.3.4:80","type":"http"}\n{"ip":"1.2.3.5:80","type":"http"}\n', 'ndjson'],
  ['{"ip":"1.2.3.4:80"}', 'ndjson'],
  ['{"type":"http","ip":"1.2.3.4:80"}\r\n', 'ndjson'],
  ['\n{"ip":"1.2.3.4:80","type":"http"}\n', 'ndjson'],
  ['{"city":"x","ip":"1.2.3.4:80","type":"http"}\n', 'ndjson'],
  ['{"ip":"1.2.3.4:80","speed":None}\n{"ip":"1.2.3.5:80"}\n', 'ndjson'],
]
const UNDETECTED = [
  '<!doctype html>\n<html>',
  'please come back later',
  'address,type\n1.2.3.4:80,http\n',
  '1.2.3.4\n5.6.7.8\n',
  '"1.2.3.4:80"',
  'null',
  '42',
  'http://1.2.3.4:80\0',
]

describe('the format of a file', () => {
  for (const [head, format] of DETECTED) {
    test(`${JSON.stringify(head)} is ${format}`, () => {
      expect(detectFormat(head, true)).toBe(format)
    })
  }
  for (const head of UNDETECTED) {
    test(`${JSON.stringify(head)} is none`, () => {
      expect(() => detectFormat(head, true)).toThrow(UnusableFile)
    })
  }
  test('is judged by whole lines when only the beginning is known', () => {
    expect(detectFormat('# a comment\nnot yet 1.2.3.4:80', false)).toBe('txt')
    expect(() => detectFormat('rubbish\n1.2.3.4:80', false)).toThrow(UnusableFile)
    expect(detectFormat('rubbish\n1.2.3.4:80', true)).toBe('txt')
    expect(detectFormat('rubbish\n1.2.3.4:80\nnot ye', false)).toBe('txt')
  })
})

/** A row or a refusal as a reader gives it. */
type Found =
  | { line: number; row: RawRow; listedAs?: string | undefined }
  | { line: number; bad: string; reason: string }

async function* piecesOf(pieces: readonly string[]): AsyncIterable<string> {
  yield* pieces
}

async function found(format: Format, ...pieces: string[]): Promise<Found[]> {
  const all: Found[] = []
  await readRows(format, piecesOf(pieces), {
    row: (line, row, listedAs) =>
      all.push(listedAs === undefined ? { line, row } : { line, row, listedAs }),
    bad: (line, bad, reason) => all.push({ line, bad, reason }),
  })
  return all
}

type Lines = readonly (readonly [line: number, row: RawRow | string])[]
const FILES: readonly (readonly [what: string, format: Format, text: string, rows: Lines])[] = [
  ['nothing', 'txt', '', []],
  ['a line without newline', 'txt', '1.2.3.4:80', [[1, { ip: '1.2.3.4:80' }]]],
  [
    'comments, blanks and prefixes',
    'txt',
    '# list\n\n http://1.2.3.4:80/ # fast\n\t\n1.2.3.5:80#x\n#end',
    [
      [3, { type: 'http', ip: '1.2.3.4:80' }],
      [5, { ip: '1.2.3.5:80' }],
    ],
  ],
  [
    'carriage returns',
    'txt',
    'socks5://1.2.3.4:80\r\n\r\n1.2.3.5:80\r\n',
    [
      [1, { type: 'socks5', ip: '1.2.3.4:80' }],
      [3, { ip: '1.2.3.5:80' }],
    ],
  ],
  ['a strange line', 'txt', 'what is this\n', [[1, { ip: 'what is this' }]]],
  ['nothing', 'ndjson', '', []],
  [
    'records, blanks and bad lines',
    'ndjson',
    '{"ip":"a"}\r\n\n  {"ip":"b"}  \n{"ip":\n[1]\n"x"\n{"ip":"c"}',
    [
      [1, { ip: 'a' }],
      [3, { ip: 'b' }],
      [4, 'row'],
      [5, 'row'],
      [6, 'row'],
      [7, { ip: 'c' }],
    ],
  ],
  ['nothing', 'csv', '', []],
  ['a header alone', 'csv', 'ip,type\n', []],
  ['one column', 'csv', 'ip\n1.2.3.4:80', [[2, { ip: '1.2.3.4:80' }]]],
  [
    'quotes, commas and newlines in cells',
    'csv',
    ' IP ,Type,note\n"a","http","x, ""y"",\nz"\n\nb,https,\n',
    [
      [2, { ip: 'a', type: 'http', note: 'x, "y",\nz' }],
      [5, { ip: 'b', type: 'https', note: '' }],
    ],
  ],
  [
    'short and long rows',
    'csv',
    'ip,type\na\nb,http\nc,http,x\n,\nd,http',
    [
      [2, 'row'],
      [3, { ip: 'b', type: 'http' }],
      [4, 'row'],
      [6, { ip: 'd', type: 'http' }],
    ],
  ],
  [
    'semicolons that are no separators',
    'csv',
    'ip,type,city\na,http,x;y;z,more\nb,http,x;y;z\nc,http,x;y;z,more\nd,http,x;y;z\n',
    [
      [2, 'row'],
      [3, { ip: 'b', type: 'http', city: 'x;y;z' }],
      [4, 'row'],
      [5, { ip: 'd', type: 'http', city: 'x;y;z' }],
    ],
  ],
  ['an empty array', 'json', ' [ ] \n', []],
  ['an empty object', 'json', '{}', []],
  ['an empty envelope', 'json', '{"status":"ok","count":0,"filters":{"a":[{}]},"data":[]}', []],
  ['an empty envelope of objects', 'json', '{"status":"ok","count":0,"data":{}}', []],
  [
    'an array with strangers',
    'json',
    '[\n{"ip":"a"},\n1, "x"\n,null,[{"ip":"b"}],\n\n{\n"ip":"c"\n}, {"ip":"d"}]',
    [
      [2, { ip: 'a' }],
      [3, 'row'],
      [3, 'row'],
      [4, 'row'],
      [4, 'row'],
      [6, { ip: 'c' }],
      [8, { ip: 'd' }],
    ],
  ],
]

const isRow = (item: Found) => 'row' in item
const linesOf = (items: readonly Found[]) =>
  items.map(item => [item.line, 'row' in item ? { ...item.row } : item.bad])

describe('rows of a file', () => {
  for (const [what, format, text, rows] of FILES) {
    test(`${format}: ${what}`, async () => {
      expect(linesOf(await found(format, text))).toEqual(rows.map(([line, row]) => [line, row]))
    })
  }
  for (const [text, what] of [
    ['ip,type\r\na,http\r\nb,"http"\r\nc,https', 'throughout'],
    ['ip,type\na,http\r\nb,"http"\r\nc,https', 'after the first line'],
    ['ip,type\r\na,http\nb,"http"\r\nc,https', 'on some lines'],
  ] as const) {
    test(`csv: carriage returns ${what}`, async () => {
      const rows = (await found('csv', text)).filter(isRow)
      const trimmed = rows.map(({ line, row }) => [line, row.ip, String(row.type).trim()])
      expect(trimmed).toEqual([
        [2, 'a', 'http'],
        [3, 'b', 'http'],
        [4, 'c', 'https'],
      ])
    })
  }
  test('csv: a row of the wrong length says both lengths', async () => {
    const reason = 'has 1 columns, the header has 2'
    expect(await found('csv', 'ip,type\na\n')).toEqual([{ line: 2, bad: 'row', reason }])
  })
  test('json: a member of an object comes with its key', async () => {
    const rows = await found('json', '{"1.2.3.4:80":{"type":"http"},"1.2.3.5:80":{}}')
    expect(rows).toEqual([
      { line: 1, row: { type: 'http' }, listedAs: '1.2.3.4:80' },
      { line: 1, row: {}, listedAs: '1.2.3.5:80' },
    ])
  })
  test('json: members of the envelope are no rows, wherever they stand', async () => {
    const rows = await found('json', '{"data":[{"ip":"a"}],"filters":{"data":[1]},"count":1}')
    expect(rows).toEqual([{ line: 1, row: { ip: 'a' } }])
  })
})

const RECORDS = [
  { ip: '185.162.7.9:8080', type: 'http', city: 'Берлин 🌍', ping: 0.5, speed: null, smtp: true },
  { ip: '203.0.113.7:1080', type: 'socks5', city: 'a}"b]\\"{c\\', works: '97', filters: {} },
  { ip: '10.0.0.1:3128', type: 'https', note: 'x, "y"\nz\r\n', data: [{ ip: '[' }] },
]
const BY_ADDRESS = Object.fromEntries(RECORDS.map(record => [record.ip, record]))
const envelope = (data: unknown) => ({
  ...{ status: 'ok', count: 3, timestamp: '2026-11-20T12:00:00.000Z' },
  ...{ filters: { time: 600, city: 'data": [ \\"}' }, data },
})
const DOCUMENTS: readonly (readonly [what: string, json: unknown])[] = [
  ['array', RECORDS],
  ['object', BY_ADDRESS],
  ['envelope around an array', envelope(RECORDS)],
  ['envelope around an object', envelope(BY_ADDRESS)],
  ['object with strange keys', envelope({ 'a"b\\': RECORDS[0], ']}\\"': RECORDS[1] })],
  ['array with strangers', [RECORDS[0], 1.5, '"]\\"', null, true, [[]], RECORDS[1]]],
]
const JSON_TEXTS: readonly (readonly [what: string, text: string])[] = DOCUMENTS.flatMap(
  ([what, json]) => [
    [`${what}, compact`, JSON.stringify(json)] as const,
    [`${what}, pretty`, `${JSON.stringify(json, null, 2)}\n`] as const,
  ],
)
const CUT: readonly (readonly [what: string, format: Format, text: string])[] = [
  ...JSON_TEXTS.map(([what, text]) => [what, 'json', text] as const),
  ['records', 'ndjson', `${RECORDS.map(record => JSON.stringify(record)).join('\n')}\nrubbish\n`],
  ['lines', 'txt', '# Список\r\nhttp://1.2.3.4:80 # Ёж\r\n\r\n1.2.3.5:80\nsocks5://1.2.3.6:80'],
  ['table', 'csv', 'ip,type,city\na,"http","x, ""Ё""\nz"\n\nb,https\nc,http,🌍\nd,"socks4",'],
  ['table with carriage returns', 'csv', 'ip,city\r\na,"http"\r\n\r\nb,"x"\r\nc,\r\n'],
]

/** The text cut in two after `at` bytes, each half decoded as it arrives. */
function cutAt(bytes: Uint8Array, at: number): string[] {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const first = decoder.decode(bytes.subarray(0, at), { stream: true })
  return [first, decoder.decode(bytes.subarray(at))]
}

/** What was found, apart from white space at the ends of cells, which no row cares for. */
const trimmed = (items: readonly Found[]): string =>
  JSON.stringify(items, (_, value) => (typeof value === 'string' ? value.trim() : value))

describe('a text in pieces gives the same rows', () => {
  for (const [what, format, text] of CUT) {
    test(`${format} ${what}: cut in two at every byte`, async () => {
      const whole = trimmed(await found(format, text))
      expect(whole).toContain('"line":')
      const bytes = new TextEncoder().encode(text)
      for (let at = 0; at <= bytes.length; at += 1) {
        const rows = await found(format, ...cutAt(bytes, at)).then(trimmed, String)
        if (rows !== whole) expect(`cut at byte ${at}: ${rows}`).toBe(whole)
      }
    })
    test(`${format} ${what}: character by character`, async () => {
      expect(trimmed(await found(format, ...text))).toBe(trimmed(await found(format, text)))
    })
  }
})

describe('JSON cut off', () => {
  for (const [what, text] of JSON_TEXTS) {
    test(`${what}: is refused whole wherever it ends`, async () => {
      for (let end = 0; end < text.trimEnd().length; end += 1) {
        const outcome = await found('json', text.slice(0, end)).then(String, error => error)
        if (!(outcome instanceof UnusableFile)) expect(`${end}: ${outcome}`).toBe('refused')
      }
    })
  }
})

const UNUSABLE: readonly (readonly [what: string, format: Format, text: string])[] = [
  ['an error answer', 'json', '{"status":"error","code":"INVALID_KEY","message":"no"}'],
  ['an object of something else', 'json', '{"name":"x","dependencies":{}}'],
  ['an envelope without data', 'json', '{"status":"ok","count":0,"filters":{}}'],
  ['an envelope with a null as data', 'json', '{"status":"ok","data":null}'],
  ['a number', 'json', '42'],
  ['a text', 'json', '"x"'],
  ['two documents', 'json', '[] []'],
  ['rubbish after the end', 'json', '[{"ip":"a"}] x'],
  ['a trailing comma', 'json', '[{"ip":"a"},]'],
  ['a missing comma', 'json', '[{"ip":"a"} {"ip":"b"}]'],
  ['the wrong bracket', 'json', '[{"ip":"a"}}'],
  ['a key without colon', 'json', '{"1.2.3.4:80" {}}'],
  ['a bare key', 'json', '{ip:1}'],
  ['a broken record', 'json', '[{"ip":"a",}]'],
  ['single quotes', 'json', "[{'ip':'a'}]"],
  ['a value that is no JSON', 'json', '[None]'],
  ['a comment', 'json', '[] // done'],
  ['a page', 'json', '<html></html>'],
  ['no column ip', 'csv', 'address,type\na,http\n'],
  ['a quote that never ends', 'csv', 'ip,type\na,http\nb,"http\n'],
  ['a quote that ends too early', 'csv', 'ip,type\na,"ht"tp\n'],
  ['semicolons for commas', 'csv', 'ip;type\na;http\nb;http\n'],
]

describe('a text is refused whole', () => {
  for (const [what, format, text] of UNUSABLE) {
    test(`${format}: ${what}`, async () => {
      await expect(found(format, text)).rejects.toThrow(UnusableFile)
    })
  }
  for (const [format, start] of [
    ['txt', ''],
    ['ndjson', '{"ip":"'],
    ['json', '[{"ip":"'],
  ] as const) {
    test(`${format}: a row without an end, before it fills the memory`, async () => {
      const text = `${start}${'x'.repeat(1024 * 1024 + 1)}`
      await expect(found(format, text)).rejects.toThrow(/^line 1.* too long$/)
    })
  }
  test('csv: a cell without an end, before it fills the memory', async () => {
    let given = 0
    async function* endless(): AsyncIterable<string> {
      yield 'ip,type\na,"'
      for (; given < 64; given += 1) yield 'x'.repeat(128 * 1024)
    }
    const sink = { row: () => {}, bad: () => {} }
    await expect(readRows('csv', endless(), sink)).rejects.toThrow(/^line 2: too long$/)
    expect(given).toBeLessThan(32)
  })
  test('csv: a header without ip is said to be it', async () => {
    await expect(found('csv', 'address,type\na,http\n')).rejects.toThrow(/no column ip/)
  })
  for (const format of ['txt', 'csv', 'json', 'ndjson'] as const) {
    test(`${format}: and an error of the taker comes through`, async () => {
      const full = new Error('disk full')
      const text = format === 'csv' ? 'ip\na\nb\n' : '[{"ip":"a"}]\n'
      const sink = {
        row: () => {
          throw full
        },
        bad: () => {
          throw full
        },
      }
      await expect(readRows(format, piecesOf([text]), sink)).rejects.toBe(full)
    })
  }
})

/** Bytes in pieces of `size`. */
async function* bytesOf(bytes: Uint8Array, size: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
const sourceOf = (name: string, data: string | Uint8Array, size = 4096): Source => ({
  name,
  bytes: bytesOf(typeof data === 'string' ? new TextEncoder().encode(data) : data, size),
})

type Report = readonly [file: string, line: number, field: string, reason: string]
type Imported = {
  proxies: IncomingProxy[]
  rejected: Report[]
  ignored: [file: string, line: number, member: string][]
  totals: { read: number; rejected: number }
  progress: number
}

async function imported(
  sources: readonly Source[],
  options: Partial<ImportOptions> = {},
): Promise<Imported> {
  const proxies: IncomingProxy[] = []
  const rejected: Report[] = []
  const ignored: Imported['ignored'] = []
  let progress = 0
  const totals = await importSources(
    sources,
    { format: 'auto', defaults: DEFAULTS, strict: false, ...options },
    proxy => proxies.push(proxy),
    {
      progress: () => {
        progress += 1
      },
      rejected: (...report) => rejected.push(report),
      ignored: (...note) => ignored.push(note),
    },
  )
  return { proxies, rejected, ignored, totals, progress }
}

const VECTORS = join(ROOT, 'test/fixtures/vectors')
const vector = (name: string): Uint8Array => readFileSync(join(VECTORS, name))

/** Good files: rows taken, and rows rejected on the way. */
const GOOD: { [file: string]: readonly [good: number, rejected: number] } = {
  'good_all_columns.csv': [3, 0],
  'good_array_compact.json': [3, 0],
  'good_array_pretty.json': [3, 0],
  'good_array_split.json': [3, 0],
  'good_blank_lines_crlf.ndjson': [3, 0],
  'good_bom.json': [3, 0],
  'good_bom_crlf.csv': [2, 0],
  'good_bom_crlf.txt': [2, 0],
  'good_comments_only.txt': [0, 0],
  'good_empty.txt': [0, 0],
  'good_empty_array.json': [0, 0],
  'good_empty_envelope.json': [0, 0],
  'good_envelope_array.json': [3, 0],
  'good_envelope_object_compact.json': [3, 0],
  'good_escaped_ascii.json': [3, 0],
  'good_header_only.csv': [0, 0],
  'good_object.json': [3, 0],
  'good_object_split_compact.json': [3, 0],
  'good_object_without_ip.json': [3, 0],
  'good_only_ip_and_type.json': [2, 0],
  'good_own_columns.csv': [2, 0],
  'good_plain.txt': [4, 0],
  'good_quoted.csv': [2, 0],
  'good_records.ndjson': [3, 0],
  'good_some_bad_lines.txt': [2, 3],
  'good_some_bad_records.ndjson': [2, 3],
  'good_some_bad_rows.csv': [2, 3],
}

/** Bad files, and what the message says. */
const BAD: { [file: string]: RegExp } = {
  'bad_addresses_only.json': /no row is usable/,
  'bad_all_records.ndjson': /no row is usable/,
  'bad_all_rows.csv': /no row is usable/,
  'bad_all_rows.txt': /no row is usable/,
  'bad_cut_off_array.json': /cut off/,
  'bad_cut_off_envelope.json': /cut off/,
  'bad_cut_off_in_record.json': /cut off/,
  'bad_envelope_scalar_data.json': /not a list of proxies/,
  'bad_envelope_without_data.json': /holds no proxies/,
  'bad_error_answer.json': /error answer/,
  'bad_error_answer_pretty.json': /error answer/,
  'bad_geojson.json': /not a list of proxies/,
  'bad_image.png': /not UTF-8/,
  'bad_latin1.csv': /not UTF-8/,
  'bad_latin1_end.txt': /not UTF-8/,
  'bad_mismatched_brackets.json': /not a JSON list/,
  'bad_nested_array.json': /no row is usable/,
  'bad_no_ip_column.csv': /none of the known formats/,
  'bad_no_type.txt': /no row is usable/,
  'bad_nul.txt': /not text/,
  'bad_null.json': /none of the known formats/,
  'bad_numbers.json': /no row is usable/,
  'bad_open_quote.csv': /line 3/,
  'bad_other_object.json': /not a list of proxies/,
  'bad_page.html': /none of the known formats/,
  'bad_python_literals.json': /not valid JSON/,
  'bad_scalar.json': /none of the known formats/,
  'bad_single_quotes.json': /not valid JSON/,
  'bad_stray_quote.csv': /line 2/,
  'bad_text.txt': /none of the known formats/,
  'bad_trailing_comma.json': /line 2/,
  'bad_two_documents.json': /expected end of file/,
  'bad_utf16.txt': /not UTF-8/,
}

describe('vectors', () => {
  for (const [name, [good, bad]] of Object.entries(GOOD)) {
    test(`${name} gives ${good} proxies`, async () => {
      const { proxies, rejected, totals } = await imported([sourceOf(name, vector(name))])
      expect([proxies.length, rejected.length]).toEqual([good, bad])
      expect(totals).toEqual({ read: good + bad, rejected: bad })
    })
    test(`${name} gives the same byte by byte`, async () => {
      const whole = await imported([sourceOf(name, vector(name))])
      const { proxies } = await imported([sourceOf(name, vector(name), 1)])
      expect(proxies).toEqual(whole.proxies)
    })
  }
  for (const [name, message] of Object.entries(BAD)) {
    test(`${name} is refused whole`, async () => {
      const outcome = imported([sourceOf(name, vector(name))])
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(message)
      await expect(outcome).rejects.toThrow(new RegExp(`^${name}: .*; nothing was imported$`))
    })
  }
  test('all stand in these tables', () => {
    const files = readdirSync(VECTORS).filter(name => /^(?:good|bad)_/.test(name))
    expect(files.sort()).toEqual([...Object.keys(BAD), ...Object.keys(GOOD)].sort())
  })
  const whole = ['array_compact', 'array_split', 'bom', 'envelope_array', 'escaped_ascii']
  for (const name of [...whole, 'envelope_object_compact', 'object', 'object_split_compact']) {
    test(`good_${name}.json says the same as good_array_pretty.json`, async () => {
      const pretty = await imported([sourceOf('a', vector('good_array_pretty.json'))])
      const { proxies } = await imported([sourceOf('b', vector(`good_${name}.json`))])
      expect(proxies).toEqual(pretty.proxies)
      expect(proxies[0]).toMatchObject({ ip: '185.162.7.9', port: 8080, city: 'Берлин', works: 97 })
      expect(proxies[0]).toMatchObject({ pingMs: 532, checkedAt: NOW - 30, anon: 'elite' })
    })
  }
})

const GOOD_LINE: { [format in Format]: (i: number) => string } = {
  txt: i => `http://10.0.${i >> 8}.${i & 255}:80\n`,
  csv: i => `10.0.${i >> 8}.${i & 255}:80,http,"Ёлка ""${i}"""\n`,
  json: i => `{"ip":"10.0.${i >> 8}.${i & 255}:80",\n"type":"http","city":"Ёлка"},\n`,
  ndjson: i => `{"ip":"10.0.${i >> 8}.${i & 255}:80","type":"http","city":"Ёлка"}\n`,
}
const BAD_LINE: { [format in Format]: string } = {
  txt: 'ftp://9.9.9.9:80\n',
  csv: '9.9.9.9:80,ftp,\n',
  json: '{"ip":"9.9.9.9:80","type":"ftp"}\n',
  ndjson: '{"ip":"9.9.9.9:80","type":"ftp"}\n',
}
const START: { [format in Format]: string } = {
  txt: '# list\n',
  csv: 'ip,type,city\n',
  json: '[\n',
  ndjson: '\n',
}
const END: { [format in Format]: string } = { txt: '', csv: '', json: ']', ndjson: '' }

describe('a file longer than its head', () => {
  for (const format of ['txt', 'csv', 'json', 'ndjson'] as const) {
    for (const size of [997, 65_537]) {
      test(`${format} in pieces of ${size} bytes is read to its end`, async () => {
        const rows = Array.from({ length: 5000 }, (_, i) => GOOD_LINE[format](i))
        const text = [START[format], ...rows, BAD_LINE[format], END[format]].join('')
        expect(text.length).toBeGreaterThan(HEAD_LENGTH)
        const { proxies, rejected, totals } = await imported([sourceOf('long', text, size)])
        expect(proxies.map(({ ip }) => ip)).toEqual(rows.map((_, i) => `10.0.${i >> 8}.${i & 255}`))
        const line = format === 'json' ? 10_002 : 5002
        expect(rejected).toEqual([['long', line, 'type', expect.any(String)]])
        expect(totals).toEqual({ read: 5001, rejected: 1 })
      })
    }
    test(`${format} that is not UTF-8 at its end is refused whole`, async () => {
      const rows = Array.from({ length: 5000 }, (_, i) => GOOD_LINE[format](i))
      const text = [START[format], ...rows, BAD_LINE[format], END[format]].join('')
      const bytes = Buffer.concat([Buffer.from(text), Buffer.from([0xe9, 0x0a])])
      await expect(imported([sourceOf('long', bytes)])).rejects.toThrow('long: is not UTF-8 text')
    })
  }
})

const EVERYTHING: Omit<Filter, 'lang'> = {
  ...{ types: [], anons: [], pingMaxMs: null, speedMin: null, ageMaxSeconds: BIG, worksMin: null },
  ...{ countries: [], countryMode: 'include' as const, cities: ['{"data":['] },
  ...{ port: null, address: null, services: [], count: null },
}
const AS_JSON = { kind: 'json', download: false, typePrefix: false, fields: null } as const

const BARE: Proxy = {
  ...{ ip: '10.0.0.1', port: 80, ipOut: '', type: 'http', anon: '', speed: null, pingMs: null },
  ...{ checkedAt: NOW, country: '', city: '', cityEn: '', works: null, services: new Set() },
}

describe('a large answer of the API', () => {
  for (const shape of ['array', 'object'] as const) {
    for (const wrap of [false, true]) {
      test(`imports whatever the size of its pieces (${shape}, wrap ${wrap})`, async () => {
        const defaults = { ...BARE, city: '{"Ёлка"}]\\' }
        const proxies = Array.from({ length: 400 }, (_, i) => ({ ...defaults, port: 1 + i }))
        const output = { ...AS_JSON, shape, wrap, splitIp: false, pretty: false }
        const text = createRenderer(PROVIDER)(proxies, { ...EVERYTHING, lang: 'ru' }, output, T0)
        expect(text.length).toBeGreaterThan(HEAD_LENGTH)
        for (let size = 500; size < 520; size += 1) {
          const outcome = await imported([sourceOf('answer', text, size)]).then(
            ({ proxies }) => proxies.length,
            String,
          )
          expect(`pieces of ${size}: ${outcome}`).toBe(`pieces of ${size}: 400`)
        }
      })
    }
  }
})

type Case = readonly [
  what: string,
  text: string,
  reports: readonly (readonly [number, string, RegExp])[],
]
const REPORTED: readonly Case[] = [
  [
    'txt',
    '# list\r\nhttp://1.2.3.4:80\r\n\r\n1.2.3.5:80\r\nhttp://1.2.3.4:0\r\nftp://1.2.3.4:80 # old',
    [
      [4, 'type', /is required/],
      [5, 'ip', /IPv4 address with a port/],
      [6, 'type', /must be one of http, https, socks4, socks5/],
    ],
  ],
  [
    'csv',
    'ip,type,works,note\n1.2.3.4:80,http,101,\n1.2.3.5:80,http,,"a\nb\nc"\n\n1.2.3.6:80,http\n1.2.3,http,5,x\n',
    [
      [2, 'works', /from 0 to 100/],
      [7, 'row', /has 2 columns, the header has 4/],
      [8, 'ip', /IPv4/],
    ],
  ],
  [
    'ndjson',
    '{"ip":"1.2.3.4:80","type":"http"}\n\n{"ip":"1.2.3.4:80"\n{"ip":"1.2.3.4:80","type":"http","smtp":"yes"}\n[]',
    [
      [3, 'row', /not a JSON object/],
      [4, 'smtp', /true or false/],
      [5, 'row', /not a JSON object/],
    ],
  ],
  [
    'json array',
    '[\n  {"ip": "1.2.3.4:80", "type": "http"},\n  {\n    "ip": "1.2.3.4:80",\n    "type": "http",\n    "ping": -1\n  },\n  7,\n  {"ip": "1.2.3.4:80",\n "port": 81, "type": "http"}\n]\n',
    [
      [3, 'ping', /seconds/],
      [8, 'row', /not a JSON object/],
      [9, 'port', /the same as in ip/],
    ],
  ],
  [
    'json envelope',
    '{\n"status": "ok",\n"filters": {\n"time": 600\n},\n"data": {\n"1.2.3.4:80": {"type": "http"},\n"1.2.3.4": {"type": "http"},\n"1.2.3.5:80":\n{"type": "http", "timecheck": "x"}\n}}',
    [
      [8, 'ip', /IPv4/],
      [10, 'timecheck', /YYYY-MM-DD HH:MM:SS/],
    ],
  ],
]

describe('an import reports', () => {
  for (const [what, text, reports] of REPORTED) {
    test(`${what}: file, line, field and reason of each bad row`, async () => {
      const { rejected, totals, proxies } = await imported([sourceOf('dir/some file', text)])
      const expected = reports.map(([line, field, reason]) => [
        ...['dir/some file', line, field],
        expect.stringMatching(reason),
      ])
      expect<readonly unknown[]>(rejected).toEqual(expected)
      expect(totals).toEqual({ read: proxies.length + reports.length, rejected: reports.length })
    })
    test(`${what}: nothing but the first bad row when strict`, async () => {
      const [line, field] = reports[0] ?? []
      const outcome = imported([sourceOf('f', text)], { strict: true })
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(`f:${line}: ${field} `)
    })
  }
  test('the line at which it gave a whole file up', async () => {
    const text = '{\n"1.2.3.4:80": {"type": "http"},\n\n"1.2.3.4": {"type": "http"}\n}'
    await expect(imported([sourceOf('f', text)])).rejects.toThrow(
      'f: line 4: not a list of proxies',
    )
  })
  test('its progress once for each row it takes', async () => {
    const { progress } = await imported([sourceOf('f', 'http://1.2.3.4:80\nx\nhttp://1.2.3.5:80')])
    expect(progress).toBe(2)
  })
  test('a member no record has, once a name, and takes the row', async () => {
    const text = 'ip,type,Colour,fields\n1.2.3.4:80,http,red,1\n1.2.3.5:80,http,blue,2\n'
    const { ignored, proxies } = await imported([sourceOf('a', text), sourceOf('b', text)])
    expect(ignored).toEqual([
      ['a', 2, 'colour'],
      ['a', 2, 'fields'],
    ])
    expect(proxies).toHaveLength(4)
  })
  test('no member that a record or a file may have', async () => {
    for (const name of ['good_all_columns.csv', 'good_own_columns.csv', 'good_array_split.json']) {
      expect((await imported([sourceOf(name, vector(name))])).ignored).toEqual([])
    }
  })
  test('the sums over all sources, each of its own format', async () => {
    const names = ['good_plain.txt', 'good_some_bad_rows.csv', 'good_object.json']
    const { totals, rejected } = await imported(names.map(name => sourceOf(name, vector(name))))
    expect(totals).toEqual({ read: 12, rejected: 3 })
    expect(new Set(rejected.map(([file]) => file))).toEqual(new Set(['good_some_bad_rows.csv']))
  })
})

describe('an import', () => {
  test('takes a format it is told rather than guessed', async () => {
    const text = '{"ip":"1.2.3.4:80","type":"http"}'
    await expect(imported([sourceOf('f', text)], { format: 'json' })).rejects.toThrow(CommandError)
    const ndjson = await imported([sourceOf('f', text)], { format: 'ndjson' })
    expect(ndjson.proxies).toHaveLength(1)
  })
  test('gives bare lines the type of the import', async () => {
    const defaults = { ...DEFAULTS, type: 'socks4' } as const
    const text = '1.2.3.4:80\nhttp://1.2.3.5:80\n'
    const { proxies } = await imported([sourceOf('f', text)], { defaults })
    expect(proxies.map(({ type }) => type)).toEqual(['socks4', 'http'])
  })
  test('is refused for one source of nothing but bad rows among good ones', async () => {
    const sources = [sourceOf('good', 'http://1.2.3.4:80\n'), sourceOf('bad', '1.2.3.5:80\n')]
    await expect(imported(sources)).rejects.toThrow('bad: no row is usable; nothing was imported')
  })
  for (const empty of ['', '\n', '# nothing today\n', 'ip,type\n']) {
    test(`that replaces the list is refused for an empty file: ${JSON.stringify(empty)}`, async () => {
      const outcome = imported([sourceOf('f', empty)], { refuseEmpty: true })
      await expect(outcome).rejects.toThrow(/^f is empty, and --replace would remove/)
      expect((await imported([sourceOf('f', empty)])).totals).toEqual({ read: 0, rejected: 0 })
    })
  }
  test('that replaces the list takes a JSON document that says it is empty', async () => {
    for (const text of ['[]', '{"status":"ok","count":0,"data":[]}']) {
      const { proxies } = await imported([sourceOf('f', text)], { refuseEmpty: true })
      expect(proxies).toEqual([])
    }
  })
  test('that replaces the list is refused for one empty file among others', async () => {
    const sources = [sourceOf('a', 'http://1.2.3.4:80\n'), sourceOf('b', '')]
    await expect(imported(sources, { refuseEmpty: true })).rejects.toThrow(/^b is empty/)
  })
  test('with strict takes a file without bad rows', async () => {
    const source = sourceOf('f', vector('good_all_columns.csv'))
    expect((await imported([source], { strict: true })).proxies).toHaveLength(3)
  })
  test('with strict refuses a csv file at its first bad row, not after it', async () => {
    const text = 'ip,type\n1.2.3.4:80,http\n1.2.3.5:80,ftp\n1.2.3.6:80,http\n'
    const outcome = imported([sourceOf('f', text)], { strict: true })
    await expect(outcome).rejects.toThrow('f:3: type must be one of')
  })
  test('passes on what the file system throws', async () => {
    async function* broken(): AsyncIterable<Uint8Array> {
      yield new TextEncoder().encode('ip,type\n1.2.3.4:80,http\n')
      throw new Error('EIO')
    }
    for (const format of ['auto', 'csv', 'txt'] as const) {
      const source = { name: 'f', bytes: broken() }
      await expect(imported([source], { format })).rejects.toThrow('EIO')
    }
  })
})

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })
const upTo = (max: number) => fc.integer({ min: 0, max })
/** Any name a file may hold: trimmed, without commas and control characters. */
const someCity = (): fc.Arbitrary<string> =>
  fc
    .string({ unit: fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...'"\\{}[]:#;\'ё')) })
    .map(name =>
      name
        .replace(/[\u0000-\u001f\u007f,]/g, '')
        .slice(0, 200)
        .toWellFormed()
        .trim(),
    )

const someProxy = (): fc.Arbitrary<Proxy> =>
  fc.record({
    ip: fc.ipV4(),
    port: fc.integer({ min: 1, max: 65535 }),
    ipOut: fc.oneof(fc.constantFrom('', '2001:db8::1', '::1'), fc.ipV4()),
    type: fc.constantFrom(...TYPES),
    anon: fc.constantFrom(...ANONS, ''),
    speed: maybe(upTo(BIG)),
    pingMs: maybe(fc.oneof(upTo(5000), upTo(BIG))),
    checkedAt: upTo(NOW + 300),
    country: fc.constantFrom('', 'DE', 'RU'),
    city: someCity(),
    cityEn: fc.oneof(fc.constant(''), someCity()),
    works: maybe(upTo(100)),
    services: fc.subarray([...SERVICES]).map(services => new Set(services)),
  })

const someAnswer = () =>
  fc.record({
    proxies: fc.uniqueArray(someProxy(), {
      selector: ({ ip, port }) => `${ip}:${port}`,
      minLength: 1,
      maxLength: 6,
    }),
    lang: fc.constantFrom('ru', 'en'),
    shape: fc.constantFrom('array', 'object'),
    splitIp: fc.boolean(),
    wrap: fc.boolean(),
    pretty: fc.boolean(),
    provider: fc.constantFrom('the service', 'acme', 'яндекс почта'),
    pieceSize: fc.integer({ min: 1, max: 5000 }),
  })

describe('property', () => {
  test('a rendered answer is read as the records it was rendered from', async () => {
    await fc.assert(
      fc.asyncProperty(someAnswer(), async answer => {
        const { proxies, lang, provider, pieceSize, ...form } = answer
        const output = { ...AS_JSON, ...form }
        const text = createRenderer(provider)(proxies, { ...EVERYTHING, lang }, output, T0)
        const defaults = { ...DEFAULTS, provider }
        const outcome = await imported([sourceOf('answer', text, pieceSize)], { defaults })
        expect(outcome.rejected).toEqual([])
        expect(outcome.ignored).toEqual([])
        const expected = proxies.map(proxy => {
          const servicesStated = new Set(SERVICES)
          return { ...proxy, city: cityIn(lang, proxy), cityEn: '', servicesStated }
        })
        expect(outcome.proxies).toEqual(expected)
      }),
      { numRuns: 300 },
    )
  })
  test('the readers give the same rows however a rendered answer is cut', async () => {
    await fc.assert(
      fc.asyncProperty(someAnswer(), async ({ proxies, lang, provider, pieceSize, ...form }) => {
        const output = { ...AS_JSON, ...form }
        const text = createRenderer(provider)(proxies, { ...EVERYTHING, lang }, output, T0)
        const pieces: string[] = []
        for (let at = 0; at < text.length; at += pieceSize) {
          pieces.push(text.slice(at, at + pieceSize))
        }
        expect(await found('json', ...pieces)).toEqual(await found('json', text))
      }),
      { numRuns: 200 },
    )
  })
})
