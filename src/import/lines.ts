/** The formats of one proxy a line: TXT, where `#` starts a comment, and NDJSON. */
import type { Names } from './columns.ts'
import { eachLine, parseJson, type Reader } from './reader.ts'
import { entryToRow, hasAddress, isRecord } from './row.ts'

const entryOf = (line: string): string => line.replace(/#.*/s, '').trim()

export const readTxt: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    const entry = entryOf(line)
    if (entry !== '') sink.row(number, entryToRow(entry))
  })

/** Whether some line holds an address, or all lines are blank or comments. */
export function isTxt(head: string, isComplete: boolean): boolean {
  const lines = head.split('\n')
  const entries = (isComplete ? lines : lines.slice(0, -1))
    .map(entryOf)
    .filter(entry => entry !== '')
  return entries.length === 0 || entries.some(hasAddress)
}

export const readNdjson: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    if (line.trim() === '') return
    const row = parseJson(line)
    if (isRecord(row)) sink.row(number, row)
    else sink.bad(number, 'row', 'is not a JSON object')
  })

/**
 * Whether the text starts with an object, and most lines, or the first, are complete records. One
 * line may also be a record within a document of many lines.
 */
export function isNdjson(head: string, _isComplete: boolean, names: Names): boolean {
  if (!head.startsWith('{')) return false
  const lines = head.split('\n').filter(line => line.trim() !== '')
  const records = lines.map(parseJson).filter(isRecord)
  const hasRecord = records.some(record => Object.keys(record).some(names.isAddress))
  const isLineByLine = lines[0]?.trim().endsWith('}') || records.length * 2 >= lines.length
  if (hasRecord && isLineByLine) return true
  return /^\{\s*"(?:ip|type)".*\}/.test(lines[0] ?? '')
}
