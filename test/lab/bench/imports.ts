/** Owns the figures of `import`: rows a second and memory, into an empty list and again. */

import { count, megabytes, type Row, shown } from '../support/table.ts'
import type { Finished } from './command.ts'
import type { Workspace } from './workspace.ts'

const ROWS_MIN_PER_SECOND = 150_000
const PEAK_MAX_BYTES = 300e6

function rowOf(name: string, rows: number, { seconds, peakBytes }: Finished): Row {
  const perSecond = rows / seconds
  return {
    case: `import of ${count(rows)} NDJSON rows, ${name}`,
    this: `${count(Math.round(perSecond))} rows/s`,
    that: `${megabytes(peakBytes)} resident at most`,
    figure: `${shown(seconds)} s`,
    target: `≥ ${count(ROWS_MIN_PER_SECOND)} rows/s, ≤ ${shown(PEAK_MAX_BYTES / 1e6)} MB`,
    holds: perSecond >= ROWS_MIN_PER_SECOND && (peakBytes ?? 0) <= PEAK_MAX_BYTES,
  }
}

export async function imports(workspace: Workspace): Promise<Row[]> {
  const { rows } = workspace.options
  const data = workspace.emptyData('imported')
  const files = [await workspace.timedRows(), await workspace.untimedRows()]
  const lines: Row[] = []
  for (const [i, file] of files.entries()) {
    const finished = await workspace.importFile(file, data)
    const counts: { added?: number; updated?: number } = JSON.parse(finished.stdout)
    const changed = i === 0 ? counts.added : counts.updated
    if (changed !== rows) throw new Error(`of ${rows} rows, import changed ${changed}`)
    lines.push(rowOf(i === 0 ? 'into an empty list' : 'updating every row', rows, finished))
  }
  return lines
}
