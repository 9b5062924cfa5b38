/** Owns CSV (RFC 4180): a header of member names, then one row per record. */
import { Readable } from 'node:stream'
import Papa, { type ParseError } from 'papaparse'
import { type Chunks, RECORD_LENGTH_MAX, type Reader, type RowSink, UnusableFile } from '../sink.ts'

/** Fixed, because Papa would guess them for each file. A trailing CR is trimmed later. */
const SYNTAX = { delimiter: ',', newline: '\n' } as const

/** The member of each column. */
const columnsOf = (cells: readonly string[]): string[] =>
  cells.map(cell => cell.trim().toLowerCase())

/** Whether the first line is a header with a column `ip`. */
export function isCsv(head: string): boolean {
  const firstLine = head.split('\n', 1)[0] ?? ''
  const [cells = []] = Papa.parse<string[]>(firstLine, SYNTAX).data
  return columnsOf(cells).includes('ip')
}

export const readCsv: Reader = (chunks, sink) =>
  new Promise((resolve, reject) => {
    const records = createRecords(sink)
    const source = Readable.from(records.bounded(chunks))
    source.on('error', reject)
    Papa.parse<string[]>(source, {
      ...SYNTAX,
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

/** Turns the records that Papa finds into rows, and counts their lines. */
function createRecords(sink: RowSink) {
  let columns: readonly string[] | null = null
  let line = 1
  let pendingLength = 0
  /** Without quotes no cell holds a newline. */
  let hasQuotes = false

  const fail = (message: string): never => {
    throw new UnusableFile(`line ${line}: ${message}`)
  }

  function takeRecord(cells: readonly string[]): void {
    const start = line
    line += 1
    if (hasQuotes) for (const cell of cells) line += newlinesIn(cell)
    if (cells.every(cell => cell.trim() === '')) return
    if (columns !== null) return takeCells(start, cells, columns, sink)
    columns = columnsOf(cells)
    if (!columns.includes('ip')) throw new UnusableFile('has no column ip in its CSV header')
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
    return sink.bad(line, 'row', `has ${cells.length} columns, the header has ${columns.length}`)
  }
  const row: { [column: string]: string } = Object.create(null) // `__proto__` is a name too
  for (let i = 0; i < columns.length; i++) row[columns[i] ?? ''] = cells[i] ?? ''
  sink.row(line, row)
}
