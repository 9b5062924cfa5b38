/** Reads tables: CSV (RFC 4180), other delimiters, and Markdown. Rows without a header are lines of text. */
import { addressesIn } from './address.ts'
import type { Names } from './names.ts'
import { eachLine, headOf, type RawRow, type Reader, UnusableFile } from './reader.ts'
import { readTxt, rowsOfLine } from './text.ts'
import { typeOfWord } from './values.ts'

export const readCsv: Reader = async (chunks, sink, names) => {
  const { head, all } = await headOf(chunks)
  const table = findTable(head, names)
  if (table === null) {
    if (head.trim() === '' || addressesIn(head).length > 0) return readTxt(all, sink, names)
    throw new UnusableFile(
      'has no column ip in its CSV header, and no column of addresses; name it with --map COLUMN=ip',
    )
  }
  const { columns, delimiter, headerLine } = table
  const typed = columns.flatMap((name, at) => (typeOfWord(name) === undefined ? [] : [at]))
  return eachLine(all, (line, number, broken) => {
    if (number < headerLine || (number === headerLine && broken === null)) return
    if (broken !== null) return sink.bad(number, 'row', broken)
    const cells = cellsOf(line, delimiter)
    if (cells === null) return sink.bad(number, 'row', BAD_QUOTE)
    if (isBlank(cells) || (delimiter === '|' && isRule(cells))) return
    const rows = cells.length > columns.length ? onlyRowOfLine(line) : rowsOf(cells, columns, typed)
    for (const row of rows) sink.row(number, row)
    if (rows.length === 0 && !isComment(line)) sink.bad(number, 'row', wrongWidth(cells, columns))
  })
}

const BAD_QUOTE =
  'has an open quote, or one inside a value; a row is one line, and quotes in a value are doubled'

/** The cells of a line (RFC 4180) without newlines in cells; `null` for an open or stray quote. */
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

/** The cell whose quote is at `at`, and its end; `null` for an open quote. */
function quotedCell(line: string, at: number): { value: string; end: number } | null {
  let end = line.indexOf('"', at + 1)
  while (end >= 0 && line[end + 1] === '"') end = line.indexOf('"', end + 2)
  return end < 0 ? null : { value: line.slice(at + 1, end).replaceAll('""', '"'), end: end + 1 }
}

/** The row of these cells, or none if there are too few. With columns for types, a row for each address. */
function rowsOf(cells: readonly string[], columns: readonly string[], typed: readonly number[]) {
  if (cells.length !== columns.length) return []
  const row: { [column: string]: string } = Object.create(null) // `__proto__` is a name too
  for (let i = 0; i < columns.length; i++) row[columns[i] ?? ''] = cells[i] ?? ''
  if (typed.length === 0) return [row]
  const rows: RawRow[] = typed.map(at => ({ ip: cells[at], type: columns[at] }))
  const holding = rows.filter(({ ip }) => addressesIn(String(ip)).length === 1)
  return holding.length > 0 ? holding : [row]
}

/** Reads a line with too many cells as text, without its place. A line with too few may be truncated. */
function onlyRowOfLine(line: string): RawRow[] {
  if (addressesIn(line).length !== 1) return []
  return rowsOfLine(line.trim()).map(({ country, city, ...row }) => row)
}

function wrongWidth(cells: readonly string[], columns: readonly string[]): string {
  const hint =
    cells.length > columns.length ? '; a value that holds the delimiter needs quotes' : ''
  return `has ${cells.length} columns, the header has ${columns.length}${hint}`
}

type Table = {
  delimiter: string
  /** The name of each column. `''` is ignored. */
  columns: readonly string[]
  headerLine: number
}

const DELIMITERS = [',', ';', '\t', '|']
/** The lines in which the header is searched, and the rows that are compared with it. */
const HEADER_LINES = 30
const SAMPLE_ROWS = 50

const isBlank = (cells: readonly string[]): boolean => cells.every(cell => cell.trim() === '')
const isComment = (line: string): boolean => /^\s*#/.test(line)
/** Whether this is the line between the header and the rows of Markdown. */
const isRule = (cells: readonly string[]): boolean => cells.every(cell => /^[\s:=+-]*$/.test(cell))
const holdsIp = (line: string): boolean => /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])/.test(line)

/** The table at the beginning of a text; `null` without a header: the line with the most known names. */
export function findTable(head: string, names: Names): Table | null {
  const lines = head.split('\n', HEADER_LINES + SAMPLE_ROWS)
  const first = lines.findIndex(line => !isComment(line) && holdsIp(line))
  const end = Math.min(first < 0 ? lines.length : first, HEADER_LINES)
  const rows = lines.slice(end).filter(line => line.trim() !== '' && !isComment(line))
  let best: (Table & { known: number }) | null = null
  for (const delimiter of DELIMITERS) {
    for (let at = 0; at < end; at += 1) {
      const line = lines[at] ?? ''
      if (line.trim() === '' || isComment(line)) continue
      const columns = cellsOf(line, delimiter)?.map(cell => cell.trim()) ?? []
      const known = knownNames(columns, rows, delimiter, names)
      if (known > (best?.known ?? 0)) best = { delimiter, columns, headerLine: at + 1, known }
    }
  }
  if (best === null) return null
  const columns = best.columns.map(name => name.toLowerCase())
  // Of two columns with one name, the first is read.
  return { ...best, columns: columns.map((name, at) => (columns.indexOf(name) < at ? '' : name)) }
}

/** The number of cells with a known name; 0 if they are not the header of these rows. */
function knownNames(
  cells: readonly string[],
  rows: readonly string[],
  delimiter: string,
  names: Names,
): number {
  const sample = rows.slice(0, SAMPLE_ROWS).map(row => cellsOf(row, delimiter) ?? [])
  const regular = sample.filter(({ length }) => length >= cells.length)
  const hasIp = cells.some(name => names.fieldOf(name) === 'ip')
  const isRegular = regular.length * 2 >= sample.length || (hasIp && regular.length > 0)
  if (!isRegular) return 0
  const known = cells.filter(name => names.fieldOf(name) !== undefined).length
  // Words of a sentence can be names too: a single column must be `ip`.
  if (hasIp) return known + 1
  const hasAddress = regular.some(row => addressesIn(row.join(' ')).length > 0)
  if (cells.length < 2 || !hasAddress) return 0
  // A cell with a type or a port belongs to a row, whose address is broken.
  const isRow = cells.some(cell => /^\d+$/.test(cell) || typeOfWord(cell) !== undefined)
  return isRow && known < 2 ? 0 : known + 0.5
}
