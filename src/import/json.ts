/**
 * The records of one JSON document: an array of records or of addresses, an object of
 * records by address or of arrays by type, or an envelope around either, as the API and other tools
 * write them. Walks the outer structure itself and passes each record to `JSON.parse`, so that a
 * document of any size needs the memory of one record.
 */
import {
  BROKEN,
  brokenText,
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
  ...['ok', 'status', 'count', 'timestamp', 'filters', 'total', 'page', 'pages', 'limit', 'skip'],
  ...['offset', 'next', 'previous', 'success', 'message'],
  ...['per_page', 'total_page', 'total_pages', 'total_count', 'shown_records', 'total_records'],
  ...['nextpage', 'updated', 'updated_at', 'last_updated', 'generated', 'generated_at', 'date'],
])

/** Most lists and envelopes that are in each other. */
const DEPTH_MAX = 8

/** Whether a member of the outermost object holds records: by its name, or for those of a type. */
const isList = (key: string): boolean => LISTS.has(key) || typeWord(key) !== undefined

/** A string (perhaps truncated by the end of the text, or of the line), a bracket, or a broken character. */
const STRING_OR_BRACKET = new RegExp(
  `"[^"\\\\\\n]*(?:\\\\.[^"\\\\\\n]*)*(?:"|\\n|\\\\?$)|[{}[\\]\\0]|${BROKEN}`,
  'gs',
)
const AFTER_SCALAR = /[\s,}\]"]/g
const AFTER_STRING = /\s*([:,}\]]|$)/y
const DEPTH: { [bracket: string]: number } = { '{': 1, '[': 1, '}': -1, ']': -1 }

/** How the records begin that begin as this one does, as a pattern: so the one after a broken one can be found. */
function startOf(record: string): string {
  if (!record.startsWith('{')) return '"(?=\\d)' // an address
  const [start] = /^\{\s{0,99}"[^"\n]{0,99}"(?=\s*:)/.exec(record) ?? []
  return start === undefined ? ANY_OBJECT : RegExp.escape(start)
}
const ANY_OBJECT = '\\{\\s*"'
const BETWEEN_OBJECTS = /\}\s*,\s*(?=\{\s*")/g

/** Where a value ends when a quote or a byte in it is wrong: nobody knows. */
const UNKNOWN_END = -2

/** Why a value cannot go on after this token: more text is needed (-1), or it is wrong; 0 when it can. */
function problemAfter([token]: RegExpExecArray, text: string, end: number): number {
  if (!token.startsWith('"')) return DEPTH[token] === undefined ? UNKNOWN_END : 0
  if (token.endsWith('"') && ':,}]'.includes(text.charAt(end) || ' ')) return 0 // as nearly all are
  if (token.endsWith('\n')) return UNKNOWN_END
  AFTER_STRING.lastIndex = end
  const [, next] = AFTER_STRING.exec(text) ?? []
  return next === undefined ? UNKNOWN_END : next === '' ? -1 : 0
}

/** The position after the JSON value that starts at `from`, or -1 when the text ends before it. */
function endOfValue(text: string, from: number): number {
  if (!/["{[]/.test(text.charAt(from))) {
    AFTER_SCALAR.lastIndex = from
    const after = AFTER_SCALAR.exec(text)
    return after?.[0] === '"' ? UNKNOWN_END : (after?.index ?? -1)
  }
  STRING_OR_BRACKET.lastIndex = from
  let depth = 0
  for (;;) {
    const match = STRING_OR_BRACKET.exec(text)
    if (match === null) return -1
    const problem = problemAfter(match, text, STRING_OR_BRACKET.lastIndex)
    if (problem < 0) return problem
    depth += DEPTH[match[0]] ?? 0
    if (depth === 0) return STRING_OR_BRACKET.lastIndex
  }
}

/** Newlines between two positions of the text; reads nothing beyond them. */
function countLines(text: string, from: number, to: number): number {
  const part = text.slice(from, to)
  let lines = 0
  for (let at = part.indexOf('\n'); at >= 0; at = part.indexOf('\n', at + 1)) lines += 1
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
  /** Whether the text begins with a record that is broken, and the next one is not there yet. */
  let isBroken = false
  /** Characters that were read, and those in which the ends of broken records were looked for. */
  let [length, lookedAt] = [0, 0]

  /** Takes what begins at a position; returns where it ends, -1 when the text ends before it. */
  function takeAt(from: number, isLast: boolean): number {
    const found = outline.endAt(text, from)
    isBroken = found === UNKNOWN_END
    if (isBroken) lookedAt += Math.max(0, STRING_OR_BRACKET.lastIndex - from) // there that search ended
    // Usually less than is read; records that stay open up to one broken byte would be read for hours.
    if (lookedAt > 4 * length + 8 * RECORD_LENGTH_MAX) {
      throw new UnusableFile(`line ${line}: too many records are broken before this`)
    }
    const end = isBroken ? outline.nextRecord(text, from, line, isLast) : found
    if (end < 0) return end
    if (isBroken) outline.skip(line)
    else outline.take(text.slice(from, end), line)
    return end
  }

  /** Takes all that is complete, and leaves the rest; `isLast`: what is not there by now does not come. */
  function takeAll(isLast: boolean): void {
    let at = 0
    for (;;) {
      const start = text.slice(at).search(/\S/) // in what is left of this chunk
      if (start < 0) break
      line += countLines(text, at, at + start)
      at += start
      const end = takeAt(at, isLast)
      if (end < 0) break
      line += countLines(text, at, end)
      at = end
    }
    text = text.slice(at)
    if (text.length <= RECORD_LENGTH_MAX) return
    if (isLast || !isBroken) throw new UnusableFile(`line ${line}: too long`)
    takeAll(true)
  }

  // What is not complete is read again when it is twice as long: with each chunk, it would take long.
  let lengthMin = 0
  for await (const chunk of chunks) {
    text += chunk
    length += chunk.length
    if (text.length < lengthMin) continue
    takeAll(false)
    lengthMin = Math.min(2 * text.length, RECORD_LENGTH_MAX)
  }
  takeAll(true)
  if (isBroken && outline.closes(text)) outline.skip(line)
  else outline.end(text.trim() !== '')
}

/** @throws UnusableFile when an object is neither the envelope nor a list by address. */
function checkMember(key: string, value: unknown, line: number): void {
  if (key === 'status' && value === 'error') throw new UnusableFile('is an error answer')
  if (value === undefined) throw new UnusableFile(`line ${line} ${NOT_JSON}`)
  if (ENVELOPE.has(key)) return
  throw new UnusableFile(`line ${line}: not a list of proxies, has ${quotedName(key)}`)
}

const NOT_JSON =
  'is not valid JSON; names and texts need double quotes, other values are numbers, true, false or null'

/** Follows the outer structure, one structural character or complete value at a time. */
function createOutline(sink: RowSink) {
  const containers: ('array' | 'object')[] = []
  let expect: Expect = '[ or {'
  let key = ''
  let members = 0
  let hasData = false
  let recordStart: string | null = null
  /** The type of all records of the open array, where its key is one. */
  let listedType: string | undefined

  /** Whether the next value is a member of the envelope, or of one in it, and not a record. */
  const inEnvelope = (): boolean =>
    containers.length > 0 &&
    !containers.includes('array') &&
    (containers.length === 1 ? !key.includes(':') : isList(key) || ENVELOPE.has(key))
  const isDataNext = (char: string): boolean =>
    expect === 'value' && inEnvelope() && isList(key) && /[[{]/.test(char)

  function open(bracket: string): void {
    hasData ||= containers.length > 0
    listedType = containers.length > 0 ? typeWord(key) : undefined
    key = ''
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
    if (next === 'open' && containers.length === DEPTH_MAX) {
      throw new UnusableFile(`line ${line}: more than ${DEPTH_MAX} envelopes are in each other`)
    }
    if (next === 'open') return open(char)
    if (next !== 'close') expect = next
    else {
      containers.pop()
      afterValue()
    }
  }

  /** Whether this character starts a value or key, and is not structural. */
  const isValue = (char: string): boolean =>
    (expect.startsWith('value') && !/[\]},:]/.test(char) && !isDataNext(char)) ||
    (expect.startsWith('key') && char === '"')

  /** Passes on a record, or an address in an array. */
  function takeRecord(line: number, parsed: unknown, source: string): void {
    const broken = brokenText(source) ?? (parsed === undefined ? NOT_JSON : null)
    if (broken !== null) return sink.bad(line, 'row', broken)
    const listedAs = containers.at(-1) === 'object' ? key : undefined
    const isEntry = typeof parsed === 'string' && listedAs === undefined && hasAddress(parsed)
    const row = isEntry ? entryToRow(parsed.trim()) : parsed
    if (!isRecord(row)) return sink.bad(line, 'row', 'is not a JSON object, nor an address')
    sink.row(line, listedType === undefined ? row : { type: listedType, ...row }, listedAs)
  }

  return {
    /** Where the value or structural character at `from` ends; -1 when the text ends before it, or `UNKNOWN_END`. */
    endAt(text: string, from: number): number {
      const char = text.charAt(from)
      if (char === '\0' || text.startsWith(BROKEN, from)) return UNKNOWN_END
      if (isValue(char)) return endOfValue(text, from)
      const isStray = char === '"' || (char === ':' && expect !== ':')
      return isStray ? UNKNOWN_END : from + 1
    },

    take(source: string, line: number): void {
      if (source.length === 1 && !isValue(source)) return takeStructural(source, line)
      const parsed = parseJson(source)
      if (expect.startsWith('key')) {
        key = String(parsed ?? source)
        members += 1
        expect = ':'
        return
      }
      if (inEnvelope()) checkMember(key, parsed, line)
      else takeRecord(line, parsed, source)
      if (parsed !== undefined && !inEnvelope()) recordStart ??= startOf(source)
      afterValue()
    },

    /**
     * The position of the record after a broken one, -1 when the text ends before it. It begins as the first one
     * does, or, where none does so to the end of the text and that `isLast`, in any way.
     * @throws UnusableFile when the list has ended before that.
     */
    nextRecord(text: string, from: number, line: number, isLast: boolean): number {
      const unusable = new UnusableFile(`line ${line} ${NOT_JSON}`)
      if (containers.length === 0 || inEnvelope()) throw unusable
      const isNamed = containers.at(-1) === 'object'
      const name = isNamed ? '"\\d[\\d.]*:\\d+"\\s*:\\s*' : ''
      const find = (start: string): number => {
        // What follows a bracket is in another list, of another type.
        const before = start === ANY_OBJECT ? '' : '[{'
        const next = new RegExp(`([,\\0${BROKEN}${before}])\\s*(?=${name}${start})`, 'g')
        next.lastIndex = from + 1
        const found = next.exec(text)
        if (found === null) return -1
        if (/[[{]/.test(found[0])) throw unusable
        return next.lastIndex
      }
      const at = find(recordStart ?? startOf(isNamed ? '{' : text.slice(from)))
      if (at >= 0 || !isLast || isNamed) return at
      BETWEEN_OBJECTS.lastIndex = from + 1
      return BETWEEN_OBJECTS.test(text) ? BETWEEN_OBJECTS.lastIndex : -1
    },

    /** Whether the rest of a text, which begins with a broken record, ends all that is open. */
    closes(text: string): boolean {
      const brackets = containers.map(each => (each === 'object' ? '\\}' : '\\]')).reverse()
      return new RegExp(`${brackets.join('[^{}[\\]]*')}\\s*$`).test(text)
    },

    /** Leaves out a broken record, up to the next one. */
    skip(line: number): void {
      sink.bad(line, 'row', NOT_JSON)
      expect = containers.at(-1) === 'object' ? 'key' : 'value'
    },

    end(hasMore: boolean): void {
      if (expect !== 'end of file' || hasMore) throw new UnusableFile('is truncated, or not JSON')
      if (members > 0 && !key.includes(':') && !hasData) throw new UnusableFile('holds no proxies')
    },
  }
}
