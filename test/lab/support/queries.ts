/**
 * The query strings: those that customers' programs send, and ways to make each one different
 * so that none repeats.
 */
import { addressOf, COUNTRIES, cityEnOf, cityOf } from './rows.ts'

/** A `time` so long that no row expires during a run, and 100 addresses an answer. */
const COMMON = 'time=86400&count=100'

const lower = (from: number, to: number): string =>
  COUNTRIES.slice(from, to).join(',').toLowerCase()

/** Some forty filters, each matched by at least a hundred of 100,000 rows. */
const PLAIN = [
  '',
  ...['http', 'https', 'socks4', 'socks5', 'http,https', 'socks4,socks5'].map(t => `type=${t}`),
  ...['elite', 'anonymous,elite', 'transparent'].map(anon => `anon=${anon}`),
  ...COUNTRIES.slice(0, 8).map(country => `country=${country.toLowerCase()}`),
  ...['us', 'de', 'ru', 'br'].map(country => `type=socks5&country=${country}`),
  `country=${lower(2, 5)}`,
  `country=${lower(4, 20)}`,
  `country=${lower(0, 3)}&cm=except`,
  'country=ru,ua,kz&type=http,https',
  'works=70',
  'works=90&type=http',
  'works=80&anon=elite',
  'service=telegram',
  'service=google,telegram',
  'service=the_service&type=https',
  'service=smtp',
  'port=8080',
  'type=socks4&anon=elite&country=us,cn',
]
const BOUNDED = [
  'ping=300',
  'ping=800&type=socks5',
  'ping=1500&country=us',
  'speed=200000',
  'speed=500000&works=80',
  'ping=1000&speed=100000&anon=elite',
  'ping=600&service=telegram&type=http',
]

const join = (...pieces: string[]): string => pieces.filter(piece => piece !== '').join('&')

/** The repeated queries. */
export const TYPICAL = [...PLAIN, ...BOUNDED].map(filter => join(filter, COMMON))

/** A query whose answer is JSON. */
export const asJson = (query: string): string => `${query}&get=json`

/** Queries that a distinct `ping` and `speed` are added to. */
export const UNBOUNDED = PLAIN.map(filter => join(filter, COMMON))

/**
 * How the n-th request of a load is made different from the others: `speed` and `ping` bounds from
 * a scrambled n, so that neighbours differ in both. The Lua script of wrk and the Bun client both
 * use these numbers.
 */
export const DISTINCT = { factor: 2_654_437, speeds: 40_000, pings: 1_600 } as const

export function distinctBounds(n: number): string {
  const { factor, speeds, pings } = DISTINCT
  const mixed = (n * factor) % (speeds * pings)
  return `&speed=${1000 + 10 * (mixed % speeds)}&ping=${400 + Math.floor(mixed / speeds)}`
}

/** A filter whose select is timed; `query(i)` is its i-th variant, of the same selectivity. */
export type SelectCase = { name: string; masked?: boolean; query: (i: number) => string }

const countryAt = (i: number): string => (COUNTRIES[i % 20] ?? 'US').toLowerCase()
const encodedCity = (i: number): string =>
  encodeURIComponent(cityOf(COUNTRIES[i % 10] ?? 'US', i % 12))

const CASES: readonly SelectCase[] = [
  { name: 'no filter', query: () => '' },
  { name: 'type', query: () => 'type=socks5' },
  { name: 'two types', query: () => 'type=socks4,socks5' },
  { name: 'country', query: i => `country=${countryAt(i)}` },
  { name: 'type, country', query: i => `type=http&country=${countryAt(i)}` },
  { name: 'three countries', query: i => `country=${[0, 1, 2].map(n => countryAt(i + n)).join()}` },
  { name: 'twenty countries', query: () => `country=${lower(4, 24)}` },
  { name: 'except a country', query: i => `country=${countryAt(i)}&cm=except` },
  { name: 'anon', query: () => 'anon=elite' },
  { name: 'two anons', query: () => 'anon=anonymous,elite' },
  { name: 'works', query: i => `works=${70 + (i % 25)}` },
  { name: 'ping', query: i => `ping=${300 + 7 * i}` },
  { name: 'speed', query: i => `speed=${100_000 + 1000 * i}` },
  { name: 'a service', query: () => 'service=telegram' },
  { name: 'three services', query: () => 'service=smtp,telegram,google' },
  { name: 'city', query: i => `city=${encodedCity(i)}` },
  {
    name: 'city, lang=en',
    query: i => `lang=en&city=${cityEnOf('US', i % 12).replaceAll(' ', '+')}`,
  },
  { name: 'port', query: () => 'port=3128' },
  { name: 'ip', query: i => `ip=${addressOf(i)}` },
  { name: 'nearly everything', query: i => `type=socks5&anon=elite&works=80&ping=${900 + i}` },
  { name: 'masked, works', masked: true, query: () => 'works=90' },
  { name: 'masked, country', masked: true, query: i => `works=90&country=${countryAt(i)}` },
]

/** The cases with count=100 and a `time` that makes each variant a filter of its own. */
export const SELECT_CASES: readonly SelectCase[] = CASES.map(({ query, masked = false, name }) => ({
  name,
  masked,
  query: i => join(query(i), `time=${86_400 + i}`, `count=${masked ? 50 : 100}`),
}))
