/**
 * Quick selects: those that read a bounded part of an index, and give up where that is not enough, so that
 * no request makes others wait for more than some milliseconds.
 *
 * The freshest rows of branches are in memory: the first ones in the order of answers, read page by page as
 * selects need them, and kept for as long as the list is unchanged. Programs ask with ever new filters for
 * what is freshest, and a thousand rows are looked at to find a hundred: that takes a tenth of the time that
 * it takes in SQL.
 */
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { AT, type EndpointRow, ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import { readPages } from './pages.ts'
import {
  COMPARE,
  type Columns,
  type Condition,
  fullSql,
  indexedBy,
  inOrder,
  joined,
  ORDER,
  type Path,
  type Reader,
  type RowOrder,
  type Search,
  valuesOf,
} from './search.ts'

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

/** Most rows in memory, of one branch and of all; a row takes about 150 bytes. */
const BRANCH_ROWS_MAX = 8_192
const ROWS_MAX = 65_536
/** Branches of which it is known how often they were selected. */
const BRANCHES_MAX = 10_000
/**
 * Selects of a branch that are left to SQL before its rows are read into memory: a page pays only
 * if it is used a few times, and a list may change all the time.
 */
const SELECTS_IN_SQL = 4
/** Pages that one select may read, about a millisecond: it must not make others wait. */
const PAGES_MAX = 2

/** The first rows of a branch. */
type Branch = { selects: number; rows: Row[]; unread: Iterator<Row[]>; isWhole: boolean }

/** The first rows of branches, at most `rowsMax` of each, all of one snapshot of the list. */
function createBranches(read: Reader, dataVersion: () => number, rowsMax: number) {
  let rowsHeld = 0
  const branches = createBoundedMap<string, Branch>(BRANCHES_MAX, ({ rows }) => {
    rowsHeld -= rows.length
  })
  /** The version of the list that the rows belong to, and SQLite's number of their snapshot. */
  let heldVersion = -1
  let snapshot: number | null = null
  let pagesLeft = 0

  function forget(version: number): void {
    branches.clear()
    heldVersion = version
    snapshot = null
  }

  /** The next page of a branch. One that fails is read again by the next select, from the start. */
  function nextPage({ unread }: Branch): IteratorResult<Row[]> {
    try {
      return unread.next()
    } catch (failure) {
      forget(-1) // the iterator has ended, and would seem to have read everything
      throw failure
    }
  }

  return {
    /** The branch that an index has for a value; `version`: of the list. */
    get(index: string, branch: Condition, version: number): Branch {
      if (version !== heldVersion) forget(version)
      const key = `${index} ${branch.values}`
      const known = branches.get(key)
      if (known !== undefined) return known
      const unread = readPages<Row>(read, wholeBranch(index, branch), ROW_COLUMNS, rowsMax)
      const fresh = { selects: 0, rows: [], unread, isWhole: false }
      branches.set(key, fresh)
      return fresh
    },

    /** Allows so many pages to be read from now on. */
    allowPages(most: number): void {
      pagesLeft = most
    },

    /** Reads the next page of a branch; returns false when nothing more can be read now. */
    readMore(branch: Branch): boolean {
      if (branch.isWhole || pagesLeft === 0 || rowsHeld >= ROWS_MAX) return false
      pagesLeft -= 1
      snapshot ??= dataVersion()
      // The version is read once in a turn: since then, another process may have changed the list.
      if (dataVersion() !== snapshot) {
        forget(-1)
        return false
      }
      const page = nextPage(branch)
      if (page.done || page.value.length === 0) {
        branch.isWhole = branch.rows.length < rowsMax
        return false
      }
      for (const row of page.value) branch.rows.push(row)
      rowsHeld += page.value.length
      return true
    },
  }
}

/** All rows of a branch. */
const wholeBranch = (index: string, branch: Condition): Search => ({
  path: { index, branches: [branch] },
  since: { sql: 'checked_at >= ?', values: [Number.MIN_SAFE_INTEGER] },
  all: [],
  rest: [],
  order: 'checked',
  createMatcher: () => () => true,
})

/** Finds matches among the freshest rows, at most the first `scanMax` of a branch. */
export function createFreshest(read: Reader, dataVersion: () => number, scanMax: number) {
  const branches = createBranches(read, dataVersion, Math.min(BRANCH_ROWS_MAX, scanMax))
  const results = new WeakSet<readonly unknown[]>()

  /** Up to `most` matches of a branch; `null` when they may lie behind the rows in memory. */
  function findIn(
    branch: Branch,
    matches: (row: Row) => boolean,
    oldest: number,
    most: number,
  ): Row[] | null {
    const { rows } = branch
    const found: Row[] = []
    for (let at = 0; at < rows.length || branches.readMore(branch); at += 1) {
      const row = rows[at]
      if (row === undefined || row[AT.checkedAt] < oldest) return found
      if (matches(row)) found.push(row)
      if (found.length === most) return found
    }
    return branch.isWhole ? found : null
  }

  /** The branches of a search, once they are selected often enough. */
  function selectedOf({ index, branches: values }: Path, version: number): Branch[] | null {
    if (index === null || values.length === 0) return null
    const selected = values.map(value => branches.get(index, value, version))
    for (const branch of selected) branch.selects += 1
    return selected.some(({ selects }) => selects <= SELECTS_IN_SQL) ? null : selected
  }

  function findInAll(search: Search, most: number, version: number): Row[] | null {
    const { path, since, order, createMatcher } = search
    const selected = selectedOf(path, version)
    if (selected === null) return null
    branches.allowPages(PAGES_MAX)
    const matches = createMatcher()
    // In another order than theirs, the last row of a branch may be the first match.
    const mostOfEach = order === 'checked' ? most : Infinity
    const parts: Row[][] = []
    for (const branch of selected) {
      const part = findIn(branch, matches, Number(since.values[0]), mostOfEach)
      if (part === null) return null
      parts.push(part)
    }
    const [first, ...others] = parts
    if (first && others.length === 0 && order === 'checked') return first
    return parts.flat().sort(COMPARE[order]).slice(0, most)
  }

  return {
    /**
     * Up to `most` matches in order; `null` if SQL has to find them. To be called on a snapshot,
     * with the `version` of the list. The rows stay in memory: a caller must not change them.
     */
    find(search: Search, most: number, version: number): Row[] | null {
      const found = findInAll(search, most, version)
      if (found !== null) results.add(found)
      return found
    },
    /** Whether it was `find` that returned these rows. */
    holds: (rows: readonly unknown[]): boolean => results.has(rows),
  }
}
