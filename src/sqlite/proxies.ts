/**
 * Owns the list of proxies in SQLite: selecting from it, and forgetting what is too old.
 * Writing it is in `importer.ts`; what a filter means is in the contract, A4.
 */
import type { Database, Statement } from 'bun:sqlite'
import { oncePerTurn } from '../batch.ts'
import { maskIp } from '../ip.ts'
import { type Address, ANONS, type Filter, fold, type Proxy, SERVICES, TYPES } from '../proxy.ts'
import { toSeconds } from '../time.ts'
import { dataVersionOf, openDatabase } from './open.ts'
import schema from './proxies.sql' with { type: 'text' }

/** Stored in place of an unknown ping: above every bound a filter can set, and sorted last. */
export const UNKNOWN_PING = Number.MAX_SAFE_INTEGER
/** Stored in place of an unknown speed or success rate: below every bound. */
export const UNKNOWN = -1

/** Prepared statements kept; each takes about 11 KB. */
const STATEMENTS_MAX = 500
/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000

const COLUMNS =
  'id, checked_at, ping_ms, type, anon, works, speed, services, country, city, city_en, ip_out'
type Row = [
  id: number,
  checkedAt: number,
  pingMs: number,
  type: number,
  anon: number,
  works: number,
  speed: number,
  services: number,
  country: string,
  city: string,
  cityEn: string,
  ipOut: string,
]

export const openProxyFile = (file: string, serving = false): Database =>
  openDatabase(file, { holds: 'proxies', schema: [schema], serving })

/** The address as one integer below 2^48: IPv4 as 32 bits, then the port as 16. */
export const idOf = ({ ip, port }: Address): number =>
  ip.split('.').reduce((bits, octet) => bits * 256 + Number(octet), 0) * 65536 + port

function addressOf(id: number): Address {
  const ip = Math.floor(id / 65536)
  return {
    ip: `${ip >>> 24}.${(ip >>> 16) & 255}.${(ip >>> 8) & 255}.${ip & 255}`,
    port: id % 65536,
  }
}

/** Every combination of services as a set, by its bit mask. */
const SERVICE_SETS = Array.from(
  { length: 1 << SERVICES.length },
  (_, mask) => new Set(SERVICES.filter((_, bit) => mask & (1 << bit))),
)

function toProxy(row: Row): Proxy {
  const [id, checkedAt, pingMs, type, anon, works, speed, services, country, city, cityEn, ipOut] =
    row
  return {
    ...addressOf(id),
    ipOut,
    type: TYPES[type] ?? 'http',
    anon: ANONS[anon - 1] ?? '',
    speed: speed === UNKNOWN ? null : speed,
    pingMs: pingMs === UNKNOWN_PING ? null : pingMs,
    checkedAt,
    country,
    city,
    cityEn,
    works: works === UNKNOWN ? null : works,
    services: SERVICE_SETS[services] ?? new Set(),
  }
}

type Bound = number | string
type Condition = { sql: string; values: readonly Bound[] }

/** `column in (?, …)`; the list is padded to a power of two, to keep the statements few. */
function oneOf(column: string, values: readonly Bound[], not = ''): Condition {
  const size = 2 ** Math.ceil(Math.log2(values.length))
  const padding = new Array<Bound>(size - values.length).fill(values[0] ?? '')
  const marks = new Array(size).fill('?').join(',')
  return { sql: `${column} ${not}in (${marks})`, values: [...values, ...padding] }
}

function cityIs({ cities, lang }: Filter): Condition {
  const english = oneOf('city_en_key', cities.map(fold))
  if (lang === 'en') return english
  const byDefault = oneOf('city_key', cities.map(fold))
  return {
    sql: `(${byDefault.sql} or ${english.sql})`,
    values: [...byDefault.values, ...english.values],
  }
}

/** `masked`: the address is compared as `demo` shows it, without the last two octets. */
function addressIs(address: Address, masked: boolean): Condition {
  const id = idOf(address)
  return masked
    ? { sql: 'id & 281470681808895 = ?', values: [id] } // 0xFFFF0000FFFF: a.b.0.0:port
    : { sql: 'id = ?', values: [id] }
}

/** The conditions a filter puts, in a fixed order; absent filters put none. */
function conditionsOf(filter: Filter, masked: boolean, nowMs: number): Condition[] {
  const { types, anons, pingMaxMs, speedMin, worksMin, countries, services } = filter
  const oldest = toSeconds(nowMs) - filter.ageMaxSeconds
  const mask = services.reduce((bits, service) => bits | (1 << SERVICES.indexOf(service)), 0)
  const except = filter.countryMode === 'except' ? 'not ' : ''
  const wanted: (Condition | false)[] = [
    { sql: 'checked_at >= ?', values: [oldest] },
    types.length > 0 &&
      oneOf(
        'type',
        types.map(type => TYPES.indexOf(type)),
      ),
    anons.length > 0 &&
      oneOf(
        'anon',
        anons.map(anon => 1 + ANONS.indexOf(anon)),
      ),
    pingMaxMs !== null && { sql: 'ping_ms <= ?', values: [pingMaxMs] },
    speedMin !== null && { sql: 'speed >= ?', values: [speedMin] },
    worksMin !== null && { sql: 'works >= ?', values: [worksMin] },
    countries.length > 0 && oneOf('country', countries, except),
    filter.cities.length > 0 && cityIs(filter),
    filter.port !== null && { sql: 'id & 65535 = ?', values: [filter.port] },
    filter.address !== null && addressIs(filter.address, masked),
    mask > 0 && { sql: 'services & ? = ?', values: [mask, mask] },
  ]
  return wanted.filter(condition => condition !== false)
}

/** Selects from, and thins out, an open list. */
export function createProxyStore(db: Database) {
  const statements = new Map<string, Statement<Row, Bound[]>>()

  /** One prepared statement for each combination of filters present; the least used goes first. */
  function statementFor(conditions: readonly Condition[], limited: boolean) {
    const where = conditions.map(({ sql }) => sql).join(' and ')
    const limit = limited ? ' limit ?' : ''
    const sql =
      `select ${COLUMNS} from proxies where ${where} ` +
      `order by checked_at desc, ping_ms, id${limit}`
    const statement = statements.get(sql) ?? db.prepare<Row, Bound[]>(sql)
    statements.delete(sql)
    statements.set(sql, statement)
    const [leastUsed] = statements.keys()
    if (statements.size > STATEMENTS_MAX && leastUsed !== undefined) {
      statements.get(leastUsed)?.finalize()
      statements.delete(leastUsed)
    }
    return statement
  }

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
    /**
     * The proxies that match, freshest check first, then lowest ping, then address; at most
     * `filter.count`. With `masked`, of those that share a masked address only the first counts.
     */
    select(filter: Filter, masked: boolean, nowMs: number): Proxy[] {
      const conditions = conditionsOf(filter, masked, nowMs)
      const values = conditions.flatMap(({ values }) => values)
      if (masked) return firstOfEach(statementFor(conditions, false), values, filter.count)
      const statement = statementFor(conditions, filter.count !== null)
      if (filter.count !== null) values.push(filter.count)
      return (statement.values(...values) as Row[]).map(toProxy) // values() is untyped
    },

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

/** Up to `count` rows with distinct masked addresses, in the statement's order. */
function firstOfEach(
  statement: Statement<Row, Bound[]>,
  values: readonly Bound[],
  count: number | null,
): Proxy[] {
  const proxies = new Map<string, Proxy>()
  for (const row of statement.iterate(...values)) {
    const proxy = toProxy(Object.values(row) as Row) // iterate() gives objects in column order
    const shown = `${maskIp(proxy.ip)}:${proxy.port}`
    if (!proxies.has(shown)) proxies.set(shown, proxy)
    if (proxies.size === count) break
  }
  return [...proxies.values()]
}
