/** The format of a file, what each reader finds however the chunks are cut, and texts that a reader refuses. */
import { describe, expect, test } from 'bun:test'
import { detectFormat, type Format, READERS } from '../../src/import/formats.ts'
import { createNames } from '../../src/import/names.ts'
import { UnusableFile } from '../../src/import/reader.ts'
import type { Context, RawRow } from '../../src/import/row.ts'

const NAMES = createNames('the service')

/** A row and what its list says of it, or the reason why the record cannot be used. */
type Found = [line: number, row: RawRow | string, context?: Context]

async function* chunksOf(chunks: readonly string[]): AsyncIterable<string> {
  yield* chunks
}

/** All that the reader of a format finds in these chunks. */
async function found(format: Format, ...chunks: string[]): Promise<Found[]> {
  const all: Found[] = []
  await READERS[format](
    chunksOf(chunks),
    {
      row: (line, row, context = {}) =>
        all.push([line, { ...row }, ...(Object.keys(context).length > 0 ? [context] : [])]),
      bad: (line, _, reason) => all.push([line, reason]),
    },
    NAMES,
  )
  return all
}

const DETECTED: readonly (readonly [head: string, format: string])[] = [
  ['1.2.3.4:80\n', 'txt'],
  ['http://1.2.3.4:80', 'txt'],
  ['# only a comment', 'txt'],
  ['', 'txt'],
  ['\n\n  \n', 'txt'],
  ['# ip,type\nsocks5://1.2.3.4:80\n', 'txt'],
  ['rubbish\n1.2.3.4:80\n', 'txt'],
  ['[::1]:80\n1.1.1.1:80\n', 'txt'],
  ['[ProxyList]\nsocks5 1.1.1.1 1080\n', 'txt'],
  ['"1.2.3.4:80"', 'txt'],
  ['ip,type\n1.2.3.4:80,http\n', 'csv'],
  ['ip\n1.2.3.4:80\n', 'csv'],
  ['Type , IP\r\nhttp,1.2.3.4:80\r\n', 'csv'],
  ['\n\nip,port,type\n', 'csv'],
  ['"ip","type"\n"1.2.3.4:80","http"\n', 'csv'],
  ['"the ""note""",type,"ip"\nx,http,1.2.3.4:80\n', 'csv'],
  ['[fresh] ,ip\nx,1.2.3.4:80\n', 'csv'],
  ['proxies:\n- {type: http, server: 1.2.3.4, port: 80}\n', 'yaml'],
  ['[]', 'json'],
  ['[\n', 'json'],
  ['[ [1, "x"] ]', 'json'],
  ['[-1.5]', 'json'],
  ['[null, {}]', 'json'],
  ["['1.2.3.4:80']", 'json'],
  ['  \n[{"ip":"1.2.3.4:80"}]', 'json'],
  ['{}', 'json'],
  ['{\n  "1.2.3.4:80": {}\n}', 'json'],
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
  ...['[::1]:80\n', '<!doctype html>\n<html>', 'please come back later', 'null', '42'],
  ...['place,type\nhere,http\n', '1.2.3.4\n5.6.7.8\n', 'http://1.2.3.4:80\0\0\0'],
]

describe('the format of a file', () => {
  test.each(DETECTED)('%j is %s', (head, format) => {
    expect(detectFormat(head, true, NAMES)).toBe(format as Format)
  })
  test.each(UNDETECTED)('%j is none', head => {
    expect(() => detectFormat(head, true, NAMES)).toThrow(UnusableFile)
  })
  test('depends on complete lines when only the beginning is known', () => {
    expect(detectFormat('# a comment\nnot yet 1.2.3.4:80', false, NAMES)).toBe('txt')
    expect(() => detectFormat('rubbish\n1.2.3.4:80', false, NAMES)).toThrow(UnusableFile)
    expect(detectFormat('rubbish\n1.2.3.4:80', true, NAMES)).toBe('txt')
    expect(detectFormat('rubbish\n1.2.3.4:80\nnot ye', false, NAMES)).toBe('txt')
  })
  test('takes little time for many digits', () => {
    const digits = '1'.repeat(3_000_000) // a search from each digit takes an hour
    expect(() => detectFormat(digits, true, NAMES)).toThrow(UnusableFile)
  })
  test('is NDJSON also when the first record is longer than the beginning', () => {
    expect(detectFormat('{"ip":"1.2.3.4:80","city":"BBBB', false, NAMES)).toBe('ndjson')
    expect(detectFormat('{"data":["BBBB', false, NAMES)).toBe('json')
  })
})

const BAD: string = expect.any(String)
const FILES: readonly (readonly [what: string, format: Format, text: string, rows: Found[]])[] = [
  ...(['txt', 'ndjson', 'csv'] as const).map(format => ['nothing', format, '', []] as const),
  [
    'comments, blanks, prefixes and carriage returns',
    'txt',
    '# list\r\n\r\n http://1.2.3.4:80/ # fast\r\n\t\n1.2.3.5:80#x\n#end\nsocks5://1.2.3.6:80',
    [
      [3, { type: 'http', ip: '1.2.3.4:80' }],
      [5, { ip: '1.2.3.5:80' }],
      [7, { type: 'socks5', ip: '1.2.3.6:80' }],
    ],
  ],
  ['a line without an address', 'txt', 'what is this\n', [[1, { ip: 'what is this' }]]],
  [
    'records, blanks and bad lines',
    'ndjson',
    '{"ip":"a"}\r\n\n  {"ip":"b"}  \n{"ip":\n[1]\n"x"\n{"ip":"c"}',
    [
      [1, { ip: 'a' }],
      [3, { ip: 'b' }],
      [4, BAD],
      [5, BAD],
      [6, BAD],
      [7, { ip: 'c' }],
    ],
  ],
  ['a header alone', 'csv', 'ip,type\n', []],
  ['one column', 'csv', 'ip\n1.2.3.4:80', [[2, { ip: '1.2.3.4:80' }]]],
  [
    'the delimiter that sep= names',
    'csv',
    '"sep=;"\r\nip;x\r\na,b;c',
    [[3, { ip: 'a,b', x: 'c' }]],
  ],
  ['comments', 'csv', '# a, b\nip,type\n# c\na,http\n#d', [[4, { ip: 'a', type: 'http' }]]],
  [
    'two columns with one name, of which the first is read',
    'csv',
    'ip,IP\n1.2.3.4:80,x',
    [[2, { ip: '1.2.3.4:80', '': 'x' }]],
  ],
  [
    'quotes and commas in cells',
    'csv',
    ' IP ,Type,note\n"a","http" ,"x, ""y"",z"\r\n\nb,https,\nc,http,""\nd,http,"x\ny"\n"e"f,http,\n',
    [
      [2, { ip: 'a', type: 'http', note: 'x, "y",z' }],
      [4, { ip: 'b', type: 'https', note: '' }],
      [5, { ip: 'c', type: 'http', note: '' }],
      ...[6, 7, 8].map((line): Found => [line, BAD]),
    ],
  ],
  [
    'short and long rows',
    'csv',
    'ip,type\na\nb,http\nc,http,x\n,\nd,http',
    [
      [2, 'has 1 columns, the header has 2'],
      [3, { ip: 'b', type: 'http' }],
      [4, 'has 3 columns, the header has 2; a value that holds the delimiter needs quotes'],
      [6, { ip: 'd', type: 'http' }],
    ],
  ],
  [
    'semicolons in a value',
    'csv',
    'ip,type,city\na,http,x;y;z,more\nb,http,x;y;z\nc,http,x;y;z\n',
    [
      [2, BAD],
      [3, { ip: 'b', type: 'http', city: 'x;y;z' }],
      [4, { ip: 'c', type: 'http', city: 'x;y;z' }],
    ],
  ],
  ['an empty array', 'json', ' [ ] \n', []],
  ['an empty object', 'json', '{}', []],
  ['an empty envelope', 'json', '{"status":"ok","count":0,"filters":{"a":[{}]},"data":[]}', []],
  ['an empty envelope of objects', 'json', '{"status":"ok","count":0,"data":{}}', []],
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
    'an envelope, and metadata behind its list',
    'json',
    '{"data":[{"ip":"a"}],"filters":{"data":[1]},"count":1}',
    [[1, { ip: 'a' }]],
  ],
  [
    'arrays by type in an envelope',
    'json',
    '{"data":{"http":["1.2.3.4:80"],\n"socks5":["1.2.3.5:80"]}}',
    [
      [1, { ip: '1.2.3.4:80' }, { type: 'http' }],
      [2, { ip: '1.2.3.5:80' }, { type: 'socks5' }],
    ],
  ],
  [
    'objects by address, without a comma and with too many',
    'json',
    '{"1.2.3.4:80":{} "1.2.3.5:80":{"type":"http"},,"1.2.3.6:80":{},}',
    [
      [1, {}, { listedAs: '1.2.3.4:80' }],
      [1, { type: 'http' }, { listedAs: '1.2.3.5:80' }],
      [1, {}, { listedAs: '1.2.3.6:80' }],
    ],
  ],
  ...Object.entries({
    'no comma': '[{"ip":"a"}\n{"ip":"b"}{"ip":"c"}]',
    'more than one comma': '[{"ip":"a"},,\n{"ip":"b"}, , ,{"ip":"c"}]',
    'commas at both ends': '[,{"ip":"a"},\n{"ip":"b"},{"ip":"c"},,]',
    'a comma behind the list': '{"data":[{"ip":"a"},\n{"ip":"b"},{"ip":"c"},],}',
    'several documents': '{"ip":"a"}\n[{"ip":"b"}]{"data":[{"ip":"c"}]}',
  }).map(
    ([what, text]) =>
      [what, 'json', text, [...'abc'].map((ip, i): Found => [i === 0 ? 1 : 2, { ip }])] as const,
  ),
  [
    'an array with values that are not records',
    'json',
    '[\n{"ip":"a"},\n1, "x"\n,null,[{"ip":"b"}],\n\n{\n"ip":"c"\n}, {"ip":"d"}]',
    [
      [2, { ip: 'a' }],
      ...['1', 'x', 'null'].map((ip, i): Found => [i === 2 ? 4 : 3, { ip }]),
      [4, { ip: 'b' }],
      [6, { ip: 'c' }],
      [8, { ip: 'd' }],
    ],
  ],
]

describe('rows of a file', () => {
  test.each(FILES)('%s in %s', async (_, format, text, rows) => {
    expect(await found(format, text)).toEqual(rows)
  })
  test.each([
    ['throughout', 'ip,type\r\na,http\r\nb,"http"\r\nc,https'],
    ['behind the first line', 'ip,type\na,http\r\nb,"http"\r\nc,https'],
    ['on some lines', 'ip,type\r\na,http\nb,"http"\r\nc,https'],
  ])('carriage returns %s in csv', async (_, text) => {
    expect(trimmed(await found('csv', text))).toBe(
      trimmed([
        [2, { ip: 'a', type: 'http' }],
        [3, { ip: 'b', type: 'http' }],
        [4, { ip: 'c', type: 'https' }],
      ]),
    )
  })
})

const LISTS: { [what: string]: (records: readonly string[]) => string } = {
  array: records => `[${records.join(',\n')}]`,
  object: records => `{${records.map((r, i) => `"1.2.3.${i}:80":${r}`).join(',\n')}}`,
}

describe('a broken record costs one row in', () => {
  /** The last octets of the rows, and the lines of what cannot be used. */
  const octetsAndLines = (items: readonly Found[]) => [
    items.flatMap(([, row, context]) =>
      typeof row === 'string' ? [] : [String(context?.listedAs ?? row.ip).slice(6, -3)],
    ),
    items.flatMap(([line, row]) => (typeof row === 'string' ? [line] : [])),
  ]
  test.each(Object.entries(LISTS))('an %s, however the other records begin', async (_, listOf) => {
    const plain = (n: number): string => `{"ip":"1.2.3.${n}:80","type":"http"}`
    const place = '"geo":{"city":{"id":1},"of":[{"a":{}}]}'
    const other = (n: number): string => `{${place},"ip":"1.2.3.${n}:80","type":"http"}`
    const broken = '{"ip":"1.2.3.1:80","city":"a"b","types":[{"type":"http"},{"type":"https"}]}'
    const text = listOf([plain(0), broken, other(2), other(3), '{"type":"http" 1}', plain(5)])
    expect(octetsAndLines(await found('json', text))).toEqual([
      ['0', '2', '3', '5'],
      [2, 5],
    ])
  })
  test('an object, where an address begins without its quote', async () => {
    const records = [0, 1, 2].map(n => `"1.2.3.${n}:80":{"type":"http"}`)
    for (const broken of [1, 2]) {
      const text = `{${records.with(broken, String(records[broken]).slice(1)).join(',\n')}}`
      const kept = ['0', '1', '2'].filter(n => n !== String(broken))
      expect(octetsAndLines(await found('json', text))).toEqual([kept, [broken + 1]])
    }
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
const DOCUMENTS: { readonly [what: string]: unknown } = {
  array: RECORDS,
  object: BY_ADDRESS,
  'envelope around an array': envelope(RECORDS),
  'envelope around an object': envelope(BY_ADDRESS),
  'object with strange keys': envelope({ 'a"b\\': RECORDS[0], ']}\\"': RECORDS[1] }),
  'array with other values': [RECORDS[0], 1.5, '"]\\"', null, true, [[]], RECORDS[1]],
}
const JSON_TEXTS = Object.entries(DOCUMENTS).flatMap(([what, json]) => [
  [`${what}, compact`, JSON.stringify(json)] as const,
  [`${what}, pretty`, `${JSON.stringify(json, null, 2)}\n`] as const,
])
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

/** White space at the ends of cells means nothing. */
const trimmed = (items: readonly Found[]): string =>
  JSON.stringify(items, (_, value) => (typeof value === 'string' ? value.trim() : value))

describe('a reader finds the same rows when the text is cut in two at any byte', () => {
  test.each(CUT)('%s in %s', async (_, format, text) => {
    const complete = trimmed(await found(format, text))
    expect(complete).toContain('[[')
    const bytes = new TextEncoder().encode(text)
    for (let at = 0; at <= bytes.length; at += 1) {
      const rows = await found(format, ...cutAt(bytes, at)).then(trimmed, String)
      if (rows !== complete) expect(`cut at byte ${at}: ${rows}`).toBe(complete)
    }
  })
})

describe('JSON is refused wherever it is truncated:', () => {
  test.each(JSON_TEXTS)('%s', async (_, text) => {
    for (let end = 0; end < text.trimEnd().length; end += 1) {
      const outcome = await found('json', text.slice(0, end)).then(JSON.stringify, error => error)
      if (!(outcome instanceof UnusableFile)) expect(`${end}: ${outcome}`).toBe('refused')
    }
  })
})

const nested = (depth: number): string =>
  `${'{"data":'.repeat(depth)}["1.2.3.4:80"]${'}'.repeat(depth)}`
/** Texts that are no list. Whole files are in fixtures/vectors. */
const UNUSABLE: readonly (readonly [what: string, format: Format, text: string, says?: string])[] =
  [
    ['rubbish behind the end', 'json', '[{"ip":"a"}] x'],
    ['a key without colon', 'json', '{"1.2.3.4:80" {}}'],
    ['a bare key', 'json', '{ip:1}'],
    ['a comment', 'json', '[] // done'],
    ['too many envelopes in each other', 'json', nested(16), 'line 1: more than 16 lists are in'],
    ...['{"filters":"', '{"', '{"data":[],"'].map(
      start =>
        [
          `a text of megabytes behind ${start}`,
          'json',
          start + 'x'.repeat(1024 * 1024 + 1),
          'line 1 is longer than 1 MiB',
        ] as const,
    ),
    ['a delimiter that sep= does not name', 'csv', 'sep=;\nip,type\na,http\n'],
    ['a header without ip', 'csv', 'place,type\na,http\n', 'has no column ip'],
  ]

describe('a reader refuses', () => {
  test.each(UNUSABLE)('%s in %s', async (_, format, text, says = '') => {
    const outcome = found(format, text)
    await expect(outcome).rejects.toThrow(UnusableFile)
    await expect(outcome).rejects.toThrow(says)
  })
  test('no 15 envelopes in each other', async () => {
    expect(await found('json', nested(15))).toEqual([[1, { ip: '1.2.3.4:80' }]])
  })
  test.each(['txt', 'csv', 'json', 'ndjson'] as const)(
    '%s with the error of its sink',
    async format => {
      const full = new Error('disk full')
      const fail = (): never => {
        throw full
      }
      const texts = {
        txt: '1.2.3.4:80\n',
        csv: 'ip\na\n',
        json: '[{"ip":"a"}]',
        ndjson: '{"ip":"a"}',
      }
      const reading = READERS[format](chunksOf([texts[format]]), { row: fail, bad: fail }, NAMES)
      await expect(reading).rejects.toBe(full)
    },
  )
})
