/**
 * Owns selecting from the list: statements, quick and slow ways to an answer, and its order.
 * What a filter asks of SQLite is in `filter.ts`.
 */
import type { Database, Statement } from 'bun:sqlite'
import { maskIp } from '../../lib/ip.ts'
import { createLru } from '../../lib/lru.ts'
import type { Filter, Proxy } from '../../proxies/proxy.ts'
import { createCities } from './cities.ts'
import { BRIEF_COLUMNS, fromRow, ROW_COLUMNS, type Row } from './row.ts'
import { type Bound, type Condition, type Search, searchOf } from './where.ts'

/** Prepared statements kept; each takes about 11 KB. */
const STATEMENTS_MAX = 500
/** Index entries a quick select may look at in each branch: a few milliseconds. */
export const SCAN_MAX = 20_000
/** Most records of a quick select. */
export const QUICK_RECORDS_MAX = 1_000

/** How much of the proxies is asked for: everything, or what bare addresses need. */
export type Detail = 'all' | 'address'
const COLUMNS = { all: ROW_COLUMNS, address: BRIEF_COLUMNS }
type Columns = (typeof COLUMNS)[Detail]

const ORDER = 'checked_at desc, ping_ms, id'
/** What every index but the narrow ones holds, and so what conditions look at. */
const JUDGED = ROW_COLUMNS.filter(column => column !== 'ip_out').join(', ')

const joined = (conditions: readonly Condition[]): string =>
  conditions.map(({ sql }) => sql).join(' and ') || 'true'
const valuesOf = (conditions: readonly Condition[]): Bound[] =>
  conditions.flatMap(({ values }) => values)
const using = (index: string | null): string => (index === null ? '' : `indexed by ${index}`)

/** Every row that matches, in order. */
const fullSql = (
  columns: Columns,
  conditions: readonly Condition[],
  index: string | null = null,
): string =>
  `select ${columns.join(', ')} from proxies ${using(index)} where ${joined(conditions)}
   order by ${ORDER} limit ?`

/** Those that match among the first entries of a branch; its order is the index's. */
const firstSql = (
  columns: Columns,
  index: string | null,
  branch: readonly Condition[],
  rest: readonly Condition[],
): string =>
  `select ${columns.map(column => `p.${column}`).join(', ')} from (
     select id from (
       select ${JUDGED} from proxies ${using(index)} where ${joined(branch)}
       order by ${ORDER} limit ?
     ) where ${joined(rest)} limit ?
   ) found cross join proxies p on p.id = found.id`

/** The check of the entry of a branch at which a quick select stops. */
const horizonSql = (index: string, branch: Condition): string =>
  `select checked_at from proxies ${using(index)} where ${branch.sql}
   order by ${ORDER} limit 1 offset ?`

const inOrder = (a: Proxy, b: Proxy): number =>
  b.checkedAt - a.checkedAt || (a.pingMs ?? Infinity) - (b.pingMs ?? Infinity) || byAddress(a, b)
const byAddress = (a: Proxy, b: Proxy): number => {
  const octets = (ip: string) => ip.split('.').map(Number)
  const [left, right] = [octets(a.ip), octets(b.ip)]
  const differing = left.findIndex((octet, i) => octet !== right[i])
  return differing < 0 ? a.port - b.port : (left[differing] ?? 0) - (right[differing] ?? 0)
}

/** Up to `count` proxies of which no two share a masked address: the first of each. */
function firstOfEach(proxies: Iterable<Proxy>, count: number | null): Proxy[] {
  const first = new Map<string, Proxy>()
  for (const proxy of proxies) {
    const shown = `${maskIp(proxy.ip)}:${proxy.port}`
    if (!first.has(shown)) first.set(shown, proxy)
    if (first.size === count) break
  }
  return [...first.values()]
}

/** Reads rows, with one prepared statement for each combination of filters present. */
function createReader(db: Database) {
  const statements = createLru<string, Statement<Row, Bound[]>>(STATEMENTS_MAX, {
    dropped: statement => statement.finalize(),
  })
  const cities = createCities(db)

  function prepared(sql: string): Statement<Row, Bound[]> {
    const known = statements.get(sql)
    if (known) return known
    const statement = db.prepare<Row, Bound[]>(sql)
    statements.set(sql, statement)
    return statement
  }
  const toProxy = (row: Row): Proxy => fromRow(row, cities.nameOf)

  return {
    /** What a filter asks of SQLite. */
    search(filter: Filter, masked: boolean, nowMs: number): Search {
      if (filter.cities.length > 0) cities.refresh()
      return searchOf(filter, masked, cities.idsMatching(filter.cities, filter.lang), nowMs)
    },
    all: (sql: string, values: readonly Bound[]): Proxy[] =>
      (prepared(sql).values(...values) as Row[]).map(toProxy), // values() is untyped
    /** The first number of the first row. */
    number: (sql: string, values: readonly Bound[]): number | undefined =>
      (prepared(sql).values(...values) as number[][])[0]?.[0],
    /** Rows one by one; a statement of its own, because others select meanwhile. */
    *each(sql: string, values: readonly Bound[]): Generator<Proxy> {
      const statement = db.prepare<Row, Bound[]>(sql)
      try {
        for (const row of statement.iterate(...values)) {
          yield toProxy(Object.values(row) as Row) // iterate() gives objects in column order
        }
      } finally {
        statement.finalize()
      }
    },
  }
}
type Reader = ReturnType<typeof createReader>

/** The list's version, and the columns that are wanted. */
type Quick = { version: number; columns: Columns }

/** Selects that look at a bounded part of the list. */
function createQuickSelect(read: Reader, scanMax: number) {
  const horizons = new Map<string, number>()
  let horizonsVersion = 0

  /** Checks of this second and before lie beyond what a quick select of a branch looks at. */
  function horizonOf(index: string | null, branch: Condition, version: number): number {
    if (index === null) return -Infinity
    if (version !== horizonsVersion) horizons.clear()
    horizonsVersion = version
    const key = `${index} ${branch.values}`
    const horizon =
      horizons.get(key) ??
      read.number(horizonSql(index, branch), [...branch.values, scanMax]) ??
      -Infinity
    horizons.set(key, horizon)
    return horizon
  }

  /** Up to `most` matches of a branch, or `null` when it would have to look too far. */
  function selectBranch(
    { path, since, rest }: Search,
    branch: Condition,
    most: number,
    { columns, version }: Quick,
  ): Proxy[] | null {
    const oldest = Number(since.values[0])
    const horizon = horizonOf(path.index, branch, version)
    const nearest = { sql: since.sql, values: [Math.max(oldest, horizon + 1)] }
    const near = [branch, nearest, ...rest]
    const found = read.all(fullSql(columns, near, path.index), [...valuesOf(near), most])
    if (found.length === most || horizon < oldest) return found
    // Many rows may have been checked in the very second of the horizon.
    const whole = [branch, since]
    const values = [...valuesOf(whole), scanMax, ...valuesOf(rest), most]
    const first = read.all(firstSql(columns, path.index, whole, rest), values)
    return first.length === most ? first : null
  }

  /** Up to `most` matches of all branches in order. */
  function selectFirst(asked: Search, most: number, quick: Quick): Proxy[] | null {
    const { branches } = asked.path
    const found: Proxy[] = []
    for (const branch of branches) {
      const part = selectBranch(asked, branch, most, quick)
      if (part === null) return null
      found.push(...part)
    }
    return branches.length > 1 ? found.sort(inOrder).slice(0, most) : found
  }

  /** What a full select gives, or `null` when that would take long or be long. */
  return (filter: Filter, masked: boolean, nowMs: number, quick: Quick): Proxy[] | null => {
    const asked = read.search(filter, masked, nowMs)
    const { count } = filter
    const most = masked ? QUICK_RECORDS_MAX : Math.min(count ?? Infinity, QUICK_RECORDS_MAX + 1)
    const found = selectFirst(asked, most, quick)
    if (found === null || found.length > QUICK_RECORDS_MAX) return null
    if (!masked) return found
    const shown = firstOfEach(found, count)
    return found.length < most || shown.length === count ? shown : null
  }
}

/** Selects from an open list; a quick select looks at `scanMax` entries of each branch. */
export function createSelect(db: Database, scanMax: number) {
  const read = createReader(db)

  /** Every match in order, read as it is asked for. */
  function each(
    filter: Filter,
    nowMs: number,
    masked = false,
    detail: Detail = 'all',
  ): Generator<Proxy> {
    const { since, all } = read.search(filter, masked, nowMs)
    const conditions = [since, ...all]
    const limit = masked ? -1 : (filter.count ?? -1)
    return read.each(fullSql(COLUMNS[detail], conditions), [...valuesOf(conditions), limit])
  }

  const begin = db.prepare('begin')
  const end = db.prepare('commit')

  /** Does all its reading on one snapshot: an import may commit between two statements. */
  function onSnapshot<T>(work: () => T): T {
    if (db.inTransaction) return work()
    begin.run()
    try {
      return work()
    } finally {
      end.run()
    }
  }

  function selectAll(filter: Filter, nowMs: number): Proxy[] {
    const { since, all } = read.search(filter, false, nowMs)
    const conditions = [since, ...all]
    const values = [...valuesOf(conditions), filter.count ?? -1]
    return read.all(fullSql(COLUMNS.all, conditions), values)
  }

  /**
   * The proxies that match, freshest check first, then lowest ping, then address; at most
   * `filter.count`. With `masked`, of those that share a masked address only the first counts.
   */
  const select = (filter: Filter, masked: boolean, nowMs: number): Proxy[] =>
    onSnapshot(() =>
      masked ? firstOfEach(each(filter, nowMs, masked), filter.count) : selectAll(filter, nowMs),
    )
  const selectFast = createQuickSelect(read, scanMax)

  /** What `select` gives, or `null` when that would take long or be long. */
  const selectQuickly = (
    filter: Filter,
    masked: boolean,
    nowMs: number,
    version: number,
    detail: Detail,
  ): Proxy[] | null =>
    onSnapshot(() => selectFast(filter, masked, nowMs, { version, columns: COLUMNS[detail] }))

  return { select, each, selectQuickly }
}
