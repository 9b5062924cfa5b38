/** The figures of single selects: for ROWS rows, for SMALL_ROWS rows, and their ratio. */

import { startScript } from '../../support/script.ts'
import { count, markdown, median, percentile, type Row, shown } from '../../support/table.ts'
import type { Workspace } from '../workspace.ts'
import type { SelectTiming, SelectTimingInput } from './select-timing.ts'

/** Long enough for a thousand slow selects. */
const DEADLINE_SECONDS = 300

const P50_MAX_MS = 0.3
const P99_MAX_MS = 5
const GROWTH_MAX = 2

function timingsOf(data: string, loops: number): Promise<SelectTiming[]> {
  const input: SelectTimingInput = { data, loops }
  return startScript<SelectTiming[]>('bench/parts/select-timing.ts', input, DEADLINE_SECONDS).result
}

/** A filter at both sizes. */
type Pair = { large: SelectTiming; small: SelectTiming }

const growthOf = ({ large, small }: Pair): number =>
  percentile(large.timesMs, 0.5) / percentile(small.timesMs, 0.5)
/** Only answers of the same size can be compared. */
const isComparable = ({ large, small }: Pair): boolean =>
  large.rows === small.rows || Number.isNaN(large.rows)

function detail(pairs: readonly Pair[], rows: number, smallRows: number): string {
  const ms = (timing: SelectTiming, share: number) => shown(percentile(timing.timesMs, share))
  const head = ['filter', 'records']
  for (const size of [rows, smallRows]) head.push(`${count(size)}: p50 ms`, 'p99 ms')
  const lines = pairs.map(pair => [
    pair.large.name,
    String(pair.large.rows),
    ...[pair.large, pair.small].flatMap(timing => [ms(timing, 0.5), ms(timing, 0.99)]),
    isComparable(pair) ? `${shown(growthOf(pair))} ×` : `(${pair.small.rows} records)`,
  ])
  const plans = pairs.map(({ large }) => [large.name, large.plan.join('; ') || 'as above'])
  return `${markdown([...head, 'growth'], lines)}\n${markdown(['filter', 'query plan'], plans)}`
}

/** One select, nothing cached; `print` is given the table of the single filters. */
export async function select(workspace: Workspace, print: (text: string) => void): Promise<Row[]> {
  const { rows, smallRows, selectLoops } = workspace.options
  const smallTimings = await timingsOf(await workspace.smallData(), selectLoops)
  const largeTimings = await timingsOf(await workspace.program.data(), selectLoops)
  const pairs = largeTimings.flatMap((large, i) => {
    const small = smallTimings[i]
    return small ? [{ large, small }] : []
  })
  print(detail(pairs, rows, smallRows))
  const all = largeTimings.flatMap(({ timesMs }) => timesMs)
  const [p50, p99] = [percentile(all, 0.5), percentile(all, 0.99)]
  const growths = pairs.filter(isComparable).map(growthOf)
  const worst = Math.max(...growths)
  return [
    {
      case: `one select, nothing cached, ${count(rows)} rows`,
      this: `p50 ${shown(p50)} ms, p99 ${shown(p99)} ms`,
      that: '',
      figure: `${count(all.length)} selects`,
      target: `p50 ≤ ${P50_MAX_MS} ms, p99 ≤ ${P99_MAX_MS} ms`,
      holds: p50 <= P50_MAX_MS && p99 <= P99_MAX_MS,
    },
    {
      case: `cost growth, ${count(smallRows)} → ${count(rows)} rows`,
      this: `median of ${growths.length} filters`,
      that: `worst filter ${shown(worst)} ×`,
      figure: `${shown(median(growths))} ×`,
      target: `≤ ${GROWTH_MAX} ×`,
      holds: worst <= GROWTH_MAX,
    },
  ]
}
