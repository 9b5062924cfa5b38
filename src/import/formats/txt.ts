/** Owns the plain format: one proxy a line, see `entry.ts`; `#` starts a comment. */
import { entryToRow, hasAddress } from '../fields/entry.ts'
import type { RawRow } from '../fields/values.ts'
import type { Reader } from '../sink.ts'
import { eachLine } from './lines.ts'

export const readTxt: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    const row = lineToRow(line)
    if (row) sink.row(number, row)
  })

const entryOf = (line: string): string => line.replace(/#.*/s, '').trim()

/** The row of a line; `null` for a blank line or a comment. */
function lineToRow(line: string): RawRow | null {
  const entry = entryOf(line)
  return entry === '' ? null : entryToRow(entry)
}

/** Whether some line holds an address, or all lines are blank or comments. */
export function isTxt(head: string, isComplete: boolean): boolean {
  const lines = head.split('\n')
  const entries = (isComplete ? lines : lines.slice(0, -1))
    .map(entryOf)
    .filter(entry => entry !== '')
  return entries.length === 0 || entries.some(hasAddress)
}
