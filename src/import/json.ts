/**
 * The records of one JSON document: an array of records or of addresses, an object of records by address or of
 * arrays by type, or an envelope around either, as the API and other tools write them; or records of several lines
 * that follow each other, as jq writes them. Walks the outer structure itself and passes each record to
 * `JSON.parse`, so that a document of any size needs the memory of one record.
 */
import {
  BROKEN,
  brokenText,
  type Chunks,
  parseJson,
  peek,
  quotedName,
  RECORD_LENGTH_MAX,
  type Reader,
  type RowSink,
  TOO_LONG,
  UnusableFile,
} from './reader.ts'
import { entryToRow, hasAddress, isRecord, typeWord } from './row.ts'

/** Brackets that open arrays, and what a JSON value may begin with, or quotes that ought to be double. */
const ARRAY = /^(?:\[\s*)+(?:[\]{"']|$|(?:-?\d+(?:\.\d+)?|true|false|null)\s*(?:[,\]]|$))/

/** Whether the text starts with an object or an array: `[::1]:80` and `[ProxyList]` are neither. */
export const isJson = (head: string): boolean => head.startsWith('{') || ARRAY.test(head)

/**
 * What may come next in the outer structure, and where each structural character then leads. Between values may
 * stand one comma, none or several, also after the last: people write such lists.
 */
const GRAMMAR = {
  '[ or {': { '[': 'open', '{': 'open' },
  value: {},
  'value or ]': { ']': 'close', ',': 'value or ]' },
  'key or }': { '}': 'close', ',': 'key or }' },
  ':': { ':': 'value' },
  ', or ]': { ',': 'value or ]', ']': 'close' },
  ', or }': { ',': 'key or }', '}': 'close' },
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

/** How the records begin that begin as this one does, as a pattern: so the one after a broken one can be found. */
function startOf(record: string): string | null {
  if (!record.startsWith('{')) return '"(?=(?:\\w+://)?\\d)' // an address
  const [start] = /^\{\s{0,99}"[^"\n]{0,99}"(?=\s*:)/.exec(record) ?? []
  return start === undefined ? null : RegExp.escape(start)
}
/** How those begin that are listed by address. */
const NAMED = '"\\d[\\d.]*:\\d+"\\s*:\\s*\\{'
/** Text without braces, and such text with up to nine objects of `inner` in it: thousands would take long. */
const FLAT = '[^{}]*'
const around = (inner: string): string => `${FLAT}(?:\\{${inner}\\}${FLAT}){0,9}`
/** Where an object begins after another that holds an address, as those in a record mostly do not. */
const NEXT_OBJECT = new RegExp(
  `(?=\\{\\s*"${around(around(around(FLAT)))}\\d(?:\\.\\d{1,3}){3})(?<=\\}\\s*,\\s*)`,
  'g',
)

/** Where a value ends when a quote or a byte in it is wrong: nobody knows. */
const UNKNOWN_END = -2

function matchFrom(pattern: RegExp, text: string, from: number): RegExpExecArray | null {
  pattern.lastIndex = from
  return pattern.exec(text)
}

/** Commas on end, as millions would take long one by one. */
const AFTER_COMMAS = /[\s,]+/y

/** What a character of a value stands in, and what it leads to else: a bracket, the end, or that something is wrong. */
const [START, SCALAR, INSIDE, STRING, ESCAPE, AFTER] = [0, 1, 2, 3, 4, 5] as const
const [OPEN, END, CLOSE, WRONG] = [6, 7, 8, 9] as const
/** What a character leads to: rows by what it stands in, columns by what it is. */
const LEADS = Uint8Array.from(
  // other, and the kinds of KINDS
  [
    [SCALAR, SCALAR, SCALAR, STRING, SCALAR, SCALAR, OPEN, SCALAR, SCALAR], // START
    [SCALAR, END, END, WRONG, SCALAR, END, SCALAR, END, SCALAR], // SCALAR
    [INSIDE, INSIDE, INSIDE, STRING, INSIDE, INSIDE, OPEN, CLOSE, WRONG], // INSIDE brackets
    [STRING, STRING, WRONG, AFTER, ESCAPE, STRING, STRING, STRING, STRING], // STRING
    [STRING, STRING, STRING, STRING, STRING, STRING, STRING, STRING, STRING], // ESCAPE
    [WRONG, AFTER, AFTER, WRONG, WRONG, END, WRONG, CLOSE, WRONG], // AFTER a string
  ].flat(),
)
const KINDS = [' \t\r', '\n', '"', '\\', ',:', '{[', '}]', `\0${BROKEN}`]
const COLUMNS = KINDS.length + 1
const KIND_OF = new Uint8Array(0x10000)
KINDS.forEach((characters, i) => {
  for (let at = 0; at < characters.length; at += 1) KIND_OF[characters.charCodeAt(at)] = i + 1
})

const leadOf = (within: number, code: number): number =>
  LEADS[within * COLUMNS + (KIND_OF[code] ?? 0)] ?? WRONG

/** The search for the end of a value: it goes on where it was when more text comes, so takes linear time. */
type Search = { at: number; depth: number; within: number }

/** The position after a JSON value, -1 when the text ends before it, or `UNKNOWN_END`. */
function endOfValue(text: string, search: Search): number {
  let { at, depth, within } = search
  for (; at < text.length; at += 1) {
    within = leadOf(within, text.charCodeAt(at))
    if (within <= AFTER) continue
    if (within === WRONG) break
    if (depth === 0 && within !== OPEN) return at
    depth += END - within // OPEN is the number before, CLOSE that after
    if (depth === 0) return at + 1
    within = INSIDE
  }
  Object.assign(search, { at, depth, within })
  return within === WRONG ? UNKNOWN_END : -1
}

/** Newlines between two positions of the text; reads nothing beyond them. */
function countLines(text: string, from: number, to: number): number {
  const part = text.slice(from, to)
  let lines = 0
  for (let at = part.indexOf('\n'); at >= 0; at = part.indexOf('\n', at + 1)) lines += 1
  return lines
}

/** A value that is not complete; `lines`: those of what is forgotten of it, as it is too long. */
type Value = Search & { isBroken: boolean; isTooLong: boolean; lines: number }

/** More than the begin of a record has, by which the one after a broken one is found. */
const START_LENGTH_MAX = 1024

/**
 * Passes every record of a JSON document to `sink`, with its key when it is listed under one.
 * @throws UnusableFile when the document is not JSON, is truncated, or is not a list of proxies.
 */
export const readJson: Reader = async (chunks, sink, names) => {
  const { head, all } = await peek(chunks)
  const [object = ''] = /^\s*\{[ \t\r]*\n.*?\n\}/s.exec(head) ?? []
  const first = parseJson(object)
  const isSequence = isRecord(first) && Object.keys(first).some(names.isAddress)
  await readDocument(isSequence ? asArray(all) : all, sink)
}

async function* asArray(records: Chunks): Chunks {
  yield '['
  yield* records
  yield ']'
}

async function readDocument(chunks: Chunks, sink: RowSink): Promise<void> {
  const outline = createOutline(sink)
  let text = ''
  let line = 1
  /** What the text begins with and does not end. */
  let value = null as Value | null
  /** Characters that were read, and those in which the ends of broken records were looked for. */
  let [length, lookedAt] = [0, 0]

  /** The position of the record after one that is broken, -1 when the text ends before it. */
  function endOfBroken(broken: Value, from: number, isLast: boolean): number {
    if (!broken.isBroken) lookedAt += broken.at - from
    broken.isBroken = true
    // Usually less than is read; records that stay open up to one broken byte would be read for hours.
    if (lookedAt > 4 * length + 8 * RECORD_LENGTH_MAX) {
      throw new UnusableFile(`line ${line}: too many records are broken before this`)
    }
    return outline.nextRecord(text, from, line, isLast)
  }

  /** Takes what begins at a position; returns where it ends, -1 when the text ends before it. */
  function takeAt(from: number, isLast: boolean): number {
    value ??= { at: from, depth: 0, within: START, isBroken: false, isTooLong: false, lines: 0 }
    let end = value.isBroken ? UNKNOWN_END : outline.endAt(text, from, value)
    if (end === UNKNOWN_END) end = endOfBroken(value, from, isLast)
    if (end < 0) return end
    if (value.isBroken) outline.skip(line, NOT_JSON, text.slice(from, end))
    else if (value.isTooLong) outline.skip(line, TOO_LONG)
    else outline.take(text.slice(from, end), line)
    line += value.lines + countLines(text, from, end)
    value = null
    return end
  }

  /** Takes all that is complete; returns where the rest begins. */
  function takeComplete(isLast: boolean): number {
    for (let at = 0; ; ) {
      const start = text.slice(at).search(/\S|$/) // in what is left of this chunk
      line += countLines(text, at, at + start)
      at += start
      const end = at === text.length ? -1 : takeAt(at, isLast)
      if (end < 0) return at
      at = end
    }
  }

  /** Takes all that is complete, and leaves the rest; `isLast`: what is not there by now does not come. */
  function takeAll(isLast: boolean): void {
    const at = takeComplete(isLast)
    text = text.slice(at)
    if (value === null) return
    value.at -= at
    if (text.length <= RECORD_LENGTH_MAX) return
    if (value.isBroken && !isLast) return takeAll(true)
    if (!outline.isRecord()) throw new UnusableFile(`line ${line}: too long`)
    forget(value)
  }

  /** Forgets what was read of a record that is too long, but its first character and where the next may begin. */
  function forget(long: Value): void {
    const rest = long.isBroken ? text.slice(-START_LENGTH_MAX) : ''
    long.lines += countLines(text, 0, text.length - rest.length)
    long.isTooLong = true
    text = text.charAt(0) + rest
    long.at = 1
  }

  // A text is made of its chunks again when it is twice as long: with each chunk, it would take long.
  let lengthMin = 0
  for await (const chunk of chunks) {
    text += chunk
    length += chunk.length
    if (text.length < lengthMin) continue
    takeAll(false)
    lengthMin = Math.min(2 * text.length, RECORD_LENGTH_MAX)
  }
  takeAll(true)
  if (value?.isBroken && outline.closes(text)) outline.skip(line, NOT_JSON)
  else outline.end(text !== '')
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

  /** Whether this character starts a value or key, perhaps after no comma, and is not structural. */
  const isValue = (char: string): boolean =>
    (expect.startsWith('value') && !/[\]},:]/.test(char) && !isDataNext(char)) ||
    (expect === ', or ]' && char === '{') ||
    (/^key|^, or \}/.test(expect) && char === '"')

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
    endAt(text: string, from: number, search: Search): number {
      const char = text.charAt(from)
      if (char === '\0' || text.startsWith(BROKEN, from)) return UNKNOWN_END
      if (isValue(char)) return endOfValue(text, search)
      const isStray = /["\d]/.test(char) || (char === ':' && expect !== ':')
      if (isStray || char !== ',') return isStray ? UNKNOWN_END : from + 1
      return from + (matchFrom(AFTER_COMMAS, text, from)?.[0].length ?? 0)
    },

    take(source: string, line: number): void {
      const char = source.charAt(0)
      if (!isValue(char)) return takeStructural(char, line)
      const parsed = parseJson(source)
      if (source.startsWith('"') && /^key|^, or \}/.test(expect)) {
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
     * The position of the record after a broken one, which begins as the first one does or, where none does in a
     * text that `isLast`, otherwise; -1 when it is not there. @throws UnusableFile when the list has ended before.
     */
    nextRecord(text: string, from: number, line: number, isLast: boolean): number {
      const start =
        containers.at(-1) === 'object' ? NAMED : (recordStart ?? startOf(text.slice(from)))
      const likely = new RegExp(`[,\\0${BROKEN}[{]\\s*(?=${start ?? '(?!)'})`, 'g')
      let found = matchFrom(likely, text, from + 1)
      if (start === null || isLast) found ??= matchFrom(NEXT_OBJECT, text, from + 1)
      // What follows a bracket is in another list, of another type.
      const isOver = containers.length === 0 || inEnvelope() || /[[{]/.test(found?.[0] ?? '')
      if (isOver) throw new UnusableFile(`line ${line} ${NOT_JSON}`)
      return found === null ? -1 : found.index + found[0].length
    },

    /** Whether the rest of a text, which begins with a broken record, ends all that is open. */
    closes(text: string): boolean {
      const brackets = containers.map(each => (each === 'object' ? '\\}' : '\\]')).reverse()
      return new RegExp(`${brackets.join('[^{}[\\]]*')}\\s*$`).test(text)
    },

    /** Whether what comes next is a record, and not a key or a member of the envelope. */
    isRecord: (): boolean =>
      containers.length > 0 && !/^key|^, or \}/.test(expect) && !inEnvelope(),

    /** Leaves out a record, and takes those between it and the next: they begin in another way. */
    skip(line: number, reason: string, text = ''): void {
      let at = line
      for (const [i, part] of text.split(NEXT_OBJECT).entries()) {
        if (i === 0) sink.bad(line, 'row', reason)
        else takeRecord(at, parseJson(part.trimEnd().replace(/,$/, '')), part)
        at += countLines(part, 0, part.length)
      }
      expect = containers.at(-1) === 'object' ? 'key or }' : 'value or ]'
    },

    end(hasMore: boolean): void {
      if (expect !== 'end of file' || hasMore) throw new UnusableFile('is truncated, or not JSON')
      if (members > 0 && !key.includes(':') && !hasData) throw new UnusableFile('holds no proxies')
    },
  }
}
