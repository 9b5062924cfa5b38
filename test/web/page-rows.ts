/** A list for tests of the page. */
import { ANONS } from '../../src/proxies/proxy.ts'
import { servicesOf } from '../../src/web/page/model/query.ts'
import type { TestRow } from '../support/fixtures.ts'
import { createRandom, pick } from '../support/random.ts'

const SERVICES = servicesOf()

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
