/**
 * Times single selects of the program in process, nothing cached: each variant of a filter is
 * asked once. A script, see `runAsScript`.
 */
import { openList } from '../../src/app.ts'
import type { Filter } from '../../src/proxy.ts'
import { createQueryParser, splitQuery } from '../../src/query.ts'
import { runAsScript } from './processes.ts'
import { SELECT_CASES, type SelectCase } from './queries.ts'

export type SelectTimingInput = { data: string; loops: number }
/** Times of one filter's variants in milliseconds; `rows`: the most its answers hold. */
export type SelectTiming = { name: string; timesMs: number[]; rows: number }

/** The uncached select, whether or not it answers at once. */
type Select = (filter: Filter, masked: boolean, nowMs: number) => unknown

/** Variants asked before the measurement, to warm up the code and the pages of the file. */
const WARM_UP = 5

const lengthOf = (answer: unknown): number => (Array.isArray(answer) ? answer.length : Number.NaN)

async function time(select: Select, { name, masked = false, query }: SelectCase, loops: number) {
  const parse = createQueryParser('the service')
  const timing: SelectTiming = { name, timesMs: [], rows: 0 }
  for (let i = -WARM_UP; i < loops; i += 1) {
    const { filter } = parse(splitQuery(query(i + WARM_UP)))
    const startMs = performance.now()
    const given = select(filter, masked, Date.now())
    const answer = given instanceof Promise ? await given : given
    const elapsedMs = performance.now() - startMs
    if (i < 0) continue
    timing.timesMs.push(elapsedMs)
    timing.rows = Math.max(timing.rows, lengthOf(answer))
  }
  return timing
}

async function run({ data, loops }: SelectTimingInput): Promise<SelectTiming[]> {
  const list = await openList(data, true)
  try {
    const timings: SelectTiming[] = []
    for (const one of SELECT_CASES) timings.push(await time(list.proxies.select, one, loops))
    return timings
  } finally {
    list.close()
  }
}

if (import.meta.main) await runAsScript(run)
