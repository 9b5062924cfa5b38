/**
 * Holds what selects find among the rows in memory: what a full select finds, of one state of the
 * list, and without reading much of it at a time.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { bodyOf, createAnswerFinder } from '../../../src/api/answer.ts'
import type { Query } from '../../../src/api/query.ts'
import type { Filter } from '../../../src/proxies/filter.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import { createPages, createReader } from '../../../src/sqlite/proxies/search.ts'
import { createFreshest } from '../../../src/sqlite/proxies/select.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

const opened: List[] = []
function open(dir: string | null): List {
  const list = openList(dir, { isServer: true })
  opened.push(list)
  return list
}
afterAll(async () => {
  for (const list of opened) list.close()
  await cleanUp()
})

/** Records of JSON: their text is kept with rows that are in memory. */
const JSON_OUTPUT: Pick<Query, 'output' | 'addressBits'> = {
  output: {
    ...{ kind: 'json', isDownload: false, hasTypePrefix: false, fields: null },
    ...{ splitIp: false, shape: 'array', wrap: false, pretty: true },
  },
  addressBits: 32,
}

const AT_T0 = { nowMs: T0, addressBits: 32 } as const
const MANY = 20_000
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
function watched(list: List, scanMax = MANY) {
  const reader = createReader(list.db)
  let read = 0
  const all: typeof reader.all = (sql, values) => {
    const rows = reader.all(sql, values)
    read += rows.length
    return rows as never[]
  }
  const version = dataVersionOf(list.db)
  const { pages } = createPages({ ...reader, all }, version)
  const { find } = createFreshest(pages, version, scanMax)
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

/** Lets the first selects of a branch pass. */
function warmUp({ find }: ReturnType<typeof watched>, filter: Partial<Filter>, version = 1): void {
  for (let n = 0; n < IN_SQL; n += 1) expect(find(filter, 1, version)).toBeNull()
}

/** Lets rows of a branch be read into memory, page by page. */
function warmUpAll({ find }: ReturnType<typeof watched>, filter: Partial<Filter>): void {
  for (let n = 0; n < IN_SQL + 5; n += 1) find({ ...filter, ageMaxSeconds: 86_400 }, 1)
}

const SOCKS5: Partial<Filter> = { types: ['socks5'] }

describe('rows in memory', () => {
  const list = open(null)
  fillList(list, rowsOf(5000))

  test('are read at the fifth select of a branch, once, and again for another version', () => {
    const world = watched(list)
    for (const version of [1, 2]) {
      warmUp(world, {}, version)
      expect(world.read()).toBe(0)
      expect(world.find({}, 5, version)).toEqual(world.full({}, 5))
      expect(world.read()).toBe(1001)
      expect(world.find(SOCKS5, 10, version)).toEqual(world.full(SOCKS5, 10))
      expect(world.read()).toBe(0)
    }
    warmUp(world, { countries: ['FR'] }, 2)
    expect(world.find({ countries: ['FR'] }, 9, 2)).toEqual(world.full({ countries: ['FR'] }, 9))
    expect(world.read()).toBe(500) // all there are
  })

  test('are read two pages at a time; then SQL finds what is asked for', () => {
    const world = watched(list)
    warmUp(world, SOCKS5)
    const steps = Array.from({ length: 3 }, () => [world.find(SOCKS5, 100), world.read()] as const)
    expect(steps.map(([, read]) => read)).toEqual([2002, 2002, 996])
    expect(steps.map(([found]) => found?.length ?? null)).toEqual([null, null, 50])
    expect(world.find(SOCKS5, 100)).toEqual(world.full(SOCKS5, 100))
    expect(world.read()).toBe(0)
  })

  test('are found in another order once all that are young enough are in memory', () => {
    const world = watched(list)
    for (const sort of ['ping', 'speed', 'works'] as const) {
      warmUpAll(world, { sort })
      const near = { sort, ageMaxSeconds: 300 }
      expect(world.find(near, 20)).toEqual(world.full(near, 20))
      expect(world.find({ ...near, ...SOCKS5 }, 9)).toEqual(world.full({ ...near, ...SOCKS5 }, 9))
      const two: Partial<Filter> = { ...near, countries: ['DE', 'FR'] }
      warmUpAll(world, two)
      expect(world.find(two, 20)).toEqual(world.full(two, 20))
    }
    const short = watched(list, 1500)
    warmUpAll(short, { sort: 'ping' })
    expect(short.find({ sort: 'ping' }, 1)).toBeNull()
    expect(short.find({ sort: 'ping', ageMaxSeconds: 140 }, 5)).toHaveLength(5)
  })

  test('are no more than may be read of a branch', () => {
    const world = watched(list, 1500)
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
    const world = watched(large)
    const found = ports.map(port => {
      warmUp(world, { port })
      return world.find({ port }, 3)
    })
    expect(found.map(ids => ids !== null)).toEqual(ports.map(port => port <= 66))
    expect(world.read()).toBe(66 * 1001)
  })
})

describe('rows in memory of a list that another connection changes', () => {
  test('are of one snapshot', () => {
    const dir = temporaryDirectory()
    const [writer, reading] = [open(dir), open(dir)]
    fillList(writer, rowsOf(1500))
    const world = watched(reading)
    warmUp(world, SOCKS5)
    const before = world.full(SOCKS5, 10)
    expect(world.find(SOCKS5, 10)).toEqual(before)
    writer.db.run('delete from proxies')
    fillList(writer, rowsOf(1500, 2))
    expect(world.find(SOCKS5, 10)).toEqual(before) // the version is not known to be another
    expect(world.find(SOCKS5, 12)).toBeNull() // this would need a page of the new list
    warmUp(world, SOCKS5)
    expect(world.find(SOCKS5, 12)).toEqual(world.full(SOCKS5, 12))
    warmUp(world, SOCKS5, 2)
    expect(world.find(SOCKS5, 12, 2)).toEqual(world.full(SOCKS5, 12))
  })
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
      { numRuns: 60 },
    )
  })
})

test('rows that cannot be read are not taken for the end of the list', () => {
  const list = open(null)
  fillList(list, rowsOf(30))
  const world = watched(list)
  warmUp(world, {})
  list.db.run('alter table proxies rename to taken')
  expect(() => world.find({}, 5)).toThrow('no such table')
  list.db.run('alter table taken rename to proxies')
  warmUp(world, {})
  expect(world.find({}, 5)).toEqual(world.full({}, 5))
})
