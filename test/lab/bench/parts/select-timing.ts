/**
 * Times single selects of the program in process, without a cache: each variant of a filter is
 * selected once. A script, see `runAsScript`.
 */

import { createParamsParser } from '../../../../src/api/query.ts'
import { splitQueryString } from '../../../../src/lib/query-string.ts'
import type { Filter } from '../../../../src/proxies/filter.ts'
import type { FindOptions } from '../../../../src/proxies/store.ts'
import { type List, openList } from '../../../../src/sqlite/stores.ts'
import { SELECT_CASES, type SelectCase } from '../../support/queries.ts'
import { runAsScript } from '../../support/script.ts'

export type SelectTimingInput = { data: string; loops: number }
/**
 * Times of one filter's variants in milliseconds; `rows`: the most its answers hold; `plan`: how
 * SQLite reads the rows of the statements it needed, each way once.
 */
export type SelectTiming = { name: string; timesMs: number[]; rows: number; plan: string[] }

/** The server's select, without its cache; gives the number of records. */
type Select = (filter: Filter, options: FindOptions) => number

/** Variants asked before the measurement, to warm up the code and the pages of the file. */
const WARM_UP = 5

/** The server hands slow selects to its worker; their time counts too. */
function selectOf({ proxies: { records } }: List): Select {
  return (...asked) => (records.findQuickly(...asked) ?? records.findAll(...asked)).length
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

function run({ data, loops }: SelectTimingInput): SelectTiming[] {
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

if (import.meta.main) await runAsScript(run)
