/** The arithmetic and format of printed results: medians, figures, Markdown tables. */

/** One line of the result. `holds` is `null` without a target. */
export type Row = {
  case: string
  this: string
  that: string
  /** CPU time of the main thread a request in microseconds, of `this` and of `that`. */
  cpu?: string
  figure: string
  target: string
  holds: boolean | null
}

/** The value below which the given share of `values` lies; 1 is the largest. Sorts `values`. */
export function percentile(values: number[], share: number): number {
  values.sort((a, b) => a - b)
  const at = Math.min(values.length - 1, Math.floor(values.length * share))
  return values[at] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  const upper = sorted[half] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[half - 1] ?? Number.NaN)) / 2
}

/** A number with about three significant digits, grouped by thousands. */
export function shown(value: number): string {
  if (!Number.isFinite(value)) return '?'
  const size = Math.abs(value)
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
}

export const count = (value: number): string => value.toLocaleString('en-US')
export const megabytes = (bytes: number | null): string =>
  bytes === null ? 'unknown' : `${shown(bytes / 1e6)} MB`

export function markdown(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((name, i) =>
    Math.max(3, name.length, ...lines.map(line => line[i]?.length ?? 0)),
  )
  const row = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |\n`
  return row(head) + row(widths.map(width => '-'.repeat(width))) + lines.map(row).join('')
}

const mark = (holds: boolean | null): string => (holds === null ? '' : holds ? 'ok' : '—')

export const resultTable = (rows: readonly Row[]): string =>
  markdown(
    ['case', 'this', 'that', 'CPU a request', 'ratio or figure', 'target', 'ok'],
    rows.map(row => [
      row.case,
      row.this,
      row.that,
      row.cpu ?? '',
      row.figure,
      row.target,
      mark(row.holds),
    ]),
  )
