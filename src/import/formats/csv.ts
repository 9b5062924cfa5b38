/** Owns reading tables (RFC 4180, and other delimiters): one row per record, see `table.ts`. */
import { Readable } from 'node:stream'
import Papa, { type ParseError } from 'papaparse'
import { type Chunks, RECORD_LENGTH_MAX, type Reader, type RowSink, UnusableFile } from '../sink.ts'
import { peek } from './head.ts'
import { findTable, isComment, type Table } from './table.ts'

export const readCsv: Reader = async (chunks, sink, names) => {
  const { head, all } = await peek(chunks)
  const table = findTable(head, names)
  if (table !== null) return readTable(all, table, sink)
  if (head.trim() === '') return
  throw new UnusableFile(
    'has no column ip in its CSV header, and no column of addresses; name it with --map COLUMN=ip',
  )
}

const readTable = (chunks: Chunks, table: Table, sink: RowSink): Promise<void> =>
  new Promise((resolve, reject) => {
    const records = createRecords(table, sink)
    const source = Readable.from(records.bounded(chunks))
    source.on('error', reject)
    Papa.parse<string[]>(source, {
      delimiter: table.delimiter,
      newline: '\n', // Papa would guess it for each file; a trailing CR is trimmed later
      chunk: ({ data, errors }, parser) => {
        try {
          records.take(
            data,
            errors.find(({ type }) => type === 'Quotes'),
          )
        } catch (thrown) {
          reject(thrown) // first, because abort() calls `complete`
          parser.abort()
        }
      },
      complete: () => resolve(),
      error: reject,
    })
  })

/** A line between the header and the rows, as in Markdown. */
const isRule = (cells: readonly string[]): boolean => cells.every(cell => /^[\s:=+-]*$/.test(cell))

/** Turns the records that Papa finds into rows, and counts their lines. */
function createRecords(table: Table, sink: RowSink) {
  const { columns, delimiter, hasHeader } = table
  let toSkip = table.skip
  let line = 1
  let pendingLength = 0
  /** Without quotes no cell holds a newline. */
  let hasQuotes = false
  const isNoRow = (cells: readonly string[]): boolean =>
    (delimiter === '|' && isRule(cells)) || (!hasHeader && isComment(cells))

  const fail = (message: string): never => {
    throw new UnusableFile(`line ${line}: ${message}`)
  }

  function takeRecord(cells: readonly string[]): void {
    const start = line
    line += 1
    if (hasQuotes) for (const cell of cells) line += newlinesIn(cell)
    if (cells.every(cell => cell.trim() === '')) return
    if (toSkip > 0) toSkip -= 1
    else if (!isNoRow(cells)) takeCells(start, cells, columns, sink)
  }

  return {
    /** Takes the records of a chunk, as far as an error. */
    take(records: readonly string[][], error: ParseError | undefined): void {
      if (records.length > 0) pendingLength = 0
      for (const [at, cells] of records.entries()) {
        if (at === error?.row) fail(error.message)
        takeRecord(cells)
      }
    },

    /** The same chunks. Fails when a record is too long: an open quote makes the rest one cell. */
    async *bounded(chunks: Chunks): Chunks {
      for await (const chunk of chunks) {
        if (pendingLength > RECORD_LENGTH_MAX) fail('too long')
        pendingLength += chunk.length
        hasQuotes ||= chunk.includes('"')
        yield chunk
      }
    },
  }
}

function newlinesIn(cell: string): number {
  let newlines = 0
  for (let at = cell.indexOf('\n'); at >= 0; at = cell.indexOf('\n', at + 1)) newlines += 1
  return newlines
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
