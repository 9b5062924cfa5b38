/**
 * Keeps the freshest rows of each branch of an index in memory until the list changes. Most requests want these rows,
 * each with another filter. Comparing them here takes a tenth of the time that SQL takes.
 */
import { AT, type Row } from '../../proxies/row.ts'
import { type Condition, ORDERS, type Search, type Statements, selectPage } from './filter-sql.ts'

/** The maximum number of rows in memory; a row takes about 150 bytes. */
const ROWS_MAX = 131_072
/** The rows of the first read of a branch. Each later read doubles the branch. */
const PAGE_ROWS = 128
/** The maximum number of rows that one select loads, which takes a few milliseconds. */
const READ_MAX = 8_192

/** Scales a number of rows to an index. The indexes by city and port lack columns, so each row is looked up. */
const scanBudget = (index: string | null, rows: number): number =>
  /city|port/.test(index ?? '') ? Math.ceil(rows / 20) : rows

/** The first rows of a branch; `isWhole`: there are no more. */
type Branch = { rows: Row[]; isWhole: boolean }

/**
 * Creates a select among rows in memory, at most the first `branchMax` of a branch. `listVersion` changes whenever the
 * list does, `dataVersion` when another connection commits.
 */
export function createHotRows(
  { all }: Pick<Statements, 'all'>,
  listVersion: () => number,
  dataVersion: () => number,
  branchMax: number,
) {
  const branches = new Map<string, Branch>()
  let rowsHeld = 0
  let cachedListVersion = -1
  /** The data version at which the rows were read; `null` if there are none. */
  let cachedDataVersion: number | null = null
  let mayRead = 0

  function forget(): void {
    branches.clear()
    rowsHeld = 0
    cachedDataVersion = null
  }

  function branchOf(index: string, condition: Condition): Branch {
    const key = `${index} ${condition.values}`
    const known = branches.get(key)
    if (known !== undefined) return known
    const fresh = { rows: [], isWhole: false }
    if (rowsHeld < ROWS_MAX) branches.set(key, fresh)
    rowsHeld += 1 // an empty branch takes memory, too
    return fresh
  }

  /** Reads the next rows of a branch; returns false when there are none, or they may not be read now. */
  function readMore(branch: Branch, search: Search, condition: Condition): boolean {
    const { rows } = branch
    const most = scanBudget(search.index, branchMax) - rows.length
    const size = Math.min(Math.max(PAGE_ROWS, rows.length), most, mayRead, ROWS_MAX - rowsHeld)
    if (branch.isWhole || size <= 0) return false
    cachedDataVersion ??= dataVersion()
    // The version of the list is read once in a turn. Another process may have committed since then.
    if (dataVersion() !== cachedDataVersion) {
      cachedListVersion = -1
      return false
    }
    const page = all(selectPage(search, condition, rows.length, size))
    for (const row of page) rows.push(row)
    branch.isWhole = page.length < size
    rowsHeld += page.length
    mayRead -= size
    return page.length > 0
  }

  /** Returns up to `most` matches of a branch; `null` if it would have to read more rows than it may. */
  function findIn(
    search: Search,
    condition: Condition,
    matches: (row: Row) => boolean,
    most: number,
  ): Row[] | null {
    const branch = branchOf(search.index ?? '', condition)
    const { rows } = branch
    const found: Row[] = []
    for (let at = 0; at < rows.length || readMore(branch, search, condition); at += 1) {
      const row = rows[at]
      if (row === undefined || row[AT.checkedAt] < search.oldest) return found
      if (matches(row)) found.push(row)
      if (found.length === most) return found
    }
    return branch.isWhole ? found : null
  }

  /** Returns up to `most` matches, which the cache shares; `null` if they must be streamed. Call it on a snapshot. */
  return function findHot(search: Search, most: number): Row[] | null {
    if (listVersion() !== cachedListVersion) forget()
    cachedListVersion = listVersion()
    mayRead = scanBudget(search.index, READ_MAX)
    const matches = search.createMatcher()
    // Branches are in the order `checked`. In another order, the last row of a branch may be the first match.
    const mostOfEach = search.order === 'checked' ? most : Infinity
    const parts: Row[][] = []
    for (const condition of search.branches) {
      const part = findIn(search, condition, matches, mostOfEach)
      if (part === null) return null
      parts.push(part)
    }
    const [first = [], ...others] = parts
    if (others.length === 0 && search.order === 'checked') return first
    return parts.flat().sort(ORDERS[search.order].compare).slice(0, most)
  }
}
