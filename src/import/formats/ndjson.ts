/** Owns NDJSON: one JSON object per line; blank lines are skipped. */
import type { Names } from '../fields/columns.ts'
import { isRecord, parseJson, type Reader } from '../sink.ts'
import { eachLine } from './lines.ts'

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
