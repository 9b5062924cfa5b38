/**
 * Holds that pages of a search are together what one statement finds, wherever a page ends, and that
 * an index leads to the beginning of each.
 */
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Filter } from '../../../src/proxies/filter.ts'
import { ROW_COLUMNS } from '../../../src/proxies/row.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import { createPages, createReader, PAGE_ROWS } from '../../../src/sqlite/proxies/search.ts'
import { openList } from '../../../src/sqlite/stores.ts'
import { fillList, listOf, NO_FILTER, T0 } from '../../support/fixtures.ts'
import { cleanUp } from '../../support/temporary.ts'

const AT_T0 = { nowMs: T0, addressBits: 32 } as const
afterAll(cleanUp)

/** Few check times, pings, ports and countries, so that most pages end between rows alike. */
const someRow = fc.record({
  ip: fc
    .tuple(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 80, max: 82 }))
    .map(([n, port]) => `10.0.0.${n}:${port}`),
  type: fc.constantFrom('http', 'socks5'),
  age: fc.integer({ min: 0, max: 2 }),
  ping: fc.constantFrom(undefined, 0.1, 0.2),
  country: fc.constantFrom('de', 'us', 'fr'),
  city: fc.constantFrom('Bonn', 'Paris'),
})
const someRows = fc.uniqueArray(someRow, { selector: ({ ip }) => ip, maxLength: 60 })

/** One for each way to the rows, and one with several branches. */
const FILTERS: readonly Partial<Filter>[] = [
  {},
  { types: ['socks5'] },
  { countries: ['DE'] },
  { countries: ['DE', 'US'] },
  { cities: ['bonn'] },
  { cities: ['nowhere'] },
  { port: 80 },
  { address: { ip: '10.0.0.1', port: 80 } },
  { count: 5 },
  { countries: ['US'], count: 4 },
]

test('pages of any size hold every row once, in order, and all but the last are full, unless marks end them', () => {
  const pageSize = fc.integer({ min: 1, max: 7 })
  const someMarks = fc.integer({ min: 1, max: 9 })
  fc.assert(
    fc.property(
      someRows,
      pageSize,
      someMarks,
      fc.constantFrom(...FILTERS),
      (rows, size, marks, some) => {
        const list = openList(null)
        try {
          fillList(list, rows)
          const filter = { ...NO_FILTER, ...some }
          const read = createReader(list.db)
          const search = read.search(filter, AT_T0)
          const readAll = (markEntries: number) => [
            ...createPages(read, dataVersionOf(list.db), {
              pageRows: size,
              markEntries,
            }).pages(search, ROW_COLUMNS, filter.count),
          ]
          const pages = readAll(marks)
          expect(pages.flat()).toEqual(list.proxies.records.findAll(filter, AT_T0))
          for (const page of pages) expect(page.length).toBeLessThanOrEqual(size)
          const whole = readAll(1_000)
          expect(whole.flat()).toEqual(pages.flat())
          for (const page of whole.slice(0, -1)) expect(page).toHaveLength(size)
        } finally {
          list.close()
        }
      },
    ),
    { numRuns: 300 },
  )
})

test('a page is larger than what a quick select finds', () => {
  const rows = Array.from({ length: PAGE_ROWS + 1 }, (_, n) => ({
    ip: `10.0.${n >> 8}.${n & 255}:80`,
    type: 'http',
  }))
  const { proxies } = listOf(rows)
  const [first, second] = [...proxies.endpoints.open(NO_FILTER, T0).pages]
  expect([first?.length, second?.length]).toEqual([PAGE_ROWS, 1])
})

test('what SQLite reads of the list for each page begins in the middle of an index', () => {
  const list = listOf([{ ip: '10.0.0.1:80', type: 'http', country: 'de', city: 'Bonn' }])
  const read = createReader(list.db)
  const plans = (some: Partial<Filter>): string[] => {
    const statements: string[] = []
    const all: typeof read.all = (sql, values) => {
      statements.push(sql)
      return read.all(sql, values)
    }
    const search = read.search({ ...NO_FILTER, ...some }, AT_T0)
    const { pages } = createPages({ ...read, all }, () => 0, { pageRows: 1 })
    expect([...pages(search, ROW_COLUMNS)].flat()).toHaveLength(1)
    return statements.flatMap(sql =>
      list.db
        .query<{ detail: string }, []>(`explain query plan ${sql}`)
        .all()
        .map(({ detail }) => detail),
    )
  }
  const steps = (index: string, before: string): string[] => [
    `SEARCH proxies USING ${index} (${before}checked_at>?)`,
    `SEARCH proxies USING ${index} (${before}checked_at=? AND ping_ms=? AND id>?)`,
    `SEARCH proxies USING ${index} (${before}checked_at=? AND ping_ms>?)`,
    `SEARCH proxies USING ${index} (${before}checked_at>? AND checked_at<?)`,
  ]
  expect(plans({})).toEqual(steps('COVERING INDEX proxies_by_age', ''))
  const byCountry = steps('COVERING INDEX proxies_by_country', 'country=? AND ')
  expect(plans({ countries: ['DE'] })).toEqual(byCountry)
  expect(plans({ cities: ['bonn'] })).toEqual(steps('INDEX proxies_by_city', 'city=? AND '))
  expect(plans({ port: 80 })).toEqual(steps('INDEX proxies_by_port', '<expr>=? AND '))
})
