/** Owns the plain format: `ip:port` or `type://ip:port`, one per line; `#` starts a comment. */
import { parseAddress } from '../../proxies/proxy.ts'
import type { RawRow } from '../row.ts'
import type { Reader } from '../sink.ts'
import { eachLine } from './lines.ts'

export const readTxt: Reader = (chunks, sink) =>
  eachLine(chunks, (line, number) => {
    const row = lineToRow(line)
    if (row) sink.row(number, row)
  })

/** The row of a line; `null` for a blank line or a comment. */
function lineToRow(line: string): RawRow | null {
  const entry = line.replace(/#.*/s, '').trim()
  if (entry === '') return null
  const [, type, ip = ''] = /^(?:([^:/]*):\/\/)?(.*?)\/?$/s.exec(entry) ?? []
  return type === undefined ? { ip } : { type, ip }
}

/** Whether some line holds an address, or all lines are blank or comments. */
export function isTxt(head: string, isComplete: boolean): boolean {
  const lines = head.split('\n')
  const rows = (isComplete ? lines : lines.slice(0, -1)).map(lineToRow).filter(row => row !== null)
  return rows.length === 0 || rows.some(({ ip }) => parseAddress(String(ip)) !== null)
}
