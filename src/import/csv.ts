/**
 * Tables: CSV (RFC 4180), and other delimiters. A table is recognised by the names in its header, or else
 * by the content of its first rows. How a record becomes a proxy is in `row.ts`.
 */
import { ipv4ToNumber } from '../lib/ip.ts'
import { parseInstant } from '../lib/time.ts'
import { parseAddress, parsePort } from '../proxies/proxy.ts'
import { columnName, type Names, normalise } from './columns.ts'
import {
  type Chunks,
  eachLine,
  peek,
  quotedName,
  type Reader,
  type RowSink,
  UnusableFile,
} from './reader.ts'
import { anonWord, hasAddress, typeWord } from './row.ts'

export const readCsv: Reader = async (chunks, sink, names) => {
  const { head, all } = await peek(chunks)
  const table = findTable(head, names)
  if (table !== null) return readTable(all, table, sink)
  if (head.trim() === '') return
  throw new UnusableFile(
    'has no column ip in its CSV header, and no column of addresses; name it with --map COLUMN=ip',
  )
}

function readTable(chunks: Chunks, table: Table, sink: RowSink): Promise<void> {
  const { columns, delimiter, hasHeader } = table
  let toSkip = table.skip
  // Markdown has a line between the header and the rows.
  const isNoRow = (cells: readonly string[]): boolean =>
    (delimiter === '|' && cells.every(cell => /^[\s:=+-]*$/.test(cell))) ||
    (!hasHeader && isComment(cells))
  return eachLine(chunks, (line, number, broken) => {
    const cells = cellsOf(line, delimiter)
    const isHead = toSkip > 0 && cells !== null && !isBlank(cells)
    if (isHead) toSkip -= 1
    if (cells === null || broken !== null) return sink.bad(number, 'row', broken ?? BAD_QUOTE)
    if (!isHead && !isBlank(cells) && !isNoRow(cells)) takeCells(number, cells, columns, sink)
  })
}

/** Why a line has no cells. */
export const BAD_QUOTE =
  'has an open quote, or one inside a value; a row is one line, and quotes in a value are doubled'

/**
 * The cells of a line (RFC 4180); `null` when a quote is wrong. No cell holds a newline: one open quote would
 * cost all rows that follow.
 */
export function cellsOf(line: string, delimiter: string): string[] | null {
  if (!line.includes('"')) return line.split(delimiter)
  const cells: string[] = []
  for (let at = 0; at <= line.length; ) {
    const quoted = line[at] === '"' ? quotedCell(line, at) : { value: null, end: at }
    if (quoted === null) return null
    const next = line.indexOf(delimiter, quoted.end)
    const end = next < 0 ? line.length : next
    if (quoted.value !== null && line.slice(quoted.end, end).trim() !== '') return null
    cells.push(quoted.value ?? line.slice(at, end))
    at = end + 1
  }
  return cells
}

/** The cell whose quote is at `at`, with quotes that are doubled, and its end; `null` when it is open. */
function quotedCell(line: string, at: number): { value: string; end: number } | null {
  let end = line.indexOf('"', at + 1)
  while (end >= 0 && line[end + 1] === '"') end = line.indexOf('"', end + 2)
  return end < 0 ? null : { value: line.slice(at + 1, end).replaceAll('""', '"'), end: end + 1 }
}

function takeCells(
  line: number,
  cells: readonly string[],
  columns: readonly string[],
  sink: RowSink,
): void {
  if (cells.length !== columns.length) {
    const hint =
      cells.length > columns.length ? '; a value that holds the delimiter needs quotes' : ''
    const reason = `has ${cells.length} columns, the header has ${columns.length}${hint}`
    return sink.bad(line, 'row', reason)
  }
  const row: { [column: string]: string } = Object.create(null) // `__proto__` is a name too
  for (let i = 0; i < columns.length; i++) row[columns[i] ?? ''] = cells[i] ?? ''
  sink.row(line, row)
}

/** How the rows of a table are to be read. */
export type Table = {
  delimiter: string
  /** The member of each column, `''` for one without a name. */
  columns: readonly string[]
  /** Records before the first row that are not blank: `sep=` and the header. */
  skip: number
  hasHeader: boolean
}

/** The one to prefer first. */
const DELIMITERS = [',', ';', '\t', '|']
/** The first line of a table from a spreadsheet may name its delimiter. */
const SEP = /^\uFEFF?"?sep=([,;\t|])"?\r?\n/i
/** Rows from which the content of columns is judged. */
const SAMPLE_ROWS = 50
/** The share of the values of a column that must be of one kind. */
const SAMPLE_SHARE = 0.8

type Record = readonly string[]

/** Whether a record of a table without a header, or the line above one, is a comment. */
const isComment = ([first = '']: Record): boolean => /^#./.test(first)

const isBlank = (cells: Record): boolean => cells.every(cell => cell.trim() === '')

/** The first records of a text; a trailing CR is trimmed with the cells. */
const recordsOf = (text: string, delimiter: string): Record[] =>
  text
    .split('\n', SAMPLE_ROWS)
    .map(line => cellsOf(line, delimiter)?.map(cell => cell.trim()) ?? [])
    .filter(cells => !isBlank(cells))

/**
 * The table that a text begins with, `null` when it is none: no column is an address.
 * @throws UnusableFile when two columns have one name.
 */
export function findTable(head: string, names: Names): Table | null {
  const text = head.replace(/^\s*\n/, '')
  const [line = '', named] = SEP.exec(text) ?? []
  const [delimiters, skip] = named === undefined ? [DELIMITERS, 0] : [[named], 1]
  const body = text.slice(line.length)
  const samples = delimiters.map(delimiter => ({ delimiter, records: recordsOf(body, delimiter) }))
  return (
    best(samples.map(sample => withHeader(sample, names, skip))) ??
    best(samples.map(sample => byContent(sample, names, skip)))
  )
}

type Sample = { delimiter: string; records: readonly Record[] }
type Candidate = Table & { known: number }

/** The table with the most columns that mean something; the first of equals. */
const best = (candidates: readonly (Candidate | null)[]): Table | null =>
  candidates.filter(it => it !== null).toSorted((a, b) => b.known - a.known)[0] ?? null

/** A table whose header names the address, or whose header is above a column of addresses. */
function withHeader({ delimiter, records }: Sample, names: Names, skip: number): Candidate | null {
  const [header = [], ...rows] = records
  if (isComment(header) || header.some(cell => holdsAddress(cell) || hasAddress(cell))) return null
  const columns = header.map(name => name.toLowerCase())
  const meaning = columns.filter(name => name !== '' && names.meaningsOf(name).length > 0).length
  if (!columns.some(names.isAddress)) {
    if (columns.length < 2 || !isRegular(rows, columns.length)) return null
    const kinds = kindsOf(rows, columns.length, null)
    if (!isHeaderOf(kinds, header)) return null
    for (const [i, kind] of kinds.entries()) {
      if (kind === 'ip' || (kind === 'port' && !columns.includes('port'))) columns[i] = kind
    }
  }
  refuseTwice(columns)
  const named = columns.map((name, i) => addressName(name, rows, i, names))
  return { delimiter, columns: named, skip: skip + 1, hasHeader: true, known: meaning + 1 }
}

/** Whether a record is the header of addresses, and no row whose address is broken: that has a type or a port. */
const isHeaderOf = (kinds: readonly (string | null)[], cells: Record): boolean =>
  kinds.includes('ip') &&
  cells.every((cell, i) => kinds[i] === null || (typeWord(cell) ?? parsePort(cell)) === null)

/** The name of a column: addresses with a type before them are not a plain `ip`. */
const addressName = (name: string, rows: readonly Record[], at: number, names: Names): string =>
  names.isAddress(name) && rows.some(cells => cells[at]?.includes('://')) ? 'proxy' : name

/** Whether most records have so many cells. */
const isRegular = (rows: readonly Record[], width: number): boolean =>
  rows.filter(cells => cells.length === width).length >= rows.length * SAMPLE_SHARE

function refuseTwice(columns: readonly string[]): void {
  const keys = columns.map(normalise)
  const twice = columns.find((_, at) => keys[at] !== '' && keys.indexOf(keys[at] ?? '') !== at)
  if (twice === undefined) return
  throw new UnusableFile(`has the column ${quotedName(twice)} twice in its CSV header; rename one`)
}

/** A table without a header, of which the first rows may be broken. */
function byContent({ delimiter, records }: Sample, names: Names, skip: number): Candidate | null {
  const rows = records.filter(cells => !isComment(cells))
  const [first = [], ...others] = rows
  if (first.length < 2) return null
  const kinds = kindsOf(rows, first.length, names)
  const columns = kinds.map((kind, i) =>
    kind === 'ip' ? addressName(kind, rows, i, names) : (kind ?? columnName(i + 1)),
  )
  if (!isRegular(rows, first.length) || !columns.some(names.isAddress)) {
    const table = byContent({ delimiter, records: others }, names, skip)
    return first.length === table?.columns.length || first.some(holdsAddress) ? table : null
  }
  return { delimiter, columns, skip, hasHeader: false, known: kinds.filter(Boolean).length }
}

const holdsAddress = (cell: string): boolean => {
  const bare = cell.replace(/^[^:/]*:\/\//, '') // without a type
  return (
    ipv4ToNumber(bare) >= 0 || parseAddress(bare) !== null || /^[^\s@]+@[^\s@:]+:\d+$/.test(bare)
  )
}

/** What a column can hold that shows by itself, the first to prefer. A port follows an address. */
const KINDS: readonly (readonly [member: string, matches: (cell: string) => boolean])[] = [
  ['ip', holdsAddress],
  ['type', cell => cell.split(/[,/]/).every(word => typeWord(word.trim()) !== undefined)],
  ['anon', cell => anonWord(cell) !== undefined],
  ['country', cell => /^[A-Za-z]{2}$/.test(cell)],
  ['checked_at', cell => parseInstant(cell) !== null],
  ['works', cell => /^\d{1,3}%$/.test(cell)],
  ['ping', cell => /^[\d.]+ ?ms$/i.test(cell)],
]

/**
 * The member of each column, `null` where its content does not show it. One that the operator has
 * named by its number (`mapped`; `null` where a header names columns) has that number as its name.
 */
function kindsOf(rows: readonly Record[], width: number, mapped: Names | null): (string | null)[] {
  const kinds: (string | null)[] = []
  for (let at = 0; at < width; at++) {
    const name = columnName(at + 1)
    const isMapped = (mapped?.meaningsOf(name).length ?? 0) > 0
    const cells = rows.map(cells => cells[at] ?? '').filter(cell => cell !== '')
    const isAfterAddress = kinds.at(-1) === 'ip' || mapped?.isAddress(kinds.at(-1) ?? '') === true
    kinds.push(isMapped ? name : kindOf(cells, kinds, isAfterAddress))
  }
  return kinds
}

/** The member of a column that has these cells, which is none of those `before` it. */
function kindOf(
  cells: readonly string[],
  before: readonly (string | null)[],
  isAfterAddress: boolean,
): string | null {
  const isMostly = (matches: (cell: string) => boolean): boolean =>
    cells.length > 0 && cells.filter(matches).length >= cells.length * SAMPLE_SHARE
  const isPort = isAfterAddress && !before.includes('port')
  if (isPort && isMostly(cell => parsePort(cell) !== null)) return 'port'
  const [kind = null] = KINDS.find(([, matches]) => isMostly(matches)) ?? []
  if (kind === null || !before.includes(kind)) return kind
  return kind === 'ip' && !before.includes('ip_out') ? 'ip_out' : null
}
