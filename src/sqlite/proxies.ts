/**
 * Owns the list of proxies in SQLite: selecting from it, and forgetting what is too old.
 * Writing it is in `importer.ts`, what a filter asks in `filter.ts`.
 */
import type { Database, Statement } from 'bun:sqlite'
import { oncePerTurn } from '../batch.ts'
import { maskIp } from '../ip.ts'
import { createLru } from '../lru.ts'
import type { Filter, Proxy } from '../proxy.ts'
import { toSeconds } from '../time.ts'
import { createCities } from './cities.ts'
import { fromRow, ROW_COLUMNS, type Row } from './encoding.ts'
import { type Bound, type Condition, searchOf } from './filter.ts'
import indexes from './indexes.sql' with { type: 'text' }
import { dataVersionOf, openDatabase } from './open.ts'
import schema from './proxies.sql' with { type: 'text' }

/** Prepared statements kept; each takes about 11 KB. */
const STATEMENTS_MAX = 500
/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000
/** Index entries a quick select may look at in each branch: a few milliseconds. */
const SCAN_MAX = 20_000
/** Most records of a quick select. */
export const QUICK_RECORDS_MAX = 1_000

export const openProxyFile = (file: string, serving = false): Database =>
  openDatabase(file, { holds: 'proxies', schema: [schema + indexes], serving })

const ORDER = 'checked_at desc, ping_ms, id'
const COLUMNS = ROW_COLUMNS.join(', ')
/** What every index but the narrow ones holds, and so what conditions look at. */
const JUDGED = ROW_COLUMNS.filter(column => column !== 'ip_out').join(', ')

const joined = (conditions: readonly Condition[]): string =>
  conditions.map(({ sql }) => sql).join(' and ') || 'true'
const valuesOf = (conditions: readonly Condition[]): Bound[] =>
  conditions.flatMap(({ values }) => values)
const using = (index: string | null): string => (index === null ? '' : `indexed by ${index}`)

/** Every row that matches, in order. */
const fullSql = (conditions: readonly Condition[]): string =>
  `select ${COLUMNS} from proxies where ${joined(conditions)} order by ${ORDER} limit ?`

/** Those that match among the first entries of a branch; its order is the index's. */
const quickSql = (index: string | null, branch: readonly Condition[], rest: readonly Condition[]) =>
  `select ${ROW_COLUMNS.map(column => `p.${column}`).join(', ')} from (
     select id from (
       select ${JUDGED} from proxies ${using(index)} where ${joined(branch)}
       order by ${ORDER} limit ${SCAN_MAX}
     ) where ${joined(rest)} limit ?
   ) found cross join proxies p on p.id = found.id`

/** Whether a branch has more entries than a quick select looks at. */
const isLongSql = (index: string | null, branch: readonly Condition[]): string =>
  `select count(*) as n from (
     select 1 from proxies ${using(index)} where ${joined(branch)} limit ${SCAN_MAX + 1})`

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

/** One prepared statement for each combination of filters present; the least used goes first. */
function createStatements(db: Database): (sql: string) => Statement<Row, Bound[]> {
  const statements = createLru<string, Statement<Row, Bound[]>>(
    STATEMENTS_MAX,
    () => 1,
    statement => statement.finalize(),
  )
  return sql => {
    const known = statements.get(sql)
    if (known) return known
    const statement = db.prepare<Row, Bound[]>(sql)
    statements.set(sql, statement)
    return statement
  }
}

/** Selects from an open list. */
function createSelect(db: Database) {
  const prepared = createStatements(db)
  const cities = createCities(db)

  const toProxy = (row: Row): Proxy => fromRow(row, cities.nameOf)
  const rowsOf = (sql: string, values: readonly Bound[]): Proxy[] =>
    (prepared(sql).values(...values) as Row[]).map(toProxy) // values() is untyped

  function search(filter: Filter, masked: boolean, nowMs: number) {
    if (filter.cities.length > 0) cities.refresh()
    const cityIds = cities.idsMatching(filter.cities, filter.lang)
    return searchOf(filter, masked, cityIds, nowMs)
  }

  /** Every match in order, read as it is asked for. */
  function* each(filter: Filter, nowMs: number, masked = false): Generator<Proxy> {
    const { since, all } = search(filter, masked, nowMs)
    const conditions = [since, ...all]
    const limit = masked ? -1 : (filter.count ?? -1)
    // A statement of its own: an answer may take long to be sent, and others select meanwhile.
    const statement = db.prepare<Row, Bound[]>(fullSql(conditions))
    try {
      for (const row of statement.iterate(...valuesOf(conditions), limit)) {
        yield toProxy(Object.values(row) as Row) // iterate() gives objects in column order
      }
    } finally {
      statement.finalize()
    }
  }

  /**
   * The proxies that match, freshest check first, then lowest ping, then address; at most
   * `filter.count`. With `masked`, of those that share a masked address only the first counts.
   */
  function select(filter: Filter, masked: boolean, nowMs: number): Proxy[] {
    if (masked) return firstOfEach(each(filter, nowMs, masked), filter.count)
    const { since, all } = search(filter, masked, nowMs)
    const conditions = [since, ...all]
    return rowsOf(fullSql(conditions), [...valuesOf(conditions), filter.count ?? -1])
  }

  /** What `select` gives, or `null` when that would take long or be long. */
  function selectQuickly(filter: Filter, masked: boolean, nowMs: number): Proxy[] | null {
    const { path, since, rest } = search(filter, masked, nowMs)
    const { count } = filter
    const most = masked ? QUICK_RECORDS_MAX : Math.min(count ?? Infinity, QUICK_RECORDS_MAX + 1)
    let isPartial = false
    const found = path.branches.flatMap(branch => {
      const conditions = [branch, since]
      const values = valuesOf(conditions)
      const sql = quickSql(path.index, conditions, rest)
      const proxies = rowsOf(sql, [...values, ...valuesOf(rest), most])
      if (proxies.length < most) {
        const [entries] = prepared(isLongSql(path.index, conditions)).values(
          ...values,
        ) as number[][]
        isPartial ||= (entries?.[0] ?? 0) > SCAN_MAX
      }
      return proxies
    })
    const proxies = found.sort(inOrder)
    if (masked) {
      const shown = firstOfEach(proxies, count)
      const isWhole = !isPartial && proxies.length < most
      return isWhole || shown.length === count ? shown : null
    }
    if (isPartial || (proxies.length > QUICK_RECORDS_MAX && most > QUICK_RECORDS_MAX)) return null
    return proxies.slice(0, most)
  }

  return { select, selectQuickly, each }
}

/** Selects from, and thins out, an open list. */
export function createProxyStore(db: Database) {
  const removeOlder = db.prepare<never, [number, number]>(
    'delete from proxies where id in ' +
      '(select id from proxies where checked_at < ? order by checked_at limit ?)',
  )
  // SQLite tells of other connections' commits only; what this one changes is counted beside.
  const othersVersion = oncePerTurn(dataVersionOf(db))
  let seenVersion = othersVersion()
  let changes = 0
  const busyTimeout = db.prepare<{ timeout: number }, []>('pragma busy_timeout')
  const any = db.prepare<{ id: number }, []>('select id from proxies limit 1')

  return {
    ...createSelect(db),

    /** A number that changes with the list, whoever changes it. */
    version(): number {
      if (othersVersion() !== seenVersion) changes += 1
      seenVersion = othersVersion()
      return changes
    },

    /** Whether the list holds nothing. */
    isEmpty: (): boolean => any.get() === null,

    /**
     * Removes up to a slice of rows checked before `cutoffMs`; says whether more may remain.
     * Throws at once, without waiting, when an import holds the list.
     */
    removeOlderThan(cutoffMs: number): boolean {
      const { timeout } = busyTimeout.get() ?? { timeout: 0 }
      db.run('pragma busy_timeout = 0')
      try {
        const removed = removeOlder.run(toSeconds(cutoffMs), REMOVE_SLICE).changes
        if (removed > 0) changes += 1
        return removed === REMOVE_SLICE
      } finally {
        db.run(`pragma busy_timeout = ${timeout}`)
      }
    },

    /** Makes every check `seconds` more recent: keeps the sample fresh. */
    shiftChecks: (seconds: number): void => {
      db.run('update proxies set checked_at = checked_at + ?', [seconds])
      changes += 1
    },
  }
}
