/** Lists of proxies and queries about them (contract F4): random ones, and a list for the page. */
import fc from 'fast-check'
import { ANONS, SERVICES as OF_SERVICE, TYPES } from '../../src/proxies/proxy.ts'
import { servicesOf } from '../../src/web/page/model/query.ts'
import type { TestRow } from './fixtures.ts'
import { createRandom, pick } from './random.ts'

const SERVICES = servicesOf()

// ---------------------------------------------------------------------------------------------
// Random lists and queries

const CITIES = [
  { city: 'Берлин', city_en: 'Berlin', country: 'DE' },
  { city: 'Берлин', city_en: 'Berlin', country: 'US' },
  { city: 'Орёл', city_en: '', country: 'RU' },
  { city: 'Zürich', city_en: 'Zurich', country: 'CH' },
  { city: '', city_en: 'Paris', country: '' },
  { country: 'DE' },
  { country: 'NL' },
  {},
]
const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined, freq: 3 })
const flag = fc.option(fc.boolean(), { nil: undefined })

/** The rows of a list: few values of each kind, at the bounds of filters and bins, so that they meet. */
export const countedRows: fc.Arbitrary<TestRow[]> = fc
  .uniqueArray(fc.nat({ max: 400 }), { maxLength: 60 })
  .chain(hosts =>
    fc.tuple(
      ...hosts.map(host =>
        fc
          .record({
            type: fc.constantFrom(...TYPES),
            anon: maybe(fc.constantFrom(...ANONS)),
            age: fc.constantFrom(-120, 0, 1, 60, 61, 300, 599, 600, 601, 3600, 86_401, 604_801),
            ping: maybe(fc.constantFrom(0, 0.05, 0.051, 0.7, 0.701, 10, 60)),
            speed: maybe(fc.constantFrom(0, 9_999, 10_000, 500_000, 10_000_000, 6_000_000_000)),
            works: maybe(fc.constantFrom(0, 9, 10, 89, 90, 99, 100)),
            place: fc.constantFrom(...CITIES),
            services: fc.tuple(flag, flag, flag, flag, flag),
          })
          .map(({ place, services, ...row }) => ({
            ...{ ip: `10.${host % 4}.0.${host >> 2}:${80 + (host % 3)}`, ...place, ...row },
            ...Object.fromEntries(SERVICES.map((name, n) => [name, services[n]])),
          })),
      ),
    ),
  )

const some = (values: readonly string[]) =>
  fc.subarray([...values], { minLength: 1, maxLength: 3 }).map(items => items.join())

const seldom = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })

/** The parameters of a query, as texts: every filter, also for what no list has. */
export const queries = fc
  .record({
    type: seldom(some(TYPES)),
    anon: seldom(some(ANONS)),
    country: seldom(some(['de', 'nl', 'us', 'ru', 'zz'])),
    cm: seldom(fc.constantFrom('include', 'except')),
    city: seldom(some(['berlin', 'БЕРЛИН', 'орел', 'zürich', 'paris', 'nowhere'])),
    service: seldom(some(SERVICES.slice(0, OF_SERVICE.length))),
    ping: seldom(fc.constantFrom('0', '50', '51', '700', '10000', '999999999999999')),
    speed: seldom(fc.constantFrom('0', '10000', '500001', '5999999999', '6000000001')),
    works: seldom(fc.constantFrom('0', '10', '90', '100')),
    time: seldom(fc.constantFrom('0', '59', '60', '599', '600', '86400', '9000000')),
    lang: seldom(fc.constantFrom('ru', 'en')),
  })
  .map((texts): { [name: string]: string } =>
    Object.fromEntries(
      Object.entries(texts).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])),
    ),
  )

// ---------------------------------------------------------------------------------------------
// A list for the page

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

/** The largest cities of some countries; a name is no markup. */
const CITY_OF: { readonly [country: string]: TestRow } = {
  US: { city: 'Ашберн', city_en: 'Ashburn' },
  DE: { city: 'Франкфурт', city_en: 'Frankfurt' },
  NO: { city: '<img src=x onerror=alert(1)>' },
}
const SHARES = [0.05, 0.55, 0.2, 0.3, 0.12]
const OWN_TYPES = ['http', 'http', 'http', 'https', 'socks4', 'socks5', 'socks5']

type PageRow = {
  ip: string
  type: string
  anon: string
  country: string
  age: number
  ping: number
}

/** The rows of a list, always the same for a seed. */
export function pageRows(size: number, seed = 1): PageRow[] {
  const random = createRandom(seed)
  return Array.from({ length: size }, (_, i) => {
    const country = countryOf(random)
    return {
      ip: `10.${i % 250}.${Math.floor(i / 250)}.${i % 200}:${pick(random, [80, 1080, 3128, 8080])}`,
      type: pick(random, OWN_TYPES),
      anon: random() < 0.86 ? 'elite' : pick(random, [...ANONS, '']),
      ...{ country, ...(random() < 0.5 && CITY_OF[country]) },
      age: pick(random, [30, 200, 200, 500, 500, 500, 500, 2000, 2000, 80_000, 500_000]),
      ping: Math.floor(random() * 4000) / 1000,
      speed: Math.floor(random() * 3_000_000),
      works: Math.floor(random() * 101),
      ...Object.fromEntries(SERVICES.map((name, n) => [name, random() < (SHARES[n] ?? 0)])),
    }
  })
}
