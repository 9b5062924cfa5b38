/**
 * The records of JSON: in arrays and objects at any depth, in any envelope, or one after another. Walks the outer
 * structure itself and parses each record alone, so that a document of any size needs the memory of one record.
 */
import { addressesIn } from './address.ts'
import { contextOfKey, contextOfMember, type Names } from './names.ts'
import {
  BROKEN,
  brokenText,
  NoList,
  parseJson,
  RECORD_LENGTH_MAX,
  type Reader,
  type RowSink,
  TOO_LONG,
  UnusableFile,
} from './reader.ts'
import { isAddress, kindOf } from './record.ts'
import { type Context, isRecord, type RawRow } from './row.ts'
import { rowsOfLine } from './text.ts'

/** A brace or brackets, then the begin of a JSON value, or of one in the wrong quotes. */
const OBJECT = /^\{\s*(?:["'}]|$)/
const ARRAY = /^(?:\[\s*)+(?:[\]{"']|$|(?:-?\d+(?:\.\d+)?|true|false|null)\s*(?:[,\]]|$))/

/** Whether the text starts with an object or an array: `[::1]:80` and `[ProxyList]` are neither. */
export const isJson = (head: string): boolean => OBJECT.test(head) || ARRAY.test(head)

const NOT_JSON =
  'is not valid JSON; names and texts need double quotes, other values are numbers, true, false or null'
const NO_ADDRESS = 'holds no address, a.b.c.d:port'

/** Most lists and envelopes inside each other. */
const DEPTH_MAX = 16

/** Where a value ends: -1 when the text ends before it. `brokenAt`: where it turns out to be broken, else -1. */
type End = { end: number; brokenAt: number }
const endAt = (end: number): End => ({ end, brokenAt: -1 })
const brokenAt = (at: number): End => ({ end: -1, brokenAt: at })

/** What may stand behind a value: in `"a"b"`, a quote is stray. */
const AFTER_VALUE = /[\s,:}\]]/

const [NEWLINE, QUOTE, BACKSLASH] = [0x0a, 0x22, 0x5c] as const

/** Where a string ends whose quote is at `from`. No string holds a newline. */
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

/** A list or an envelope that was opened. */
type Frame = {
  isArray: boolean
  /** Type, country and time that apply to its records. */
  context: Context
  /** The key of the next value in an object; `null` where a key comes next, and in arrays. */
  key: string | null
  /** Whether it is an envelope around a list of records. */
  isOfList: boolean
  /** Whether a row was found in it: other values beside that row are rows without an address. */
  hasRow: boolean
}

/** Where to go on after a broken record: `}, {`, `}, "key": {` or `, "1.2…`. */
const NEXT_RECORD = /\}\s*,?\s*(?=\{|"[^"\n]{1,99}"\s*:\s*\{)|[,\n]\s*(?="(?:\w+:\/\/)?\d{1,3}\.)/g

/** A state machine over brackets, keys and complete values. */
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

  /** A value without an address is a bad row in a list of rows, and metadata elsewhere. */
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
    const isOfType = contextOfKey(key, {}).type !== undefined
    if (!frame.isArray && !(isOfType && holdsAddress)) {
      frame.context = contextOfMember(key, text, names, frame.context)
    } else if (holdsAddress || !isMetadata(frame)) {
      for (const row of rowsOfLine(text.trim())) addRow(line, row)
    }
  }

  /** Returns whether the array is opened. One of scalars inside a list is a row without names. */
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

  /** Returns whether the object is opened. */
  function takeObject(line: number, value: RawRow, frame: Frame): boolean {
    if (isListed(frame)) {
      addRow(line, value, { ...contextHere(), listedAs: frame.key ?? '' })
      return false
    }
    if (frame === root && value.status === 'error') throw new NoList('is an error response')
    const kind = kindOf(value, names)
    const canHold = kind === 'envelope' || kind === 'empty'
    if (canHold && (kind === 'envelope' || frame === root || isMetadata(frame))) {
      return open(line, false, value)
    }
    // A record beside the list of an envelope is the publisher's own server.
    const isOther = !frame.isArray && frame.isOfList
    if (kind === 'record' && !isOther) addRow(line, value)
    else if (!isMetadata(frame) && (frame !== root || hasRecord)) addBad(line, NO_ADDRESS)
    hasEmptyList ||= Object.keys(value).length === 0 && frame === root
    return false
  }

  /** A broken value in a list is one bad record. A broken envelope is opened, to find the bad record in it. */
  function takeBroken(line: number, source: string, reason: string, frame: Frame): boolean {
    const isInList = (frame.isArray && frame !== root) || isListed(frame)
    if (!isInList && /^[[{]/.test(source)) return open(line, source.startsWith('['))
    if (!isInList) throw new UnusableFile(`line ${line} ${reason}`)
    isBroken = true
    addBad(line, reason)
    return false
  }

  /** Takes a complete value. Returns whether it was opened: then its members come next. */
  function take(line: number, source: string): boolean {
    const frame = here()
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
    takeBroken: (line: number, source: string): boolean =>
      takeBroken(line, source, NOT_JSON, here()),
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
      // After a broken record, the depth of brackets is unreliable.
      const isTruncated = (frames.length > 1 || rest !== '') && !isBroken
      if (isTruncated) throw new UnusableFile('is truncated, or not JSON')
      if (!hasRecord && !hasEmptyList) throw new NoList('holds no proxies')
    },
  }
}

/** Passes every record of a JSON text to `sink`. @throws UnusableFile when it is not JSON, or truncated. */
export const readJson: Reader = async (chunks, sink, names) => {
  const walker = createWalker(sink, names)
  let text = ''
  let line = 1

  /** The record behind a broken one, -1 when it has not come yet. @throws UnusableFile when the list may be over. */
  function nextRecord(from: number, brokenAt: number): number {
    NEXT_RECORD.lastIndex = brokenAt
    const next = NEXT_RECORD.exec(text)
    if (next === null) return -1
    // Behind the end of the list, records may be of another type.
    const isOver = /^[^[\]]*\]/.test(text.slice(from, next.index))
    if (isOver) throw new UnusableFile(`line ${line} ${NOT_JSON}`)
    return next.index + next[0].length
  }

  /** Takes the value at `from`. Returns where to go on, -1 when more text is needed. */
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
    const isOpened = brokenAt >= 0 ? walker.takeBroken(line, source) : walker.take(line, source)
    if (isOpened) return from + 1
    line += source.split('\n').length - 1
    return end
  }

  /** Takes all that is complete; the rest stays in `text`. */
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

  // Scanning an unfinished record again at each chunk is quadratic: wait until the text has doubled.
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
