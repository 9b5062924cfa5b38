/**
 * The records of one JSON document: an array of records or of addresses, an object of
 * records by address or of arrays by type, or an envelope around either, as the API and other tools
 * write them. Walks the outer structure itself and passes each record to `JSON.parse`, so that a
 * document of any size needs the memory of one record.
 */
import {
  parseJson,
  quotedName,
  RECORD_LENGTH_MAX,
  type Reader,
  type RowSink,
  UnusableFile,
} from './reader.ts'
import { entryToRow, hasAddress, isRecord, typeWord } from './row.ts'

/** Brackets that open arrays, and what a JSON value may begin with, or quotes that ought to be double. */
const ARRAY = /^(?:\[\s*)+(?:[\]{"']|$|(?:-?\d+(?:\.\d+)?|true|false|null)\s*(?:[,\]]|$))/

/** Whether the text starts with an object or an array: `[::1]:80` and `[ProxyList]` are neither. */
export const isJson = (head: string): boolean => head.startsWith('{') || ARRAY.test(head)

/** What may come next in the outer structure, and where each structural character then leads. */
const GRAMMAR = {
  '[ or {': { '[': 'open', '{': 'open' },
  value: {},
  'value or ]': { ']': 'close' },
  key: {},
  'key or }': { '}': 'close' },
  ':': { ':': 'value' },
  ', or ]': { ',': 'value', ']': 'close' },
  ', or }': { ',': 'key', '}': 'close' },
  'end of file': {},
} as const
type Expect = keyof typeof GRAMMAR
type Step = Expect | 'open' | 'close' | undefined

/** The members of an envelope that can hold the records, and those that are ignored. */
const LISTS = new Set(['data', 'proxies', 'results', 'result', 'items', 'list', 'records', 'rows'])
const ENVELOPE = new Set([
  ...['status', 'count', 'timestamp', 'filters', 'total', 'page', 'pages', 'limit', 'skip'],
  ...['offset', 'next', 'previous', 'success', 'message'],
  ...['per_page', 'total_page', 'total_pages', 'total_count', 'shown_records', 'total_records'],
  ...['nextpage', 'updated', 'updated_at', 'last_updated', 'generated', 'generated_at', 'date'],
])

/** Whether a member of the outermost object holds records: by its name, or for those of a type. */
const isList = (key: string): boolean => LISTS.has(key) || typeWord(key) !== undefined

/** A string (perhaps truncated by the end of the text), or a bracket. */
const STRING_OR_BRACKET = /"[^"\\]*(?:\\.[^"\\]*)*(?:(?<closed>")|\\?$)|[{}[\]]/gs
const AFTER_SCALAR = /[\s,}\]]/g
const DEPTH: { [bracket: string]: number } = { '{': 1, '[': 1, '}': -1, ']': -1 }

/** The position after the JSON value that starts at `from`, or -1 when the text ends before it. */
function endOfValue(text: string, from: number): number {
  if (!/["{[]/.test(text.charAt(from))) {
    AFTER_SCALAR.lastIndex = from
    return AFTER_SCALAR.exec(text)?.index ?? -1
  }
  STRING_OR_BRACKET.lastIndex = from
  let depth = 0
  for (;;) {
    const match = STRING_OR_BRACKET.exec(text)
    if (match === null) return -1
    const [token] = match
    const isTruncated = token.startsWith('"') && match.groups?.closed === undefined
    if (isTruncated) return -1
    depth += DEPTH[token] ?? 0
    if (depth === 0) return STRING_OR_BRACKET.lastIndex
  }
}

const NEWLINE = 10

/** Newlines between two positions of the text; reads nothing beyond them. */
function countLines(text: string, from: number, to: number): number {
  let lines = 0
  for (let at = from; at < to; at++) if (text.charCodeAt(at) === NEWLINE) lines += 1
  return lines
}

/**
 * Passes every record of a JSON document to `sink`, with its key when it is listed under one.
 * @throws UnusableFile when the document is not JSON, is truncated, or is not a list of proxies.
 */
export const readJson: Reader = async (chunks, sink) => {
  const outline = createOutline(sink)
  let text = ''
  let line = 1
  for await (const chunk of chunks) {
    text += chunk
    let at = 0
    for (;;) {
      const start = text.slice(at).search(/\S/) // in what is left of this chunk
      if (start < 0) break
      const end = outline.isValue(text.charAt(at + start))
        ? endOfValue(text, at + start)
        : at + start + 1
      if (end < 0) break
      line += countLines(text, at, at + start)
      outline.take(text.slice(at + start, end), line)
      line += countLines(text, at + start, end)
      at = end
    }
    text = text.slice(at)
    if (text.length > RECORD_LENGTH_MAX) throw new UnusableFile(`line ${line}: too long`)
  }
  outline.end(text.trim() !== '')
}

/** @throws UnusableFile when an object is neither the envelope nor a list by address. */
function checkMember(key: string, value: unknown, line: number): void {
  if (key === 'status' && value === 'error') throw new UnusableFile('is an error answer')
  if (ENVELOPE.has(key)) return
  throw new UnusableFile(`line ${line}: not a list of proxies, has ${quotedName(key)}`)
}

const QUOTES = '; names and texts need double quotes, other values are numbers, true, false or null'

/** Follows the outer structure, one structural character or complete value at a time. */
function createOutline(sink: RowSink) {
  const containers: ('array' | 'object')[] = []
  let expect: Expect = '[ or {'
  let key = ''
  let members = 0
  let hasData = false
  /** The type of all records of the open array, where its key is one. */
  let listedType: string | undefined

  /** Whether the next value is a member of the envelope and not a record. */
  const inEnvelope = (): boolean =>
    containers.length === 1 && containers[0] === 'object' && !key.includes(':')
  const isDataNext = (char: string): boolean =>
    expect === 'value' && inEnvelope() && isList(key) && /[[{]/.test(char)

  function open(bracket: string): void {
    hasData ||= containers.length > 0
    listedType = containers.length > 0 ? typeWord(key) : undefined
    containers.push(bracket === '{' ? 'object' : 'array')
    expect = bracket === '{' ? 'key or }' : 'value or ]'
  }

  function afterValue(): void {
    const inside = containers.at(-1)
    expect = inside === undefined ? 'end of file' : inside === 'array' ? ', or ]' : ', or }'
  }

  function takeStructural(char: string, line: number): void {
    const grammar: { readonly [char: string]: Step } = GRAMMAR[expect]
    const next = isDataNext(char) ? 'open' : grammar[char]
    if (next === undefined) {
      throw new UnusableFile(`line ${line}: not a JSON list of proxies, expected ${expect}`)
    }
    if (next === 'open') return open(char)
    if (next !== 'close') expect = next
    else {
      containers.pop()
      afterValue()
    }
  }

  /** Passes on a record, or an address in an array. */
  function takeRecord(line: number, parsed: unknown): void {
    const listedAs = containers.at(-1) === 'object' ? key : undefined
    const isEntry = typeof parsed === 'string' && listedAs === undefined && hasAddress(parsed)
    const row = isEntry ? entryToRow(parsed.trim()) : parsed
    if (!isRecord(row)) sink.bad(line, 'row', 'is not a JSON object, nor an address')
    else sink.row(line, listedType === undefined ? row : { type: listedType, ...row }, listedAs)
  }

  return {
    /** Whether this character starts a value or key, and is not structural. */
    isValue: (char: string): boolean =>
      (expect.startsWith('value') && !/[\]},:]/.test(char) && !isDataNext(char)) ||
      (expect.startsWith('key') && char === '"'),

    take(source: string, line: number): void {
      const isStructural = source.length === 1 && !this.isValue(source)
      if (isStructural) return takeStructural(source, line)
      const parsed = parseJson(source)
      if (parsed === undefined) throw new UnusableFile(`line ${line}: not valid JSON${QUOTES}`)
      if (expect.startsWith('key')) {
        key = String(parsed)
        members += 1
        expect = ':'
        return
      }
      if (inEnvelope()) checkMember(key, parsed, line)
      else takeRecord(line, parsed)
      afterValue()
    },

    end(hasMore: boolean): void {
      if (expect !== 'end of file' || hasMore) throw new UnusableFile('is truncated, or not JSON')
      if (members > 0 && !key.includes(':') && !hasData) throw new UnusableFile('holds no proxies')
    },
  }
}
