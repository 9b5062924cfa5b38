/** Recognises the format of a file by its content. Readers take a file in chunks; only YAML is read whole. */
import { findTable, readCsv } from './csv.ts'
import { isJson, readJson } from './json.ts'
import type { Names } from './names.ts'
import {
  BROKEN,
  type Chunks,
  eachLine,
  isRecord,
  NoList,
  parseJson,
  type Reader,
  UnusableFile,
} from './reader.ts'
import { kindOf } from './record.ts'
import { readTxt, withoutComment } from './text.ts'

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

const readNdjson: Reader = (chunks, sink, names) =>
  eachLine(chunks, (line, number, broken) => {
    if (line.trim() === '') return
    const row = broken === null ? parseJson(line) : undefined
    if (!isRecord(row)) sink.bad(number, 'row', broken ?? 'is not a JSON object')
    else if (kindOf(row, names) === 'envelope') sink.bad(number, 'row', 'holds several addresses')
    else sink.row(number, row)
  })

const YAML_LENGTH_MAX = 32 * 1024 * 1024

/** Converts YAML, such as the `proxies:` of Clash, to JSON. */
const readYaml: Reader = async (chunks, sink, names) => {
  let text = ''
  for await (const chunk of chunks) {
    text += chunk
    if (text.length <= YAML_LENGTH_MAX) continue
    throw new UnusableFile(
      `is YAML of more than ${YAML_LENGTH_MAX / 2 ** 20} MiB; write it as JSON`,
    )
  }
  let json: string
  try {
    json = JSON.stringify(Bun.YAML.parse(text)) ?? 'null'
  } catch {
    return readTxt(only(text), sink, names) // a list of bullets also looks like YAML
  }
  // Messages name line 1 for all rows, because the parser does not give lines.
  return readJson(only(json), sink, names)
}

async function* only(text: string): Chunks {
  yield text
}

const YAML = /^(?:proxies:\s*$|- (?:\{\s*)?"?[a-z]\w*"?: )/im

/** Whether the first line, or most lines, are records. A line may also be a whole JSON document. */
function isNdjson(head: string, isComplete: boolean, names: Names): boolean {
  const all = head.split('\n').filter(line => line.trim() !== '')
  const lines = isComplete || all.length < 2 ? all : all.slice(0, -1)
  const records = lines
    .filter(line => line.startsWith('{'))
    .map(parseJson)
    .filter(isRecord)
  const isOne = records.some(record => kindOf(record, names) === 'record')
  const isLineByLine = /^\{.*\}\s*$/.test(lines[0] ?? '') || records.length * 2 >= lines.length
  return isOne && isLineByLine
}

export const READERS: { [F in Format | 'yaml']: Reader } = {
  ...{ txt: readTxt, csv: readCsv, json: readJson, ndjson: readNdjson, yaml: readYaml },
}

const ADDRESS_LINE = /^(?:\w+:\/\/)?(?:\d{1,3}\.){3}\d/
const ADDRESS_LIKE = /(?:\d{1,3}\.){3}\d{1,3}["'\s]*[:,;|\s]\s*\d/
/** Whether any line holds something like an address, or all lines are blank or comments. */
function isTxt(head: string, isComplete: boolean): boolean {
  const lines = head.split('\n')
  const entries = (isComplete ? lines : lines.slice(0, -1)).map(withoutComment).filter(Boolean)
  return entries.length === 0 || entries.some(line => ADDRESS_LIKE.test(line))
}

/** Whether a file has a format. `head` is its beginning without leading white space. */
type Matcher = (head: string, isComplete: boolean, names: Names) => boolean

/** The first match wins: an NDJSON file also begins like a JSON document. */
const MATCHERS: readonly (readonly [Format | 'yaml', Matcher])[] = [
  ['ndjson', (head, ...more) => head.startsWith('{') && isNdjson(head, ...more)],
  ['json', isJson],
  ['yaml', head => YAML.test(head) && !/^\s*\d/.test(head)],
  ['csv', (head, _, names) => findTable(head, names) !== null],
  ['txt', isTxt],
]

const GET_LIST = 'get the list itself, as TXT, CSV or JSON'
const WRITE_LINE = 'a line must read a.b.c.d:port or type://a.b.c.d:port'
/** Signs of unusable files, and advice. The first match wins. */
const LOOKS: readonly (readonly [form: RegExp, looks: string, advice: string])[] = [
  [/^</, 'an HTML or XML page', GET_LIST],
  [/^(?:\d{1,3}\.){3}\d{1,3}\s*$/m, 'addresses without ports', WRITE_LINE],
  [
    /^(?:ssr?|vmess|vless|trojan|hysteria2?|tuic):\/\//im,
    ...(['links of other protocols', 'only http, https, socks4 and socks5 are served'] as const),
  ],
  [
    /^(?:\w+:\/\/)?(?:\[[\da-f:]+\]|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}):\d{1,5}\b/im,
    ...(['addresses that are not IPv4', 'only a.b.c.d:port is supported'] as const),
  ],
  [
    /^[^\n]*[,;\t|][^\n]*$/m,
    'a table in which no column holds an address',
    'name the column with --map COLUMN=ip',
  ],
  [/^/, 'text', WRITE_LINE],
]

/** With a higher share of broken characters, a file is not text. Otherwise each costs one row. */
const BROKEN_SHARE_MAX = 0.1
const NO_TEXT = [
  ['\0', 'is not text: it has NUL characters, as UTF-16 without its mark has; save it as UTF-8'],
  [BROKEN, 'is not UTF-8 text; save it as UTF-8'],
] as const
const PAGE = /^<(?:!doctype|html|head|body|\?xml|table|rss)\b/i

/** The format of a file. `head` is its beginning, or with `isComplete` all of it. @throws NoList if it has none */
export function detectFormat(head: string, isComplete: boolean, names: Names): Format | 'yaml' {
  const start = head.trimStart()
  for (const [character, sentence] of NO_TEXT) {
    const count = start.split(character).length - 1
    if (count > start.length * BROKEN_SHARE_MAX) throw new NoList(sentence)
  }
  // Among addresses, a line of JSON costs only that line.
  const lines = start.split('\n')
  const isText = lines.filter(line => ADDRESS_LINE.test(line)).length * 2 > lines.length
  const matchers = isText ? MATCHERS.slice(-2) : MATCHERS
  const [format] = PAGE.test(start)
    ? []
    : (matchers.find(([, matches]) => matches(start, isComplete, names)) ?? [])
  if (format !== undefined) return format
  const [, looks, advice] = LOOKS.find(([form]) => form.test(start)) ?? ['', 'text', '']
  throw new NoList(`is none of the known formats; it looks like ${looks}: ${advice}`)
}
