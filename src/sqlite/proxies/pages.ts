/**
 * Reading all rows of a search page by page, where they may be a whole list. No statement stays
 * open between two pages: each continues behind the last row of the one before. Pages of one search
 * have to be read on one snapshot. A statement reads a bounded part of an index, so that others can
 * have their turn between two pages.
 */
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { AT, type EndpointRow } from '../../proxies/row.ts'
import type { Bound, Condition, Search } from './filter-sql.ts'
import { QUICK_RECORDS_MAX } from './quick-select.ts'
import {
  type Columns,
  ENDPOINT_COLUMNS,
  fullSql,
  indexedBy,
  inOrder,
  joined,
  ORDER,
  type Reader,
  valuesOf,
} from './reader.ts'

/**
 * Rows of a page: reading them takes about a millisecond. The first page shows whether there are
 * more than a quick select could have found.
 */
export const PAGE_ROWS = QUICK_RECORDS_MAX + 1

const condition = (sql: string, ...values: Bound[]): Condition => ({ sql, values })

/** A place in the order of answers: that of a row, which need not be in the list. */
type Place = EndpointRow

/**
 * The entries after a place and up to another, both `null` at the ends of the list, as steps in
 * order. An index leads to the first entry of each step, also where all rows have the same check
 * time or ping: SQLite does not seek to a row value that holds the key. `since` is the oldest check.
 */
function stepsBetween(after: Place | null, upTo: Place | null, since: number): Condition[] {
  if (after && upTo && after[AT.checkedAt] === upTo[AT.checkedAt]) return stepsAtOne(after, upTo)
  const oldest = upTo ? Math.max(since, upTo[AT.checkedAt] + 1) : since
  const steps = after ? stepsAfter(after, oldest) : [condition('checked_at >= ?', oldest)]
  return upTo && upTo[AT.checkedAt] >= since ? [...steps, ...stepsUpTo(upTo)] : steps
}

const SAME_PING = 'checked_at = ? and ping_ms = ?'

/** The entries after a place. */
const stepsAfter = ([id, check, ping]: Place, oldest: number): Condition[] => [
  condition(`${SAME_PING} and id > ?`, check, ping, id),
  condition('checked_at = ? and ping_ms > ?', check, ping),
  condition('checked_at >= ? and checked_at < ?', oldest, check),
]

/** The entries with the check time of a place, up to it. */
const stepsUpTo = ([id, check, ping]: Place): Condition[] => [
  condition('checked_at = ? and ping_ms < ?', check, ping),
  condition(`${SAME_PING} and id <= ?`, check, ping, id),
]

/** The entries between two places of the same check time. */
function stepsAtOne([id, check, ping]: Place, [lastId, , lastPing]: Place): Condition[] {
  if (ping === lastPing) {
    return [condition(`${SAME_PING} and id > ? and id <= ?`, check, ping, id, lastId)]
  }
  return [
    condition(`${SAME_PING} and id > ?`, check, ping, id),
    condition('checked_at = ? and ping_ms > ? and ping_ms < ?', check, ping, lastPing),
    condition(`${SAME_PING} and id <= ?`, check, lastPing, lastId),
  ]
}

/** The entries of an index among which all matches are, in order, and what else they must match. */
type Entries = { index: string | null; branch: readonly Condition[]; rest: readonly Condition[] }

/** The index whose order is that of all matches: one branch of the path, or all rows by age. */
function entriesOf({ path, all, rest }: Search): Entries {
  const [branch, ...others] = path.branches
  return branch !== undefined && others.length === 0
    ? { index: path.index, branch: [branch], rest }
    : { index: 'proxies_by_age', branch: [], rest: all }
}

/** Entries of an index between two marks: reading them takes a millisecond or two. */
const MARK_ENTRIES = 30_000
/** Branches whose marks are in memory. */
const MARKED_MAX = 1_000

/** The entry of an index after so many others. */
const entrySql = (index: string | null, conditions: readonly Condition[]): string =>
  `select ${ENDPOINT_COLUMNS.join(', ')} from proxies ${indexedBy(index)}
   where ${joined(conditions)} order by ${ORDER} limit 1 offset ?`

/** Marks of a branch in order; `isWhole`: there are no more. */
type Marks = { marks: Place[]; isWhole: boolean }

/** Where to stop reading entries of a branch that comes after a place; `null`: at the end. */
export type NextMark = (entries: Entries, after: Place | null) => Place | null

/**
 * Marks in indexes: entries some ten thousand apart, found when they are needed and kept while the
 * list is unchanged. One that is not in the list any more does no harm.
 */
export function createMarks(
  read: Reader,
  dataVersion: () => number,
  markEntries = MARK_ENTRIES,
): NextMark {
  const marked = createBoundedMap<string, Marks>(MARKED_MAX)
  let markedVersion: number | null = null

  /** The entry of a branch that is about `markEntries` after a place. */
  function find({ index, branch }: Entries, after: Place | null): Place | null {
    for (const step of stepsBetween(after, null, Number.MIN_SAFE_INTEGER)) {
      const all = [step, ...branch]
      const values = [...valuesOf(all), markEntries - 1]
      const [entry] = read.all<EndpointRow>(entrySql(index, all), values)
      if (entry !== undefined) return entry
    }
    return null
  }

  /** The marks of a branch, as far as they are known. */
  function marksOf({ index, branch }: Entries): Marks {
    const version = dataVersion()
    if (version !== markedVersion) marked.clear()
    markedVersion = version
    const key = `${index} ${valuesOf(branch)}`
    const known = marked.get(key) ?? { marks: [], isWhole: false }
    marked.set(key, known)
    return known
  }

  return (entries, after) => {
    if (entries.index === null) return null // leads to few rows
    const known = marksOf(entries)
    const { marks } = known
    const isAfter = (mark: Place): boolean => after === null || inOrder(after, mark) < 0
    let mark = marks.find(isAfter) ?? null
    while (mark === null && !known.isWhole) {
      const next = find(entries, marks.at(-1) ?? null)
      if (next === null) known.isWhole = true
      else marks.push(next)
      if (next !== null && isAfter(next)) mark = next
    }
    return mark
  }
}

/**
 * All rows that match in order, at most `most`, in pages of at most `pageRows`. With `nextMark` a
 * page may have fewer rows, or none: reading it stops at the next mark, if it has to look for rows.
 */
export function* readPages<R extends EndpointRow>(
  read: Reader,
  search: Search,
  columns: Columns,
  most: number | null,
  { pageRows = PAGE_ROWS, nextMark }: { pageRows?: number; nextMark?: NextMark } = {},
): Generator<R[]> {
  const entries = entriesOf(search)
  const { index, branch, rest } = entries
  const since = Number(search.since.values[0])
  const stopAt = rest.length > 0 ? nextMark : undefined // else every entry is a match

  /** Up to `size` matches of these steps. */
  function readSteps(steps: readonly Condition[], size: number): R[] {
    let page: R[] = []
    for (const step of steps) {
      const all = [step, ...branch, ...rest]
      const values = [...valuesOf(all), size - page.length]
      const rows = read.all<R>(fullSql(columns, [all], index), values)
      page = page.length === 0 ? rows : page.concat(rows)
      if (page.length === size) break
    }
    return page
  }

  let remaining = most ?? Infinity
  let after: Place | null = null
  while (remaining > 0) {
    const size = Math.min(pageRows, remaining)
    const mark: Place | null = stopAt?.(entries, after) ?? null
    const page = readSteps(stepsBetween(after, mark, since), size)
    yield page
    remaining -= page.length
    after = page.length === size ? (page.at(-1) ?? null) : mark
    if (after === null || after[AT.checkedAt] < since) return
  }
}
