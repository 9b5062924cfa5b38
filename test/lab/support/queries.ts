/**
 * The query strings: those that customers' programs send, and ways to make each one different
 * so that none repeats.
 */
import { COUNTRIES } from './rows.ts'

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
