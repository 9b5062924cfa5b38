/** Drawing numbers for a terminal: rows of bars, and one line of columns. Pure. */
import { formatCount } from '../lib/plural.ts'

/** The widest bar, in characters. */
const WIDTH = 40
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
const COLUMNS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']

/** A bar as long as `value` is of `most`, to an eighth of a character; not empty unless it is 0. */
export function bar(value: number, most: number): string {
  if (value <= 0 || most <= 0) return ''
  const eighths = Math.max(1, Math.round((value / most) * WIDTH * 8))
  return '█'.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? '')
}

/** Numbers as columns beside each other; 0 is a space. */
export function columns(values: readonly number[]): string {
  const most = Math.max(1, ...values)
  return values
    .map(value => (value <= 0 ? ' ' : (COLUMNS[Math.ceil((value / most) * 8) - 1] ?? '')))
    .join('')
}

/** Names with numbers and bars, aligned. */
export function bars(rows: readonly (readonly [name: string, value: number])[]): string {
  const most = Math.max(0, ...rows.map(([, value]) => value))
  const nameWidth = Math.max(0, ...rows.map(([name]) => Bun.stringWidth(name)))
  const width = formatCount(most).length
  const lines = rows.map(([name, value]) => {
    const padded = name + ' '.repeat(nameWidth - Bun.stringWidth(name))
    return `  ${padded}  ${formatCount(value).padStart(width)}  ${bar(value, most)}`.trimEnd()
  })
  return lines.map(line => `${line}\n`).join('')
}
