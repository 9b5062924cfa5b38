/**
 * Files in, proxies and reports out: whole files (in vectors/), what an import reports, and what
 * it rejects. What a row may say is in row.test.ts, how rows are found in formats.test.ts.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Format } from '../../src/import/formats.ts'
import { importSources, shrinkProblem } from '../../src/import/import.ts'
import { HEAD_LENGTH } from '../../src/import/reader.ts'
import { CommandError } from '../../src/lib/errors.ts'
import { EVERYTHING, type Filter } from '../../src/proxies/filter.ts'
import { cityIn, type IncomingProxy, SERVICES } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'
import { anyIncoming, BARE, NOW, stripped } from '../support/incoming.ts'
import { ROOT } from '../support/program.ts'
import { createRenderer } from '../support/render.ts'
import { DEFAULTS, imported, PROVIDER, sourceOf } from './imported.ts'

const VECTORS = join(ROOT, 'test/fixtures/vectors')
const vector = (name: string): Uint8Array => readFileSync(join(VECTORS, name))

/** Good files: rows imported, and rows rejected. */
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
  'good_latin1_comment.txt': [1, 0],
  'good_object.json': [3, 0],
  'good_object_split_compact.json': [3, 0],
  'good_object_without_ip.json': [3, 0],
  'good_open_quote.csv': [1, 1],
  'good_only_ip_and_type.json': [2, 0],
  'good_own_columns.csv': [2, 0],
  'good_plain.txt': [4, 0],
  'good_quoted.csv': [2, 0],
  'good_records.ndjson': [3, 0],
  'good_some_bad_lines.txt': [2, 3],
  'good_some_bad_records.ndjson': [2, 3],
  'good_some_bad_rows.csv': [2, 3],
  'good_stray_quote.csv': [1, 1],
  'good_trailing_comma.json': [1, 0],
}

/** Bad files, and what the message says. */
const BAD: { [file: string]: RegExp } = {
  'bad_addresses_only.json': /no row is usable/,
  'bad_all_records.ndjson': /no row is usable/,
  'bad_all_rows.csv': /no row is usable/,
  'bad_all_rows.txt': /no row is usable/,
  'bad_truncated_array.json': /truncated/,
  'bad_truncated_envelope.json': /truncated/,
  'bad_truncated_in_record.json': /truncated/,
  'bad_envelope_scalar_data.json': /not a list of proxies/,
  'bad_envelope_without_data.json': /holds no proxies/,
  'bad_error_answer.json': /error answer/,
  'bad_error_answer_pretty.json': /error answer/,
  'bad_geojson.json': /not a list of proxies/,
  'bad_image.png': /is not text/,
  'bad_latin1.csv': /not UTF-8/,
  'bad_mismatched_brackets.json': /not a JSON list/,
  'bad_nested_array.json': /no row is usable/,
  'bad_no_ip_column.csv': /none of the known formats.*a table.*--map COLUMN=ip/,
  'bad_no_type.txt': /no row is usable/,
  'bad_nul.txt': /not text/,
  'bad_null.json': /none of the known formats/,
  'bad_numbers.json': /no row is usable/,
  'bad_other_object.json': /not a list of proxies/,
  'bad_page.html': /none of the known formats.*an HTML or XML page: get /,
  'bad_python_literals.json': /not valid JSON/,
  'bad_scalar.json': /none of the known formats/,
  'bad_single_quotes.json': /not valid JSON; names and texts need double quotes/,
  'bad_text.txt': /none of the known formats.*looks like text: a line must read a.b.c.d:port/,
  'bad_two_documents.json': /expected end of file/,
  'bad_utf16.txt': /not UTF-16/,
}

describe('vectors', () => {
  for (const [name, [good, bad]] of Object.entries(GOOD)) {
    test(`${name} gives ${good} proxies`, async () => {
      const { proxies, rejected, totals } = await imported([sourceOf(name, vector(name))])
      expect([proxies.length, rejected.length]).toEqual([good, bad])
      expect(totals).toEqual({ read: good + bad, rejected: bad })
    })
    test(`${name} gives the same byte by byte`, async () => {
      const atOnce = await imported([sourceOf(name, vector(name))])
      const { proxies } = await imported([sourceOf(name, vector(name), 1)])
      expect(proxies).toEqual(atOnce.proxies)
    })
  }
  for (const [name, message] of Object.entries(BAD)) {
    test(`${name} is rejected as a whole`, async () => {
      const outcome = imported([sourceOf(name, vector(name))])
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(message)
      await expect(outcome).rejects.toThrow(new RegExp(`^${name}: .*; nothing was imported$`))
    })
  }
  test('are all in these tables', () => {
    const files = readdirSync(VECTORS).filter(name => /^(?:good|bad)_/.test(name))
    expect(files.sort()).toEqual([...Object.keys(BAD), ...Object.keys(GOOD)].sort())
  })
  const same = ['array_compact', 'array_split', 'bom', 'envelope_array', 'escaped_ascii']
  for (const name of [...same, 'envelope_object_compact', 'object', 'object_split_compact']) {
    test(`good_${name}.json gives the same as good_array_pretty.json`, async () => {
      const pretty = await imported([sourceOf('a', vector('good_array_pretty.json'))])
      const { proxies } = await imported([sourceOf('b', vector(`good_${name}.json`))])
      expect(proxies).toEqual(pretty.proxies)
      expect(proxies[0]).toMatchObject({ ip: '185.162.7.9', port: 8080, city: 'Берлин', works: 97 })
      expect(proxies[0]).toMatchObject({ pingMs: 532, checkedAt: NOW - 30, anon: 'elite' })
    })
  }
})

const THREE = ['185.162.7.9:8080', '192.0.2.1:80', '203.0.113.7:1080']

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
      test(`${format} in chunks of ${size} bytes is read to its end`, async () => {
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
  }
})

/** Three records as each form has them, between a start and an end. */
type Form = [form: string, start: string, records: string[], end: string]
const addressOf = ({ ip, port }: IncomingProxy): string => `${ip}:${port}`
const FORMS: Form[] = [
  ['txt', '', THREE.map(ip => `http://${ip}\n`), ''],
  ['csv', 'ip,type,city\n', THREE.map(ip => `${ip},http,Perm\n`), ''],
  ['csv in quotes', '"ip","type","city"\n', THREE.map(ip => `"${ip}","http","Perm"\n`), ''],
  ['ndjson', '', THREE.map(ip => `{"ip":"${ip}","type":"http","city":"Perm"}\n`), ''],
  ['json', '[', THREE.map(ip => `{"ip":"${ip}","type":"http","on":[{"a":[]}]}`), ']'],
  ['json in lines', '[\n', THREE.map(ip => `{\n  "ip": "${ip}",\n  "type": "http"\n}`), '\n]\n'],
  [
    'json by address',
    '{"status":"ok","data":{',
    THREE.map(ip => `"${ip}":{"type":"http","a":{"b":1}}`),
    '}}',
  ],
  ['json of addresses', '[', THREE.map(ip => `"http://${ip}"`), ']'],
  ['json by type', '{"http":[', THREE.map(ip => `"${ip}"`), '],"total":3}'],
]

/** The file with a byte at each position of its nth record, in place of `replaced` bytes. */
function* damaged([form, start, records, end]: Form, nth: number, wrong: number, replaced: number) {
  const comma = form.startsWith('json') ? ',' : ''
  const before = start + records.slice(0, nth).join(comma) + (nth > 0 ? comma : '')
  const after = records.slice(nth + 1).map(record => comma + record)
  const record = records[nth] ?? ''
  const length = record.trimEnd().length + 1 - replaced
  for (let at = nth === 0 && comma !== '' ? 1 : 0; at < length; at += 1) {
    const rest = record.slice(at + replaced) + after.join('') + end
    const parts = [Buffer.from(before + record.slice(0, at)), Buffer.of(wrong), Buffer.from(rest)]
    yield Buffer.concat(parts)
  }
}

/** What else than the nth record a damaged file loses, or brings. */
async function lossOf(bytes: Uint8Array, nth: number): Promise<readonly unknown[] | null> {
  const outcome = await imported([sourceOf('list', bytes, 7)]).catch(String)
  const read = typeof outcome === 'string' ? [] : outcome.proxies.map(addressOf)
  const others = THREE.filter((_, i) => i !== nth)
  if (others.every(ip => read.includes(ip)) && read.every(ip => THREE.includes(ip))) return null
  // A text in the last record that is not closed looks as if the rest had not come.
  if (nth === 2 && /truncated/.test(String(outcome))) return null
  return [Buffer.from(bytes).toString('latin1'), outcome]
}

describe.each(FORMS)('one byte that is wrong costs one row: %s', (...form) => {
  const [, , records] = form
  const WRONG = { 'no UTF-8': 0xff, NUL: 0, 'a quote': 0x22 }
  test.each(Object.entries(WRONG))('%s, at each place', async (_, wrong) => {
    for (const nth of records.keys()) {
      for (const bytes of [...damaged(form, nth, wrong, 0), ...damaged(form, nth, wrong, 1)]) {
        const problem = await lossOf(bytes, nth)
        if (problem !== null) expect(problem).toBeNull()
      }
    }
  })
})

test('U+FFFD itself is a character, also where its bytes are in two chunks', async () => {
  const { proxies } = await imported([sourceOf('f', 'ip,type,city\n1.2.3.4:80,http,a\ufffdb\n', 1)])
  expect(proxies.map(({ city }) => city)).toEqual(['a\ufffdb'])
})

test('a header with a byte that is wrong costs no row', async () => {
  const table = Buffer.from('ip,type,c\xffity\n1.2.3.4:80,http,\n1.2.3.5:80,http,\n', 'latin1')
  const { proxies, rejected } = await imported([sourceOf('f', table)])
  expect(proxies.map(addressOf)).toEqual(['1.2.3.4:80', '1.2.3.5:80'])
  expect(rejected).toEqual([['f', 1, 'row', expect.stringMatching(/not UTF-8/)]])
})

test('JSON whose next list could be lost with a broken record is refused', async () => {
  const text = '{"http":[{"ip":"1.2.3.4:80","city":"x},{"ip":5}],"socks5":[{"ip":"1.2.3.5:80"}]}'
  const outcome = imported([sourceOf('f', text.replace(',{"ip":5}', ''))])
  await expect(outcome).rejects.toThrow('f: line 1 is not valid JSON')
})

const OF_A_CITY: Filter = { ...EVERYTHING, cities: ['{"data":['] }
const AS_JSON = { kind: 'json', isDownload: false, hasTypePrefix: false, fields: null } as const

describe('a long answer of the API', () => {
  for (const shape of ['array', 'object'] as const) {
    for (const wrap of [false, true]) {
      test(`imports whatever the size of its chunks (${shape}, wrap ${wrap})`, async () => {
        const defaults = { ...stripped(BARE), city: '{"Ёлка"}]\\' }
        const proxies = Array.from({ length: 400 }, (_, i) => ({ ...defaults, port: 1 + i }))
        const output = { ...AS_JSON, shape, wrap, splitIp: false, pretty: false }
        const text = createRenderer(PROVIDER)(proxies, { ...OF_A_CITY, lang: 'ru' }, output, T0)
        expect(text.length).toBeGreaterThan(HEAD_LENGTH)
        for (let size = 500; size < 520; size += 1) {
          const outcome = await imported([sourceOf('answer', text, size)]).then(
            ({ proxies }) => proxies.length,
            String,
          )
          expect(`chunks of ${size}: ${outcome}`).toBe(`chunks of ${size}: 400`)
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
    'ip,type,works,note\n1.2.3.4:80,http,101,\n1.2.3.5:80,http,,"a\nb,c"\n"Saint "Petersburg",http,5,x\n\n1.2.3.6:80,http\n1.2.3,http,5,x\n1.2.3.6:80,http,,\n',
    [
      [2, 'works', /from 0 to 100/],
      [3, 'row', /has an open quote, or one inside a value; a row is one line/],
      [4, 'row', /has 2 columns, the header has 4/],
      [5, 'row', /has an open quote/],
      [7, 'row', /has 2 columns, the header has 4/],
      [8, 'ip', /IPv4/],
    ],
  ],
  [
    'ndjson',
    '{"ip":"1.2.3.4:80","type":"http"}\n\n{"ip":"1.2.3.4:80"\n{"ip":"1.2.3.4:80","type":"http","smtp":"maybe"}\n[]',
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
  test('the line at which it gave up on a file', async () => {
    const text = '{\n"1.2.3.4:80": {"type": "http"},\n\n"1.2.3.4": {"type": "http"}\n}'
    await expect(imported([sourceOf('f', text)])).rejects.toThrow(
      'f: line 4: not a list of proxies',
    )
  })
  test('its progress once per imported row: rows read, bad ones too, and bytes of all files', async () => {
    const { progress } = await imported([
      sourceOf('f', 'http://1.2.3.4:80\nx\nhttp://1.2.3.5:80'),
      sourceOf('g', 'http://1.2.3.6:80'),
    ])
    expect(progress).toEqual([
      [1, 37],
      [3, 37],
      [4, 54],
    ])
  })
  test('a member no record has, once per name, and imports the row', async () => {
    const text = 'ip,type,Colour,fields\n1.2.3.4:80,http,red,1\n1.2.3.5:80,http,blue,2\n'
    const { ignored, proxies } = await imported([sourceOf('a', text), sourceOf('b', text)])
    expect(ignored).toEqual([
      ['a', 2, 'colour'],
      ['a', 2, 'fields'],
    ])
    expect(proxies).toHaveLength(4)
  })
  test('a member no record has, though rows of other members come between, and whatever its name', async () => {
    const row = (more: string): string => `{"ip":"1.2.3.4:80",${more}"type":"http"}\n`
    const text = row('') + row('"a":1,') + row('') + row('"b":1,"a":1,') + row('"__proto__":1,')
    expect((await imported([sourceOf('f', text)])).ignored).toEqual([
      ['f', 2, 'a'],
      ['f', 4, 'b'],
      ['f', 5, '__proto__'],
    ])
    const csv = 'ip,type,__proto__\n1.2.3.4:80,http,x\n'
    expect((await imported([sourceOf('f', csv)])).ignored).toEqual([['f', 2, '__proto__']])
  })
  test('no row as it would one whose member has the names of its members in one', async () => {
    const text = String.raw`{"ip\nprotocol":"x"}{"ip":"1.2.3.4:80","protocol":"socks5"}`
    const { proxies, rejected } = await imported([sourceOf('f', text.replace('}{', '}\n{'))])
    expect(rejected.map(([, line]) => line)).toEqual([1])
    expect(proxies).toMatchObject([{ ip: '1.2.3.4', type: 'socks5' }])
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
  test.each(['{"ip":"1.2.3.9:80","type":"http"}', '{"ip":1}', '{', '[', '[[', '["1.2.3.9:80"'])(
    'reads lines of addresses on after %s, which costs that line',
    async line => {
      const lines = ['http://1.2.3.4:80', 'http://1.2.3.5:80', 'http://1.2.3.6:80'].join('\n')
      for (const [text, at] of [
        [`${line}\n${lines}`, 1],
        [`${line}\n${lines.replaceAll(/:(?=\d)/g, '\t')}`, 1],
        [`${lines}\n${line}\n${lines}`, 4],
      ] as const) {
        const { proxies, rejected } = await imported([sourceOf('f', text)])
        expect(new Set(proxies.map(({ ip }) => ip)).size).toBe(3)
        expect(rejected.map(([, number]) => number)).toEqual([at])
      }
    },
  )
  test('uses the given format instead of detecting it', async () => {
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
  test('is rejected for one source with only bad rows among good ones', async () => {
    const sources = [sourceOf('good', 'http://1.2.3.4:80\n'), sourceOf('bad', '1.2.3.5:80\n')]
    await expect(imported(sources)).rejects.toThrow(
      'bad: no row is usable, 1 of 1 because type is required: http, https, socks4, socks5 ' +
        '(or give --type); nothing was imported',
    )
  })
  const EMPTY = ['', '\n', '# nothing today\n', 'ip,type\n', '[]', '{"proxies":[]}']
  for (const empty of [...EMPTY, '{"status":"ok","count":0,"data":[]}']) {
    test(`of a file without rows says so, and replaces no list: ${JSON.stringify(empty)}`, async () => {
      const outcome = imported([sourceOf('f', empty)], { refuseEmpty: true })
      await expect(outcome).rejects.toThrow(
        /^f holds no row, and would remove the whole list; nothing was imported \(--allow-empty /,
      )
      const found = await imported([sourceOf('f', empty)])
      expect([found.totals, found.empty]).toEqual([{ read: 0, rejected: 0 }, ['f']])
    })
  }
  test('that replaces the list is rejected for one empty file among others', async () => {
    const sources = [sourceOf('a', 'http://1.2.3.4:80\n'), sourceOf('b', '')]
    await expect(imported(sources, { refuseEmpty: true })).rejects.toThrow(/^b holds no row/)
  })
  test('with strict accepts a file without bad rows', async () => {
    const source = sourceOf('f', vector('good_all_columns.csv'))
    expect((await imported([source], { strict: true })).proxies).toHaveLength(3)
  })
  test('says what the system says of a source that cannot be read, without code and path', async () => {
    async function* unreadable(): AsyncIterable<Uint8Array> {
      await readFile('/')
      yield new Uint8Array()
    }
    async function* missing(): AsyncIterable<Uint8Array> {
      await readFile('/no-such-file')
      yield new Uint8Array()
    }
    for (const [bytes, reason] of [
      [unreadable(), 'it is a directory, not a file'],
      [missing(), 'no such file or directory'],
    ] as const) {
      await expect(imported([{ name: 'f', bytes }])).rejects.toThrow(
        `f: cannot be read (${reason}); nothing was imported`,
      )
    }
  })
  test('reads eight envelopes in each other', async () => {
    const text = `${'{"data":'.repeat(7)}["http://1.2.3.4:80"]${'}'.repeat(7)}`
    expect((await imported([sourceOf('f', text)])).proxies).toHaveLength(1)
  })
  test('takes no time for a line that is nearly an address again and again', async () => {
    const before = process.cpuUsage()
    const text = `${'@'.repeat(60_000)}\nhttp://1.2.3.4:80`
    expect((await imported([sourceOf('f', text)])).proxies).toHaveLength(1)
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(2)
  })
  test.each([
    ['txt', 'ip', 'is longer than 1000 characters'],
    ['csv', 'row', 'is longer than 1 MiB'],
    ['ndjson', 'row', 'is longer than 1 MiB'],
  ] as const)('reads %s on after a row of megabytes', async (format, field, reason) => {
    const long = 'x'.repeat(3 * 2 ** 20)
    for (const end of ['', '\n', `\n${GOOD_LINE[format](2)}`]) {
      const text = `${START[format]}${GOOD_LINE[format](1)}${long}${end}`
      const { proxies, rejected } = await imported([sourceOf('f', text)], { format })
      expect(proxies).toHaveLength(end.length > 1 ? 2 : 1)
      const line = `${START[format]}${GOOD_LINE[format](1)}`.split('\n').length
      expect(rejected).toEqual([['f', line, field, reason]])
    }
  })
  test.each([
    [
      'that is complete',
      (long: string) => `{"ip":"1.2.3.5:80","x":"${long}"}`,
      'is longer than 1 MiB',
    ],
    [
      'that is broken',
      (long: string) => `{"ip":"1.2.3.5:80"x","y":"\n${long}"}`,
      'is not valid JSON',
    ],
    [
      'of brackets',
      (long: string) => `[${long.replaceAll('\\"', '[],')}0]`,
      'is longer than 1 MiB',
    ],
    ['that is no text', (long: string) => '1'.repeat(long.length), 'is longer than 1 MiB'],
    [
      'between many spaces',
      (long: string) => `{"x" 1}${' '.repeat(long.length)}`,
      'is not valid JSON',
    ],
  ])('reads JSON on after a row of megabytes %s, in linear time', async (_, row, reason) => {
    const before = process.cpuUsage()
    const good = (n: number): string => `{"ip":"1.2.3.${n}:80","type":"http"}`
    const long = row('\\"'.repeat(5_000_000))
    for (const text of [
      `[${good(1)},\n${long},${good(2)},\n${good(3)}]`,
      `{"http":[${good(1)},\n${long},${good(2)}],\n"https":[${good(3)}]}`,
    ]) {
      const { proxies, rejected } = await imported([sourceOf('f', text, 65_536)])
      expect(proxies.map(({ ip }) => ip)).toEqual(['1.2.3.1', '1.2.3.2', '1.2.3.3'])
      expect(rejected).toEqual([['f', 2, 'row', expect.stringContaining(reason)]])
    }
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(3)
  })
  test('counts lines on after a row of megabytes', async () => {
    const long = `{"x":[\n${'1,\n'.repeat(2 ** 20)}0]}`
    const { rejected } = await imported([
      sourceOf('f', `["http://1.2.3.4:80",\n${long},\n1]`, 65_536),
    ])
    expect(rejected.map(([, line]) => line)).toEqual([2, 2 ** 20 + 4])
  })
  test('reads on after a broken record also where the first one begins with a long name', async () => {
    for (const start of [`{"${'x'.repeat(500_000)}":1,`, `{${' '.repeat(500_000)}`]) {
      const text = `[${start}"ip":"1.2.3.4:80","type":"http"},{"a" 1},${start}"ip":"1.2.3.5:80","type":"http"}]`
      const { proxies, rejected } = await imported([sourceOf('f', text)])
      expect(proxies.map(({ ip }) => ip)).toEqual(['1.2.3.4', '1.2.3.5'])
      expect(rejected).toHaveLength(1)
    }
  })
  test('reads on after a broken record also where the others begin in another way than the first', async () => {
    const text =
      '[{"ip":"1.2.3.4:80","type":"http"},\n{"ip":"1.2.3.5:80","city":"a"b","type":"http"},\n{"type":"http","ip":"1.2.3.6:80"},\n{"type":"http","ip":"1.2.3.7:80"}]'
    const { proxies, rejected } = await imported([sourceOf('f', text)])
    expect(proxies.map(({ ip }) => ip)).toEqual(['1.2.3.4', '1.2.3.6', '1.2.3.7'])
    expect(rejected).toHaveLength(1)
  })
  test.each([
    ['array', (records: readonly string[]) => `[${records.join(',\n')}]`],
    [
      'object',
      (records: readonly string[]) =>
        `{${records.map((r, i) => `"1.2.3.${i}:80":${r}`).join(',\n')}}`,
    ],
  ])('reads in an %s each record after a broken one, however they begin', async (_, listOf) => {
    const plain = (n: number): string => `{"ip":"1.2.3.${n}:80","type":"http"}`
    const place = '"geo":{"city":{"id":1},"of":[{"a":{}}]}'
    const other = (n: number): string => `{${place},"ip":"1.2.3.${n}:80","type":"http"}`
    const broken = '{"ip":"1.2.3.1:80","city":"a"b","types":[{"type":"http"},{"type":"https"}]}'
    const records = [plain(0), broken, other(2), other(3), '{"a":1,"ip":"1.2.3.4"}', other(5)]
    for (const last of [plain(6), other(6)]) {
      const source = sourceOf('f', listOf([...records, last]))
      const { proxies, rejected } = await imported([source])
      expect(proxies.map(({ ip }) => ip)).toEqual([0, 2, 3, 5, 6].map(n => `1.2.3.${n}`))
      expect(rejected.map(([, line]) => line)).toEqual([2, 5])
    }
  })
  test('reads on after an address that begins without its quote', async () => {
    const records = [0, 1, 2].map(n => `"1.2.3.${n}:80":{"type":"http"}`)
    for (const broken of [1, 2]) {
      const text = `{${records.with(broken, String(records[broken]).slice(1)).join(',\n')}}`
      const { proxies, rejected } = await imported([sourceOf('f', text)])
      const kept = [0, 1, 2].filter(n => n !== broken)
      expect(proxies.map(({ ip }) => ip)).toEqual(kept.map(n => `1.2.3.${n}`))
      expect(rejected.map(([, line]) => line)).toEqual([broken + 1])
    }
  })
  test('refuses many records that stay open up to one broken byte: each would be read to that byte', async () => {
    const good = '{"ip":"1.2.3.4:80","type":"http"}'
    const text = `[${good},${'{"ip":[,'.repeat(20_000)}\0,${good}]`
    const outcome = imported([sourceOf('f', text, 16_384)])
    await expect(outcome).rejects.toThrow('f: line 1: too many records are broken before this')
  })
  test('takes little time for a record of many chunks', async () => {
    const before = process.cpuUsage()
    const record = (ip: string): string =>
      `{"ip":"${ip}:80","type":"http","x":[${'[],'.repeat(330_000)}0]}`
    const text = `[${record('1.2.3.4')},${record('1.2.3.5')}]`
    const { proxies } = await imported([sourceOf('f', text, 16_384)], { format: 'json' })
    expect(proxies).toHaveLength(2)
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(1)
  })
  test('rejects a row of more members than anybody gives one', async () => {
    const members = (count: number): string =>
      Array.from({ length: count }, (_, i) => `,"a${i}":1`).join('')
    const row = (count: number): string => `{"ip":"1.2.3.4:80","type":"http"${members(count)}}\n`
    const { proxies, rejected, ignored } = await imported([sourceOf('f', row(998) + row(999))])
    expect(proxies).toHaveLength(1)
    expect(rejected).toEqual([['f', 2, 'row', 'has more than 1000 members']])
    expect(ignored).toHaveLength(998)
  })
  test('reports only so many members as ignored, and shows the begin of a name on one line', async () => {
    const row = (i: number): string =>
      `{"ip":"1.2.3.4:80","type":"http","a${i}":1,"b${i}":1${i === 0 ? ',"alive\\u0000\\n":"x"' : ''}}\n`
    const text = Array.from({ length: 600 }, (_, i) => row(i)).join('')
    const { ignored, rejected } = await imported([sourceOf('f', text)])
    expect(ignored).toHaveLength(1000)
    expect(rejected).toEqual([['f', 1, 'alive\\u0000\\u000a', 'must be true or false']])
  })
  test('locks the list for the first good row, or at the end', async () => {
    const bad = 'nothing\n'.repeat(10_000)
    const locked = async (text: string): Promise<string[]> => {
      const seen: string[] = []
      const beforeRows = () => void seen.push('locked')
      const options = { format: 'txt', defaults: DEFAULTS, strict: false, beforeRows } as const
      const add = (): void => void seen.push('row')
      const rejected = (): void => void (seen.includes('bad') || seen.push('bad'))
      const observer = { progress() {}, rejected, ignored() {} }
      await importSources([sourceOf('f', text)], options, add, observer).catch(() => {})
      return seen
    }
    expect(await locked(bad)).toEqual(['bad'])
    expect(await locked('')).toEqual(['locked'])
    expect(await locked(`${bad}http://1.2.3.4:80`)).toEqual(['bad', 'locked', 'row'])
    const two = `http://1.2.3.4:80\n${bad}http://1.2.3.4:80`
    expect(await locked(two)).toEqual(['bad', 'locked', 'row', 'row'])
  })
  test('passes on an error of the file system', async () => {
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

const someAnswer = () =>
  fc.record({
    proxies: fc.uniqueArray(anyIncoming().map(stripped), {
      selector: ({ ip, port }) => `${ip}:${port}`,
      minLength: 1,
      maxLength: 6,
    }),
    lang: fc.constantFrom('ru', 'en'),
    kind: fc.constantFrom('json', 'csv', 'ndjson'),
    shape: fc.constantFrom('array', 'object'),
    splitIp: fc.boolean(),
    wrap: fc.boolean(),
    pretty: fc.boolean(),
    provider: fc.constantFrom('the service', 'acme', 'яндекс почта'),
    chunkSize: fc.integer({ min: 1, max: 5000 }),
  })

test('property: a rendered answer is read as the records it was rendered from', async () => {
  await fc.assert(
    fc.asyncProperty(someAnswer(), async answer => {
      const { proxies, lang, provider, chunkSize, ...form } = answer
      const output = { ...AS_JSON, ...form }
      const text = createRenderer(provider)(proxies, { ...OF_A_CITY, lang }, output, T0)
      const defaults = { ...DEFAULTS, provider }
      const outcome = await imported([sourceOf('answer', text, chunkSize)], { defaults })
      expect(outcome.rejected).toEqual([])
      expect(outcome.ignored).toEqual([])
      const expected = proxies.map(proxy => {
        const servicesStated = new Set(SERVICES)
        return {
          ...proxy,
          city: cityIn(lang, { name: proxy.city, nameEn: proxy.cityEn }),
          cityEn: '',
          servicesStated,
        }
      })
      expect(outcome.proxies).toEqual(expected)
    }),
    { numRuns: 300 },
  )
})

test.each([
  ['a file, whose chunks are all there at once', (text: string) => Buffer.from(text)],
  ['a small compressed file of many rows', (text: string) => Bun.gzipSync(text)],
])('a signal ends the reading of %s', async (_, toData) => {
  const controller = new AbortController()
  setImmediate(() => setImmediate(() => controller.abort(new Error('interrupted'))))
  const rows = 300_000
  const source = sourceOf('a.txt', toData('http://192.0.2.1:80\n'.repeat(rows)), 65_536)
  let added = 0
  const { signal } = controller
  const reading = importSources(
    [source],
    { format: 'auto', defaults: DEFAULTS, strict: false, signal },
    () => {
      added += 1
    },
    { progress() {}, rejected() {}, ignored() {} },
  )
  expect(reading).rejects.toThrow('interrupted')
  await reading.catch(() => {})
  expect(added).toBeLessThan(rows / 2)
})

test('the progress of a compressed file is seen also where it comes at once', async () => {
  const lines = Array.from({ length: 60_000 }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80`)
  const data = Bun.gzipSync(lines.join('\n'))
  const { progress } = await imported([sourceOf('a.txt', data, data.length)])
  const [[, first] = [0, 0]] = progress
  expect(first).toBeWithin(1, data.length)
  expect(progress.at(-1)).toEqual([lines.length, data.length])
})

test.each([
  ['a file', (text: string) => text],
  ['a compressed file', (text: string) => Bun.gzipSync(text)],
])('the rows of %s that wait to be stored stay few', async (_, toData) => {
  const rows = Array.from({ length: 60_000 }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80`)
  const added: IncomingProxy[] = []
  let stored = 0
  let most = 0
  const { read } = await importSources(
    [sourceOf('a.txt', toData(rows.join('\n')))],
    {
      ...{ format: 'auto', defaults: DEFAULTS, strict: true },
      async drained() {
        most = Math.max(most, added.length - stored)
        stored = added.length
      },
    },
    proxy => added.push(proxy),
    { progress() {}, rejected() {}, ignored() {} },
  )
  expect(read).toBe(rows.length)
  expect(most).toBeWithin(1, rows.length / 5)
})

test.each([
  ['may', '0/0 99/0 99/1 100/50 101/51 3000/6000'],
  ['must not', '100/49 101/50 3000/1'],
])('a list that is replaced as a whole %s shrink like this: %s', (may, sizes) => {
  for (const [before = 0, after = 0] of sizes.split(' ').map(pair => pair.split('/').map(Number))) {
    const isAllowed = shrinkProblem({ before, after }) === null
    expect([before, after, isAllowed]).toEqual([before, after, may === 'may'])
  }
})
