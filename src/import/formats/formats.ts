/**
 * Owns the table of file formats, and recognising the format of a file. Each format has a file that
 * finds its rows; what a row means is in `row.ts`. All readers take a file in chunks,
 * so that memory does not grow with its size.
 */
import { type Chunks, type Reader, type RowSink, UnusableFile } from '../sink.ts'
import { isCsv, readCsv } from './csv.ts'
import { isJson, readJson } from './json.ts'
import { isNdjson, readNdjson } from './ndjson.ts'
import { isTxt, readTxt } from './txt.ts'

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const
export type Format = (typeof FORMATS)[number]

const READERS: { [F in Format]: Reader } = {
  txt: readTxt,
  csv: readCsv,
  json: readJson,
  ndjson: readNdjson,
}

/** Whether a file is of a format, by its beginning without leading white space. */
type Matcher = (head: string, isComplete: boolean) => boolean

/** The first that matches wins: an NDJSON file also begins like a JSON document. */
const MATCHERS: readonly (readonly [Format, Matcher])[] = [
  ['ndjson', isNdjson],
  ['json', isJson],
  ['csv', isCsv],
  ['txt', isTxt],
]

/**
 * Passes the rows of a file to `sink`, in order.
 * @throws UnusableFile when the text is not of this format.
 */
export const readRows = (format: Format, chunks: Chunks, sink: RowSink): Promise<void> =>
  READERS[format](chunks, sink)

/** How many characters of a file `detectFormat` needs. */
export const HEAD_LENGTH = 64 * 1024

/**
 * The format of a file, from its beginning (`isComplete`: which is the whole file).
 * @throws UnusableFile when no format matches.
 */
export function detectFormat(head: string, isComplete: boolean): Format {
  const start = head.trimStart()
  if (start.includes('\0')) throw new UnusableFile('is not text')
  const [format] = MATCHERS.find(([, matches]) => matches(start, isComplete)) ?? []
  if (format !== undefined) return format
  throw new UnusableFile(
    'is none of the known formats: lines of ip:port, CSV with a header, JSON or NDJSON',
  )
}
