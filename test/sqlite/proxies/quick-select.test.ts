/**
 * Quick selects: what they find in several branches, by SQL and among the rows in memory; that they read a bounded
 * part of the list, and forget what they know of it when it changes.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { bodyOf, createAnswerRenderer } from '../../../src/api/answer.ts'
import type { Query } from '../../../src/api/query.ts'
import type { Filter } from '../../../src/proxies/filter.ts'
import type { Found } from '../../../src/proxies/row.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import { createCities } from '../../../src/sqlite/proxies/cities.ts'
import { compileFilter, createStatements } from '../../../src/sqlite/proxies/filter-sql.ts'
import { createHotRows } from '../../../src/sqlite/proxies/hot-rows.ts'
import { QUICK_RECORDS_MAX } from '../../../src/sqlite/proxies/select.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../../support/temporary.ts'

function open(dir: string | null): List {
  const list = openList(dir, { isServer: true })
  onCleanUp(list.close)
  return list
}
afterAll(cleanUp)

const AT_T0 = { nowMs: T0, addressBits: 32 } as const

test('more records than a quick select gives are too many', () => {
  const list = open(null)
  const load = (from: number, to: number): unknown =>
    fillList(
      list,
      Array.from({ length: to - from }, (_, i) => ({
        ip: `10.0.0.1:${1 + from + i}`,
        type: 'http',
      })),
    )
  const length = (count: number | null) =>
    list.proxies.findQuickly({ ...NO_FILTER, count }, AT_T0)?.rows.length ?? null
  load(0, QUICK_RECORDS_MAX)
  expect(length(null)).toBe(QUICK_RECORDS_MAX)
  load(QUICK_RECORDS_MAX, QUICK_RECORDS_MAX + 1)
  expect(length(null)).toBeNull()
  expect(length(QUICK_RECORDS_MAX + 1)).toBeNull()
  expect(length(QUICK_RECORDS_MAX)).toBe(QUICK_RECORDS_MAX)
})

/** Records of JSON: their text is kept with rows that are in memory. */
const JSON_OUTPUT: Pick<Query, 'output' | 'addressBits'> = {
  output: {
    ...{ kind: 'json', isDownload: false, line: null, fields: null },
    ...{ splitIp: false, shape: 'array', wrap: false, pretty: true },
  },
  addressBits: 32,
}

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
function inMemory(list: List, branchMax = 60_000) {
  const { all } = createStatements(list.db)
  const cities = createCities(list.db)
  let read = 0
  let version = 1
  const counted: typeof all = bind => {
    const rows = all(bind)
    read += rows.length
    return rows as never[]
  }
  const find = createHotRows({ all: counted }, () => version, dataVersionOf(list.db), branchMax)
  const whole = (filter: Partial<Filter>) => ({ ...NO_FILTER, ageMaxSeconds: 86_400, ...filter })
  return {
    find(filter: Partial<Filter>, most: number): number[] | 'must-stream' | null {
      const found = find(compileFilter(whole(filter), AT_T0, cities), most)
      return typeof found === 'object' && found !== null ? found.map(([id]) => id) : found
    },
    /** What a full select finds. */
    full: (filter: Partial<Filter>, count: number): number[] =>
      list.proxies.findAll({ ...whole(filter), count }, AT_T0).rows.map(([id]) => id),
    /** The number of rows read since the last call. */
    read(): number {
      const rows = read
      read = 0
      return rows
    },
    change(): void {
      version += 1
    },
  }
}

const SOCKS5: Partial<Filter> = { types: ['socks5'] }
const FRENCH: Partial<Filter> = { countries: ['FR'] }

describe('rows in memory', () => {
  const list = open(null)
  fillList(list, rowsOf(5000))

  test('are read once for a version of the list, twice as many each time', () => {
    const world = inMemory(list)
    for (const _ of [1, 2]) {
      expect(world.find({}, 5)).toEqual(world.full({}, 5))
      expect(world.read()).toBe(128)
      expect(world.find(SOCKS5, 10)).toEqual(world.full(SOCKS5, 10))
      expect(world.read()).toBe(1024 - 128)
      expect(world.find(SOCKS5, 9)).toEqual(world.full(SOCKS5, 9))
      expect(world.read()).toBe(0)
      expect(world.find(FRENCH, 900)).toEqual(world.full(FRENCH, 900))
      expect(world.read()).toBe(500) // all there are
      world.change()
    }
  })

  test('are found in another order once all that are young enough are in memory', () => {
    const world = inMemory(list)
    for (const sort of ['ping', 'speed', 'works'] as const) {
      const near = { sort, ageMaxSeconds: 300 }
      expect(world.find(near, 20)).toEqual(world.full(near, 20))
      expect(world.find({ ...near, ...SOCKS5 }, 9)).toEqual(world.full({ ...near, ...SOCKS5 }, 9))
      const two: Partial<Filter> = { ...near, countries: ['DE', 'FR'] }
      expect(world.find(two, 20)).toEqual(world.full(two, 20))
    }
    const short = inMemory(list, 1500)
    expect(short.find({ sort: 'ping' }, 1)).toBe('must-stream')
    expect(short.find({ sort: 'ping', ageMaxSeconds: 140 }, 5)).toHaveLength(5)
  })
})

test('rows in memory of a list that another connection changes are of one snapshot', () => {
  const dir = temporaryDirectory()
  const [writer, reading] = [open(dir), open(dir)]
  fillList(writer, rowsOf(1500))
  const world = inMemory(reading)
  const before = world.full(SOCKS5, 10)
  expect(world.find(SOCKS5, 10)).toEqual(before)
  writer.db.run('delete from proxies')
  fillList(writer, rowsOf(1500, 2))
  expect(world.find(SOCKS5, 10)).toEqual(before) // the version is not known to be another
  expect(world.find(SOCKS5, 12)).toBeNull() // this would need rows of the new list
  expect(world.find(SOCKS5, 12)).toEqual(world.full(SOCKS5, 12))
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
    const render = createAnswerRenderer('the service')
    const textOf = (find: (filter: Filter) => Found | null, filter: Partial<Filter>): string => {
      const query = { filter: { ...NO_FILTER, ...filter, count: 20 }, ...JSON_OUTPUT }
      const found = find(query.filter)
      return found === null ? 'too large' : bodyOf(render(query, found).answer, T0).toString()
    }
    const found = (filter: Partial<Filter>): string =>
      textOf(each => reading.proxies.findQuickly(each, AT_T0), filter)
    const full = (filter: Partial<Filter>): string =>
      textOf(each => writer.proxies.findAll(each, AT_T0), filter)
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
