/**
 * Recognising the format of a file, and finding its rows in every format, however the chunks are
 * cut: what each reader gives, and which texts it rejects as a whole.
 */

import { describe, expect, test } from 'bun:test'
import { createNames } from '../../src/import/names.ts'
import { detectFormat, type Format, READERS } from '../../src/import/formats.ts'
import { UnusableFile } from '../../src/import/reader.ts'
import type { RawRow } from '../../src/import/row.ts'

/** The names of columns without any of the operator's. */
const NAMES = createNames('the service')

/** A row, or a bad row with its reason, as a reader passes it on. */
type Found =
  | { kind: 'row'; line: number; row: RawRow; listedAs?: string | undefined }
  | { kind: 'bad'; line: number; bad: string; reason: string }

async function* chunksOf(chunks: readonly string[]): AsyncIterable<string> {
  yield* chunks
}

/** All that the reader of a format finds in these chunks. */
async function found(format: Format, ...chunks: string[]): Promise<Found[]> {
  const all: Found[] = []
  await READERS[format](
    chunksOf(chunks),
    {
      row: (line, row, listedAs) =>
        all.push({ kind: 'row', line, row, ...(listedAs === undefined ? {} : { listedAs }) }),
      bad: (line, bad, reason) => all.push({ kind: 'bad', line, bad, reason }),
    },
    NAMES,
  )
  return all
}

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
  ['[::1]:80\n1.1.1.1:80\n', 'txt'],
  ['[2001:db8::1]:80\n1.1.1.1:80\n', 'txt'],
  ['[ProxyList]\n1.1.1.1:1080\n', 'txt'],
  ['[fresh] ,ip\nx,1.2.3.4:80\n', 'csv'],
  ['[]', 'json'],
  ['[\n', 'json'],
  ['[ [1, "x"] ]', 'json'],
  ['[-1.5]', 'json'],
  ['[null, {}]', 'json'],
  ["['1.2.3.4:80']", 'json'],
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
  '[::1]:80\n',
  '[ProxyList]\nsocks5 1.1.1.1 1080\n',
  '<!doctype html>\n<html>',
  'please come back later',
  'place,type\nhere,http\n',
  '1.2.3.4\n5.6.7.8\n',
  '"1.2.3.4:80"',
  'null',
  '42',
  'http://1.2.3.4:80\0\0\0',
]

describe('the format of a file', () => {
  for (const [head, format] of DETECTED) {
    test(`${JSON.stringify(head)} is ${format}`, () => {
      expect(detectFormat(head, true, NAMES)).toBe(format)
    })
  }
  for (const head of UNDETECTED) {
    test(`${JSON.stringify(head)} is none`, () => {
      expect(() => detectFormat(head, true, NAMES)).toThrow(UnusableFile)
    })
  }
  test('is judged by complete lines when only the beginning is known', () => {
    expect(detectFormat('# a comment\nnot yet 1.2.3.4:80', false, NAMES)).toBe('txt')
    expect(() => detectFormat('rubbish\n1.2.3.4:80', false, NAMES)).toThrow(UnusableFile)
    expect(detectFormat('rubbish\n1.2.3.4:80', true, NAMES)).toBe('txt')
    expect(detectFormat('rubbish\n1.2.3.4:80\nnot ye', false, NAMES)).toBe('txt')
  })
  test('is not that of a PAC because a value in a table says so', () => {
    const table = 'ip,type,city\n1.2.3.4:80,http,"\nfunction FindProxyForURL"\n1.2.3.5:80,http,x\n'
    expect(detectFormat(table, true, NAMES)).toBe('csv')
  })
  test('is not sought from each of very many digits', () => {
    const digits = '1'.repeat(3_000_000) // to read them from each takes an hour
    expect(() => detectFormat(digits, true, NAMES)).toThrow(UnusableFile)
  })
  test('is NDJSON, too, when the first record is longer than the beginning', () => {
    expect(detectFormat('{"ip":"1.2.3.4:80","city":"BBBB', false, NAMES)).toBe('ndjson')
    expect(detectFormat('{"data":["BBBB', false, NAMES)).toBe('json')
  })
})

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
    'quotes and commas in cells',
    'csv',
    ' IP ,Type,note\n"a","http" ,"x, ""y"",z"\r\n\nb,https,\nc,http,""\nd,http,"x\ny"\n"e"f,http,\n',
    [
      [2, { ip: 'a', type: 'http', note: 'x, "y",z' }],
      [4, { ip: 'b', type: 'https', note: '' }],
      [5, { ip: 'c', type: 'http', note: '' }],
      [6, 'row'],
      [7, 'row'],
      [8, 'row'],
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
    'semicolons that do not separate',
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
  [
    'an envelope in an envelope',
    'json',
    '{"ok":true,"result":{"total":2,"items":[\n{"ip":"a"},\n{"ip":"b"}],"page":1}}',
    [
      [2, { ip: 'a' }],
      [3, { ip: 'b' }],
    ],
  ],
  [
    'arrays by type in an envelope',
    'json',
    '{"data":{"http":["1.2.3.4:80"],\n"socks5":["1.2.3.5:80"]}}',
    [
      [1, { ip: '1.2.3.4:80', type: 'http' }],
      [2, { ip: '1.2.3.5:80', type: 'socks5' }],
    ],
  ],
  ['an empty envelope of objects', 'json', '{"status":"ok","count":0,"data":{}}', []],
  ...Object.entries({
    'no comma': '[{"ip":"a"}\n{"ip":"b"}{"ip":"c"}]',
    'more than one comma': '[{"ip":"a"},,\n{"ip":"b"}, , ,{"ip":"c"}]',
    'commas at both ends': '[,{"ip":"a"},\n{"ip":"b"},{"ip":"c"},,]',
    'a comma after the list': '{"data":[{"ip":"a"},\n{"ip":"b"},{"ip":"c"},],}',
  }).map(
    ([what, text]) =>
      [what, 'json', text, [...'abc'].map((ip, i) => [i === 0 ? 1 : 2, { ip }] as const)] as const,
  ),
  [
    'an array with values that are not records',
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

const isRow = (item: Found) => item.kind === 'row'
const linesOf = (items: readonly Found[]) =>
  items.map(item => [item.line, item.kind === 'row' ? { ...item.row } : item.bad])

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
    expect(await found('csv', 'ip,type\na\n')).toEqual([
      { kind: 'bad', line: 2, bad: 'row', reason },
    ])
  })
  test('json: a member of an object comes with its key', async () => {
    const rows = await found('json', '{"1.2.3.4:80":{"type":"http"},"1.2.3.5:80":{}}')
    expect(rows).toEqual([
      { kind: 'row', line: 1, row: { type: 'http' }, listedAs: '1.2.3.4:80' },
      { kind: 'row', line: 1, row: {}, listedAs: '1.2.3.5:80' },
    ])
  })
  test('json: members of an object need no comma either, and may have more', async () => {
    const rows = await found('json', '{"1.2.3.4:80":{} "1.2.3.5:80":{},,"1.2.3.6:80":{},}')
    expect(rows.map(row => row.kind === 'row' && row.listedAs?.slice(6))).toEqual([
      ...['4:80', '5:80', '6:80'],
    ])
  })
  test('json: members of the envelope are not rows, in whatever order', async () => {
    const rows = await found('json', '{"data":[{"ip":"a"}],"filters":{"data":[1]},"count":1}')
    expect(rows).toEqual([{ kind: 'row', line: 1, row: { ip: 'a' } }])
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
  ['array with other values', [RECORDS[0], 1.5, '"]\\"', null, true, [[]], RECORDS[1]]],
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

/** What was found, apart from white space at the ends of cells, which no row depends on. */
const trimmed = (items: readonly Found[]): string =>
  JSON.stringify(items, (_, value) => (typeof value === 'string' ? value.trim() : value))

describe('a text in chunks gives the same rows', () => {
  for (const [what, format, text] of CUT) {
    test(`${format} ${what}: cut in two at every byte`, async () => {
      const complete = trimmed(await found(format, text))
      expect(complete).toContain('"line":')
      const bytes = new TextEncoder().encode(text)
      for (let at = 0; at <= bytes.length; at += 1) {
        const rows = await found(format, ...cutAt(bytes, at)).then(trimmed, String)
        if (rows !== complete) expect(`cut at byte ${at}: ${rows}`).toBe(complete)
      }
    })
  }
})

describe('truncated JSON', () => {
  for (const [what, text] of JSON_TEXTS) {
    test(`${what}: is rejected at whatever character it ends`, async () => {
      for (let end = 0; end < text.trimEnd().length; end += 1) {
        const outcome = await found('json', text.slice(0, end)).then(String, error => error)
        if (!(outcome instanceof UnusableFile)) expect(`${end}: ${outcome}`).toBe('rejected')
      }
    })
  }
})

/** Texts that are no list; more of them are whole files, in fixtures/vectors. */
const nested = (depth: number): string => `${'{"data":'.repeat(depth)}[]${'}'.repeat(depth)}`
const UNUSABLE: readonly (readonly [what: string, format: Format, text: string])[] = [
  ['an object of something else', 'json', '{"name":"x","dependencies":{}}'],
  ['an envelope with a null as data', 'json', '{"status":"ok","data":null}'],
  ['rubbish after the end', 'json', '[{"ip":"a"}] x'],
  ['a key without colon', 'json', '{"1.2.3.4:80" {}}'],
  ['a bare key', 'json', '{ip:1}'],
  ['a comment', 'json', '[] // done'],
  ['more envelopes in each other than anybody writes', 'json', nested(9)],
  ['a column twice under two spellings', 'csv', 'IP Address;ip_address;type\na;b;http\n'],
  ['another delimiter than it says', 'csv', 'sep=;\nip,type\na,http\n'],
]

describe('a text is rejected as a whole', () => {
  for (const [what, format, text] of UNUSABLE) {
    test(`${format}: ${what}`, async () => {
      await expect(found(format, text)).rejects.toThrow(UnusableFile)
    })
  }
  test('json: a member of the envelope or a key without end, before it fills the memory', async () => {
    for (const start of ['{"filters":"', '{"', '{"data":[],"']) {
      const text = `${start}${'x'.repeat(1024 * 1024 + 1)}`
      await expect(found('json', text)).rejects.toThrow(/^line 1.* too long$/)
    }
  })
  test('json: because of a member of no list, which the message shows as far as 40 characters', async () => {
    await expect(found('json', `{"${'x'.repeat(41)}":1}`)).rejects.toThrow(
      new UnusableFile(`line 1: not a list of proxies, has '${'x'.repeat(40)}'`),
    )
  })
  test('because of a name with control characters, which the message escapes', async () => {
    await expect(found('json', '{"a\\u0000\\u001b[2J":1}')).rejects.toThrow(
      /has 'a\\u0000\\u001b\[2J'$/,
    )
    await expect(found('csv', 'ip,a\x1b,a\x1b\n1.2.3.4:5,1,2\n')).rejects.toThrow(
      /column 'a\\u001b' /,
    )
  })
  test('csv: because of a header without ip, which the message says', async () => {
    await expect(found('csv', 'place,type\na,http\n')).rejects.toThrow(/no column ip/)
  })
  for (const format of ['txt', 'csv', 'json', 'ndjson'] as const) {
    test(`${format}: and an error of the sink comes through`, async () => {
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
      await expect(READERS[format](chunksOf([text]), sink, NAMES)).rejects.toBe(full)
    })
  }
})
