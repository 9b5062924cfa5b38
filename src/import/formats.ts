/**
 * The table of file formats, recognising the format of a file, and reading the two of one proxy a line: TXT,
 * where `#` starts a comment, and NDJSON. All readers take a file in chunks, so that memory does not grow with
 * its size.
 */
import type { Names } from './columns.ts'
import { findTable, readCsv } from './csv.ts'
import { isJson, readJson } from './json.ts'
import { BROKEN, eachLine, parseJson, type Reader, UnusableFile } from './reader.ts'
import { entryToRow, hasAddress, isRecord } from './row.ts'

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

const entryOf = (line: string): string => line.replace(/#.*/s, '').trim()

const readTxt: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    const entry = entryOf(line)
    if (entry !== '') sink.row(number, entryToRow(entry))
  })

/** Whether some line holds an address, or all lines are blank or comments. */
function isTxt(head: string, isComplete: boolean): boolean {
  const lines = head.split('\n')
  const entries = (isComplete ? lines : lines.slice(0, -1)).map(entryOf).filter(Boolean)
  return entries.length === 0 || entries.some(hasAddress)
}

const readNdjson: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number, broken) => {
    if (line.trim() === '') return
    const row = parseJson(line)
    if (isRecord(row) && broken === null) sink.row(number, row)
    else sink.bad(number, 'row', broken ?? 'is not a JSON object')
  })

/**
 * Whether most lines, or the first, which may not end here, are records. One line may also be one in a document of many.
 */
function isNdjson(head: string, _isComplete: boolean, names: Names): boolean {
  const lines = head.split('\n').filter(line => line.trim() !== '')
  const objects = lines.filter(line => line.startsWith('{'))
  const records = objects.map(parseJson).filter(isRecord)
  const hasRecord = records.some(record => Object.keys(record).some(names.isAddress))
  const isLineByLine = /^\{.*\}\s*$/s.test(lines[0] ?? '') || records.length * 2 >= lines.length
  return (hasRecord && isLineByLine) || /^\{\s*"(?:ip|type)".*(?:\}|$)/.test(head)
}

/** Finds the rows of a file, in order. Each @throws UnusableFile when the text is not of its format. */
export const READERS: { [F in Format]: Reader } = {
  ...{ txt: readTxt, csv: readCsv, json: readJson, ndjson: readNdjson },
}

/** Whether a file is of a format, by its beginning without leading white space. */
type Matcher = (head: string, isComplete: boolean, names: Names) => boolean

/** The first that matches wins: an NDJSON file also begins like a JSON document. */
const MATCHERS: readonly (readonly [Format, Matcher])[] = [
  ['ndjson', isNdjson],
  ['json', isJson],
  ['csv', (head, _, names) => findTable(head, names) !== null],
  ['txt', isTxt],
]

/** What a file that is of no known format looks like, and the nearest thing to do; the first wins. */
const LOOKS: readonly (readonly [form: RegExp, looks: string, advice: string])[] = [
  [/^</, 'an HTML or XML page', 'get the list itself, as TXT, CSV or JSON'],
  [
    /^(?:http|https|socks4|socks5)[ \t]+(?:\d{1,3}\.){3}\d{1,3}[ \t]+\d{1,5}\b/m,
    'the configuration of proxychains',
    'a line must read type://a.b.c.d:port',
  ],
  [
    /^\[\s*(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}\s*,/,
    'a JSON array whose values have no quotes',
    'write it as ["a.b.c.d:port", …]',
  ],
  [
    /^(?:\d{1,3}\.){3}\d{1,3}\s*$/m,
    'addresses without ports',
    'a line must read a.b.c.d:port or type://a.b.c.d:port',
  ],
  [
    /^(?:\w+:\/\/)?(?:\[[\da-f:]+\]|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}):\d{1,5}\b/im,
    'addresses that are not IPv4',
    'only a.b.c.d:port is supported',
  ],
  [
    /^(?:[ \t]*(?:#.*)?\r?\n)*(?:---\s|- |[\w-]+:(?: .*)?\r?\n)/,
    'YAML',
    'get the list itself, as TXT, CSV or JSON',
  ],
  [
    /^[^\n]*[,;\t|][^\n]*$/m,
    'a table in which no column holds an address',
    'name the column with --map COLUMN=ip',
  ],
  [/^/, 'text', 'a line must read a.b.c.d:port or type://a.b.c.d:port'],
]

/** A text of which more than this share is broken is none: else a broken character costs one row. */
const BROKEN_SHARE_MAX = 0.1
const NO_TEXT = [
  ['\0', 'is not text: it has NUL characters, as UTF-16 without its mark has; save it as UTF-8'],
  [BROKEN, 'is not UTF-8 text; save it as UTF-8'],
] as const
const PAC = 'is a proxy auto-configuration (PAC); get the list itself, as TXT, CSV or JSON'

/** The format of a file, from its beginning (`isComplete`: all of it). @throws UnusableFile when no format matches. */
export function detectFormat(head: string, isComplete: boolean, names: Names): Format {
  const start = head.trimStart()
  const lines = start.split('\n')
  const entries = lines.filter(line => /^(?:\w+:\/\/)?(?:\d{1,3}\.){3}\d/.test(line))
  const matchers = entries.length * 2 > lines.length ? MATCHERS.slice(2) : MATCHERS // no JSON
  for (const [character, sentence] of NO_TEXT) {
    const count = start.split(character).length - 1
    if (count > start.length * BROKEN_SHARE_MAX) throw new UnusableFile(sentence)
  }
  const [first = ''] = /^function FindProxyForURL\b|(?:\d{1,3}\.){3}\d/m.exec(start) ?? []
  if (first.startsWith('function')) throw new UnusableFile(PAC)
  const [format] = matchers.find(([, matches]) => matches(start, isComplete, names)) ?? []
  if (format !== undefined) return format
  const [, looks, advice] = LOOKS.find(([form]) => form.test(start)) ?? ['', 'text', '']
  throw new UnusableFile(`is none of the known formats; it looks like ${looks}: ${advice}`)
}
