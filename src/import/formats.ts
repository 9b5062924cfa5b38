/**
 * The table of file formats, and recognising the format of a file. All readers take a file in chunks, so
 * that memory does not grow with its size.
 */
import type { Names } from './columns.ts'
import { findTable, readCsv } from './csv.ts'
import { isJson, readJson } from './json.ts'
import { isNdjson, isTxt, readNdjson, readTxt } from './lines.ts'
import { type Reader, UnusableFile } from './reader.ts'

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

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
    /^[^\n]*[,;\t|][^\n]*$/m,
    'a table in which no column holds an address',
    'name the column with --map COLUMN=ip',
  ],
  [/^/, 'text', 'a line must read a.b.c.d:port or type://a.b.c.d:port'],
]

const NO_TEXT =
  'is not text: it has NUL characters, as UTF-16 without its mark has; save it as UTF-8'

/**
 * The format of a file, from its beginning (`isComplete`: which is the whole file).
 * @throws UnusableFile when no format matches.
 */
export function detectFormat(head: string, isComplete: boolean, names: Names): Format {
  const start = head.trimStart()
  if (start.includes('\0')) throw new UnusableFile(NO_TEXT)
  const [format] = MATCHERS.find(([, matches]) => matches(start, isComplete, names)) ?? []
  if (format !== undefined) return format
  const [, looks, advice] = LOOKS.find(([form]) => form.test(start)) ?? ['', 'text', '']
  throw new UnusableFile(`is none of the known formats; it looks like ${looks}: ${advice}`)
}
