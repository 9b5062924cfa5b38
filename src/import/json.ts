/** Reads JSON: records at any depth. It parses each record alone, so a large document needs little memory. */
import { typeBits } from '../proxies/types.ts'
import { addressesIn } from './address.ts'
import { countryOfCode } from './countries.ts'
import type { Names } from './names.ts'
import {
  BROKEN,
  brokenText,
  type Context,
  isRecord,
  NoList,
  parseJson,
  type RawRow,
  RECORD_LENGTH_MAX,
  type Reader,
  type RowSink,
  TOO_LONG,
  UnusableFile,
} from './reader.ts'
import { isAddress, kindOf } from './record.ts'
import { rowsOfLine } from './text.ts'
import {
  isGiven,
  normalise,
  readAnon,
  readCountryValue,
  readTime,
  readTypes,
  typeOfWord,
} from './values.ts'

/** A brace or brackets, and then a JSON value, perhaps in single quotes. */
const OBJECT = /^\{\s*(?:["'}]|$)/
const ARRAY = /^(?:\[\s*)+(?:[\]{"']|$|(?:-?\d+(?:\.\d+)?|true|false|null)\s*(?:[,\]]|$))/

/** Whether the text starts with an object or an array: `[::1]:80` and `[ProxyList]` are neither. */
export const isJson = (head: string): boolean => OBJECT.test(head) || ARRAY.test(head)

const NOT_JSON =
  'is not valid JSON; names and texts need double quotes, other values are numbers, true, false or null'
const NO_ADDRESS = 'holds no address, a.b.c.d:port'

const DEPTH_MAX = 16

/** `end`: where a value ends, or -1 if more text is needed. `brokenAt`: where the value is broken, or -1. */
type End = { end: number; brokenAt: number }
const endAt = (end: number): End => ({ end, brokenAt: -1 })
const brokenAt = (at: number): End => ({ end: -1, brokenAt: at })

/** The characters that may follow a value. In `"a"b"`, a quote is stray. */
const AFTER_VALUE = /[\s,:}\]]/

const [NEWLINE, QUOTE, BACKSLASH] = [0x0a, 0x22, 0x5c] as const

/** The end of the string whose quote is at `from`. A string cannot hold a newline. */
function endOfString(text: string, from: number): End {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code > QUOTE && code !== BACKSLASH) continue
    if (code === BACKSLASH) at += 1
    else if (code === NEWLINE) return brokenAt(from)
    else if (code === QUOTE) {
      const isStray = at + 1 < text.length && !AFTER_VALUE.test(text.charAt(at + 1))
      return isStray ? brokenAt(at) : endAt(at + 1)
    }
  }
  return endAt(-1)
}

function endOfValue(text: string, from: number): End {
  let depth = 0
  for (let at = from; at < text.length; at += 1) {
    const char = text.charAt(at)
    switch (char) {
      case '"': {
        const string = endOfString(text, at)
        if (string.end < 0 || depth === 0) return string
        at = string.end - 1
        break
      }
      case '{':
      case '[':
        depth += 1
        break
      case '}':
      case ']':
        depth -= 1
        if (depth <= 0) return endAt(depth < 0 ? at : at + 1)
        break
      case '\0':
      case BROKEN:
        return brokenAt(at)
      default:
        if (depth === 0 && AFTER_VALUE.test(char)) return endAt(at)
    }
  }
  return endAt(-1)
}

/** More names for the time of a list, in its envelope. */
const LIST_TIMES = /^(?:generated|created|published|fetched)(?:at)?$/

/** The context of a list under a key such as `socks5`, `DE`, `United States` or `elite`. */
function contextOfKey(key: string, context: Context): Context {
  const type = typeOfWord(key)
  if (type !== undefined) return { ...context, types: typeBits([type]) }
  const isLong = key.length > 3
  const country = /^[A-Z]{2}$/.test(key) ? countryOfCode(key) : isLong && readCountryValue(key)
  if (country) return { ...context, country }
  return isLong ? { ...context, anon: readAnon(key) || context.anon } : context
}

/** Members of an envelope with a value for all of its records. */
const OF_LISTS: { readonly [field: string]: (value: unknown) => unknown } = {
  ...{ types: readTypes, country: readCountryValue, anon: readAnon },
  checked_at: value => readTime(value, null),
}

/** The context of the records in an envelope with this member. */
function contextOfMember(name: string, value: unknown, names: Names, context: Context) {
  const known = LIST_TIMES.test(normalise(name)) ? 'checked_at' : (names.fieldOf(name) ?? '')
  const field = known === 'type' ? 'types' : known
  const read = OF_LISTS[field]?.(value)
  return read ? { ...context, [field]: read } : context
}

/** An open list or envelope. */
type Frame = {
  isArray: boolean
  context: Context
  /** The key of the next value of an object; `null` in an array, and before a key. */
  key: string | null
  /** Whether it has a member that is a list of records. */
  isOfList: boolean
  /** Whether it has rows: then other values in it are rows without an address. */
  hasRow: boolean
}

/** The start of the next record, after a broken one: `}, {`, `}, "key": {` or `, "1.2…`. */
const NEXT_RECORD = /\}\s*,?\s*(?=\{|"[^"\n]{1,99}"\s*:\s*\{)|[,\n]\s*(?="(?:\w+:\/\/)?\d{1,3}\.)/g

/** A record that is listed under its address. An address of its own wins, unless it lacks the port. */
const withKey = (record: RawRow, key: string): RawRow =>
  isGiven(record.ip) && !key.startsWith(`${record.ip}:`) ? record : { ...record, ip: key }

/** Finds rows in a sequence of brackets, keys and complete values. */
function createWalker(sink: RowSink, names: Names) {
  const root: Frame = { isArray: true, context: {}, key: null, isOfList: false, hasRow: true }
  const frames = [root]
  const here = (): Frame => frames.at(-1) ?? root
  let [hasEmptyList, hasRecord, isBroken] = [false, false, false]

  const contextHere = (): Context => {
    const { context, key } = here()
    return key === null ? context : contextOfKey(key, context)
  }
  const isListed = ({ key }: Frame): boolean => key !== null && isAddress(key)

  function addRow(line: number, row: RawRow, context = contextHere()): void {
    hasRecord = true
    here().hasRow = true
    sink.row(line, row, context)
  }

  function addBad(line: number, reason: string): void {
    hasRecord = true
    sink.bad(line, 'row', reason)
    here().key = null
  }

  /** Whether a value without an address is metadata. In a list of rows, it is a bad row. */
  const isMetadata = ({ isArray, hasRow }: Frame): boolean =>
    !isArray || (frames.length > 2 && !hasRow)

  const isListOfRecords = (value: unknown): boolean =>
    Array.isArray(value) && kindOf({ value }, names) === 'envelope'

  function open(line: number, isArray: boolean, members: object = {}): true {
    if (frames.length > DEPTH_MAX) {
      throw new UnusableFile(`line ${line}: more than ${DEPTH_MAX} lists are nested`)
    }
    let context = contextHere()
    const isOfList = Object.values(members).some(isListOfRecords)
    for (const [name, value] of Object.entries(members)) {
      hasEmptyList ||= name === 'count' && value === 0
      if (typeof value !== 'object') context = contextOfMember(name, value, names, context)
    }
    frames.push({ isArray, context, key: null, isOfList, hasRow: false })
    return true
  }

  function takeText(line: number, text: string, frame: Frame): void {
    const key = frame.key ?? ''
    if (isListed(frame)) return addRow(line, rowsOfLine(`${key} ${text}`)[0] ?? { ip: key })
    const holdsAddress = addressesIn(text).length > 0
    const isOfType = contextOfKey(key, {}).types !== undefined
    if (!frame.isArray && !(isOfType && holdsAddress)) {
      frame.context = contextOfMember(key, text, names, frame.context)
    } else if (holdsAddress || !isMetadata(frame)) {
      for (const row of rowsOfLine(text.trim())) addRow(line, row)
    }
  }

  /** Returns whether the array was opened. An array of scalars inside a list is a row without names. */
  function takeArray(line: number, items: readonly unknown[], frame: Frame): boolean {
    if (items.length === 0) {
      hasEmptyList = true
      return false
    }
    const isFlat = frame.isArray && items.every(item => typeof item !== 'object' || item === null)
    const text = isFlat && items.length > 1 ? items.join(',') : ''
    if (addressesIn(text).length !== 1) return open(line, true)
    for (const row of rowsOfLine(text)) addRow(line, row)
    return false
  }

  /** Returns whether the object was opened. */
  function takeObject(line: number, value: RawRow, frame: Frame): boolean {
    if (isListed(frame)) {
      addRow(line, withKey(value, frame.key ?? ''))
      return false
    }
    if (frame === root && value.status === 'error') throw new NoList('is an error response')
    const kind = kindOf(value, names)
    const canHold = kind === 'envelope' || kind === 'empty'
    if (canHold && (kind === 'envelope' || frame === root || isMetadata(frame))) {
      return open(line, false, value)
    }
    // A record beside the list of an envelope is a server of the publisher.
    const isOther = !frame.isArray && frame.isOfList
    if (kind === 'record' && !isOther) addRow(line, value)
    else if (!isMetadata(frame) && (frame !== root || hasRecord)) addBad(line, NO_ADDRESS)
    hasEmptyList ||= Object.keys(value).length === 0 && frame === root
    return false
  }

  /** A broken value in a list is one bad record. A broken envelope is opened, because the bad record is inside it. */
  function takeBroken(line: number, source: string, reason: string, frame: Frame): boolean {
    const isInList = (frame.isArray && frame !== root) || isListed(frame)
    if (!isInList && /^[[{]/.test(source)) return open(line, source.startsWith('['))
    if (!isInList) throw new UnusableFile(`line ${line} ${reason}`)
    isBroken = true
    addBad(line, reason)
    return false
  }

  /** Takes a value. Returns whether it was opened, so that its members come next. */
  function take(line: number, source: string, isBrokenJson: boolean): boolean {
    const frame = here()
    if (isBrokenJson) return takeBroken(line, source, NOT_JSON, frame)
    const value = parseJson(source)
    if (!frame.isArray && frame.key === null) {
      frame.key = String(value ?? source)
      return false
    }
    const broken = brokenText(source) ?? (value === undefined ? NOT_JSON : null)
    let isOpened = false
    if (broken !== null) isOpened = takeBroken(line, source, broken, frame)
    else if (typeof value === 'string') takeText(line, value, frame)
    else if (Array.isArray(value)) isOpened = takeArray(line, value, frame)
    else if (isRecord(value)) isOpened = takeObject(line, value, frame)
    else takeText(line, String(value), frame)
    if (!isOpened) frame.key = null
    return isOpened
  }

  return {
    take,
    /** Opens an array or object that is longer than a record may be. */
    openLong(line: number, bracket: string): void {
      if (!/[[{]/.test(bracket)) throw new UnusableFile(`line ${line} ${TOO_LONG}`)
      open(line, bracket === '[')
    },
    close(line: number, bracket: string): void {
      const frame = frames.length > 1 ? frames.pop() : undefined
      const isMatch = frame?.isArray === (bracket === ']')
      if (!isMatch && isBroken) return void (frame && frames.push(frame))
      if (!frame || !isMatch) {
        throw new UnusableFile(`line ${line}: not a JSON list of proxies, brackets do not match`)
      }
      here().hasRow ||= frame.hasRow
      here().key = null
    },
    end(rest: string): void {
      // After a broken record, the brackets may not match.
      const isTruncated = (frames.length > 1 || rest !== '') && !isBroken
      if (isTruncated) throw new UnusableFile('is truncated, or not JSON')
      if (!hasRecord && !hasEmptyList) throw new NoList('holds no proxies')
    },
  }
}

export const readJson: Reader = async (chunks, sink, names) => {
  const walker = createWalker(sink, names)
  let text = ''
  let line = 1

  /** The start of the record after a broken one; -1 if more text is needed. @throws UnusableFile after the list */
  function nextRecord(from: number, brokenAt: number): number {
    NEXT_RECORD.lastIndex = brokenAt
    const next = NEXT_RECORD.exec(text)
    if (next === null) return -1
    // After the end of the list, records may have another type.
    const isOver = /^[^[\]]*\]/.test(text.slice(from, next.index))
    if (isOver) throw new UnusableFile(`line ${line} ${NOT_JSON}`)
    return next.index + next[0].length
  }

  /** Takes the value at `from`. Returns where to continue, or -1 if more text is needed. */
  function takeValue(from: number, isLast: boolean): number {
    let { end, brokenAt } = endOfValue(text, from)
    const isLong = text.length - from > RECORD_LENGTH_MAX
    if (brokenAt >= 0) end = nextRecord(from, brokenAt)
    if (brokenAt >= 0 && end < 0 && (isLast || isLong)) end = text.length
    if (end < 0 && !isLong) return -1
    if (end < 0) {
      walker.openLong(line, text.charAt(from))
      return from + 1
    }
    const source = text.slice(from, end)
    if (walker.take(line, source, brokenAt >= 0)) return from + 1
    line += source.split('\n').length - 1
    return end
  }

  /** Takes all complete values. The rest stays in `text`. */
  function takeAll(isLast: boolean): void {
    let at = 0
    while (at < text.length) {
      const char = text.charAt(at)
      if (char === '\n') line += 1
      let next = at + 1
      if (char === '}' || char === ']') walker.close(line, char)
      else if (!/[\s,:]/.test(char)) next = takeValue(at, isLast)
      if (next < 0) break
      at = next
    }
    text = text.slice(at)
  }

  // Scanning an unfinished record again for each chunk is quadratic: wait until the text has doubled.
  let lengthMin = 0
  for await (const chunk of chunks) {
    text += chunk
    if (text.length < lengthMin) continue
    takeAll(false)
    lengthMin = Math.min(2 * text.length, RECORD_LENGTH_MAX + 1)
  }
  takeAll(true)
  walker.end(text.trim())
}
