/** Lists of proxies and queries about them (contract F4): random ones. */
import fc from 'fast-check'
import { ANONS, SERVICES as OF_SERVICE, TYPES } from '../../src/proxies/proxy.ts'
import { servicesOf } from '../../src/web/page/model/query.ts'
import type { TestRow } from './fixtures.ts'

const SERVICES = servicesOf()

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
