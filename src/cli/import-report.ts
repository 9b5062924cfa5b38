/** The report of an import: progress, bad rows, and at the end the missing rows. */
import type { ImportObserver, Totals } from '../import/import.ts'
import { isShowable } from '../import/names.ts'
import { stopwatch } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import { say } from './command.ts'
import { createProgress } from './progress.ts'

/** Rejected rows, and ignored fields, that are reported one by one; the rest is counted. */
const NAMED_MAX = 20
/** Rows between two updates of the progress bar. */
const PROGRESS_STEP = 4096

/** Names of fields in one line. */
function listed(fields: readonly string[]): string {
  const shown = fields.filter(isShowable).slice(0, NAMED_MAX)
  const rest = fields.length - shown.length
  return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join(', ')
}

/** Reports to the operator. `close` reports missing rows and unread values. */
export function createObserver(totalBytes: number, hasLines: boolean, elapsedMs = stopwatch()) {
  const count = totalBytes > 0 ? '[{bar}] {percentage}% | {rows} rows' : '{rows} rows'
  let saidMs = 0
  const progress = createProgress(`importing ${count}`, totalBytes, elapsedMs)
  const tell = (sentence: string): void => {
    progress.clear()
    say(sentence)
  }
  let rejected = 0
  return {
    say: tell,
    progress(rows, bytes) {
      if (rows % PROGRESS_STEP !== 0) return
      progress.update(bytes, { rows })
      if (!hasLines || elapsedMs() - saidMs < SECOND_MS) return
      saidMs = elapsedMs()
      say(`read ${bytes} bytes`)
    },
    rejected(file, line, field, reason) {
      rejected += 1
      if (rejected <= NAMED_MAX) tell(`${file}:${line}: ${field} ${reason}`)
    },
    empty: file => tell(`${file}: note: no row was found`),
    close(totals?: Totals) {
      progress.clear()
      if (rejected > NAMED_MAX) say(`… and ${rejected - NAMED_MAX} more rejected rows`)
      const { notes: read = [], ignored = [] } = totals ?? {}
      const notes = [...read]
      if (ignored.length > 0) notes.push(`fields that are not read: ${listed(ignored)}`)
      for (const note of notes.slice(0, NAMED_MAX)) say(`note: ${note}`)
      if (notes.length > NAMED_MAX) say(`… and ${notes.length - NAMED_MAX} more notes`)
      const isNamed = rejected <= NAMED_MAX && (totals?.skipped ?? 0) === 0
      if (totals?.missing && !isNamed) say(totals.missing)
    },
  } satisfies ImportObserver & { [member: string]: unknown }
}
