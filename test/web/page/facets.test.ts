/** Counts of the page (F6), compared with counting a list by hand. */
import { describe, expect, test } from 'bun:test'
import { countFacets, type Facets } from '../../../src/web/page/model/facets.ts'
import { type Choice, START } from '../../../src/web/page/model/query.ts'
import { readStats, type Stats } from '../../../src/web/page/model/stats.ts'
import { type Counted, countedList, statisticsOf } from './list-statistics.ts'

const LIST = countedList(18_400)

function statsOf(list: readonly Counted[]): Stats {
  const stats = readStats(JSON.parse(JSON.stringify(statisticsOf(list))))
  if (stats === null) throw new Error('no statistics')
  return stats
}

/** Every cell has five proxies, so that none is merged or hidden. */
const WHOLE = LIST.flatMap(proxy => Array.from({ length: 5 }, () => proxy))
const STATS = statsOf(WHOLE)

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

describe.each(EXACT)('of %j', choice => {
  const facets = facetsOf(STATS, choice)

  test('the number that matches is exact', () => {
    expect(facets.bound).toBe('exact')
    expect(facets.matches).toBe(WHOLE.filter(passes(choice)).length)
  })

  test('each option says what it would give in place of the others of its filter', () => {
    for (const [type, count] of facets.type) {
      expect(count).toBe(WHOLE.filter(passes({ ...choice, type })).length)
    }
    for (const [anon, count] of facets.anon) {
      if (anon === '') continue
      expect(count).toBe(WHOLE.filter(passes({ ...choice, anon })).length)
    }
    const { country: _, country_mode: __, ...rest } = choice
    for (const [country, count] of facets.country) {
      const all = WHOLE.filter(passes(rest))
      expect(count).toBe(all.filter(proxy => proxy.country === country).length)
    }
    for (const [time, count] of facets.age) {
      expect(count).toBe(WHOLE.filter(passes({ ...choice, time })).length)
    }
  })
})

describe('counts that the statistics cannot give exactly', () => {
  test.each<Partial<Choice>>([
    { service: 'telegram,google' },
    { time: '100' },
    { ping: '700' },
    { speed: '1' },
    { works: '90' },
    { city: 'Berlin' },
    { port: '1080' },
    { ip: '1.2.3.4:80' },
  ])('are upper bounds: %j', choice => {
    const { matches, bound } = facetsOf(STATS, choice)
    expect(bound).toBe('most')
    expect(matches).toBeGreaterThanOrEqual(WHOLE.filter(passes(choice)).length)
  })

  test('are not for what is typed wrong, because the request leaves it out', () => {
    expect(facetsOf(STATS, { ping: 'fast' }).bound).toBe('exact')
  })

  const small = statsOf(LIST)
  test('are at least so many when merged countries may hold more', () => {
    const { matches, bound } = facetsOf(small, { country: 'us' })
    const really = LIST.filter(passes({ country: 'us' })).length
    expect(bound).toBe('least')
    expect(matches).toBeLessThanOrEqual(really)
  })

  test('are at most so many when most countries are merged', () => {
    const few = LIST.slice(0, 300)
    const { matches, bound } = facetsOf(statsOf(few), { country: 'de' })
    const really = few.filter(passes({ country: 'de' })).length
    expect(bound).toBe('most')
    expect(matches).toBeGreaterThanOrEqual(really)
  })

  test('are at most so many when merged countries may hold some that are excepted', () => {
    const choice = { country: 'de', country_mode: 'except' }
    const { matches, bound } = facetsOf(small, choice)
    expect(bound).toBe('most')
    const really = LIST.filter(passes(choice)).length
    expect(matches + small.hidden).toBeGreaterThanOrEqual(really)
  })

  test('lack only what is hidden when nothing is chosen', () => {
    const week = facetsOf(small, { time: '604800' })
    expect(week.matches + small.hidden).toBe(LIST.length)
  })
})

describe('statistics documents', () => {
  test('without a cube have totals only', () => {
    const stats = readStats({ total: 5, at: '2026-11-20T12:00:00.000Z' })
    expect(stats).toMatchObject({ total: 5, at: 1_795_176_000, counted: null, cities: [] })
    expect(stats && countFacets(stats, START)).toBeNull()
  })

  test.each([[null], [1], ['text'], [[]], [{}], [{ total: '5' }]])('%j is none', document => {
    expect(readStats(document)).toBeNull()
  })

  test('with columns of different lengths have totals only', () => {
    const whole = statisticsOf(LIST)
    const cube = { ...whole.cube, type: whole.cube.type.slice(1) }
    expect(readStats({ ...whole, cube })?.counted).toBeNull()
  })
})
