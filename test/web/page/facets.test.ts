/** Counts of the page (F6), compared with counting a list by hand. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Count, countFacets, type Facets } from '../../../src/web/page/model/facets.ts'
import { ANONS, type Choice, SERVICES, START, TYPES } from '../../../src/web/page/model/query.ts'
import { MERGED, readStats, type Stats } from '../../../src/web/page/model/stats.ts'
import { createSay } from '../../../src/web/page/words.ts'
import {
  type Counted,
  countedList,
  publishedOf,
  statisticsOf,
} from '../../support/list-statistics.ts'

const LIST = countedList(4000)

function statsOf(document: object): Stats {
  const stats = readStats(JSON.parse(JSON.stringify(document)))
  if (stats === null) throw new Error('no statistics')
  return stats
}

/** Every cell has five proxies, so that none is merged or hidden. */
const WHOLE = LIST.flatMap(proxy => Array.from({ length: 5 }, () => proxy))
const STATS = statsOf(statisticsOf(WHOLE))

function facetsOf(stats: Stats, change: Partial<Choice>): Facets {
  const facets = countFacets(stats, { ...START, ...change })
  if (facets === null) throw new Error('no facets')
  return facets
}

/** Counts by hand, as the API selects. */
const passes = (choice: Partial<Choice>) => {
  const { type = '', anon = '', country = '', country_mode, service = '', time = '600' } = choice
  const isIn = (values: string, value: string): boolean =>
    values === '' || values.split(',').includes(value)
  return (proxy: Counted): boolean =>
    isIn(type, proxy.type) &&
    isIn(anon, proxy.anon) &&
    (country === '' ||
      country.toUpperCase().split(',').includes(proxy.country) !== (country_mode === 'except')) &&
    (service === '' || service.split(',').every(name => proxy.services.includes(name))) &&
    proxy.age <= Number(time)
}

/** Every count of the page beside the true number: for each option, what choosing it alone gives. */
function compared(list: readonly Counted[], stats: Stats, choice: Partial<Choice>) {
  const facets = facetsOf(stats, choice)
  const trueOf = (change: Partial<Choice>): number =>
    list.filter(passes({ ...choice, ...change })).length
  const { country: _, country_mode: __, ...rest } = choice
  const anywhere = list.filter(passes(rest))
  const chosen = choice.service?.split(',').filter(name => name !== '') ?? []
  return [
    ['matches', facets.matches, trueOf({})] as const,
    ...[...facets.type].map(([type, count]) => [type, count, trueOf({ type })] as const),
    ...[...facets.anon]
      .filter(([anon]) => anon !== '')
      .map(([anon, count]) => [anon, count, trueOf({ anon })] as const),
    ...[...facets.country]
      .filter(([country]) => country !== MERGED)
      .map(([country, count]) => {
        const really = anywhere.filter(proxy => proxy.country === country).length
        return [country, count, really] as const
      }),
    ...[...facets.age].map(([time, count]) => [time, count, trueOf({ time })] as const),
    ...[...facets.service].map(([name, count]) => {
      const service = [...chosen, name].join()
      return [name, count, trueOf({ service })] as const
    }),
  ]
}

const isWithin = ({ least, most }: Count, really: number): boolean =>
  least <= really && really <= most

const EXACT: Partial<Choice>[] = [
  {},
  { type: 'socks5' },
  { type: 'socks5,socks4', anon: 'elite' },
  { country: 'de,nl' },
  { country: 'de', country_mode: 'except' },
  { service: 'telegram' },
  { time: '60' },
  { type: 'http', anon: 'elite', country: 'us', service: 'google', time: '3600' },
]

test.each(EXACT)('every count is exact where nothing is merged or hidden: %j', choice => {
  for (const [name, { least, most, size }, really] of compared(WHOLE, STATS, choice)) {
    // How many have two services is not in the cube.
    const isOfTwo = choice.service !== undefined && SERVICES.some(service => service === name)
    if (isOfTwo && name !== choice.service) continue
    expect({ name, least, most, size }).toEqual({ name, least: really, most: really, size: really })
  }
})

describe('counts that the statistics cannot give exactly', () => {
  test.each<Partial<Choice>>([
    { ping: '700' },
    { speed: '1' },
    { works: '90' },
    { city: 'Berlin' },
    { port: '1080' },
    { ip: '1.2.3.4:80' },
  ])('are upper bounds with a filter that the cube does not have: %j', choice => {
    const facets = facetsOf(STATS, choice)
    const all = facetsOf(STATS, {})
    for (const name of ['type', 'anon', 'country', 'service', 'age'] as const) {
      for (const [option, { least, most, size }] of facets[name]) {
        const whole = all[name].get(option)
        expect([least, size]).toEqual([0, whole?.size ?? -1])
        expect(most).toBeLessThanOrEqual(whole?.most ?? -1)
      }
    }
    expect(facets.matches.least).toBe(0)
    expect(facets.matches.most).toBeLessThanOrEqual(all.matches.most)
  })

  test.each<[Partial<Choice>, number]>([
    [{ ping: '200' }, 700 + 1800],
    [{ ping: '201' }, 700 + 1800 + 2600],
    [{ ping: '0' }, 700],
    [{ speed: '2500000' }, 300 + 40],
    [{ speed: '2499999' }, 4900 + 300 + 40],
    [{ works: '80' }, 2600 + 3100],
    [{ works: '90', ping: '100' }, 700],
    [{ ip: '1.2.3.4:80', works: '90' }, 1],
  ])('are at most what the columns of a limit hold: %j', (choice, most) => {
    expect(facetsOf(STATS, choice).matches.most).toBe(most)
  })

  test('are not for what is typed wrong, because the request leaves it out', () => {
    expect(facetsOf(STATS, { ping: 'fast' })).toEqual(facetsOf(STATS, {}))
  })

  test('of an age between two bounds are between theirs', () => {
    const { least, most } = facetsOf(STATS, { time: '100' }).matches
    expect(least).toBe(WHOLE.filter(passes({ time: '60' })).length)
    expect(most).toBe(WHOLE.filter(passes({ time: '300' })).length)
  })
})

describe('where small cells are merged or hidden', () => {
  const few = (size: number, proxy: Partial<Counted>): Counted[] =>
    Array.from({ length: size }, () => ({
      ...{ type: 'http', anon: 'elite', country: 'DE', age: 30, services: [], ...proxy },
    }))
  const counts = (list: readonly Counted[], choice: Partial<Choice>): Count =>
    facetsOf(statsOf(publishedOf(list)), choice).matches

  test('a country whose rows are all merged is not said to have none', () => {
    const list = [...few(9, { country: 'US' }), ...few(3, {}), ...few(4, { country: 'FR' })]
    expect(counts(list, { country: 'de' })).toEqual({ least: 0, most: 7, size: 0 })
    const facet = facetsOf(statsOf(publishedOf(list)), {}).country
    expect(facet.get(MERGED)).toEqual({ least: 7, most: 7, size: 7 })
    expect(facet.get('US')).toEqual({ least: 9, most: 9, size: 9 })
  })

  test('a country has at most as many merged rows as the smallest cell with a country', () => {
    const others = ['FR', 'NL', 'PL', 'IT'].flatMap(country => few(4, { country }))
    const list = [...few(6, { country: 'US' }), ...few(3, {}), ...others]
    expect(counts(list, { country: 'de' })).toEqual({ least: 0, most: 6, size: 0 })
    expect(counts(list, { country: 'de,fr' }).most).toBe(12)
  })

  test('cells with a country are at least there, and what is excepted may be merged', () => {
    const socks = { type: 'socks5' } as const
    const list = [
      ...[...few(8, {}), ...few(9, { country: 'US' }), ...few(6, { ...socks, country: 'US' })],
      ...[...few(3, socks), ...few(3, { ...socks, country: 'FR' })],
    ]
    expect(counts(list, { country: 'de' })).toEqual({ least: 8, most: 14, size: 8 })
    const except = { country: 'de', country_mode: 'except' }
    expect(counts(list, except)).toEqual({ least: 15, most: 21, size: 21 })
    expect(counts(list, { ...except, type: 'http' })).toEqual({ least: 9, most: 9, size: 9 })
  })

  test('hidden rows may match, as many as there are and four in each group', () => {
    const list = [...few(7, {}), ...few(2, { type: 'socks5' }), ...few(3, { type: 'socks4' })]
    expect(counts(list, {})).toEqual({ least: 7, most: 12, size: 7 })
    expect(counts(list, { type: 'socks5', time: '60' })).toEqual({ least: 0, most: 5, size: 0 })
    expect(counts(list, { type: 'socks5', anon: 'elite', time: '60' }).most).toBe(4)
  })
})

describe('of lists with small cells', () => {
  const proxies: fc.Arbitrary<Counted> = fc.record({
    type: fc.constantFrom('http', 'socks5'),
    anon: fc.constantFrom('', 'elite'),
    country: fc.constantFrom('', 'DE', 'NL', 'US'),
    age: fc.constantFrom(0, 60, 61, 300, 599, 601, 700_000, 1_000_000),
    services: fc.subarray([...SERVICES]),
  })
  const lists = fc
    .array(proxies, { minLength: 1, maxLength: 12 })
    .chain(kinds => fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 150 }))
  const some = (values: readonly string[]) =>
    fc.oneof(
      fc.constant(''),
      fc.subarray([...values]).map(items => items.join()),
    )
  const choices = fc.record({
    type: some(TYPES),
    anon: some(ANONS),
    country: some(['de', 'nl', 'us', 'is']),
    country_mode: fc.constantFrom('', 'include', 'except'),
    service: some(SERVICES.slice(0, 3)),
    time: fc.constantFrom('0', '60', '100', '600', '604800', '800000', '9000000'),
  })
  const sizes = fc.constantFrom(Number.POSITIVE_INFINITY, 0, 1, 3)

  test('every true number is within what is shown, whatever the list and the choice', () => {
    let exact = 0
    fc.assert(
      fc.property(lists, choices, sizes, (list, choice, cells) => {
        for (const [name, count, really] of compared(
          list,
          statsOf(publishedOf(list, cells)),
          choice,
        )) {
          expect([name, really, isWithin(count, really)]).toEqual([name, really, true])
          if (count.least === count.most && really > 0) exact += 1
        }
      }),
      { numRuns: 1000 },
    )
    expect(exact).toBeGreaterThan(100)
  })

  test('no chosen option is said to have more than all that match', () => {
    fc.assert(
      fc.property(lists, choices, sizes, (list, choice, cells) => {
        const facets = facetsOf(statsOf(publishedOf(list, cells)), choice)
        const chosen = [
          ...choice.type.split(',').map(type => facets.type.get(type)),
          ...choice.anon.split(',').map(anon => anon !== '' && facets.anon.get(anon)),
          ...(choice.country_mode === 'except' ? '' : choice.country)
            .split(',')
            .map(code => code !== '' && facets.country.get(code.toUpperCase())),
          ...choice.service.split(',').map(name => facets.service.get(name)),
        ].filter(count => typeof count === 'object')
        for (const { least, most } of chosen) {
          expect(least).toBeLessThanOrEqual(facets.matches.least)
          expect(most).toBeLessThanOrEqual(facets.matches.most)
        }
      }),
      { numRuns: 500 },
    )
  })
})

test.each<[Count, string, string]>([
  [{ least: 1300, most: 1300, size: 1300 }, '1,300', '1,300'],
  [{ least: 0, most: 0, size: 0 }, '0', '0'],
  [{ least: 0, most: 95, size: 13 }, '≤ 95', '≤ 95'],
  [{ least: 13, most: 95, size: 13 }, '≥ 13', '13–95'],
])('of %j the page says %s, and %s in full', (count, bound, range) => {
  const say = createSay('en')
  expect([say.bound(count), say.range(count)]).toEqual([bound, range])
})

describe('statistics documents', () => {
  test('without a cube have totals only', () => {
    const stats = readStats({ total: 5, at: 1_795_176_000 })
    expect(stats).toMatchObject({ total: 5, at: 1_795_176_000, counted: null, cities: [] })
    expect(stats && countFacets(stats, START)).toBeNull()
  })

  test.each([[null], [1], ['text'], [[]], [{}], [{ total: '5' }]])('%j is none', document => {
    expect(readStats(document)).toBeNull()
  })

  test('of a list whose rows are all hidden have a cube without cells', () => {
    const stats = statsOf(publishedOf(LIST.slice(0, 1)))
    expect(countFacets(stats, { ...START, time: '604800' })?.matches).toEqual({
      ...{ least: 0, most: 1, size: 0 },
    })
  })

  test('with columns of different lengths have totals only', () => {
    const whole = statisticsOf(LIST)
    const cube = { ...whole.cube, type: whole.cube.type.slice(1) }
    expect(readStats({ ...whole, cube })?.counted).toBeNull()
  })
})
