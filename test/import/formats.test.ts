/** The format of a file, what each reader finds however the chunks are cut, and texts that a reader refuses. */
import { describe, expect, test } from 'bun:test'
import { detectFormat, type Format, READERS } from '../../src/import/formats.ts'
import { createNames } from '../../src/import/names.ts'
import { type Context, type RawRow, type RowSink, UnusableFile } from '../../src/import/reader.ts'

const NAMES = createNames('the service')

/** A row and what its list says of it, or the reason why the record cannot be used. */
type Found = [line: number, row: RawRow | string, context?: Context]

async function* chunksOf(chunks: readonly string[]): AsyncIterable<string> {
  yield* chunks
}

/** All that the reader of a format finds in these chunks. */
async function found(format: Format, ...chunks: string[]): Promise<Found[]> {
  const all: Found[] = []
  const sink: RowSink = {
    row: (line, row, given) => {
      const context = JSON.stringify(given ?? {}) // without members that are undefined
      all.push([line, { ...row }, ...(context === '{}' ? [] : [JSON.parse(context)])] as Found)
    },
    bad: (line, _, reason) => all.push([line, reason]),
  }
  await READERS[format](chunksOf(chunks), sink, NAMES)
  return all
}

describe('the format of a file', () => {
  test('is read from complete lines while more may follow', () => {
    expect(detectFormat('# a comment\nnot yet 1.2.3.4:80', false, NAMES)).toBe('txt')
    expect(() => detectFormat('rubbish\n1.2.3.4:80', false, NAMES)).toThrow(UnusableFile)
    expect(detectFormat('rubbish\n1.2.3.4:80', true, NAMES)).toBe('txt')
    expect(detectFormat('rubbish\n1.2.3.4:80\nnot ye', false, NAMES)).toBe('txt')
  })
  test('takes little time for many digits', () => {
    const digits = '1'.repeat(3_000_000) // a search from each digit takes an hour
    expect(() => detectFormat(digits, true, NAMES)).toThrow(UnusableFile)
  })
})

/** `line name=value …` for each row, with what its list says of it, and `line !` for a record that is not usable. */
const shown = (items: readonly Found[]): string =>
  items
    .map(([line, row, context]) => {
      const facts = Object.entries(typeof row === 'string' ? {} : { ...row, ...context })
      const words = facts.map(([name, value]) => `${name}=${String(value).trim()}`)
      return [line, ...(typeof row === 'string' ? ['!'] : words)].join(' ')
    })
    .join('; ')

/** `what :: text => rows` by format. `⏎` and `↵` are a line feed and a carriage return. */
const FILES: { [format in Format]: string } = {
  txt: `
nothing :: => 
comments, blanks and prefixes :: # list↵⏎↵⏎ http://1.2.3.4:80/ # fast↵⏎ ⏎1.2.3.5:80#x⏎#end⏎socks5://1.2.3.6:80 => 3 type=http ip=1.2.3.4:80; 5 ip=1.2.3.5:80; 7 type=socks5 ip=1.2.3.6:80
a line without an address :: what is this⏎ => 1 ip=what is this`,
  ndjson: `
nothing :: => 
blanks and bad lines :: {"ip":"a"}↵⏎⏎  {"ip":"b"}  ⏎{"ip":⏎[1]⏎"x"⏎{"ip":"c"} => 1 ip=a; 3 ip=b; 4 !; 5 !; 6 !; 7 ip=c`,
  csv: `
nothing :: => 
a header alone :: ip,type⏎ => 
one column :: ip⏎1.2.3.4:80 => 2 ip=1.2.3.4:80
the delimiter that sep= names :: "sep=;"↵⏎ip;x↵⏎a,b;c => 3 ip=a,b x=c
comments :: # a, b⏎ip,type⏎# c⏎a,http⏎#d => 4 ip=a type=http
a column twice :: ip,x,IP⏎1.2.3.4:80,y,z => 2 ip=1.2.3.4:80 x=y =z
quotes and commas in cells ::  IP ,Type,note⏎"a","http" ,"x, ""y"",z"↵⏎⏎b,https,⏎c,http,""⏎ => 2 ip=a type=http note=x, "y",z; 4 ip=b type=https note=; 5 ip=c type=http note=
broken quotes :: ip,type,note⏎a,http,"x⏎y"⏎"b"c,http,⏎d,http, => 2 !; 3 !; 4 !; 5 ip=d type=http note=
short and long rows :: ip,type⏎a⏎b,http⏎c,http,x⏎,⏎d,http => 2 !; 3 ip=b type=http; 4 !; 6 ip=d type=http
semicolons in a value :: ip,type,city⏎a,http,x;y;z,more⏎b,http,x;y;z⏎c,http,x;y;z⏎ => 2 !; 3 ip=b type=http city=x;y;z; 4 ip=c type=http city=x;y;z
carriage returns :: ip,type↵⏎a,http↵⏎b,"http"↵⏎c,https => 2 ip=a type=http; 3 ip=b type=http; 4 ip=c type=https
carriage returns behind the first line :: ip,type⏎a,http↵⏎b,"http"↵⏎c,https => 2 ip=a type=http; 3 ip=b type=http; 4 ip=c type=https
carriage returns on some lines :: ip,type↵⏎a,http⏎b,"http"↵⏎c,https => 2 ip=a type=http; 3 ip=b type=http; 4 ip=c type=https`,
  json: `
an empty array ::  [ ] ⏎ => 
an empty object :: {} => 
an empty envelope :: {"status":"ok","count":0,"filters":{"a":[{}]},"data":[]} => 
an empty envelope of objects :: {"status":"ok","count":0,"data":{}} => 
an envelope in an envelope :: {"ok":true,"result":{"total":2,"items":[⏎{"ip":"a"},⏎{"ip":"b"}],"page":1}} => 2 ip=a; 3 ip=b
metadata behind a list :: {"data":[{"ip":"a"}],"filters":{"data":[1]},"count":1} => 1 ip=a
arrays by type :: {"data":{"http":["1.2.3.4:80"],⏎"socks5":["1.2.3.5:80"]}} => 1 ip=1.2.3.4:80 types=1; 2 ip=1.2.3.5:80 types=8
objects by address, with other commas :: {"1.2.3.4:80":{} "1.2.3.5:80":{"type":"http"},,"1.2.3.6:80":{},} => 1 ip=1.2.3.4:80; 1 type=http ip=1.2.3.5:80; 1 ip=1.2.3.6:80
objects by address, with addresses of their own :: {"1.2.3.4:80":{"ip":"1.2.3.4"},"1.2.3.5":{"port":80},"1.2.3.6:80":{"ip":"1.2.3.7"}} => 1 ip=1.2.3.4:80; 1 port=80 ip=1.2.3.5; 1 ip=1.2.3.7
no comma :: [{"ip":"a"}⏎{"ip":"b"}{"ip":"c"}] => 1 ip=a; 2 ip=b; 2 ip=c
more than one comma :: [{"ip":"a"},,⏎{"ip":"b"}, , ,{"ip":"c"}] => 1 ip=a; 2 ip=b; 2 ip=c
commas at both ends :: [,{"ip":"a"},⏎{"ip":"b"},{"ip":"c"},,] => 1 ip=a; 2 ip=b; 2 ip=c
a comma behind the list :: {"data":[{"ip":"a"},⏎{"ip":"b"},{"ip":"c"},],} => 1 ip=a; 2 ip=b; 2 ip=c
several documents :: {"ip":"a"}⏎[{"ip":"b"}]{"data":[{"ip":"c"}]} => 1 ip=a; 2 ip=b; 2 ip=c
values that are not records :: [⏎{"ip":"a"},⏎1, "x"⏎,null,[{"ip":"b"}],⏎⏎{⏎"ip":"c"⏎}, {"ip":"d"}] => 2 ip=a; 3 ip=1; 3 ip=x; 4 ip=null; 4 ip=b; 6 ip=c; 8 ip=d`,
}

describe('a reader finds', () => {
  for (const [format, cases] of Object.entries(FILES) as [Format, string][]) {
    for (const [, what, input = '', rows] of cases.matchAll(/^(.*) ::(.*) => (.*)$/gm)) {
      test(`${what} in ${format}`, async () => {
        const text = input.slice(1).replaceAll('⏎', '\n').replaceAll('↵', '\r')
        expect(shown(await found(format, text))).toBe(rows ?? '')
      })
    }
  }
  test('how many cells a row lacks', async () => {
    expect(await found('csv', 'ip,type\na\n')).toEqual([[2, 'has 1 columns, the header has 2']])
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

describe('JSON is refused where it is truncated:', () => {
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
    ['a bare key', 'json', '{ip:1}'],
    ['a comment', 'json', '[] // done'],
    [
      'too many envelopes in each other',
      'json',
      nested(16),
      'line 1: more than 16 lists are nested',
    ],
    ['a header without ip', 'csv', 'place,type\na,http\n', 'has no column ip'],
  ]

describe('a reader refuses', () => {
  test.each(UNUSABLE)('%s in %s', async (_, format, text, says = '') => {
    const outcome = found(format, text)
    await expect(outcome).rejects.toThrow(UnusableFile)
    await expect(outcome).rejects.toThrow(says)
  })
  test('more than 15 nested envelopes, but not 15', async () => {
    expect(await found('json', nested(15))).toEqual([[1, { ip: '1.2.3.4:80' }]])
  })
  test.each(['{"filters":"', '{"', '{"data":[],"'])(
    'a text of megabytes behind %s',
    async start => {
      const reading = found('json', start + 'x'.repeat(1024 * 1024 + 1))
      await expect(reading).rejects.toThrow(new UnusableFile('line 1 is longer than 1 MiB'))
    },
  )
})
