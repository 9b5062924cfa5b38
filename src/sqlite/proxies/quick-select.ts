/**
 * Quick selects: those that read a bounded part of an index, and give up where that is not
 * enough. So no request makes others wait for more than some milliseconds.
 */
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { type EndpointRow, ROW_COLUMNS } from '../../proxies/row.ts'
import type { Condition, Search } from './filter-sql.ts'
import {
  type Columns,
  fullSql,
  indexedBy,
  inOrder,
  joined,
  ORDER,
  type Reader,
  type RowOrder,
  valuesOf,
} from './reader.ts'

/** Index entries that a quick select may read in each branch: a few milliseconds. */
export const SCAN_MAX = 20_000
/** Most records of a quick select. */
export const QUICK_RECORDS_MAX = 1_000
/** Branches whose horizon is kept in memory. */
const HORIZONS_MAX = 10_000

/** The matches among the first entries of a branch, in the order of its index. */
const firstSql = (
  columns: Columns,
  index: string | null,
  branch: readonly Condition[],
  rest: readonly Condition[],
): string =>
  `select ${columns.join(', ')} from (
     select ${ROW_COLUMNS.join(', ')} from proxies ${indexedBy(index)} where ${joined(branch)}
     order by ${ORDER} limit ?
   ) where ${joined(rest)} limit ?`

/** The check time of the entry of a branch at which a quick select stops. */
const horizonSql = (index: string, branch: Condition): string =>
  `select checked_at from proxies ${indexedBy(index)} where ${branch.sql}
   order by ${ORDER} limit 1 offset ?`

/**
 * The check times at which quick selects stop: that of entry `scanMax` of each branch, cached until
 * the list changes.
 */
function createHorizons(read: Reader, scanMax: number) {
  const horizons = createBoundedMap<string, number>(HORIZONS_MAX)
  let horizonsVersion = 0

  /** A quick select can read all checks of a branch later than this, in Unix seconds. */
  return function horizonOf(index: string | null, branch: Condition, version: number): number {
    if (index === null) return -Infinity
    if (version !== horizonsVersion) horizons.clear()
    horizonsVersion = version
    const key = `${index} ${branch.values}`
    const known = horizons.get(key)
    if (known !== undefined) return known
    const values = [...branch.values, scanMax]
    const horizon = read.number(horizonSql(index, branch), values) ?? -Infinity
    horizons.set(key, horizon)
    return horizon
  }
}

/** The two ways to read branches. */
function createBranchSelects(read: Reader, scanMax: number) {
  /** Up to `most` rows of all branches, in order. */
  function selectAll<R extends EndpointRow>(
    columns: Columns,
    index: string | null,
    branches: readonly (readonly Condition[])[],
    most: number,
    order: RowOrder = 'checked',
  ): R[] {
    const values = branches.flatMap(valuesOf)
    return read.all<R>(fullSql(columns, branches, index, order), [...values, most])
  }

  /** Up to `most` matches among the first entries of a branch; `null` when there are fewer. */
  function selectFirst<R extends EndpointRow>(
    columns: Columns,
    index: string | null,
    branch: readonly Condition[],
    rest: readonly Condition[],
    most: number,
  ): R[] | null {
    const values = [...valuesOf(branch), scanMax, ...valuesOf(rest), most]
    const found = read.all<R>(firstSql(columns, index, branch, rest), values)
    return found.length === most ? found : null
  }

  return { selectAll, selectFirst }
}

/** Selects that read a bounded part of the list. */
export function createQuickSelect(read: Reader, scanMax: number) {
  const horizonOf = createHorizons(read, scanMax)
  const { selectAll, selectFirst } = createBranchSelects(read, scanMax)

  /** Up to `most` matches in the order of the index; `horizons`: of each branch. */
  function selectInOrder<R extends EndpointRow>(
    { path: { index, branches }, since, rest }: Search,
    most: number,
    columns: Columns,
    horizons: readonly number[],
  ): R[] | null {
    const oldest = Number(since.values[0])
    const horizon = Math.max(...horizons)
    const nearest = { sql: since.sql, values: [Math.max(oldest, horizon + 1)] }
    const near = branches.map(branch => [branch, nearest, ...rest])
    const found = selectAll<R>(columns, index, near, most)
    if (found.length === most || horizon < oldest) return found

    // The nearest horizon hides matches: those of its own second, and older ones of branches that
    // have fewer entries. Now each branch by itself, and as far as it may be read.
    const parts: R[] = []
    for (const [i, branch] of branches.entries()) {
      const isWhole = (horizons[i] ?? oldest) < oldest
      const part = isWhole
        ? selectAll<R>(columns, index, [[branch, since, ...rest]], most)
        : selectFirst<R>(columns, index, [branch, since], rest, most)
      if (part === null) return null
      parts.push(...part)
    }
    return parts.sort(inOrder).slice(0, most)
  }

  /** Up to `most` matches of all branches, in order; `null` if it would have to read too much. */
  return function selectQuickly<R extends EndpointRow>(
    search: Search,
    most: number,
    columns: Columns,
    version: number,
  ): R[] | null {
    const { path, since, rest, order } = search
    const { index, branches } = path
    if (branches.length === 0) return []
    const horizons = branches.map(branch => horizonOf(index, branch, version))
    if (order === 'checked') return selectInOrder<R>(search, most, columns, horizons)
    // Any row may come first: all of each branch has to be read.
    const whole = branches.map(branch => [branch, since, ...rest])
    const isNear = Math.max(...horizons) < Number(since.values[0])
    return isNear ? selectAll<R>(columns, index, whole, most, order) : null
  }
}
