/**
 * The query of a request: parameters mean the same in every spelling that the contract
 * allows, and the cache of the reader changes no result.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Entitlements, entitlementsOf } from '../../src/access/entitlements.ts'
import { createParamsParser, createQueryReader, type Query } from '../../src/api/query.ts'
import { OUTPUT_KINDS, type Output } from '../../src/api/render.ts'
import { keyOf, readCredentials } from '../../src/http/credentials.ts'
import { queryStringOf, splitQueryString } from '../../src/lib/query-string.ts'
import { describeFilter, type Filter, fold, SORTS } from '../../src/proxies/filter.ts'
import { ANONS, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { NO_FILTER } from '../support/fixtures.ts'
import { DEMO as DEMO_CALLER, regular, temp } from '../support/limits.ts'
import { between, pick, randomOf } from '../support/random.ts'
import { TXT } from '../support/render.ts'
import { anyQuery, sending } from './query-strings.ts'
import { resultOf, unlessRefused } from './thrown.ts'

const PROVIDER = 'the service'
const BIG = 999_999_999_999_999
const UNBOUND: Entitlements = entitlementsOf(regular({}))
const DEMO: Entitlements = entitlementsOf(DEMO_CALLER)
const TEMP: Entitlements = entitlementsOf(temp())
const URL_START = 'http://127.0.0.1:8080/api?'

// ---------------------------------------------------------------------------------------------
// Parameters, spelled in any way

/** What a query is meant to say, in the words of contract A3: a list, or one word. */
type Meaning = { [parameter: string]: readonly string[] | string }

const someOf = (...items: readonly string[]) => fc.subarray([...items], { minLength: 1 })
const upTo = (max: number) => fc.integer({ min: 0, max }).map(String)
const anyPort = fc.integer({ min: 1, max: 65_535 }).map(String)
const word = (...words: readonly string[]) => fc.constantFrom(...words)
const CITIES = ['ё', 'берлин', 'new york', 'zürich', "l'aquila", 'a+b', '100%', 'x'.repeat(200)]

const anyMeaning: fc.Arbitrary<Meaning> = fc.record(
  {
    type: someOf(...TYPES),
    anon: someOf(...ANONS),
    ping: upTo(BIG),
    speed: upTo(BIG),
    time: upTo(BIG),
    works: upTo(100),
    country: someOf('de', 'ru', 'us', 'zz'),
    cm: word('include', 'except'),
    country_mode: word('include', 'except'),
    city: someOf(...CITIES),
    port: anyPort,
    ip: fc.tuple(fc.ipV4(), anyPort).map(pair => pair.join(':')),
    service: someOf('smtp', 'telegram', 'avito', 'google', PROVIDER),
    sort: word(...SORTS),
    count: upTo(BIG),
    lang: word('ru', 'en'),
    get: word(...OUTPUT_KINDS, ...OUTPUT_KINDS.map(kind => `${kind}.file`)),
    type_prefix: word('0', '1'),
    fields: someOf('ip', 'port', 'ping', 'works', 'google', PROVIDER),
    split_ip: word('0', '1'),
    format: word('array', 'object'),
    wrap: word('0', '1'),
    pretty: word('0', '1'),
  },
  { requiredKeys: [] },
)

/** The modes agree, or only one of them is given; and a record shows something. */
const isConsistent = ({ cm, country_mode: mode, ...meaning }: Meaning): boolean =>
  (cm === undefined || mode === undefined || cm === mode) &&
  (String(meaning.fields) !== 'port' ||
    meaning.split_ip === '1' ||
    String(meaning.get ?? 'txt').startsWith('txt'))

/** Random choices, the same for the same seed. */
function chanceOf(seed: number) {
  const random = randomOf(seed, 'spelling')
  const isHeads = (): boolean => random() < 0.5
  return {
    isHeads,
    upTo: (most: number): number => between(random, 0, most),
    some: <T>(items: readonly T[]): T[] => items.filter(isHeads),
    one: <T>(items: readonly T[]): T => pick(random, items),
    shuffled<T>(items: readonly T[]): T[] {
      const left = [...items]
      return items.flatMap(() => left.splice(between(random, 0, left.length - 1), 1))
    },
  }
}
type Chance = ReturnType<typeof chanceOf>

/** Each character plain where that is allowed, percent-encoded, or (a space) as a plus sign. */
function encoded(text: string, { isHeads, upTo: most }: Chance): string {
  const hex = (byte: number): string => {
    const digits = byte.toString(16).padStart(2, '0')
    return `%${isHeads() ? digits.toUpperCase() : digits}`
  }
  const character = (char: string): string => {
    if (char === ' ' && isHeads()) return '+'
    const mayStand = /[\w.:']/.test(char) && most(9) > 0
    return mayStand ? char : [...Buffer.from(char)].map(hex).join('')
  }
  return [...text].map(character).join('')
}

/** An item in any case, with spaces around it; the provider's service perhaps underscored. */
function spelledItem(item: string, chance: Chance): string {
  const cased = [...item].map(char => (chance.isHeads() ? char.toUpperCase() : char)).join('')
  const isUnderscored = item === PROVIDER && chance.isHeads()
  return encoded(isUnderscored ? cased.replace(' ', '_') : ` ${cased} `, chance)
}

/** A list in one or two parameters, in any order, with items twice. */
function spelledList(name: string, items: readonly string[], chance: Chance): string[] {
  const spelledItems = chance
    .shuffled([...items, ...chance.some(items)])
    .map(item => spelledItem(item, chance))
  const cut = chance.upTo(spelledItems.length)
  const comma = chance.one([',', '%2C', ',,', '%2c+,'])
  return [spelledItems.slice(0, cut), spelledItems.slice(cut)].map(
    part => `${name}=${part.join(comma)}`,
  )
}

/** The parts of a query string that mean this, in any order, with empty ones among them. */
function spelled(meaning: Meaning, chance: Chance): string {
  const parts = Object.entries(meaning).flatMap(([name, value]) =>
    typeof value === 'string'
      ? [`${encoded(name, chance)}=${encoded(value, chance)}`]
      : spelledList(name, value, chance),
  )
  const empty = chance.some(['', 'type=', 'port=', 'works', 'fields=&get='])
  return chance.shuffled(['key=K', ...parts, ...empty]).join('&')
}

const listIn = (all: readonly string[], value: Meaning[string] = []): string[] =>
  all.filter(item => value.includes(item))
const numberIn = (value: Meaning[string] | undefined): number | null =>
  value === undefined ? null : Number(value)

/** The filter of a meaning (contract A3, A4). */
function filterOf(meaning: Meaning): Filter {
  const { ip, city = [], country = [], service = [] } = meaning
  const [host = '', port] = String(ip ?? '').split(':')
  const mode = meaning.cm ?? meaning.country_mode
  return {
    ...NO_FILTER,
    types: listIn(TYPES, meaning.type) as Filter['types'],
    anons: listIn(ANONS, meaning.anon) as Filter['anons'],
    pingMaxMs: numberIn(meaning.ping),
    speedMin: numberIn(meaning.speed),
    ageMaxSeconds: numberIn(meaning.time) ?? 600,
    worksMin: numberIn(meaning.works),
    countries: [...country].map(code => code.toUpperCase()).sort(),
    countryMode: mode === 'except' && country.length > 0 ? 'except' : 'include',
    cities: [...city].sort(),
    lang: meaning.lang === 'en' ? 'en' : 'ru',
    port: numberIn(meaning.port),
    address: ip === undefined ? null : { ip: host, port: Number(port) },
    services: SERVICES.filter(name => service.includes(name === 'provider' ? PROVIDER : name)),
    sort: SORTS.find(sort => sort === meaning.sort) ?? null,
    count: numberIn(meaning.count) || null,
  }
}

/** The output of a meaning: parameters of the other mode change nothing. */
function outputOf(meaning: Meaning): Output {
  const [kind, file] = String(meaning.get ?? 'txt').split('.')
  const isDownload = file === 'file'
  const line = meaning.type_prefix === '1' ? '{type}://{ip}:{port}' : null
  if (kind === 'txt') return { ...TXT, isDownload, line }
  const isJson = kind === 'json'
  const fields = listIn(['ip', 'port', 'ping', 'works', 'google', PROVIDER], meaning.fields)
  return {
    kind: OUTPUT_KINDS.find(name => name === kind) ?? 'txt',
    ...{ isDownload, line: null },
    fields: fields.length > 0 ? fields : null,
    splitIp: meaning.split_ip === '1',
    shape: isJson && meaning.format === 'object' ? 'object' : 'array',
    wrap: isJson && meaning.wrap === '1',
    pretty: !isJson || meaning.pretty !== '0',
  }
}

/** Cities, folded for comparison. */
const folded = (filter: Filter): Filter => ({ ...filter, cities: filter.cities.map(fold).sort() })

/** Reads requests as routes do. */
function createRequestReader() {
  const readQuery = createQueryReader(PROVIDER)
  return (url: string, authorization: string | null, entitlements: Entitlements) => {
    const { key, queryString } = readCredentials(url, sending(authorization))
    return { key, query: readQuery(queryString, key, entitlements) }
  }
}

describe('parameters', () => {
  const options = { numRuns: 250 }

  test('mean the same in every spelling', () => {
    const read = createRequestReader()
    fc.assert(
      fc.property(anyMeaning.filter(isConsistent), fc.nat(), (meaning, seed) => {
        const { key, query } = read(URL_START + spelled(meaning, chanceOf(seed)), null, UNBOUND)
        const { filter, output, addressBits } = query
        expect([key, addressBits, output]).toEqual(['K', 32, outputOf(meaning)])
        expect(folded(filter)).toEqual(folded(filterOf(meaning)))
      }),
      options,
    )
  })

  test('are limited by the kind of key', () => {
    const read = createRequestReader()
    const bounded = (most: number, count: number | null) => Math.min(count ?? most, most)
    fc.assert(
      fc.property(anyMeaning.filter(isConsistent), fc.nat(), (meaning, seed) => {
        const url = `/api?${spelled(meaning, chanceOf(seed))}`
        const { count, worksMin } = filterOf(meaning)
        const demo = read(url, null, DEMO).query
        const temp = read(url, null, TEMP).query
        expect([demo.addressBits, demo.filter.count]).toEqual([16, bounded(50, count)])
        expect([temp.addressBits, temp.filter.count]).toEqual([32, bounded(30, count)])
        expect([demo.filter.worksMin, temp.filter.worksMin]).toEqual([worksMin ?? 90, worksMin])
      }),
      options,
    )
  })
})

const parse = createParamsParser(PROVIDER)

test('any query string is refused by an ApiError, or its described filter reads the same', () => {
  const read = (text: string): Filter => parse(splitQueryString(text)).filter
  const meant = fc.tuple(anyMeaning, fc.nat()).map(([all, seed]) => spelled(all, chanceOf(seed)))
  let accepted = 0
  fc.assert(
    fc.property(fc.oneof(anyQuery, meant), text => {
      const filter = unlessRefused(() => read(text))
      if (filter === null || !text.isWellFormed()) return
      accepted += 1
      const described = describeFilter(filter, PROVIDER)
      const asQuery = Object.entries(described)
        .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
        .join('&')
      const again = read(asQuery)
      expect(again).toEqual(filter)
      expect(describeFilter(again, PROVIDER)).toEqual(described)
    }),
    { numRuns: 4000 },
  )
  expect(accepted).toBeGreaterThan(400)
})

// ---------------------------------------------------------------------------------------------
// Remembering changes nothing

/** What a request asks for, without any memory. Throws what refuses it. */
function readOnce(url: string, authorization: string | null, entitlements: Entitlements) {
  const pairs = splitQueryString(queryStringOf(url))
  const key = keyOf(pairs, sending(authorization))
  const { filter, output } = parse(pairs, key)
  const count = entitlements.countMax === null ? filter.count : entitlements.countMax
  const worksMin = filter.worksMin ?? entitlements.worksDefault
  return {
    key,
    ...{ output, addressBits: entitlements.addressBits },
    filter: { ...filter, worksMin, count: Math.min(filter.count ?? BIG, count ?? BIG) },
  }
}

/** What `work` gives, or the code and message of what refuses it. */
function messageOr<T>(work: () => T): T | string {
  const result = resultOf(work)
  return result instanceof Error ? `${result.code} ${result.message}` : result
}

const anyPart = fc.constantFrom(
  ...['key=K', 'key=K2', 'key=pl_Secret-1', 'key=', 'key', 'key=a%2Bb', '%6bey=K', '%6Bey=K'],
  ...['k%65y=K', 'ke%79=K', 'k%45y=K', 'kkey=K', 'xkey=K', 'key2=K', 'Key=K', 'key=K=K', 'key=é'],
  ...['type=http', 'type=socks5', 'works=90', 'count=50', 'count=30', 'city=key', 'city=key=K'],
  ...['city=%6bey', 'port=80', 'get=json', 'wrap=1', 'contry=de', 'works=101', '', 'a?key=K'],
)
const anyUrl = fc
  .tuple(
    fc.constantFrom(URL_START, '/api?', '/api/?', '/api??'),
    fc.array(anyPart, { maxLength: 5 }),
  )
  .map(([start, pieces]) => start + pieces.join('&'))
const anyHeader = fc.constantFrom(null, null, null, 'Bearer K', 'Bearer pl_Secret-1', 'Basic dTpw')
const OTHER: Entitlements = { countMax: 50, worksDefault: 90, addressBits: 32, streamsMax: 1 }
const ENTITLEMENTS = [DEMO, TEMP, UNBOUND, OTHER] as const

describe('a caching reader', () => {
  test('reads every request like one without a cache', () => {
    const anyRequest = fc.tuple(fc.oneof(anyUrl, fc.constant('/api')), anyHeader)
    const read = createRequestReader()
    let accepted = 0
    fc.assert(
      fc.property(fc.array(anyRequest, { maxLength: 6 }), requests => {
        for (const [url, authorization] of [...requests, ...requests, ...requests]) {
          for (const entitlements of ENTITLEMENTS) {
            const got = messageOr(() => {
              const { key, query } = read(url, authorization, entitlements)
              const { filter, output, addressBits } = query
              const count = filter.count ?? BIG
              return { key, output, addressBits, filter: { ...filter, count } }
            })
            expect(got).toEqual(messageOr(() => readOnce(url, authorization, entitlements)))
            if (typeof got === 'object') accepted += 1
          }
        }
      }),
      { numRuns: 300 },
    )
    expect(accepted).toBeGreaterThan(300)
  })
})

describe('the cache of the reader', () => {
  test('parses a repeated query string once for all keys', () => {
    const read = createRequestReader()
    const queryOf = (url: string, entitlements = UNBOUND): Query =>
      read(url, null, entitlements).query
    const first = queryOf('/api?key=K&type=http&works=90')
    for (const url of ['/api?type=http&key=K2&works=90', '/api?type=http&works=90&key=K3']) {
      expect({ ...queryOf(url) }).toEqual({ ...first })
    }
    const again = queryOf('/api?key=K9&type=http&works=90')
    expect(again).toEqual(first)
    expect(again).not.toBe(first) // many query strings are sent only once
    expect(queryOf('/api?key=K8&type=http&works=90')).toBe(again)
    const demo = queryOf('/api?key=K&type=http&works=90', DEMO)
    expect(demo).not.toEqual(first)
    expect(queryOf('/api?key=K&type=http&works=90', DEMO)).toBe(demo)
  })

  test('stores no long query string, because clients could fill it', () => {
    const read = createQueryReader(PROVIDER)
    const ask = (length: number): Query =>
      read(`city=${'x'.repeat(150)},${'y'.repeat(length - 150)}`, 'K', UNBOUND)
    ask(240)
    expect(ask(240)).toBe(ask(240))
    const long = `${'&'.repeat(5000)}type=http`
    read(long, 'K', UNBOUND)
    expect(read(long, 'K', UNBOUND)).not.toBe(read(long, 'K', UNBOUND))
  })
})
