/**
 * The freshest rows of branches in memory: the first ones in the order of answers, read page by
 * page as selects need them, and kept for as long as the list is unchanged. Programs ask with ever
 * new filters for what is freshest, and a thousand rows are looked at to find a hundred: in memory
 * that takes a tenth of the time that it takes in SQL.
 */
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { AT, ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import type { Condition, Path, Search } from './filter-sql.ts'
import { readPages } from './pages.ts'
import { COMPARE, type Reader } from './reader.ts'

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
