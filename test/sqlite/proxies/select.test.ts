/**
 * Holds what is selected from the list: every filter, the order, the count, addresses compared by
 * 16 bits, and removing old rows, by hand-made rows and against a model in plain array code.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Filter, SORTS } from '../../../src/proxies/filter.ts'
import {
  ANONS,
  addressText,
  type IncomingProxy,
  LANGS,
  type Proxy,
  SERVICES,
  TYPES,
} from '../../../src/proxies/proxy.ts'
import { ROW_COLUMNS, type Row } from '../../../src/proxies/row.ts'
import type { FindOptions, ImportMode } from '../../../src/proxies/store.ts'
import { typesOf } from '../../../src/proxies/types.ts'
import { ENDPOINT_COLUMNS } from '../../../src/sqlite/proxies/filter-sql.ts'
import { createListStore, type ListStore } from '../../../src/sqlite/proxies/store.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { listOf, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { endpointOf, foundOf, proxiesOf } from '../../support/rows.ts'
import { cleanUp } from '../../support/temporary.ts'

const NOW = T0 / 1000
const ANY = NO_FILTER
const AT_T0: FindOptions = { nowMs: T0, addressBits: 32 }

afterAll(cleanUp)

/** The proxies that are found. */
const find = (list: List, filter: Filter, options: FindOptions): Proxy[] =>
  proxiesOf(list.proxies.findAll(filter, options))

type Asked = { filter?: Partial<Filter> } & Partial<FindOptions>
/** The addresses that are found. */
const select = (list: List, { filter = {}, ...options }: Asked = {}): string[] =>
  find(list, { ...ANY, ...filter }, { ...AT_T0, ...options }).map(addressText)

/** Rows by a letter: the letter is their last octet, so that a selection reads as a word. */
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
const row = (letter: string, members: TestRow = {}): TestRow => ({
  ip: `10.0.0.${1 + LETTERS.indexOf(letter)}:80`,
  type: 'http',
  ...members,
})
/** Which rows match, as a word of their letters in alphabetical order. */
const word = (addresses: readonly string[]): string =>
  addresses
    .map(address => LETTERS[Number(/\.(\d+):/.exec(address)?.[1]) - 1])
    .sort()
    .join('')

const NAMED: readonly TestRow[] = [
  row('a', { city: 'Москва', city_en: 'Moscow' }),
  row('b', { city: 'Пермь' }),
  row('c', { city: 'Köln', city_en: 'Cologne' }),
  row('d', { city: 'Straßburg', city_en: 'Strasbourg' }),
  row('e', { city: 'İstanbul', city_en: 'Istanbul' }),
  row('f', { city: 'Αθήνας' }),
  row('g', { city_en: 'Paris' }),
  row('h', {}),
  row('i', { city: 'Орёл' }),
  row('j', { city: 'Орел' }),
  row('k', { city_en: 'Zürich' }),
  row('l', { city: 'Йошкар-Ола' }),
  row('m', { city: 'Łódź' }),
  row('n', { city: 'दिल्ली' }),
  row('o', { city: 'パリ' }),
]
const BY_CITY: readonly (readonly [city: string, ru: string, en: string])[] = [
  ['москва', 'a', ''],
  ['МОСКВА', 'a', ''],
  ['moscow', 'a', 'a'],
  ['MOSCOW', 'a', 'a'],
  ['пермь', 'b', 'b'], // no English name: the default one is shown, and compared
  ['köln', 'c', ''],
  ['KÖLN', 'c', ''],
  ['ko\u0308ln', 'c', ''], // the same letter, composed otherwise
  ['cologne', 'c', 'c'],
  ['STRASSBURG', 'd', ''],
  ['straßburg', 'd', ''],
  ['İSTANBUL', 'e', 'e'], // accents make no difference
  ['istanbul', 'e', 'e'],
  ['ΑΘΉΝΑΣ', 'f', 'f'],
  ['αθήνας', 'f', 'f'],
  ['paris', 'g', 'g'],
  ['moscow ', 'a', 'a'],
  ['mosc', '', ''],
  ['%', '', ''],
  ['ΑΘΗΝΑΣ', 'f', 'f'],
  ['koln', 'c', ''],
  ['орел', 'ij', 'ij'],
  ['ОРЁЛ', 'ij', 'ij'],
  ['орёл', 'ij', 'ij'],
  ['zurich', 'k', 'k'],
  ['ZÜRICH', 'k', 'k'],
  ['йошкар-ола', 'l', 'l'],
  ['и\u0306ошкар-ола', 'l', 'l'],
  ['иошкар-ола', '', ''], // Й is no И
  ['lodz', 'm', 'm'],
  ['łódź', 'm', 'm'],
  ['दिल्ली', 'n', 'n'],
  ['दलल', '', ''], // vowels of Hindi are no accents
  ['パリ', 'o', 'o'],
  ['ハリ', '', ''],
]

describe('a city', () => {
  const list = listOf(NAMED)
  for (const [city, ru, en] of BY_CITY) {
    test(`${JSON.stringify(city)} is found by either name in ru, by the shown name in en`, () => {
      expect(word(select(list, { filter: { cities: [city] } }))).toBe(ru)
      expect(word(select(list, { filter: { cities: [city], lang: 'en' } }))).toBe(en)
    })
  }
  test('matches any listed name', () => {
    const cities = ['москва', 'cologne', 'nowhere', 'paris', 'пермь']
    expect(word(select(list, { filter: { cities } }))).toBe('abcg')
    expect(word(select(list, { filter: { cities, lang: 'en' } }))).toBe('bcg')
  })
})

test('addresses and ports have their whole range, and a duration any length', () => {
  const ends = ['1.0.0.0:1', '223.255.255.255:65535']
  const list = listOf(ends.map(ip => ({ ip, type: 'http' })))
  for (const [port, address] of [
    [1, { ip: '1.0.0.0', port: 1 }],
    [65535, { ip: '223.255.255.255', port: 65535 }],
  ] as const) {
    for (const filter of [{ port }, { address }, { address, ageMaxSeconds: 999_999_999_999_999 }]) {
      expect(select(list, { filter })).toEqual([`${address.ip}:${address.port}`])
    }
    expect(select(list, { filter: { address, port: 80 } })).toEqual([])
  }
})

/** The filter of contract A4 as plain array code. */
function model(
  rows: readonly Proxy[],
  filter: Filter,
  { nowMs, addressBits }: FindOptions,
): Proxy[] {
  const matching = rows.filter(
    proxy =>
      NUMBERS.every(admits => admits(proxy, filter)) &&
      NAMES.every(admits => admits(proxy, filter)) &&
      nowMs - proxy.checkedAt * 1000 <= filter.ageMaxSeconds * 1000 &&
      isAddressed(proxy, filter, addressBits),
  )
  const ordered = matching.sort(
    (a, b) =>
      BETTER[filter.sort ?? 'checked'](a, b) ||
      b.checkedAt - a.checkedAt ||
      pingOf(a) - pingOf(b) ||
      byAddress(a, b),
  )
  const seen = new Set<string>()
  const distinct = ordered.filter(proxy => {
    const keys = [
      ...(addressBits === 16 ? [addressText(maskedByHand(proxy))] : []),
      ...(filter.unique ? [proxy.ipOut || proxy.ip] : []),
    ]
    if (keys.some(key => seen.has(key))) return false
    for (const key of keys) seen.add(key)
    return true
  })
  return distinct.slice(0, filter.count ?? undefined)
}

const pingOf = ({ pingMs }: Proxy): number => pingMs ?? Number.MAX_VALUE
/** What comes before the order of A4 (contract F1): the best first, unknown last. */
const BETTER: { [S in NonNullable<Filter['sort']>]: (a: Proxy, b: Proxy) => number } = {
  checked: () => 0,
  ping: (a, b) => pingOf(a) - pingOf(b),
  speed: (a, b) => (b.speed ?? -1) - (a.speed ?? -1),
  works: (a, b) => (b.works ?? -1) - (a.works ?? -1),
  random: () => 0,
}

type Admits = (proxy: Proxy, filter: Filter) => boolean
const NUMBERS: readonly Admits[] = [
  ({ pingMs }, { pingMaxMs: max }) => max === null || (pingMs !== null && pingMs <= max),
  ({ speed }, { speedMin: min }) => min === null || (speed !== null && speed >= min),
  ({ works }, { worksMin: min }) => min === null || (works !== null && works >= min),
]
const lower = (name: string): string => name.toLowerCase()
const NAMES: readonly Admits[] = [
  (proxy, { types }) =>
    types.length === 0 || types.some(type => typesOf(proxy.types).includes(type)),
  ({ anon }, { anons }) => anons.length === 0 || (anon !== '' && anons.includes(anon)),
  ({ country }, { countries, countryMode }) =>
    countries.length === 0 || countries.includes(country) === (countryMode === 'include'),
  ({ city, cityEn }, { cities, lang }) => {
    const names = lang === 'en' ? [cityEn || city] : [city, cityEn]
    return cities.length === 0 || names.some(name => cities.map(lower).includes(lower(name)))
  },
  ({ services }, filter) => filter.services.every(service => services.has(service)),
]

const maskedByHand = <P extends Pick<Proxy, 'ip'>>(proxy: P): P => ({
  ...proxy,
  ip: proxy.ip.replace(/\.\d+\.\d+$/, '.0.0'),
})

function isAddressed(
  proxy: Proxy,
  { port, address }: Filter,
  addressBits: FindOptions['addressBits'],
): boolean {
  if (port !== null && proxy.port !== port) return false
  const { ip } = addressBits === 16 ? maskedByHand(proxy) : proxy
  return address === null || (ip === address.ip && proxy.port === address.port)
}

function byAddress(a: Proxy, b: Proxy): number {
  const octets = ({ ip, port }: Proxy) => [...ip.split('.').map(Number), port]
  const others = octets(b)
  return (
    octets(a)
      .map((octet, i) => octet - (others[i] ?? 0))
      .find(difference => difference !== 0) ?? 0
  )
}

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })
const unknownOr = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null, freq: 3 })
const upTo = (max: number) => fc.integer({ min: 0, max })
// Few values each, so that filters meet rows.
const someIp = fc
  .tuple(fc.constantFrom(9, 10, 100), upTo(1), upTo(2), upTo(2))
  .map(octets => octets.join('.'))
const somePort = fc.constantFrom(80, 443, 8080)
const CITIES = ['Москва', 'Пермь', 'Köln', 'Paris', 'paris']

const someRow = (): fc.Arbitrary<IncomingProxy> =>
  fc.record({
    ip: someIp,
    port: somePort,
    ipOut: fc.constantFrom('', '192.0.2.1'),
    types: fc.integer({ min: 1, max: 15 }),
    anon: fc.constantFrom('', ...ANONS),
    speed: unknownOr(upTo(5)),
    pingMs: unknownOr(upTo(5)),
    checkedAt: upTo(20).map(age => NOW + 5 - age),
    country: fc.constantFrom('', 'DE', 'FR', 'RU'),
    city: fc.constantFrom('', ...CITIES),
    cityEn: fc.constantFrom('', '', 'Moscow', 'Cologne', 'Paris'),
    works: unknownOr(fc.constantFrom(0, 50, 100)),
    services: fc.subarray([...SERVICES]).map(services => new Set(services)),
    servicesStated: fc.constant(new Set(SERVICES)),
  })

/** A condition that is put now and then. */
const rarely = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: value })
const rareList = <T>(list: readonly T[]) =>
  fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, fc.shuffledSubarray([...list]))

const someFilter = (): fc.Arbitrary<Filter> =>
  fc.record({
    types: rareList(TYPES),
    anons: rareList(ANONS),
    pingMaxMs: rarely(upTo(6)),
    speedMin: rarely(upTo(6)),
    ageMaxSeconds: upTo(25),
    worksMin: rarely(fc.constantFrom(0, 50, 51, 100)),
    countries: rareList(['DE', 'FR', 'RU', 'US']),
    countryMode: fc.constantFrom('include', 'except'),
    cities: rareList([...CITIES.map(lower), 'moscow', 'cologne', 'nowhere']),
    lang: fc.constantFrom(...LANGS),
    port: rarely(somePort),
    address: rarely(
      fc.record({
        ip: fc.oneof(
          someIp,
          someIp.map(ip => maskedByHand({ ip }).ip),
        ),
        port: somePort,
      }),
    ),
    services: rareList(SERVICES),
    unique: fc.constantFrom(null, null, 1),
    sort: fc.constantFrom(null, ...SORTS),
    count: maybe(fc.integer({ min: 1, max: 10 })),
  })

const someRows = fc.uniqueArray(someRow(), {
  selector: ({ ip, port }) => `${ip}:${port}`,
  minLength: 5,
  maxLength: 40,
})

const someOptions = (): fc.Arbitrary<FindOptions> =>
  fc.record({
    nowMs: fc.integer({ min: -9000, max: 9000 }).map(ms => T0 + ms),
    addressBits: fc.constantFrom(32, 16),
  })

/** Entries of each branch that a quick select of the property may read. */
const FEW = 7

/** Expects of every select in random order that it finds as many proxies of `all`, each once. */
function expectDrawn(
  store: ListStore,
  [filter, options]: readonly [Filter, FindOptions],
  all: readonly Proxy[],
): void {
  const size = Math.min(filter.count ?? all.length, all.length)
  const proxies = proxiesOf(store.findAll(filter, options))
  expect(new Set(proxies.map(addressText)).size).toBe(size)
  for (const proxy of proxies) expect<readonly Proxy[]>(all).toContainEqual(proxy)
  const { rows, ids } = store.open<Row>(filter, options, ROW_COLUMNS)
  expect(Array.from(rows, ([id]) => id)).toEqual([...ids()])
  expect([...ids()]).toHaveLength(size)
}

/** Expects of every full select that it finds these proxies. */
function expectFull(
  store: ListStore,
  [filter, options]: readonly [Filter, FindOptions],
  proxies: readonly Proxy[],
): void {
  expect<readonly Proxy[]>(proxiesOf(store.findAll(filter, options))).toEqual(proxies)
  const { rows, ids } = store.open(filter, options, ENDPOINT_COLUMNS)
  const ends = Array.from(rows, endpointOf)
  expect(ends).toEqual(foundOf(proxies).rows.map(endpointOf))
  expect([...ids()]).toHaveLength(proxies.length)
}

/** Expects the same of a quick select that does not give up; says whether it did not. */
function expectQuick(
  store: ListStore,
  [filter, options]: readonly [Filter, FindOptions],
  proxies: readonly Proxy[],
): boolean {
  const found = store.findQuickly(filter, options)
  if (found) expect<readonly Proxy[]>(proxiesOf(found)).toEqual(proxies)
  return found !== null
}

/** Expects of the selects of two stores of these proxies that they find what the model finds. */
function expectBoth(
  store: ListStore,
  few: ListStore,
  proxies: readonly Proxy[],
  request: readonly [Filter, FindOptions],
): { all: readonly Proxy[]; isQuick: boolean } {
  const [filter, options] = request
  if (filter.sort === 'random') {
    const all = model(proxies, { ...filter, count: null }, options)
    expectDrawn(store, request, all)
    return { all, isQuick: false }
  }
  const all = model(proxies, filter, options)
  expectFull(store, request, all)
  return { all, isQuick: expectQuick(few, request, all) }
}

test('property: a selection equals the one of plain array code, in the same order', () => {
  const found = new Map<Filter['sort'], number>()
  let quickly = 0
  let asked = 0
  const someRequests = fc.array(fc.tuple(someFilter(), someOptions()), {
    minLength: 20,
    maxLength: 20,
  })
  fc.assert(
    // The second rows replace the first: what a select knows of the list must not outlive it.
    fc.property(someRows, someRows, someRequests, (rows, later, requests) => {
      const list = openList(null)
      const few = createListStore(list.db, FEW)
      const load = (mode: ImportMode, incoming: readonly IncomingProxy[]): Proxy[] => {
        const importTx = list.begin(mode)
        for (const row of incoming) importTx.add(row)
        void importTx.commit()
        few.noteChange()
        return incoming.map(({ servicesStated: _, ...proxy }) => proxy)
      }
      try {
        for (const [mode, incoming] of [['merge', rows] as const, ['replace', later] as const]) {
          const proxies = load(mode, incoming)
          for (const request of requests) {
            const [{ sort }] = request
            const { all, isQuick } = expectBoth(list.proxies, few, proxies, request)
            quickly += Number(isQuick)
            found.set(sort, (found.get(sort) ?? 0) + all.length)
            asked += 1
          }
        }
      } finally {
        list.close()
      }
    }),
    { numRuns: 100 },
  )
  // The filters did meet rows, in every order.
  for (const sort of SORTS) expect(found.get(sort)).toBeGreaterThan(150)
  expect(quickly).toBeGreaterThan(1000) // and many were answered from a part of the list
  expect(quickly).toBeLessThan(asked)
})
