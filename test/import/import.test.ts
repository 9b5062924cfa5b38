/**
 * Files in, proxies and reports out. Values are tested in row.test.ts, readers in formats.test.ts, and forms of
 * lists in forms.test.ts.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import type { Format } from '../../src/import/formats.ts'
import { type ImportObserver, importSources, shrinkProblem } from '../../src/import/import.ts'
import { HEAD_LENGTH } from '../../src/import/reader.ts'
import { CommandError } from '../../src/lib/errors.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import { bestOf } from '../../src/proxies/types.ts'
import { NOW } from '../support/incoming.ts'
import { ROOT } from '../support/program.ts'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

const VECTORS = join(ROOT, 'test/fixtures/vectors')
const vector = (name: string): Uint8Array => readFileSync(join(VECTORS, name))
const addressOf = ({ ip, port }: IncomingProxy): string => `${ip}:${port}`
const ANY_FORMAT = { format: 'auto', defaults: DEFAULTS, strict: false } as const
const SILENT: ImportObserver = {}
/** Seconds of the processor that a task takes. */
async function cpuSeconds(task: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  await task()
  return process.cpuUsage(before).user / 1e6
}

/** The files `good_*`, by the numbers of their good and bad rows. */
const GOOD: { [counts: string]: string } = {
  '0 0': 'comments_only.txt empty.txt empty_array.json empty_envelope.json header_only.csv',
  '1 0': 'latin1_comment.txt trailing_comma.json',
  '1 1': 'open_quote.csv stray_quote.csv',
  '2 0': 'bom_crlf.csv bom_crlf.txt only_ip_and_type.json own_columns.csv quoted.csv',
  '2 3': 'some_bad_lines.txt some_bad_records.ndjson',
  '3 0':
    'all_columns.csv array_compact.json array_pretty.json array_split.json blank_lines_crlf.ndjson bom.json envelope_array.json envelope_object_compact.json escaped_ascii.json nested_array.json object.json object_split_compact.json object_without_ip.json other_object.json records.ndjson',
  '4 0': 'plain.txt',
  '4 1': 'some_bad_rows.csv',
  '6 0': 'two_documents.json',
}
const GOOD_FILES = Object.entries(GOOD).flatMap(([counts, names]) =>
  names.split(' ').map(name => [`good_${name}`, counts] as const),
)
/** The files `bad_*`, and the beginning of the reason why the importer refuses each. */
const BAD = `
all_records.ndjson :: no row is usable, 1 of 2 because ip has no port
all_rows.txt :: no row is usable, 2 of 3 because ip must be an IPv4 address with a port
truncated_array.json truncated_envelope.json truncated_in_record.json :: is truncated
envelope_scalar_data.json envelope_without_data.json :: holds no proxies
error_answer.json error_answer_pretty.json :: is an error response
image.png nul.txt :: is not text
utf16.txt :: is not UTF-16 text
latin1.csv :: no row is usable, 1 of 1 because row has a byte that is not UTF-8; save the file as UTF-8
mismatched_brackets.json :: line 1: not a JSON list of proxies
no_ip_column.csv :: is none of the known formats; it looks like a table in which no column holds an address: name the column
no_type.txt :: no row is usable, 2 of 2 because type is required: http, https, socks4, socks5 (or give --type)
numbers.json :: no row is usable
page.html :: is none of the known formats; it looks like an HTML or XML page: get the list itself
python_literals.json single_quotes.json :: no row is usable, 1 of 1 because row is not valid JSON; names and texts need
text.txt null.json :: is none of the known formats; it looks like text: a line must read a.b.c.d:port
`
const BAD_FILES = [...BAD.matchAll(/^(.*) :: (.*)$/gm)].flatMap(([, names = '', says = '']) =>
  names.split(' ').map(name => [`bad_${name}`, says, vector(`bad_${name}`)] as const),
)

const bytes = (...values: number[]): Uint8Array => Uint8Array.from([...values, 0, 0, 0, 0, 0, 0])
const LINE = 'http://192.0.2.1:80\n'
const UNKNOWN = 'is none of the known formats; it looks like '
const [GZIP, ZSTD] = [gzipSync(LINE), zstdCompressSync(LINE)]
const REFUSED: readonly (readonly [what: string, says: string, data: string | Uint8Array])[] = [
  ...BAD_FILES,
  ['a spreadsheet', 'is a spreadsheet (xlsx, ods) or a zip archive', bytes(0x50, 0x4b, 3, 4)],
  ['an old spreadsheet', 'is a spreadsheet (xls); save it as CSV', bytes(0xd0, 0xcf, 0x11, 0xe0)],
  ['a PDF', 'is a PDF; get the list itself', '%PDF-1.7\n'],
  ['bzip2', 'is compressed with bzip2; gzip and zstd can be read', 'BZh91AY'],
  ['xz', 'is compressed with xz; ', bytes(0xfd, 0x37, 0x7a, 0x58, 0x5a)],
  ['damaged gzip', 'is damaged or truncated gzip data', bytes(0x1f, 0x8b, 8, 0)],
  ['damaged zstd', 'is damaged or truncated zstd data', bytes(0x28, 0xb5, 0x2f, 0xfd)],
  ['truncated gzip', 'is damaged or truncated gzip data', GZIP.subarray(0, -9)],
  ['truncated zstd', 'is damaged or truncated zstd data', ZSTD.subarray(0, -9)],
  ['double gzip', 'is compressed twice; decompress it once', gzipSync(GZIP)],
  ['gzip around zstd', 'is compressed twice; ', gzipSync(ZSTD)],
  ['addresses without ports', `${UNKNOWN}addresses without ports: a line must`, '192.0.2.1\n'],
  ['host names', `${UNKNOWN}addresses that are not IPv4: only a.b.c`, 'proxy.example.com:80\n'],
  ['IPv6', `${UNKNOWN}addresses that are not IPv4: only a.b.c`, 'socks5://[2001:db8::1]:1080\n'],
  ['UTF-16 without its mark', 'is not text: it has NUL', Buffer.from('ip,type\nx', 'utf16le')],
]
describe('vectors', () => {
  test.each(GOOD_FILES)('%s has %s good and bad rows, also byte by byte', async (name, counts) => {
    const { progress: _, ...atOnce } = await imported([sourceOf(name, vector(name))])
    const { proxies, rejected, totals } = atOnce
    expect(`${proxies.length} ${rejected.length}`).toBe(counts)
    const read = proxies.length + rejected.length
    expect(totals).toMatchObject({ read, rejected: rejected.length, skipped: 0 })
    expect(totals.ignored).toHaveLength(name === 'good_quoted.csv' ? 1 : 0)
    expect(await imported([sourceOf(name, vector(name), 1)])).toMatchObject(atOnce)
  })
  for (const [name, says, data] of REFUSED) {
    test(`${name}: the importer refuses the file`, async () => {
      const outcome = imported([sourceOf(name, data)])
      await expect(outcome).rejects.toThrow(CommandError)
      const message = String(await outcome.catch(({ message }) => message))
      expect(message.slice(0, name.length + 2 + says.length)).toBe(`${name}: ${says}`)
      expect(message).toEndWith('; nothing was imported')
    })
  }
  test('are all in these tables', () => {
    const names = [...REFUSED, ...GOOD_FILES].map(([name]) => name)
    expect(readdirSync(VECTORS).filter(name => !names.includes(name))).toEqual([])
  })
  const SAME =
    'array_compact array_split bom envelope_array envelope_object_compact escaped_ascii nested_array object object_split_compact other_object'
  test.each(SAME.split(' '))('good_%s.json has the rows of good_array_pretty.json', async name => {
    const pretty = await imported([sourceOf('a', vector('good_array_pretty.json'))])
    const { proxies } = await imported([sourceOf('b', vector(`good_${name}.json`))])
    expect(proxies).toEqual(pretty.proxies)
    expect(proxies[0]).toMatchObject({ ip: '185.162.7.9', port: 8080, city: 'Берлин', works: 97 })
    expect(proxies[0]).toMatchObject({ pingMs: 532, checkedAt: NOW - 30, anon: 'elite' })
  })
})

const ipOf = (i: number): string => `10.0.${i >> 8}.${i & 255}`
const JSON_ROW = '{"ip":"9.9.9.9:80","type":"ftp"}\n'
type Parts = readonly [start: string, good: (i: number) => string, bad: string, end: string]
const PARTS: { [format in Format]: Parts } = {
  txt: ['# list\n', i => `http://${ipOf(i)}:80\n`, 'ftp://9.9.9.9:80\n', ''],
  csv: ['ip,type,city\n', i => `${ipOf(i)}:80,http,"Ёлка ""${i}"""\n`, '9.9.9.9:80,ftp,\n', ''],
  json: ['[\n', i => `{"ip":"${ipOf(i)}:80",\n"type":"http","city":"Ёлка"},\n`, JSON_ROW, ']'],
  ndjson: ['\n', i => `{"ip":"${ipOf(i)}:80","type":"http","city":"Ёлка"}\n`, JSON_ROW, ''],
}
const PARTS_BY_FORMAT = Object.entries(PARTS) as [Format, Parts][]

describe('a file longer than its head is read to its end:', () => {
  test.each(PARTS_BY_FORMAT)('%s', async (format, [start, good, bad, end]) => {
    const rows = Array.from({ length: 5000 }, (_, i) => good(i))
    const text = [start, ...rows, bad, end].join('')
    expect(text.length).toBeGreaterThan(HEAD_LENGTH)
    for (const size of [997, 65_537]) {
      const { proxies, rejected } = await imported([sourceOf('long', text, size)])
      expect(proxies.map(({ ip }) => ip)).toEqual(rows.map((_, i) => ipOf(i)))
      const line = format === 'json' ? 10_002 : 5002
      expect(rejected).toEqual([['long', line, 'type', expect.any(String)]])
    }
  })
})

const THREE = ['185.162.7.9:8080', '192.0.2.1:80', '203.0.113.7:1080']
/** Three records as each form has them, between a start and an end. */
type Form = [form: string, start: string, records: string[], end: string]
const FORMS: Form[] = [
  ['txt', '', THREE.map(ip => `http://${ip}\n`), ''],
  ['csv', 'ip,type,city\n', THREE.map(ip => `${ip},http,Perm\n`), ''],
  ['csv in quotes', '"ip","type","city"\n', THREE.map(ip => `"${ip}","http","Perm"\n`), ''],
  ['ndjson', '', THREE.map(ip => `{"ip":"${ip}","type":"http","city":"Perm"}\n`), ''],
  ['json', '[', THREE.map(ip => `{"ip":"${ip}","type":"http","city":"Perm"}`), ']'],
  ['json by address', '{"data":{', THREE.map(ip => `"${ip}":{"type":"http","city":"Perm"}`), '}}'],
  ['json of addresses', '[', THREE.map(ip => `"http://${ip}"`), ']'],
]

/** The file with a wrong byte in its nth record, inserted or in place of another. In JSON, it stands in a text. */
function* damaged([form, start, records, end]: Form, nth: number, wrong: number) {
  const isJson = form.startsWith('json')
  const text = start + records.join(isJson ? ',' : '') + end
  const record = records[nth] ?? ''
  const from = text.indexOf(record)
  const places = Array.from(record.trimEnd(), (_, at) => at)
  for (const at of isJson ? [Math.max(record.indexOf('Perm'), 0) + 2] : places) {
    for (const replaced of [0, 1]) {
      const [before, after] = [text.slice(0, from + at), text.slice(from + at + replaced)]
      yield Buffer.concat([Buffer.from(before), Buffer.of(wrong), Buffer.from(after)])
    }
  }
}

/** What a damaged file loses beside the nth record, or brings. */
async function lossOf(bytes: Uint8Array, nth: number): Promise<readonly unknown[] | null> {
  const outcome = await imported([sourceOf('list', bytes, 7)]).catch(String)
  const read = typeof outcome === 'string' ? [] : outcome.proxies.map(addressOf)
  const others = THREE.filter((_, i) => i !== nth)
  if (others.every(ip => read.includes(ip)) && read.every(ip => THREE.includes(ip))) return null
  // A text in the last record that is not closed looks as if the rest had not come.
  if (nth === 2 && /truncated/.test(String(outcome))) return null
  return [Buffer.from(bytes).toString('latin1'), outcome]
}

describe.each(FORMS)('one wrong byte costs one row in %s:', (...form) => {
  // In text and bare cells a quote may stand beside an address.
  const isQuoted = /quotes|json/.test(form[0])
  const WRONG = { 'no UTF-8': 0xff, NUL: 0, ...(isQuoted && { 'a quote': 0x22 }) }
  test.each(Object.entries(WRONG))('%s', async (_, wrong) => {
    for (const nth of THREE.keys()) {
      for (const bytes of damaged(form, nth, wrong)) {
        const problem = await lossOf(bytes, nth)
        if (problem !== null) expect(problem).toBeNull()
      }
    }
  })
})

test('a header with a wrong byte costs no row', async () => {
  const table = Buffer.from('ip,type,c\xffity\n1.2.3.4:80,http,\n1.2.3.5:80,http,\n', 'latin1')
  const { proxies, rejected } = await imported([sourceOf('f', table)])
  expect(proxies.map(addressOf)).toEqual(['1.2.3.4:80', '1.2.3.5:80'])
  expect(rejected).toEqual([['f', 1, 'row', expect.stringMatching(/not UTF-8/)]])
})

test('a record behind a broken one never gets the type of another list', async () => {
  const text = '{"http":["1.2.3.4:80",{"x":"y}],"socks5":[{"ip":"1.2.3.5:80"},{"ip":"1.2.3.6:80"}]}'
  const { proxies } = await imported([sourceOf('f', text)]).catch(() => ({ proxies: [] }))
  const types = Object.fromEntries(proxies.map(({ ip, types }) => [ip, bestOf(types)]))
  expect(['socks5', undefined]).toContain(types['1.2.3.6'])
})

/** `what :: text => reports`: of each bad row its line and field, and how the reason begins. */
const REPORTED = `
txt :: # list↵⏎http://1.2.3.4:80↵⏎↵⏎1.2.3.5:80↵⏎http://1.2.3.4:0↵⏎ftp://1.2.3.4:80 # old => 4 type is required|5 ip must be an IPv4 address with a port|6 type is ftp; only http, https,
csv :: ip,type,works,note⏎1.2.3.4:80,ftp,1,⏎1.2.3.5:80,http,,"a⏎b,c"⏎"Saint "Petersburg",http,5,x⏎⏎1.2.3.6:80,http⏎1.2.3,http,5,x⏎1.2.3.6:80,http,, => 2 type is ftp|3 row has an open quote, or one inside a value; a row is one line|4 row has 2 columns, the header has 4|5 row has an open quote|7 row has 2 columns|8 ip must be an IPv4
ndjson :: {"ip":"1.2.3.4:80","type":"http"}⏎⏎{"ip":"1.2.3.4:80"⏎{"ip":"1.2.3.4:80","type":"telnet"}⏎[] => 3 row is not a JSON object|4 type must be one of http, https, socks4, socks5|5 row is not
a JSON array :: [⏎  {"ip": "1.2.3.4:80", "type": "http"},⏎  {⏎    "ip": "1.2.3.4",⏎    "type": "http"⏎  },⏎  7,⏎  {"ip": "1.2.3.4:80",⏎ "port": 81, "type": "http"}⏎]⏎ => 3 ip has no port|7 ip must be an IPv4|8 port must be an integer from 1 to 65535, the same as in ip
a JSON envelope :: {⏎"status": "ok",⏎"filters": {⏎"time": 600⏎},⏎"data": {⏎"1.2.3.4:80": {"type": "http"},⏎"1.2.3.4": {"type": "http"},⏎"1.2.3.5:80":⏎{"type": "http", "timecheck": "1999-12-31 12:00:00"}⏎}} => 8 ip has no port|10 timecheck lies before the year 2000
`

describe('an import reports', () => {
  for (const [, what, input = '', says = ''] of REPORTED.matchAll(/^(.*) :: (.*) => (.*)$/gm)) {
    const text = input.replaceAll('⏎', '\n').replaceAll('↵', '\r')
    const wanted = says.split('|')
    test(`file, line, field and reason of each bad row in ${what}`, async () => {
      const { rejected, totals, proxies } = await imported([sourceOf('a file', text)])
      const said = rejected.map(report => report.join(' ').slice('a file '.length))
      expect(said.map((each, i) => each.slice(0, wanted[i]?.length))).toEqual(wanted)
      const { length } = wanted
      expect(totals).toMatchObject({ read: proxies.length + length, rejected: length, skipped: 0 })
    })
    test(`only the first bad row in ${what} with strict`, async () => {
      const outcome = imported([sourceOf('f', text)], { strict: true })
      await expect(outcome).rejects.toThrow(CommandError)
      await expect(outcome).rejects.toThrow(`f:${wanted[0]?.replace(' ', ': ')}`)
    })
  }
  test('the line at which it refuses a file', async () => {
    const text = '[\n{"ip":"1.2.3.4:80","type":"http"},\n\n}'
    await expect(imported([sourceOf('f', text)])).rejects.toThrow('f: line 4: not a JSON list')
  })
  test('its progress once per good row: rows read, bad ones too, and bytes of all files', async () => {
    const { progress } = await imported([
      sourceOf('f', 'http://1.2.3.4:80\nx\nhttp://1.2.3.5:80'),
      sourceOf('g', 'http://1.2.3.6:80'),
    ])
    expect(progress.join(' ')).toBe('1,37 3,37 4,54')
  })
  test('each unknown member once, with any rows in between', async () => {
    const row = (more: string): string => `{"ip":"1.2.3.4:80",${more}"type":"http"}\n`
    const text = row('') + row('"a":1,') + row('') + row('"b":1,"a":1,')
    const { totals, proxies } = await imported([sourceOf('f', text), sourceOf('g', text)])
    expect(totals.ignored).toEqual(['a', 'b'])
    expect(proxies).toHaveLength(8)
  })
  test('the start of a value that it does not understand, printable and without a key', async () => {
    const values = [`x\0\n${'y'.repeat(60)}`, 'pl_abcdef', { a: 1 }]
    const rows = values.map(anon => ({ ip: '1.2.3.4:80', type: 'http', anon }))
    const { totals } = await imported([sourceOf('f', JSON.stringify(rows))])
    const notes = totals.notes.map(note => note.replace(/ is not .*\(/, ' ('))
    expect(notes[0]).toBe('anon a value (2 rows)')
    expect(notes[1]).toBe(`anon 'x\\u0000\\u000a${'y'.repeat(37)}' (1 row)`)
  })
  test('the sums over all sources, each of its own format', async () => {
    const names = ['good_plain.txt', 'good_some_bad_rows.csv', 'good_object.json']
    const { totals, rejected } = await imported(names.map(name => sourceOf(name, vector(name))))
    expect(totals).toMatchObject({ read: 12, rejected: 1 })
    expect(rejected.map(([file]) => file)).toEqual(['good_some_bad_rows.csv'])
  })
})

describe('an import', () => {
  test('uses the given format instead of detecting it', async () => {
    const source = () => sourceOf('f', 'http://1.2.3.4:80\n')
    await expect(imported([source()], { format: 'json' })).rejects.toThrow(CommandError)
    expect((await imported([source()], { format: 'txt' })).proxies).toHaveLength(1)
  })
  test('is refused when one of its sources has only bad rows, or no rows', async () => {
    const good = () => sourceOf('good', LINE)
    const bad = imported([good(), sourceOf('bad', '1.2.3.5:80\n')])
    await expect(bad).rejects.toThrow(/^bad: no row is usable, 1 of 1 because type is required/)
    const empty = imported([good(), sourceOf('empty', '')], { refuseEmpty: true })
    await expect(empty).rejects.toThrow(/^empty has no rows/)
  })
  const EMPTY = ['', '# nothing today\n', 'ip,type\n', '[]', '{}', '{"proxies":[]}']
  test.each(EMPTY)('of a file without rows reports that, and replaces no list: %j', async empty => {
    const outcome = imported([sourceOf('f', empty)], { refuseEmpty: true })
    await expect(outcome).rejects.toThrow(
      /^f has no rows and would empty the list; nothing was imported \(--allow-empty /,
    )
    const found = await imported([sourceOf('f', empty)])
    expect(found.totals).toEqual({
      read: 0,
      rejected: 0,
      skipped: 0,
      missing: null,
      notes: [],
      ignored: [],
    })
    expect(found.empty).toEqual(['f'])
  })
  test.each([
    ['/', 'it is a directory, not a file'],
    ['/no-such-file', 'no such file or directory'],
  ])('says why the system cannot read %s', async (path, reason) => {
    async function* unreadable(): AsyncIterable<Uint8Array> {
      yield await readFile(path)
    }
    await expect(imported([{ name: 'f', bytes: unreadable() }])).rejects.toThrow(
      new RegExp(`^f: cannot be read \\(${reason}\\); nothing was imported$`),
    )
  })
  const BY_LINE = PARTS_BY_FORMAT.filter(([format]) => format !== 'json')
  test.each(BY_LINE)('continues in %s after a row of megabytes', async (format, [start, good]) => {
    const before = `${start}${good(1)}`
    for (const end of ['', '\n', `\n${good(2)}`]) {
      const source = sourceOf('f', `${before}${'x'.repeat(3 * 2 ** 20)}${end}`)
      const { proxies, rejected } = await imported([source], { format })
      expect(proxies).toHaveLength(end.length > 1 ? 2 : 1)
      expect(rejected).toEqual([['f', before.split('\n').length, 'row', 'is longer than 1 MiB']])
    }
  })
  const good = (n: number): string => `{"ip":"1.2.3.${n}:80","type":"http"}`
  const MEGABYTES = '\\"'.repeat(5_000_000)
  test.each([
    ['between many spaces', `{"x" 1}${' '.repeat(MEGABYTES.length)}`, [2]],
    ['of brackets', `[${MEGABYTES.replaceAll('\\"', '[],')}0]`, []],
  ])('continues in JSON after a record of megabytes %s, in linear time', async (_, long, lines) => {
    const seconds = await cpuSeconds(async () => {
      for (const text of [
        `[${good(1)},\n${long},${good(2)},\n${good(3)}]`,
        `{"http":[${good(1)},\n${long},${good(2)}],\n"https":[${good(3)}]}`,
      ]) {
        const { proxies, rejected } = await imported([sourceOf('f', text, 65_536)])
        expect(proxies.map(({ ip }) => ip)).toEqual(['1.2.3.1', '1.2.3.2', '1.2.3.3'])
        expect(rejected.map(([, line]) => line)).toEqual(lines)
      }
    })
    expect(seconds).toBeLessThan(3)
  })
  test.each(['auto', 'csv', 'txt'] as const)('fails with a disk error: %s', async format => {
    async function* broken(): AsyncIterable<Uint8Array> {
      yield Buffer.from('ip,type\n1.2.3.4:80,http\n')
      throw new Error('EIO')
    }
    const outcome = imported([{ name: 'f', bytes: broken() }], { format })
    await expect(outcome).rejects.toThrow('EIO')
  })
})

const AS_FILE: readonly [what: string, toData: (text: string) => string | Uint8Array][] = [
  ['a file', text => text],
  ['a compressed file', text => gzipSync(text)],
]

test.each(AS_FILE)('a signal ends the import of %s with all data', async (_, toData) => {
  const controller = new AbortController()
  setImmediate(() => setImmediate(() => controller.abort(new Error('interrupted'))))
  const rows = 300_000
  const source = sourceOf('a.txt', toData(LINE.repeat(rows)), 65_536)
  let added = 0
  const add = (): void => void added++
  const options = { ...ANY_FORMAT, signal: controller.signal }
  await expect(importSources([source], options, add, SILENT)).rejects.toThrow('interrupted')
  expect(added).toBeLessThan(rows / 2)
})

test.each(AS_FILE)('an import of %s buffers few rows', async (_, toData) => {
  const rows = Array.from({ length: 60_000 }, (_, i) => `http://${ipOf(i)}:80`)
  let [added, stored, most] = [0, 0, 0]
  const drained = async (): Promise<void> => {
    most = Math.max(most, added - stored)
    stored = added
  }
  const sources = [sourceOf('a.txt', toData(rows.join('\n')))]
  const options = { ...ANY_FORMAT, strict: true, drained }
  const { read } = await importSources(sources, options, () => void added++, SILENT)
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
