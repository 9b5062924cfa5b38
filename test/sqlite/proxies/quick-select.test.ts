/** Quick selects of a server: what they find while another connection changes the list, and how much they give. */
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

test('a quick select refuses more records than its limit', () => {
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

test('rows in memory belong to one snapshot, also when another connection changes the list', () => {
  const dir = temporaryDirectory()
  const [writer, reading] = [open(dir), open(dir)]
  fillList(writer, rowsOf(1500))
  const filter = { ...NO_FILTER, ageMaxSeconds: 86_400, types: ['socks5'] as const }
  const find = createHotRows(
    ...([createStatements(reading.db), () => 1, dataVersionOf(reading.db), 60_000] as const),
  )
  const ask = (most: number) => find(compileFilter(filter, AT_T0, createCities(reading.db)), most)
  const before = ask(10)
  expect(before).toHaveLength(10)
  writer.db.run('delete from proxies')
  fillList(writer, rowsOf(1500, 2))
  expect(ask(10)).toEqual(before)
  expect(ask(12)).toBeNull() // this needs rows of the new list
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

  test('read the list as it is, or as it was in this turn', async () => {
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
