/**
 * Holds what statistics say of a list (contract F4) against naive counting of its rows, and that no
 * small cell is ever shown, whatever has to be merged so that the document fits.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { encode } from '../../src/lib/coded.ts'
import { ANONS, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { countryText, countryToNumber, UNKNOWN, UNKNOWN_PING } from '../../src/proxies/row.ts'
import {
  AGES_SECONDS,
  COUNT_MIN,
  type CountedRow,
  createCounter,
  type ListCounts,
  largestThatFits,
  type StatsOptions,
  type StatsSize,
  statsDocument,
} from '../../src/proxies/stats.ts'
import type { Histogram, StatsDocument } from '../../src/proxies/stats-document.ts'
import { between, randomOf } from '../support/random.ts'

const NOW = 2_000_000_000
const DAY = 86_400
const FULL: StatsOptions = { version: '1.2.3', part: 'full', provider: 'the service' }
const cityNames = (id: number) => ({
  name: `Город ${id}`,
  nameEn: id % 3 === 0 ? '' : `City ${id}`,
})

/** The values of a row by name; `age` in seconds at `NOW`. */
type Values = {
  age: number
  pingMs: number
  type: number
  anon: number
  works: number
  speed: number
  services: number
  country: string
  city: number
}
const BERLIN: Values = {
  ...{ age: 30, pingMs: 532, type: 0, anon: 3, works: 97, speed: 1_250_000, services: 0b00110 },
  ...{ country: 'DE', city: 1 },
}
const rowOf = (values: Values, id: number): CountedRow => [
  ...([id, NOW - values.age, values.pingMs, values.type, values.anon] as const),
  ...([values.works, values.speed, values.services] as const),
  ...([countryToNumber(values.country), values.city] as const),
]

function countsOf(list: readonly Values[]): ListCounts {
  const counter = createCounter(NOW)
  list.forEach((values, i) => {
    counter.add(rowOf(values, i))
  })
  return counter.read(cityNames)
}
const isFull = (document: object): document is StatsDocument => 'cube' in document

function documentOf(
  counts: ListCounts,
  options: Partial<StatsOptions> = {},
  size?: StatsSize,
): StatsDocument {
  const document = statsDocument(counts, { ...FULL, ...options }, size)
  if (!isFull(document)) throw new Error('there is no cube')
  return document
}
const many = (count: number, values: Partial<Values> = {}): Values[] =>
  Array.from({ length: count }, () => ({ ...BERLIN, ...values }))

/** The smallest bound of age that holds, or what is shown for rows that are older. */
const boundOf = (age: number, oldest: number): number =>
  AGES_SECONDS.find(bound => age <= bound) ?? Math.ceil(oldest / DAY) * DAY

/** The cells of a document by the values they stand for: rows, then those with each service. */
function cellsOf({ cube, dimensions }: StatsDocument): Map<string, number[]> {
  const cells = cube.count.map((count, i): [string, number[]] => [
    [
      dimensions.type[cube.type[i] ?? -1],
      dimensions.anon[cube.anon[i] ?? -1],
      dimensions.country[cube.country[i] ?? -1],
      dimensions.age[cube.age[i] ?? -1],
    ].join('|'),
    [count, ...dimensions.services.map(name => cube[name]?.[i] ?? -1)],
  ])
  const byName = new Map(cells)
  expect(byName.size).toBe(cells.length) // no two agree in all
  return byName
}

/** Counts rows by naming the cell of each. */
function naiveCells(list: readonly Values[], countryOf: (values: Values) => string) {
  const oldest = Math.max(...list.map(({ age }) => age))
  const cells = new Map<string, number[]>()
  for (const values of list) {
    const { type, anon, age, services } = values
    const name = [
      ...[TYPES[type], ['', ...ANONS][anon], countryOf(values), boundOf(age, oldest)],
    ].join('|')
    const numbers = cells.get(name) ?? SERVICES.map(() => 0).concat(0)
    cells.set(
      name,
      numbers.map((n, i) => n + (i === 0 || services & (1 << (i - 1)) ? 1 : 0)),
    )
  }
  return cells
}
const sum = (numbers: Iterable<number>): number => [...numbers].reduce((a, b) => a + b, 0)

/** Few values of each kind, so that cells of all sizes come up. */
const values: fc.Arbitrary<Values> = fc.record({
  age: fc.constantFrom(-10, 0, 60, 61, 300, 3600, 86_401, 604_800, 604_801, 1_000_000),
  pingMs: fc.constantFrom(0, 50, 51, 700, 60_000, UNKNOWN_PING),
  type: fc.constantFrom(0, 3),
  anon: fc.constantFrom(0, 3),
  works: fc.constantFrom(0, 89, 90, 100, UNKNOWN),
  speed: fc.constantFrom(0, 10_000, 99_999_999, UNKNOWN),
  services: fc.nat({ max: 31 }),
  country: fc.constantFrom('', 'DE', 'US'),
  city: fc.constantFrom(0, 1, 2),
})
const lists = fc
  .array(values, { maxLength: 12 })
  .chain(kinds =>
    kinds.length === 0
      ? fc.constant<Values[]>([])
      : fc.array(fc.constantFrom(...kinds), { maxLength: 120 }),
  )

describe('the cube', () => {
  test('is what naive counting of the rows gives', () => {
    fc.assert(
      fc.property(lists, list => {
        const document = documentOf(countsOf(list))
        const naive = [...naiveCells(list, ({ country }) => country)]
        const large = new Set(
          naive.filter(([, [count = 0]]) => count >= COUNT_MIN).map(([name]) => name),
        )
        const oldest = Math.max(...list.map(({ age }) => age))
        // What is small is counted once more, this time without its country.
        const merged = naiveCells(list, row => {
          const own = [...naiveCells([row], ({ country }) => country).keys()].join()
          const name = own.replace(/[^|]*$/, String(boundOf(row.age, oldest)))
          return large.has(name) ? row.country : '--'
        })
        const shown = [...merged].filter(([, [count = 0]]) => count >= COUNT_MIN)
        expect(cellsOf(document)).toEqual(new Map(shown))
        expect(document.total).toBe(list.length)
        expect(document.hidden).toBe(list.length - sum(shown.map(([, [count = 0]]) => count)))
      }),
      { numRuns: 300 },
    )
  })

  test('has no cell below 5, and hidden and cells are the total, however few cells fit', () => {
    fc.assert(
      fc.property(lists, fc.nat({ max: 12 }), (list, cells) => {
        const { cube, hidden, total } = documentOf(countsOf(list), {}, { cells, cities: 50 })
        for (const count of cube.count) expect(count).toBeGreaterThanOrEqual(COUNT_MIN)
        expect(hidden + sum(cube.count)).toBe(total)
        expect(cube.country.filter(at => at > 0).length).toBeLessThanOrEqual(cells)
        const columns = Object.values(cube)
        expect(columns).toHaveLength(5 + SERVICES.length)
        for (const column of columns) expect(column).toHaveLength(cube.count.length)
      }),
    )
  })
})

describe('a cell', () => {
  test('keeps the largest cells where not all fit', () => {
    const list = ['DE', 'FR', 'NL', 'US'].flatMap((country, i) => many(10 + i, { country }))
    const { cube, dimensions } = documentOf(countsOf(list), {}, { cells: 2, cities: 50 })
    expect(dimensions.country).toEqual(['--', '', 'NL', 'US'])
    expect([cube.country, cube.count]).toEqual([
      [0, 2, 3],
      [21, 12, 13],
    ])
  })

  test.each(['the service', 'яндекс', '2captcha', 'constructor', 'mail.example-1'])(
    'has a column named as the provider’s service: %s',
    provider => {
      const list = [...many(5, { services: 0b10000 }), ...many(2)]
      const { cube, dimensions } = JSON.parse(
        JSON.stringify(documentOf(countsOf(list), { provider })),
      )
      expect(dimensions.services).toEqual(['smtp', 'telegram', 'avito', 'google', provider])
      expect(Object.keys(cube)).toEqual([
        ...['type', 'anon', 'country', 'age', 'count'],
        ...dimensions.services,
      ])
      expect(cube[provider]).toEqual([5])
    },
  )
})

describe('histograms', () => {
  /** Sums of the counts up to each edge but the first. */
  const upTo = ({ edges, counts }: Histogram): [edge: number, rows: number][] =>
    counts.map((_, i) => [edges[i + 1] ?? -1, sum(counts.slice(0, i + 1))])
  /** Sums of the counts from each edge but the last. */
  const from = ({ edges, counts }: Histogram): [edge: number, rows: number][] =>
    counts.map((_, i) => [edges[i] ?? -1, sum(counts.slice(i))])

  test('count as filters do: ping up to an edge, speed and works from one; unknown is left out', () => {
    fc.assert(
      fc.property(lists, list => {
        const { ping, speed, works } = countsOf(list).histograms
        const known = list.filter(({ pingMs }) => pingMs !== UNKNOWN_PING)
        for (const [edge, rows] of upTo(ping)) {
          expect(rows).toBe(known.filter(({ pingMs }) => pingMs <= edge).length)
        }
        for (const [edge, rows] of from(speed)) {
          expect(rows).toBe(list.filter(row => row.speed >= edge).length)
        }
        for (const [edge, rows] of from(works)) {
          expect(rows).toBe(list.filter(row => row.works >= edge).length)
        }
        for (const { edges, counts } of [ping, speed, works]) {
          expect(edges).toHaveLength(counts.length + 1)
          expect([...edges].sort((a, b) => a - b)).toEqual([...edges])
          expect(new Set(edges).size).toBe(edges.length)
        }
      }),
      { numRuns: 200 },
    )
  })

  test('end at the largest value where it is beyond the last edge', () => {
    const { ping, speed, works } = countsOf([
      ...many(1, { pingMs: 59_000, speed: 77_000_000, works: 100 }),
      ...many(2),
    ]).histograms
    expect([ping, speed, works].map(({ edges }) => edges.at(-1))).toEqual([59_000, 77_000_000, 100])
    expect([ping, speed, works].map(({ counts }) => counts.at(-1))).toEqual([1, 1, 1])
  })
})

describe('the cities', () => {
  test('are the fifty largest, the largest first, and none is below 5', () => {
    const list = Array.from({ length: 60 }, (_, i) => many(i + 1, { city: i + 1 })).flat()
    const { cities } = documentOf(countsOf(list))
    expect(cities).toHaveLength(50)
    expect(cities[0]).toEqual({ city: 'Город 60', city_en: '', country: 'DE', count: 60 })
    expect(cities.map(({ count }) => count)).toEqual(Array.from({ length: 50 }, (_, i) => 60 - i))
    const few = countsOf([...many(4), ...many(5, { city: 2 }), ...many(9, { city: 0 })])
    expect(documentOf(few).cities).toEqual([
      { city: 'Город 2', city_en: 'City 2', country: 'DE', count: 5 },
    ])
  })

  test('of one name in two countries are two', () => {
    const list = [...many(6), ...many(5, { country: 'US' }), ...many(4, { country: '' })]
    const named = documentOf(countsOf(list)).cities.map(({ country, count }) => [country, count])
    expect(named).toEqual([
      ['DE', 6],
      ['US', 5],
    ])
  })
})

test('totals have neither the cube nor the cities, and all else', () => {
  const counts = countsOf([...many(7), ...many(2, { type: 1 })])
  const { cube: _, cities: __, ...rest } = documentOf(counts)
  expect(statsDocument(counts, { ...FULL, part: 'totals' })).toEqual(rest)
  expect(rest).toMatchObject({ version: '1.2.3', at: NOW, total: 9, hidden: 2 })
  expect(Object.keys(rest)).toEqual([
    ...['version', 'at', 'total', 'hidden', 'dimensions', 'histograms'],
  ])
})

test('an empty list has a document', () => {
  const document = documentOf(countsOf([]))
  expect(document).toMatchObject({ total: 0, hidden: 0, cities: [], cube: { count: [] } })
  expect(document.dimensions).toMatchObject({ country: ['--', ''], age: [...AGES_SECONDS] })
  expect(sum(document.histograms.works.counts)).toBe(0)
})

describe('a million rows of 220 countries', () => {
  const BYTES_MAX = 40_000
  const COUNTRIES = 220
  const random = randomOf(11, 'stats')

  /** Counts of every cell that there can be, of sizes that `sizeOf` chooses, and of fifty cities. */
  function countsWith(sizeOf: () => number, nameOf: (i: number) => string): ListCounts {
    const cells = Array.from({ length: COUNTRIES }, (_, n) => n).flatMap(n =>
      TYPES.flatMap((_, type) =>
        [0, ...ANONS.keys()].flatMap((_, anon) =>
          [0, ...AGES_SECONDS.keys()].map((_, age) => {
            const count = sizeOf()
            const services = SERVICES.map(() => between(random, 0, count))
            const country = countryToNumber(
              countryText((1 + Math.floor(n / 26)) * 32 + 1 + (n % 26)),
            )
            return { type, anon, country, age, count, services }
          }),
        ),
      ),
    )
    const cities = Array.from({ length: 50 }, (_, i) => ({
      ...{ city: nameOf(i), city_en: nameOf(i + 50), country: 'DE', count: 1000 - i },
    }))
    const rows = sum(cells.map(({ count }) => count))
    return { ...countsOf(many(9)), rows, oldest: NOW - 9 * DAY, cells, cities }
  }
  const short = (i: number): string => `City ${i}`
  /** 200 characters that hardly compress, which is what an import accepts at most. */
  const long = (): string =>
    String.fromCharCode(...Array.from({ length: 200 }, () => between(random, 0x4e00, 0x9fff)))

  const CASES: readonly (readonly [
    what: string,
    sizeOf: () => number,
    nameOf: (i: number) => string,
  ])[] = [
    ['of all sizes', () => between(random, 1, 80), short],
    [
      'that are few large and many small ones',
      () => Math.round(2 * 4000 ** (random() ** 3)),
      short,
    ],
    ['that are all alike', () => 41, short],
    ['and cities of very long names', () => between(random, 1, 80), long],
  ]
  test.each(CASES)('in cells %s fit into 40 KB in either form', (_, sizeOf, nameOf) => {
    const counts = countsWith(sizeOf, nameOf)
    expect(counts.rows).toBeGreaterThan(900_000)
    const { document, coded } = largestThatFits(
      counts,
      size => {
        const document = documentOf(counts, {}, size)
        return { document, coded: encode(JSON.stringify(document)) }
      },
      ({ coded: { gzip, zstd } }) => Math.max(gzip.length, zstd.length) <= BYTES_MAX,
    )
    const bytes = Math.max(coded.gzip.length, coded.zstd.length)
    expect(bytes).toBeLessThanOrEqual(BYTES_MAX)
    expect(bytes).toBeGreaterThan(0.9 * BYTES_MAX) // no more is merged than has to be
    expect(Math.min(...document.cube.count)).toBeGreaterThanOrEqual(COUNT_MIN)
    expect(document.hidden + sum(document.cube.count)).toBe(counts.rows)
    expect(document.cities.length).toBeGreaterThan(10)
  })
})
