/**
 * Holds what quick selects read of the list, which is bounded, what they find in several branches and among
 * the rows in memory, and what they remember, which is bounded too and forgotten when the list changes.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { bodyOf, createAnswerFinder } from '../../../src/api/answer.ts'
import type { Query } from '../../../src/api/query.ts'
import type { Bound, Filter } from '../../../src/proxies/filter.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import {
  createPages,
  createReader,
  ENDPOINT_COLUMNS,
  QUICK_RECORDS_MAX,
} from '../../../src/sqlite/proxies/search.ts'
import { createHotRows, createQuickSelect } from '../../../src/sqlite/proxies/select.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { endpointOf } from '../../support/rows.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../../support/temporary.ts'

function open(dir: string | null): List {
  const list = openList(dir, { isServer: true })
  onCleanUp(list.close)
  return list
}
afterAll(cleanUp)

const AT_T0 = { nowMs: T0, addressBits: 32 } as const
/** Entries of each branch that a quick select may read here. */
const FEW = 7
/** Above the number of cutoffs that are kept in memory. */
const MANY = 12_000

describe('cutoffs', () => {
  /** A quick select that counts the cutoffs it reads, and what it finds on one port or in a city. */
  function counted(rows: readonly TestRow[]) {
    const list = open(null)
    fillList(list, rows)
    const reader = createReader(list.db)
    let read = 0
    const number: typeof reader.number = (sql, values) => {
      read += 1
      return reader.number(sql, values)
    }
    const select = createQuickSelect({ ...reader, number }, FEW)
    return {
      read: () => read,
      find(filter: Partial<Filter>, version = 1) {
        const search = reader.search({ ...NO_FILTER, ...filter }, AT_T0)
        return select(search, 10, ENDPOINT_COLUMNS, version)?.map(row => endpointOf(row).port)
      },
    }
  }

  test('are read once for each value, and again when the version is another', () => {
    const { read, find } = counted([{ ip: '192.0.2.1:80', type: 'http' }])
    for (const _ of [1, 2, 3]) expect(find({ port: 80 })).toEqual([80])
    expect(read()).toBe(1)
    expect(find({ port: 81 })).toEqual([])
    expect(read()).toBe(2)
    for (const version of [2, 3, 2]) expect(find({ port: 80 }, version)).toEqual([80])
    expect(read()).toBe(5)
  })

  test('of many ports are not all kept, and what is found stays right', () => {
    const { read, find } = counted(
      Array.from({ length: 40 }, (_, n) => ({ ip: `192.0.2.1:${1 + n * 300}`, type: 'http' })),
    )
    for (let port = 1; port <= MANY; port += 1) {
      if (find({ port })?.length !== Number(port % 300 === 1)) throw new Error(`port ${port}`)
    }
    expect(read()).toBe(MANY)
    expect(find({ port: MANY })).toEqual([]) // one of the latest is still known
    expect(read()).toBe(MANY)
    expect(find({ port: 1 })).toEqual([1]) // the first is not
    expect(read()).toBe(MANY + 1)
  })

  test('of many cities are not all kept, and what is found stays right', () => {
    const { read, find } = counted(
      Array.from({ length: MANY }, (_, n) => ({
        ip: `192.0.2.1:${1 + n}`,
        type: 'http',
        city: `city ${n}`,
      })),
    )
    for (let n = 0; n < MANY; n += 1) {
      if (find({ cities: [`city ${n}`] })?.[0] !== n + 1) throw new Error(`city ${n}`)
    }
    expect(read()).toBe(MANY)
    expect(find({ cities: ['city 0'] })).toEqual([1])
    expect(read()).toBe(MANY + 1)
  })
})

/** A row of the property: its `n` is its place among addresses. */
type BranchRow = { n: number; age: number; pingMs: number; country: string; type: string }
/** Four branches: as many as are read together. */
const BRANCHES = ['DE', 'FR', 'RU', 'US']

/** Few check times and pings, so that many rows share both; the branches differ in length. */
const someBranchRows: fc.Arbitrary<BranchRow[]> = fc
  .array(
    fc.record({
      age: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 12 })),
      pingMs: fc.integer({ min: 0, max: 1 }),
      country: fc.constantFrom('DE', 'DE', 'DE', 'DE', 'FR', 'FR', 'RU', 'US'),
      type: fc.constantFrom('http', 'http', 'socks5'),
    }),
    { minLength: 20, maxLength: 60 },
  )
  .map(rows => rows.map((row, i) => ({ ...row, n: i + 1 })))

const someBranches = fc.record({
  countries: fc.subarray(BRANCHES, { minLength: 1 }),
  types: fc.constantFrom<Filter['types']>([], ['http'], ['socks5']),
  pingMaxMs: fc.constantFrom(null, 0),
  ageMaxSeconds: fc.integer({ min: 0, max: 12 }),
  most: fc.integer({ min: 1, max: 9 }),
})
type Branches = typeof someBranches extends fc.Arbitrary<infer B> ? B : never

/** What a filter finds, and whether a quick select must find it, in plain array code. */
function expected(rows: readonly BranchRow[], { most, countries, ...filter }: Branches) {
  const { types, pingMaxMs, ageMaxSeconds } = filter
  const inOrder = rows.toSorted((a, b) => a.age - b.age || a.pingMs - b.pingMs || a.n - b.n)
  const matches = ({ type, pingMs, age }: BranchRow): boolean =>
    age <= ageMaxSeconds &&
    pingMs <= (pingMaxMs ?? pingMs) &&
    (types.length === 0 || types.some(name => name === type))
  const mustFind = countries.every(country => {
    const entries = inOrder.filter(row => row.country === country)
    const isWhole = (entries[FEW]?.age ?? Infinity) > ageMaxSeconds
    return isWhole || entries.slice(0, FEW).filter(matches).length >= most
  })
  const found = inOrder.filter(row => countries.includes(row.country) && matches(row))
  return { found: found.slice(0, most).map(({ n }) => n), mustFind }
}

/** A quick select of a list, and the statements that it runs. */
function watched(rows: readonly BranchRow[]) {
  const list = openList(null)
  fillList(
    list,
    rows.map(({ n, pingMs, ...row }) => ({ ip: `10.0.0.${n}:80`, ping: pingMs / 1000, ...row })),
  )
  const reader = createReader(list.db)
  const run: { sql: string; values: readonly Bound[] }[] = []
  const all: typeof reader.all = (sql, values) => {
    run.push({ sql, values })
    return reader.all(sql, values)
  }
  const select = createQuickSelect({ ...reader, all }, FEW)
  const count = list.db.query<{ rows: number }, Bound[]>(
    `select count(*) as rows from proxies indexed by proxies_by_country
     where country = ? and checked_at >= ?`,
  )
  return {
    list,
    run,
    find({ most, ...filter }: Branches & Pick<Partial<Filter>, 'sort'>): number[] | null {
      run.length = 0
      const search = reader.search({ ...NO_FILTER, ...filter }, AT_T0)
      const found = select(search, most, ENDPOINT_COLUMNS, 1)
      return found?.map(([id]) => Math.floor(id / 65536) & 255) ?? null
    },
    /** Index entries of a country and of a time, which begin the values of a branch. */
    entriesOf: (values: readonly Bound[]): number => count.get(...values.slice(0, 2))?.rows ?? 0,
  }
}

/** Expects that the statements read no more of any branch than they may. */
function expectBounded({ run, entriesOf }: ReturnType<typeof watched>, branches: number): void {
  const [first = { values: [] }, ...others] = run
  const width = (first.values.length - 1) / branches // the last value is the limit
  for (let branch = 0; branch < branches; branch += 1) {
    expect(entriesOf(first.values.slice(branch * width))).toBeLessThanOrEqual(FEW)
  }
  expect(others.length).toBeLessThanOrEqual(branches)
  for (const { sql, values } of others) {
    const [, , limit] = values
    if (sql.includes('limit ?\n')) expect(limit).toBe(FEW)
    else expect(entriesOf(values)).toBeLessThanOrEqual(FEW)
  }
}

describe('a select in another order', () => {
  const rows = Array.from({ length: 3 * FEW }, (_, n) => ({
    n: n + 1,
    age: n,
    pingMs: 100 - n,
    country: n % 3 === 0 ? 'FR' : 'DE',
    type: n % 2 === 0 ? 'http' : 'socks5',
  }))
  const world = watched(rows)
  const find = (countries: string[], ageMaxSeconds: number, most = 3) =>
    world.find({ countries, ageMaxSeconds, most, types: [], pingMaxMs: null, sort: 'ping' })

  test('finds what no select by age would find first', () => {
    expect(find(['FR'], 18)).toEqual([19, 16, 13])
    expect(find(['DE'], 9)).toEqual([9, 8, 6])
    expect(find(['DE', 'FR'], 9, 4)).toEqual([10, 9, 8, 7])
    expect(find(['FR'], 30, 99)).toEqual([19, 16, 13, 10, 7, 4, 1])
  })

  test('gives up where a branch has more entries than it may read', () => {
    expect(find(['DE'], 30)).toBeNull()
    expect(find(['DE', 'FR'], 30)).toBeNull()
    expect(find(['DE'], 10)?.length).toBe(3) // seven entries: as many as it may read
    expect(find(['DE'], 11)).toBeNull()
    expect(world.run).toEqual([])
  })
})

describe('several branches', () => {
  test('are read together, without sorting, each from its index', () => {
    const { list, run, find } = watched([])
    find({ countries: BRANCHES, types: ['http'], pingMaxMs: 0, ageMaxSeconds: 5, most: 3 })
    const [{ sql, values } = { sql: '', values: [] }, ...others] = run
    expect(others).toEqual([])
    const plan = list.db.query<{ detail: string }, Bound[]>(`explain query plan ${sql}`)
    const details = plan.all(...values).map(({ detail }) => detail)
    const index = 'COVERING INDEX proxies_by_country (country=? AND checked_at>?)'
    const branches = details.filter(detail => detail === `SEARCH proxies USING ${index}`)
    expect(branches).toHaveLength(BRANCHES.length)
    expect(details.filter(detail => /SORT|TEMP|SCAN/.test(detail))).toEqual([])
    list.close()
  })

  test('are found as plain array code finds them, or reading stops at the bound', () => {
    const outcomes = { together: 0, apart: 0, gaveUp: 0 }
    const someFilters = fc.array(someBranches, { minLength: 12, maxLength: 12 })
    fc.assert(
      fc.property(someBranchRows, someFilters, (rows, filters) => {
        const world = watched(rows)
        for (const filter of filters) {
          const { found, mustFind } = expected(rows, filter)
          const quick = world.find(filter)
          if (quick !== null) expect(quick).toEqual(found)
          else expect(mustFind).toBe(false)
          expectBounded(world, filter.countries.length)
          const isTogether = world.run.length === 1 ? 'together' : 'apart'
          outcomes[quick === null ? 'gaveUp' : isTogether] += 1
        }
        world.list.close()
      }),
      { numRuns: 100 },
    )
    for (const times of Object.values(outcomes)) expect(times).toBeGreaterThan(5)
  })
})

test('of an index without whole rows, whose rows are looked up one by one, a twentieth is read', () => {
  const list = open(null)
  const rows = Array.from({ length: 40 }, (_, i) => ({
    ...{ ip: `10.0.0.${i + 1}:80`, age: i, country: 'DE', city: 'Bonn' },
    type: i === 30 ? 'socks5' : 'http',
  }))
  fillList(list, rows)
  const reader = createReader(list.db)
  const find = (filter: Partial<Filter>, entries: number, most = 1) => {
    const search = reader.search({ ...NO_FILTER, ...filter }, AT_T0)
    const select = createQuickSelect(reader, entries)
    return select(search, most, ENDPOINT_COLUMNS, 1)?.length ?? null
  }
  expect(find({ ...SOCKS5, countries: ['DE'] }, 35)).toBe(1)
  for (const slow of [{ port: 80 }, { cities: ['bonn'] }]) {
    expect(find({ ...SOCKS5, ...slow }, 20 * 30)).toBeNull()
    expect(find({ ...SOCKS5, ...slow }, 20 * 31)).toBe(1)
    expect(find(slow, 20 * 30, 30)).toBe(30)
    expect(find({ ...slow, sort: 'ping' }, 20 * 30)).toBeNull()
  }
})

test('more records than a quick select gives are too many, for both kinds', () => {
  const list = open(null)
  const { records, endpoints } = list.proxies
  const load = (from: number, to: number): unknown =>
    fillList(
      list,
      Array.from({ length: to - from }, (_, i) => ({
        ip: `10.0.0.1:${1 + from + i}`,
        type: 'http',
      })),
    )
  const lengths = (count: number | null) =>
    [records, endpoints].map(
      selector => selector.findQuickly({ ...NO_FILTER, count }, AT_T0)?.length ?? null,
    )
  load(0, QUICK_RECORDS_MAX)
  expect(lengths(null)).toEqual([QUICK_RECORDS_MAX, QUICK_RECORDS_MAX])
  load(QUICK_RECORDS_MAX, QUICK_RECORDS_MAX + 1)
  expect(lengths(null)).toEqual([null, null])
  expect(lengths(QUICK_RECORDS_MAX + 1)).toEqual([null, null])
  expect(lengths(QUICK_RECORDS_MAX)).toEqual([QUICK_RECORDS_MAX, QUICK_RECORDS_MAX])
})

/** Records of JSON: their text is kept with rows that are in memory. */
const JSON_OUTPUT: Pick<Query, 'output' | 'addressBits'> = {
  output: {
    ...{ kind: 'json', isDownload: false, hasTypePrefix: false, fields: null },
    ...{ splitIp: false, shape: 'array', wrap: false, pretty: true },
  },
  addressBits: 32,
}

/** Entries that a quick select may read. */
const SCAN_MAX = 20_000
/** Selects of a branch that are left to SQL. */
const IN_SQL = 4

/** `n` rows of which every tenth is in France and every hundredth of socks5, one a second. */
const rowsOf = (n: number, subnet = 1): TestRow[] =>
  Array.from({ length: n }, (_, i) => ({
    ping: i % 7 === 0 ? undefined : (i % 13) / 1000,
    speed: i % 3,
    works: i % 5 === 0 ? undefined : i % 90,
    ip: `10.${subnet}.${i >> 8}.${i & 255}:80`,
    type: i % 100 === 99 ? 'socks5' : 'http',
    country: i % 10 === 9 ? 'FR' : 'DE',
    age: i / 10,
  }))

/** Selects among the rows in memory of a list, and how many rows they read from it. */
function inMemory(list: List, rowsMax = 3 * SCAN_MAX) {
  const reader = createReader(list.db)
  let read = 0
  const all: typeof reader.all = (sql, values) => {
    const rows = reader.all(sql, values)
    read += rows.length
    return rows as never[]
  }
  const version = dataVersionOf(list.db)
  const { pages } = createPages({ ...reader, all }, version)
  const { find } = createHotRows(pages, version, rowsMax)
  return {
    find(filter: Partial<Filter>, most: number, version = 1): number[] | null {
      const search = reader.search({ ...NO_FILTER, ageMaxSeconds: 86_400, ...filter }, AT_T0)
      return find(search, most, version)?.map(([id]) => id) ?? null
    },
    /** What a full select finds. */
    full: (filter: Partial<Filter>, count: number): number[] =>
      list.proxies.endpoints
        .findAll({ ...NO_FILTER, ageMaxSeconds: 86_400, ...filter, count }, AT_T0)
        .map(([id]) => id),
    /** The number of rows read since the last call. */
    read(): number {
      const rows = read
      read = 0
      return rows
    },
  }
}

/** Lets the first selects of a branch pass, as many as are left to SQL. */
function warmUp(
  { find }: ReturnType<typeof inMemory>,
  filter: Partial<Filter>,
  { version = 1, inSql = IN_SQL } = {},
): void {
  for (let n = 0; n < inSql; n += 1) expect(find(filter, 1, version)).toBeNull()
}

/** Lets rows of a branch be read into memory, page by page. */
function warmUpAll({ find }: ReturnType<typeof inMemory>, filter: Partial<Filter>): void {
  for (let n = 0; n < IN_SQL + 5; n += 1) find({ ...filter, ageMaxSeconds: 86_400 }, 1)
}

const SOCKS5: Partial<Filter> = { types: ['socks5'] }

describe('rows in memory', () => {
  const list = open(null)
  fillList(list, rowsOf(5000))

  test('are read at the fifth select of a branch, once; earlier if it was selected in the version before', () => {
    const world = inMemory(list)
    // Of six selects half count in the next version, and of three and three of those.
    for (const [version, inSql] of [4, 1, 1].entries()) {
      warmUp(world, {}, { version, inSql })
      expect(world.read()).toBe(0)
      expect(world.find({}, 5, version)).toEqual(world.full({}, 5))
      expect(world.read()).toBe(1001)
      expect(world.find(SOCKS5, 10, version)).toEqual(world.full(SOCKS5, 10))
      expect(world.read()).toBe(0)
    }
    for (let n = 0; n < IN_SQL; n += 1) world.find({}, 5, 2)
    expect(world.find(SOCKS5, 10, 3)).toEqual(world.full(SOCKS5, 10))
    expect(world.read()).toBe(1001)
    warmUp(world, { countries: ['FR'] }, { version: 2 })
    expect(world.find({ countries: ['FR'] }, 9, 2)).toEqual(world.full({ countries: ['FR'] }, 9))
    expect(world.read()).toBe(500) // all there are
  })

  test('are read eight pages at a time; then SQL finds what is asked for', () => {
    const long = open(null)
    fillList(long, rowsOf(9000))
    const world = inMemory(long)
    warmUp(world, SOCKS5)
    const steps = Array.from({ length: 2 }, () => [world.find(SOCKS5, 100), world.read()] as const)
    expect(steps.map(([, read]) => read)).toEqual([8008, 992])
    expect(steps.map(([found]) => found?.length ?? null)).toEqual([null, 90])
    expect(world.find(SOCKS5, 100)).toEqual(world.full(SOCKS5, 100))
    expect(world.read()).toBe(0)
  })

  test('are found in another order once all that are young enough are in memory', () => {
    const world = inMemory(list)
    for (const sort of ['ping', 'speed', 'works'] as const) {
      warmUpAll(world, { sort })
      const near = { sort, ageMaxSeconds: 300 }
      expect(world.find(near, 20)).toEqual(world.full(near, 20))
      expect(world.find({ ...near, ...SOCKS5 }, 9)).toEqual(world.full({ ...near, ...SOCKS5 }, 9))
      const two: Partial<Filter> = { ...near, countries: ['DE', 'FR'] }
      warmUpAll(world, two)
      expect(world.find(two, 20)).toEqual(world.full(two, 20))
    }
    const short = inMemory(list, 1500)
    warmUpAll(short, { sort: 'ping' })
    expect(short.find({ sort: 'ping' }, 1)).toBeNull()
    expect(short.find({ sort: 'ping', ageMaxSeconds: 140 }, 5)).toHaveLength(5)
  })

  test('are found behind more of an import than a quick select may read', () => {
    const hidden = open(null)
    const host = (i: number): string => `11.${i >> 16}.${(i >> 8) & 255}.${i & 255}:80`
    const fresh = Array.from({ length: SCAN_MAX + 1 }, (_, i) => ({ ip: host(i), type: 'http' }))
    fillList(hidden, [...fresh, { ip: '10.1.0.1:80', type: 'socks5', age: 5 }])
    const world = inMemory(hidden)
    warmUpAll(world, SOCKS5)
    expect(world.find(SOCKS5, 1)).toEqual(world.full(SOCKS5, 1))
    expect(world.full(SOCKS5, 1)).toHaveLength(1)
  })

  test('are no more than may be read of a branch', () => {
    const world = inMemory(list, 1500)
    warmUp(world, SOCKS5)
    expect(world.find(SOCKS5, 15)).toEqual(world.full(SOCKS5, 15))
    expect(world.find(SOCKS5, 16)).toBeNull()
    expect(world.find({ ...SOCKS5, ageMaxSeconds: 140 }, 16)).toHaveLength(14)
    expect(world.read()).toBe(1500)
  })

  test('are no more than 65,536 of all branches', () => {
    const large = open(null)
    const ports = Array.from({ length: 80 }, (_, n) => 1 + n)
    const hosts = Array.from({ length: 1001 }, (_, i) => `10.9.${i >> 8}.${i & 255}`)
    const rows = ports.flatMap(port => hosts.map(ip => ({ ip: `${ip}:${port}`, type: 'http' })))
    fillList(large, rows)
    const world = inMemory(large)
    const found = ports.map(port => {
      warmUp(world, { port })
      return world.find({ port }, 3)
    })
    expect(found.map(ids => ids !== null)).toEqual(ports.map(port => port <= 66))
    expect(world.read()).toBe(66 * 1001)
  })
})

test('rows in memory of a list that another connection changes are of one snapshot', () => {
  const dir = temporaryDirectory()
  const [writer, reading] = [open(dir), open(dir)]
  fillList(writer, rowsOf(1500))
  const world = inMemory(reading)
  warmUp(world, SOCKS5)
  const before = world.full(SOCKS5, 10)
  expect(world.find(SOCKS5, 10)).toEqual(before)
  writer.db.run('delete from proxies')
  fillList(writer, rowsOf(1500, 2))
  expect(world.find(SOCKS5, 10)).toEqual(before) // the version is not known to be another
  expect(world.find(SOCKS5, 12)).toBeNull() // this would need a page of the new list
  warmUp(world, SOCKS5, { inSql: 3 })
  expect(world.find(SOCKS5, 12)).toEqual(world.full(SOCKS5, 12))
  warmUp(world, SOCKS5, { version: 2, inSql: 2 })
  expect(world.find(SOCKS5, 12, 2)).toEqual(world.full(SOCKS5, 12))
})

describe('the server’s selects', () => {
  /** Changes of a list by another connection, each followed by selects in the same turn or later. */
  const someSteps = fc.array(
    fc.record({
      rows: fc.integer({ min: 0, max: 30 }),
      subnet: fc.integer({ min: 0, max: 3 }),
      selects: fc.integer({ min: 0, max: 8 }),
      isNextTurn: fc.boolean(),
    }),
    { minLength: 1, maxLength: 8 },
  )
  const FILTERS: readonly Partial<Filter>[] = [
    {},
    { countries: ['DE', 'FR'] },
    { countries: ['FR'] },
    { port: 80 },
    { sort: 'ping' },
    { sort: 'speed', countries: ['DE', 'FR'] },
    { sort: 'works', port: 80 },
  ]

  test('find the list as it is, or as it was in this turn', async () => {
    const dir = temporaryDirectory()
    const [writer, reading] = [open(dir), open(dir)]
    const { findQuickly, endpoints } = reading.proxies
    const answerOf = createAnswerFinder<'too-large'>(
      {
        find: (filter, options) => findQuickly(filter, options) ?? 'too-large',
        findEndpoints: (filter, options) => endpoints.findQuickly(filter, options) ?? 'too-large',
      },
      'the service',
    )
    const fullAnswerOf = createAnswerFinder<'too-large'>(writer.proxies.finder, 'the service')
    const textOf = (find: typeof answerOf, filter: Partial<Filter>): string => {
      const query = { filter: { ...NO_FILTER, ...filter, count: 20 }, ...JSON_OUTPUT }
      const rendered = find(query, T0)
      return rendered === 'too-large' ? rendered : bodyOf(rendered.answer, T0).toString()
    }
    const found = (filter: Partial<Filter>): string => textOf(answerOf, filter)
    const full = (filter: Partial<Filter>): string => textOf(fullAnswerOf, filter)
    const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
    const expectAllowed = (allowed: readonly string[][]): void => {
      for (const [i, filter] of FILTERS.entries()) expect(allowed[i]).toContain(found(filter))
    }
    await fc.assert(
      fc.asyncProperty(someSteps, async steps => {
        await nextTurn()
        let allowed = FILTERS.map(filter => [full(filter)])
        for (const { rows, subnet, selects, isNextTurn } of steps) {
          writer.db.run('delete from proxies')
          fillList(writer, rowsOf(rows, subnet))
          if (isNextTurn) await nextTurn()
          const now = FILTERS.map(full)
          allowed = now.map((ids, i) => (isNextTurn ? [ids] : [...(allowed[i] ?? []), ids]))
          for (let n = 0; n < selects; n += 1) expectAllowed(allowed)
        }
      }),
      { numRuns: 30 },
    )
  })
})

test('rows that cannot be read are not taken for the end of the list', () => {
  const list = open(null)
  fillList(list, rowsOf(30))
  const world = inMemory(list)
  warmUp(world, {})
  list.db.run('alter table proxies rename to taken')
  expect(() => world.find({}, 5)).toThrow('no such table')
  list.db.run('alter table taken rename to proxies')
  warmUp(world, {}, { inSql: 3 })
  expect(world.find({}, 5)).toEqual(world.full({}, 5))
})
