/**
 * Owns reading all rows of a search page by page, where they may be a whole list. No statement stays
 * open between two pages: each continues behind the last row of the one before. Pages of one search
 * have to be read on one snapshot.
 */
import { AT, type EndpointRow } from '../../proxies/row.ts'
import type { Bound, Condition, Search } from './filter-sql.ts'
import { QUICK_RECORDS_MAX } from './quick-select.ts'
import { type Columns, fullSql, type Reader, valuesOf } from './reader.ts'

/**
 * Rows of a page: reading them takes about a millisecond. The first page shows whether there are
 * more than a quick select could have found.
 */
export const PAGE_ROWS = QUICK_RECORDS_MAX + 1

const condition = (sql: string, ...values: Bound[]): Condition => ({ sql, values })

/**
 * What comes after a row, in order. An index leads to the first row of each step, also where all
 * rows have the same check time or ping: SQLite does not seek to a row value that holds the key.
 */
const stepsAfter = (row: EndpointRow): Condition[] => [
  condition(
    'checked_at = ? and ping_ms = ? and id > ?',
    row[AT.checkedAt],
    row[AT.pingMs],
    row[AT.id],
  ),
  condition('checked_at = ? and ping_ms > ?', row[AT.checkedAt], row[AT.pingMs]),
  condition('checked_at < ?', row[AT.checkedAt]),
]

/** The index whose order is that of all matches: one branch of the path, or all rows by age. */
function inOrder({ path, all, rest }: Search): [index: string | null, conditions: Condition[]] {
  const [branch, ...others] = path.branches
  return branch !== undefined && others.length === 0
    ? [path.index, [branch, ...rest]]
    : ['proxies_by_age', [...all]]
}

/** All rows that match in order, at most `most`; each page but the last has `pageRows` of them. */
export function* readPages<R extends EndpointRow>(
  read: Reader,
  search: Search,
  columns: Columns,
  most: number | null,
  pageRows = PAGE_ROWS,
): Generator<R[]> {
  const [index, conditions] = inOrder(search)
  let remaining = most ?? Infinity
  let steps: Condition[] = [condition('true')]
  while (remaining > 0) {
    const size = Math.min(pageRows, remaining)
    let page: R[] = []
    for (const step of steps) {
      const all = [search.since, step, ...conditions]
      const values = [...valuesOf(all), size - page.length]
      const rows = read.all<R>(fullSql(columns, [all], index), values)
      page = page.length === 0 ? rows : page.concat(rows)
      if (page.length === size) break
    }
    yield page
    const last = page.at(-1)
    if (page.length < size || last === undefined) return
    remaining -= size
    steps = stepsAfter(last)
  }
}
