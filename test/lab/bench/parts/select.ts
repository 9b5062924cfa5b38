/** The figures of single selects: for ROWS rows, for SMALL_ROWS rows, and their ratio. */
import { createParamsParser } from '../../../../src/api/query.ts'
import { splitQueryString } from '../../../../src/lib/query-string.ts'
import type { Filter } from '../../../../src/proxies/filter.ts'
import type { FindOptions } from '../../../../src/proxies/store.ts'
import { type List, openList } from '../../../../src/sqlite/stores.ts'
import { SELECT_CASES, type SelectCase } from '../../support/queries.ts'
import { script } from '../../support/script.ts'
import { count, markdown, median, percentile, type Row, shown } from '../../support/table.ts'
import type { Workspace } from '../workspace.ts'

/** Long enough for a thousand slow selects. */
const DEADLINE_SECONDS = 300

const P50_MAX_MS = 0.3
const P99_MAX_MS = 5
const GROWTH_MAX = 2

/**
 * Times of one filter's variants in milliseconds; `rows`: the most its answers hold; `plan`: how
 * SQLite reads the rows of the statements it needed, each way once.
 */
type SelectTiming = { name: string; timesMs: number[]; rows: number; plan: string[] }

/** The server's select, without its cache; gives the number of records. */
type Select = (filter: Filter, options: FindOptions) => number

/** Variants asked before the measurement, to warm up the code and the pages of the file. */
const WARM_UP = 5

/** The server hands slow selects to its worker; their time counts too. */
function selectOf({ proxies }: List): Select {
  return (...asked) => (proxies.findQuickly(...asked) ?? proxies.findAll(...asked)).rows.length
}

/** Records every statement that is prepared on a list from now on; gives those since the last call. */
function noteStatements({ db }: List): () => string[] {
  let noted: string[] = []
  const prepare = db.prepare.bind(db)
  db.prepare = ((sql: string) => {
    noted.push(sql)
    return prepare(sql)
  }) as typeof db.prepare // the same, and records
  return () => {
    const given = noted
    noted = []
    return given
  }
}

/** How SQLite would read: `SEARCH proxies USING COVERING INDEX …`, each line once. */
function planOf({ db }: List, statements: readonly string[]): string[] {
  const lines = statements.flatMap(sql =>
    db.query<{ detail: string }, []>(`explain query plan ${sql}`).all(),
  )
  return [...new Set(lines.map(({ detail }) => detail))]
}

function time(
  select: Select,
  { name, masked = false, query }: SelectCase,
  loops: number,
): SelectTiming {
  const parse = createParamsParser('the service')
  const timing: SelectTiming = { name, timesMs: [], rows: 0, plan: [] }
  for (let i = -WARM_UP; i < loops; i += 1) {
    const { filter } = parse(splitQueryString(query(i + WARM_UP)))
    const startMs = performance.now()
    const records = select(filter, { nowMs: Date.now(), addressBits: masked ? 16 : 32 })
    const elapsedMs = performance.now() - startMs
    if (i < 0) continue
    timing.timesMs.push(elapsedMs)
    timing.rows = Math.max(timing.rows, records)
  }
  return timing
}

/** Times single selects of the program in process, without a cache: each variant of a filter is selected once. */
function timeSelects({ data, loops }: { data: string; loops: number }): SelectTiming[] {
  const [list, planned] = [openList(data, { isServer: true }), openList(data, { isServer: true })]
  const statements = noteStatements(planned)
  try {
    return SELECT_CASES.map(one => {
      time(selectOf(planned), one, 1)
      return { ...time(selectOf(list), one, loops), plan: planOf(planned, statements()) }
    })
  } finally {
    for (const { close } of [list, planned]) close()
  }
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
  const timingsOf = (data: string): Promise<SelectTiming[]> =>
    startTiming({ data, loops: selectLoops }, DEADLINE_SECONDS).result
  const smallTimings = await timingsOf(await workspace.smallData())
  const largeTimings = await timingsOf(await workspace.program.data())
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

const startTiming = script(import.meta, timeSelects)
