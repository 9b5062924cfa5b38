/** The progress report of a check, on stderr. */
import type { CheckerStatus } from '../checker/ports.ts'
import { formatCount } from '../lib/plural.ts'
import { SECOND_MS } from '../lib/time.ts'
import { say } from './command.ts'
import { createProgress } from './progress.ts'

/** The members of the lines of `--json`. */
const FIGURES = ['checked', 'alive', 'deferred', 'rate', 'coverage']
/** The interval of lines. */
const LINE_MS = 10 * SECOND_MS

/** Reports progress: a bar on a terminal, else a line every ten seconds. With `json` always lines, of JSON. */
export function createReport(json: boolean, elapsedMs: () => number) {
  const bar =
    'checked {checked}, alive {alive}, deferred {deferred}, {rate}/s, {coverage}% of the living are fresh, {megabytes} MB'
  const hasBar = process.stderr.isTTY && !json
  const progress = hasBar ? createProgress(bar, 0, elapsedMs) : null
  let saidMs = 0
  let last: CheckerStatus | null = null
  function sayLine(): void {
    if (last === null) return
    const { checked, alive, deferred } = last
    if (json) say(JSON.stringify(last, FIGURES))
    else
      say(
        `checked ${formatCount(checked)}, alive ${formatCount(alive)}, deferred ${formatCount(deferred)}`,
      )
  }
  return {
    say(sentence: string): void {
      progress?.clear()
      say(sentence)
    },
    status(status: CheckerStatus): void {
      last = status
      const { checked, alive, deferred, rate } = status
      const coverage = Math.round((status.coverage ?? 0) * 100)
      const megabytes = Math.round(status.bytes / 2 ** 20)
      progress?.update(0, { checked, alive, deferred, rate, coverage, megabytes })
      if (hasBar || elapsedMs() - saidMs < LINE_MS) return
      saidMs = elapsedMs()
      sayLine()
    },
    end(): void {
      progress?.clear()
      sayLine()
    },
  }
}
