/** Reads a line of text: finds addresses, and the notes beside them that it understands (contract D3a). */
import { addressesIn, type Found } from './address.ts'
import { countryOfCode, countryOfFlag, countryOfName, readCountry } from './countries.ts'
import { brokenText, eachLine, type RawRow, type Reader, TOO_LONG } from './reader.ts'
import {
  anonOfPhrase,
  anonOfWord,
  isDeadWord,
  isOtherProtocol,
  readFlag,
  readTypes,
  typeOfWord,
} from './values.ts'

/** A line without its `#` or ` //` comment. */
export const withoutComment = (line: string): string => line.replace(/#.*|\s\/\/.*/s, '').trim()

const PLAIN = /^(?:([a-z][a-z\d]*):\/\/)?(\d[\d.]*:\d{1,5})\/?$/i

const NOTES_MAX = 1000

/** Lines to skip: `[ProxyList]`, `strict_chain`, `-----`. */
const NO_ROW = /^(?:\[[^\]:]*\]|[-=*_\s]*|\w+_\w+(?: \d+)?)$/

/** The rows of a line without its comment, one for each address. Without one, it is a row that will be rejected. */
export function rowsOfLine(line: string): RawRow[] {
  const [, type, plain] = PLAIN.exec(line) ?? []
  if (plain !== undefined) return [type === undefined ? { ip: plain } : { type, ip: plain }]
  const found = addressesIn(line)
  if (found.length === 0) return NO_ROW.test(line) ? [] : [{ ip: line.slice(0, NOTES_MAX) }]
  if (found.length > 1) return found.map((each, i) => rowOfMany(line, each, found[i - 1]?.end ?? 0))
  return found.map(({ ip, port, start, end }) => ({
    ip: `${ip}:${port}`,
    ...notesOf(line.slice(Math.max(0, start - NOTES_MAX), start), line.slice(end, end + NOTES_MAX)),
  }))
}

/** A row whose `ip` holds notes beside the address, such as its type. Values in the row win over notes. */
export function withAddressNotes(row: RawRow): RawRow {
  if (typeof row.ip !== 'string' || /^[\d.:]*$/.test(row.ip) || row.ip.length > NOTES_MAX)
    return row
  const [notes, ...others] = rowsOfLine(row.ip.trim())
  if (notes === undefined || others.length > 0) return row
  const given = Object.entries(row).filter(([, value]) => value !== '' && value !== null)
  const merged = { ...notes, ...Object.fromEntries(given), ip: notes.ip }
  return readTypes(row.type) || notes.type === undefined ? merged : { ...merged, type: notes.type }
}

/** The row of one of several addresses in a line. Only the word before it and its scheme belong to it for certain. */
function rowOfMany(line: string, { ip, port, start }: Found, from: number): RawRow {
  const before = line.slice(Math.max(from, start - NOTES_MAX), start)
  if (HAS_LOGIN_BEFORE.test(before)) return { ip: `${ip}:${port}`, password: true }
  const word = /([a-z\d]+)(?::\/\/|[\s:([]*)$/i.exec(before)?.[1] ?? ''
  const type = before.endsWith('://') ? word : typeOfWord(word)
  return type === undefined || type === '' ? { ip: `${ip}:${port}` } : { type, ip: `${ip}:${port}` }
}

/** A user before the address, and a user and a password behind it. */
const HAS_LOGIN_BEFORE = /[^\s@,;|]@$/
const LOGIN_AFTER = /^(?::([^\s:]+):([^\s:]+)|@([^\s:@]+):\S+)$/
/** A line of proxychains: type, address and port, then perhaps a user and a password. */
const CHAIN_BEFORE = /^(?:http|socks4|socks5)\s+$/
const CHAIN_LOGIN = /^\s+(\S+)\s+(\S+)$/

/** The notes of spys.me: country, level, `!` if the outgoing address differs, TLS, Google. */
const SPYS = /^\s([A-Z]{2})-([NAH])!?(-S)?!?(?:\s+([+-]))?\s*$/
const INSTANT = /\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/
const AGO = /\b\d+\s*(?:s|m|h|d)[a-z]*\.?(?:\s+\d+\s*(?:s|m)[a-z]*\.?)?\s+ago\b/i
/** The separators of phrases: brackets, delimiters of tables, arrows, and dashes and colons between words. */
const BETWEEN_PHRASES = /[\t|;,()[\]{}<>"=@]+|[=-]>|→|\s[-–—]+\s|:+/

/** Separators without the marks between a name and its value: `timeout: 0.5s` does not mean that the proxy is dead. */
const BETWEEN_MARKS = /[\t|;,()[\]{}<>"]+|[=-]>|→|\s[-–—]+\s/
const STATE = /\b(?:alive|working|valid|active|online|status|state)\s*[:=]\s*(\w+)/i

type Notes = { [field: string]: string | boolean }

/** Reads notes from the text around an address. With `password`, `readRow` rejects the row. */
function notesOf(before: string, after: string): Notes {
  const notes: Notes = {}
  if (before === '' && after === '') return notes
  const [, scheme] = /([a-z][\w+.-]*):\/\/\S*$/i.exec(before) ?? []
  if (scheme !== undefined) notes.type = scheme
  if (scheme !== undefined && isOtherProtocol(scheme)) return notes
  const login = CHAIN_BEFORE.test(before) ? CHAIN_LOGIN : LOGIN_AFTER
  const [, user, secret, name] = login.exec(after) ?? []
  const isLogin = [user, secret, name].filter(part => part !== undefined).every(isNoNote)
  if (HAS_LOGIN_BEFORE.test(before) || (isLogin && (user ?? name) !== undefined)) {
    return { ...notes, password: true }
  }
  const [, country, level, tls, google] = SPYS.exec(after) ?? []
  if (country !== undefined && level !== undefined) {
    if (google !== undefined) notes.google = google === '+'
    return { ...notes, country, anon: level, ssl: tls !== undefined }
  }
  readNotes(`${before.replace(/\S+:\/\/\S*$/, '')} | ${after}`, after.includes('|'), notes)
  return notes
}

/** Whether a part behind an address may be a user, because it is not a type, country or level. */
const isNoNote = (part: string): boolean =>
  typeOfWord(part) === undefined && anonOfWord(part) === undefined && readCountry(part) === null

/** `hasCity`: the phrase behind a country is its city. */
function readNotes(text: string, hasCity: boolean, notes: Notes): void {
  const flag = countryOfFlag(text)
  if (flag !== '') notes.country = flag
  const rest = text
    .replace(/[\u{1F1E6}-\u{1F1FF}]{2}/gu, ' ')
    .replace(INSTANT, found => take(notes, 'checked_at', found))
    .replace(AGO, found => take(notes, 'last seen', found))
    .replace(/(\d)\s+(ms|msec)\b/gi, '$1$2')
  const place: Place = { named: '', isCity: false, isBehindName: false }
  for (const phrase of text.split(BETWEEN_MARKS)) if (isDeadWord(phrase)) notes.alive = false
  const [, state = ''] = STATE.exec(text) ?? []
  if (isDeadWord(state) || readFlag(state) === false) notes.alive = false
  for (const phrase of rest.split(BETWEEN_PHRASES)) readPhrase(phrase, notes, place)
  if (!hasCity) delete notes.city
  // A code wins over a name beside it.
  if (place.named !== '') take(notes, 'country', place.named)
}

/** Whether letters are the code of a country. */
const isCountry = (word: string): boolean =>
  word.length === 2 ? countryOfCode(word) !== null : readCountry(word) !== null

/** The country that was named, whether the next phrase may be its city, and whether it stands behind a name. */
type Place = { named: string; isCity: boolean; isBehindName: boolean }

/** Reads a phrase as a whole, then its words. Updates `place`. */
function readPhrase(given: string, notes: Notes, place: Place): void {
  const phrase = given.trim()
  if (phrase === '') return
  // Two small letters are a country only right behind a delimiter: `is` and `in` are words.
  const isAttached = /^[a-z]{2}$/.test(given.trimEnd()) && phrase !== 'no'
  if (isAttached && countryOfCode(phrase) !== null) take(notes, 'country', phrase)
  const words = phrase.split(/[\s/+]+/).filter(word => !/^prox(?:y|ies)$/i.test(word))
  const unread = words.filter(word => !readWord(word, notes))
  // Capitals among other words are an abbreviation: `PT Telkom`. Behind a name they are a state: `Chicago, IL`.
  const codes = unread.filter(word => /^[A-Z]{2}$|^USA$|^GBR$/.test(word) && isCountry(word))
  const isCode = codes.length === unread.length && !place.isBehindName
  if (isCode && codes[0] !== undefined) take(notes, 'country', codes[0])
  const rest = isCode ? [] : unread
  const left = rest.join(' ')
  const anon = left === phrase ? anonOfPhrase(left) : anonOfWord(left)
  if (anon !== undefined) take(notes, 'anon', anon)
  const country = left.length > 2 && rest.length < 8 ? countryOfName(left) : null
  const isName = left === phrase && /^\p{L}[\p{L} .'-]+$/u.test(phrase) && !isDeadWord(phrase)
  if (place.isCity && isName && anon === undefined) take(notes, 'city', phrase)
  place.named ||= country ?? ''
  place.isCity = country !== null || (rest.length === 0 && countryOfCode(phrase) !== null)
  place.isBehindName = isName && country === null && /\p{Ll}/u.test(phrase)
}

/** Keeps the first value of a field. */
function take(notes: Notes, field: string, value: string): '' {
  notes[field] ??= value
  return ''
}

function fieldOfWord(word: string): string | undefined {
  if (/^\d+(?:\.\d+)?(?:ms|msec|s|sec)$/i.test(word)) return 'ping'
  if (/^\d{1,3}(?:\.\d+)?%$/.test(word)) return 'works'
  return anonOfWord(word) && 'anon'
}

/** Takes a word into the notes. Returns whether it was understood. */
function readWord(word: string, notes: Notes): boolean {
  if (typeOfWord(word) !== undefined) {
    notes.type = notes.type === undefined ? word : `${notes.type} ${word}`
    return true
  }
  const field = fieldOfWord(word)
  if (field !== undefined) take(notes, field, word)
  return field !== undefined
}

/** Reads the lines of a text. `--map 4=ping` names a cell by its number. */
export const readTxt: Reader = (chunks, sink, names) =>
  eachLine(chunks, (line, number, broken) => {
    const entry = withoutComment(line)
    // A comment may hold anything.
    const reason = broken === TOO_LONG ? broken : brokenText(entry)
    if (reason !== null) return sink.bad(number, 'row', reason)
    if (entry === '') return
    const cells = names.numbered.length > 0 ? entry.split(/[,;\t|]/) : []
    const there = names.numbered.filter(at => at <= cells.length)
    const mapped = there.map(at => [`column ${at}`, cells[at - 1]])
    for (const row of rowsOfLine(entry)) {
      sink.row(number, mapped.length > 0 ? { ...row, ...Object.fromEntries(mapped) } : row)
    }
  })
