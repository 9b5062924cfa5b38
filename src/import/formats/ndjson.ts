/** Owns NDJSON: one JSON object per line; blank lines are skipped. */
import { isRecord, parseJson, type Reader } from '../sink.ts'
import { eachLine } from './lines.ts'

export const readNdjson: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    if (line.trim() === '') return
    const row = parseJson(line)
    if (isRecord(row)) sink.row(number, row)
    else sink.bad(number, 'row', 'is not a JSON object')
  })

/** Whether the text starts with an object, and some line is a complete record. */
export function isNdjson(head: string): boolean {
  if (!head.startsWith('{')) return false
  const lines = head.split('\n').filter(line => line.trim() !== '')
  const records = lines.map(parseJson).filter(isRecord)
  if (records.some(record => Object.hasOwn(record, 'ip'))) return true
  return /^\{\s*"(?:ip|type)".*\}/.test(lines[0] ?? '')
}
