/**
 * Owns how the rows of a file are found: plain lines, NDJSON, CSV, and telling them apart.
 * JSON documents are in `json.ts`; what a row means is in `row.ts`. Reads text piece by piece, so
 * that memory does not grow with the file.
 */
import { Readable } from 'node:stream'
import Papa from 'papaparse'
import { parseAddress } from '../../proxies/proxy.ts'
import type { RawRow } from '../row.ts'
import { isRecord, parseJson, RECORD_LENGTH_MAX, type RowSink, UnusableFile } from '../sink.ts'
import { readJson } from './json.ts'

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

type Text = AsyncIterable<string>
type Reader = (text: Text, sink: RowSink) => Promise<void>

/** Calls `take` with every line and its number; the last one may lack its newline. */
async function eachLine(text: Text, take: (line: string, number: number) => void): Promise<void> {
  let rest = ''
  let number = 0
  for await (const piece of text) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line, ++number)
    if (rest.length > RECORD_LENGTH_MAX) throw new UnusableFile(`line ${number + 1} is too long`)
  }
  if (rest !== '') take(rest, ++number)
}

/** `ip:port` or `type://ip:port`, one a line; `#` starts a comment. */
const readTxt: Reader = (text, sink) =>
  eachLine(text, (line, number) => {
    const row = lineToRow(line)
    if (row) sink.row(number, row)
  })

function lineToRow(line: string): RawRow | null {
  const entry = line.replace(/#.*/s, '').trim()
  if (entry === '') return null
  const [, type, ip = ''] = /^(?:([^:/]*):\/\/)?(.*?)\/?$/s.exec(entry) ?? []
  return type === undefined ? { ip } : { type, ip }
}

/** One JSON object a line. */
const readNdjson: Reader = (text, sink) =>
  eachLine(text, (line, number) => {
    if (line.trim() === '') return
    const row = parseJson(line)
    if (isRecord(row)) sink.row(number, row)
    else sink.bad(number, 'row', 'is not a JSON object')
  })

const headerOf = (cells: readonly string[]): string[] =>
  cells.map(cell => cell.trim().toLowerCase())

/** Fixed, because Papa would guess them anew for every file. A trailing CR is trimmed later. */
const CSV = { delimiter: ',', newline: '\n' } as const

/** A header of member names, then one row a record (RFC 4180). */
const readCsv: Reader = (text, sink) =>
  new Promise((resolve, reject) => {
    let header: string[] | null = null
    let line = 1
    let pending = 0
    const take = (cells: string[]): void => {
      const start = line
      pending = 0
      line += cells.reduce((lines, cell) => lines + cell.split('\n').length - 1, 1)
      if (cells.every(cell => cell.trim() === '')) return
      if (header !== null) return takeCells(start, cells, header, sink)
      header = headerOf(cells)
      if (!header.includes('ip')) throw new UnusableFile('has no column ip in its CSV header')
    }
    /** An open quote makes the rest of the file one cell: gives up before it fills the memory. */
    async function* bounded(): AsyncIterable<string> {
      for await (const piece of text) {
        if (pending > RECORD_LENGTH_MAX) throw new UnusableFile(`line ${line}: too long`)
        pending += piece.length
        yield piece
      }
    }
    const source = Readable.from(bounded())
    source.on('error', reject)
    Papa.parse<string[]>(source, {
      ...CSV,
      step: ({ data, errors: [error] }, parser) => {
        try {
          if (error?.type === 'Quotes') throw new UnusableFile(`line ${line}: ${error.message}`)
          take(data)
        } catch (thrown) {
          reject(thrown) // first: abort() completes at once
          parser.abort()
        }
      },
      complete: () => resolve(),
      error: reject,
    })
  })

function takeCells(line: number, cells: string[], header: string[], sink: RowSink): void {
  if (cells.length !== header.length) {
    return sink.bad(line, 'row', `has ${cells.length} columns, the header has ${header.length}`)
  }
  sink.row(line, Object.fromEntries(header.map((name, i) => [name, cells[i]])))
}

const READERS: { [F in Format]: Reader } = {
  txt: readTxt,
  csv: readCsv,
  json: readJson,
  ndjson: readNdjson,
}

/**
 * Finds the rows of a text in order.
 * @throws UnusableFile when the text is not of this format at all.
 */
export const readRows = (format: Format, ...rest: Parameters<Reader>): Promise<void> =>
  READERS[format](...rest)

/** How much of a file `detectFormat` wants to see. */
export const HEAD_LENGTH = 64 * 1024

/**
 * The format of a file, from its beginning (`isWhole`: there is no more than this).
 * @throws UnusableFile when it is none of them.
 */
export function detectFormat(head: string, isWhole: boolean): Format {
  const start = head.trimStart()
  if (start.includes('\0')) throw new UnusableFile('is not text')
  if (start.startsWith('[')) return 'json'
  const firstLine = start.split('\n', 1)[0] ?? ''
  if (start.startsWith('{')) return isNdjson(start) ? 'ndjson' : 'json'
  const [cells = []] = Papa.parse<string[]>(firstLine, CSV).data
  if (headerOf(cells).includes('ip')) return 'csv'
  if (hasAddresses(head, isWhole)) return 'txt'
  throw new UnusableFile(
    'is none of the known formats: lines of ip:port, CSV with a header, JSON or NDJSON',
  )
}

/** Whether some line of a text that begins an object holds a whole record by itself. */
function isNdjson(head: string): boolean {
  const lines = head.split('\n').filter(line => line.trim() !== '')
  const records = lines.map(parseJson).filter(isRecord)
  if (records.some(record => Object.hasOwn(record, 'ip'))) return true
  return /^\{\s*"(?:ip|type)".*\}/.test(lines[0] ?? '')
}

/** Whether a text has an address on some line, or nothing but comments. */
function hasAddresses(head: string, isWhole: boolean): boolean {
  const lines = head.split('\n')
  const rows = (isWhole ? lines : lines.slice(0, -1)).map(lineToRow).filter(row => row !== null)
  return rows.length === 0 || rows.some(({ ip }) => parseAddress(String(ip)) !== null)
}
