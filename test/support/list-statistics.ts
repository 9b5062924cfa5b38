/**
 * A list of proxies as statistics see it, and its statistics document (contract F4), for tests
 * of the page that count by hand.
 */

import { ANONS, TYPES } from '../../src/proxies/proxy.ts'
import { countryToNumber, UNKNOWN, UNKNOWN_PING } from '../../src/proxies/row.ts'
import { createCounter, statsDocument } from '../../src/proxies/stats.ts'
import { SERVICES } from '../../src/web/page/model/query.ts'
import { createRandom, pick } from './random.ts'

/** A proxy as the cube sees it. `age` is in seconds. */
export type Counted = {
  type: (typeof TYPES)[number]
  anon: string
  country: string
  age: number
  services: readonly string[]
}

/** Countries by weight; `''` is an unknown place, `NO` and `IS` have few. */
const WEIGHTS: { readonly [country: string]: number } = {
  ...{ US: 150, CN: 80, DE: 62, RU: 52, SG: 39, ID: 37, BR: 34, NL: 32, IN: 30, FR: 26, GB: 24 },
  ...{ JP: 22, VN: 20, HK: 19, TH: 16, CA: 15, KR: 14, PL: 13, UA: 12, TR: 11, MX: 10, IT: 10 },
  ...{ ES: 9, BD: 9, CO: 8, AR: 8, CZ: 8, FI: 7, SE: 7, ZA: 7, MY: 7, PH: 6, CL: 6, EG: 5, KE: 4 },
  ...{ PK: 5, AU: 6, KZ: 4, CH: 5, RO: 5, AT: 4, BG: 4, '': 6, NO: 0.3, IS: 0.2 },
}
const weighted = Object.entries(WEIGHTS)
const whole = weighted.reduce((sum, [, weight]) => sum + weight, 0)

function countryOf(random: () => number): string {
  let left = random() * whole
  for (const [country, weight] of weighted) {
    left -= weight
    if (left < 0) return country
  }
  return ''
}

const SHARES = [0.05, 0.55, 0.2, 0.3, 0.12]

/** Proxies of a list, always the same for a seed. */
export function countedList(size: number, seed = 1): Counted[] {
  const random = createRandom(seed)
  return Array.from({ length: size }, () => ({
    type: pick(random, ['http', 'http', 'http', 'https', 'socks4', 'socks5', 'socks5']),
    anon: random() < 0.86 ? 'elite' : pick(random, [...ANONS, '']),
    country: countryOf(random),
    age: pick(random, [30, 200, 200, 500, 500, 500, 500, 2000, 2000, 80_000, 500_000]),
    services: SERVICES.filter((_, i) => random() < (SHARES[i] ?? 0)),
  }))
}

/** The instant of the statistics, in Unix seconds. */
export const NOW = 1_795_176_000
const FULL = { version: '1', part: 'full', provider: 'the service' } as const
const NONE = { name: '', nameEn: '' }

/** The statistics document of a list, as the service publishes it with `cells` of them at most. */
export function publishedOf(list: readonly Counted[], cells = Number.POSITIVE_INFINITY) {
  const counter = createCounter(NOW)
  for (const [id, { type, anon, country, age, services }] of list.entries()) {
    const bits = SERVICES.reduce((sum, name, i) => sum + (services.includes(name) ? 1 << i : 0), 0)
    const anonAt = ['', ...ANONS].indexOf(anon)
    const typeAt = TYPES.indexOf(type)
    const measured = [UNKNOWN, UNKNOWN, bits, countryToNumber(country), 0] as const
    counter.add([id, NOW - age, UNKNOWN_PING, typeAt, anonAt, ...measured])
  }
  const made = statsDocument(
    counter.read(() => NONE),
    FULL,
    { cells, cities: 0 },
  )
  if (!('cube' in made)) throw new Error('there is no cube')
  return made
}

/** The same with measured values and cities, which the list does not have. */
export const statisticsOf = (list: readonly Counted[]) => ({
  ...publishedOf(list),
  ...{ histograms: HISTOGRAMS, cities: CITIES },
})

const HISTOGRAMS = {
  ping: {
    edges: [0, 100, 200, 300, 400, 500, 600, 700, 1000, 1500, 2000, 3000, 5000],
    counts: [700, 1800, 2600, 4800, 3900, 2900, 3800, 2700, 1200, 300, 200, 150, 100],
  },
  speed: {
    edges: [0, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000],
    counts: [60, 90, 900, 4100, 3800, 3900, 4900, 300, 40],
  },
  works: {
    edges: [0, 10, 20, 30, 40, 50, 60, 70, 80, 90],
    counts: [500, 1200, 1300, 1400, 1700, 2000, 2600, 2000, 2600, 3100],
  },
}

const CITIES = [
  { city: 'Ашберн', city_en: 'Ashburn', country: 'US', count: 420 },
  { city: 'Франкфурт', city_en: 'Frankfurt', country: 'DE', count: 310 },
  { city: '<img src=x onerror=alert(1)>', city_en: '', country: 'US', count: 9 },
]
