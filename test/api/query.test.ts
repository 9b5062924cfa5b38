/**
 * What a request asks (src/question.ts over src/query.ts): wishes spelled in every way that the
 * contract allows are read as wished, and remembering what was read changes nothing.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Terms, termsOf } from '../../src/access/access.ts'
import { ApiError } from '../../src/api/errors.ts'
import { createQueryParser, keyOf, splitQuery } from '../../src/api/params.ts'
import { createQuestions } from '../../src/api/query.ts'
import { ANONS, type Filter, fold, type Output, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { NO_FILTER } from '../support/fixtures.ts'
import { between, pick, randomOf } from '../support/random.ts'

const PROVIDER = 'the service'
const BIG = 999_999_999_999_999
const PLAN = { name: 'p', burst: null, daily: null, subnets: null, clients: null, count: null }
const UNBOUND: Terms = termsOf({ kind: 'regular', id: 'k', plan: PLAN })
const DEMO: Terms = termsOf({ kind: 'demo', id: 'demo' })
const TEMP: Terms = termsOf({ kind: 'temp', id: 't' })
const URL_START = 'http://127.0.0.1:8080/api?'

const TXT: Output = {
  ...{ kind: 'txt', download: false, typePrefix: false, fields: null },
  ...{ splitIp: false, shape: 'array', wrap: false, pretty: true },
}

// ---------------------------------------------------------------------------------------------
// Wishes, spelled anyhow

/** What is wished, as the words of contract A3: a list, or one word. */
type Wish = { [parameter: string]: readonly string[] | string }

const someOf = (...items: readonly string[]) => fc.subarray([...items], { minLength: 1 })
const upTo = (max: number) => fc.integer({ min: 0, max }).map(String)
const anyPort = fc.integer({ min: 1, max: 65_535 }).map(String)
const word = (...words: readonly string[]) => fc.constantFrom(...words)
const CITIES = ['ё', 'берлин', 'new york', 'zürich', "l'aquila", 'a+b', '100%', 'x'.repeat(200)]

const anyWish: fc.Arbitrary<Wish> = fc.record(
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
    count: upTo(BIG),
    lang: word('ru', 'en'),
    get: word('txt', 'json', 'txt.file', 'json.file'),
    type_prefix: word('0', '1'),
    fields: someOf('ip', 'port', 'ping', 'works', 'google', PROVIDER),
    split_ip: word('0', '1'),
    format: word('array', 'object'),
    wrap: word('0', '1'),
    pretty: word('0', '1'),
  },
  { requiredKeys: [] },
)

/** The modes agree, or only one of them is said. */
const isConsistent = ({ cm, country_mode: mode }: Wish): boolean =>
  cm === undefined || mode === undefined || cm === mode

/** Chance, the same for the same seed. */
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

/** Every character as it is where it may, percent-encoded, or (a space) a plus sign. */
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

/** A list said in one or two parameters, in any order, with items twice. */
function spelledList(name: string, items: readonly string[], chance: Chance): string[] {
  const said = chance
    .shuffled([...items, ...chance.some(items)])
    .map(item => spelledItem(item, chance))
  const cut = chance.upTo(said.length)
  const comma = chance.one([',', '%2C', ',,', '%2c+,'])
  return [said.slice(0, cut), said.slice(cut)].map(part => `${name}=${part.join(comma)}`)
}

/** The pieces of a query string that wish this, in any order, with empty ones among them. */
function spelled(wish: Wish, chance: Chance): string {
  const pieces = Object.entries(wish).flatMap(([name, said]) =>
    typeof said === 'string'
      ? [`${encoded(name, chance)}=${encoded(said, chance)}`]
      : spelledList(name, said, chance),
  )
  const empty = chance.some(['', 'type=', 'port=', 'works', 'fields=&get='])
  return chance.shuffled(['key=K', ...pieces, ...empty]).join('&')
}

const listIn = (all: readonly string[], said: Wish[string] = []): string[] =>
  all.filter(item => said.includes(item))
const numberIn = (said: Wish[string] | undefined): number | null =>
  said === undefined ? null : Number(said)

/** The filter that a wish stands for (contract A3, A4). */
function filterOf(wish: Wish): Filter {
  const { ip, city = [], country = [], service = [] } = wish
  const [host = '', port] = String(ip ?? '').split(':')
  const mode = wish.cm ?? wish.country_mode
  return {
    ...NO_FILTER,
    types: listIn(TYPES, wish.type) as Filter['types'],
    anons: listIn(ANONS, wish.anon) as Filter['anons'],
    pingMaxMs: numberIn(wish.ping),
    speedMin: numberIn(wish.speed),
    ageMaxSeconds: numberIn(wish.time) ?? 600,
    worksMin: numberIn(wish.works),
    countries: [...country].map(code => code.toUpperCase()).sort(),
    countryMode: mode === 'except' && country.length > 0 ? 'except' : 'include',
    cities: [...city].sort(),
    lang: wish.lang === 'en' ? 'en' : 'ru',
    port: numberIn(wish.port),
    address: ip === undefined ? null : { ip: host, port: Number(port) },
    services: SERVICES.filter(name => service.includes(name === 'provider' ? PROVIDER : name)),
    count: numberIn(wish.count) || null,
  }
}

/** The output that a wish stands for: parameters of the other mode change nothing. */
function outputOf(wish: Wish): Output {
  const [kind, file] = String(wish.get ?? 'txt').split('.')
  const download = file === 'file'
  if (kind === 'txt') return { ...TXT, download, typePrefix: wish.type_prefix === '1' }
  const fields = listIn(['ip', 'port', 'ping', 'works', 'google', PROVIDER], wish.fields)
  return {
    ...{ kind: 'json', download, typePrefix: false },
    fields: fields.length > 0 ? fields : null,
    splitIp: wish.split_ip === '1',
    shape: wish.format === 'object' ? 'object' : 'array',
    wrap: wish.wrap === '1',
    pretty: wish.pretty !== '0',
  }
}

/** Cities by what they are compared by. */
const folded = (filter: Filter): Filter => ({ ...filter, cities: filter.cities.map(fold).sort() })

describe('a wish, however it is spelled', () => {
  const options = { numRuns: 250 }

  test('is read as it was meant', () => {
    const read = createQuestions(PROVIDER)
    fc.assert(
      fc.property(anyWish.filter(isConsistent), fc.nat(), (wish, seed) => {
        const { key, ask } = read(URL_START + spelled(wish, chanceOf(seed)), null)
        const { filter, output, masked } = ask(UNBOUND)
        expect([key, masked, output]).toEqual(['K', false, outputOf(wish)])
        expect(folded(filter)).toEqual(folded(filterOf(wish)))
      }),
      options,
    )
  })

  test('is bounded by the kind of key (spec 8)', () => {
    const read = createQuestions(PROVIDER)
    const bounded = (most: number, count: number | null) => Math.min(count ?? most, most)
    fc.assert(
      fc.property(anyWish.filter(isConsistent), fc.nat(), (wish, seed) => {
        const { ask } = read(`/api?${spelled(wish, chanceOf(seed))}`, null)
        const { count, worksMin } = filterOf(wish)
        const [demo, temp] = [ask(DEMO), ask(TEMP)]
        expect([demo.masked, demo.filter.count]).toEqual([true, bounded(50, count)])
        expect([temp.masked, temp.filter.count]).toEqual([false, bounded(30, count)])
        expect([demo.filter.worksMin, temp.filter.worksMin]).toEqual([worksMin ?? 90, worksMin])
      }),
      options,
    )
  })
})

// ---------------------------------------------------------------------------------------------
// Remembering changes nothing

const parse = createQueryParser(PROVIDER)

/** What a request asks, worked out from the beginning; or the message that refuses it. */
function askedAnew(url: string, authorization: string | null, terms: Terms) {
  const raw = splitQuery(url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')
  return messageOr(() => {
    const key = keyOf(raw, authorization)
    const { filter, output } = parse(raw, key)
    const count = terms.countMax === null ? filter.count : terms.countMax
    const worksMin = filter.worksMin ?? terms.worksDefault
    return {
      key,
      ...{ output, masked: terms.masked },
      filter: { ...filter, worksMin, count: Math.min(filter.count ?? BIG, count ?? BIG) },
    }
  })
}

function messageOr<T>(work: () => T): T | string {
  try {
    return work()
  } catch (error) {
    if (error instanceof ApiError) return `${error.code} ${error.message}`
    throw error
  }
}

const anyPiece = fc.constantFrom(
  ...['key=K', 'key=K2', 'key=pl_Secret-1', 'key=', 'key', 'key=a%2Bb', '%6bey=K', '%6Bey=K'],
  ...['k%65y=K', 'ke%79=K', 'k%45y=K', 'kkey=K', 'xkey=K', 'key2=K', 'Key=K', 'key=K=K', 'key=é'],
  ...['type=http', 'type=socks5', 'works=90', 'count=50', 'count=30', 'city=key', 'city=key=K'],
  ...['city=%6bey', 'port=80', 'get=json', 'wrap=1', 'contry=de', 'works=101', '', 'a?key=K'],
)
const anyUrl = fc
  .tuple(
    fc.constantFrom(URL_START, '/api?', '/api/?', '/api??'),
    fc.array(anyPiece, { maxLength: 5 }),
  )
  .map(([start, pieces]) => start + pieces.join('&'))
const anyHeader = fc.constantFrom(null, null, null, 'Bearer K', 'Bearer pl_Secret-1', 'Basic dTpw')
const TERMS = [DEMO, TEMP, UNBOUND, { countMax: 50, worksDefault: 90, masked: false }] as const

describe('a reader that remembers', () => {
  test('reads every request as one that does not', () => {
    const anyRequest = fc.tuple(fc.oneof(anyUrl, fc.constant('/api')), anyHeader)
    const read = createQuestions(PROVIDER)
    let asked = 0
    fc.assert(
      fc.property(fc.array(anyRequest, { maxLength: 6 }), requests => {
        for (const [url, authorization] of [...requests, ...requests]) {
          for (const terms of TERMS) {
            const got = messageOr(() => {
              const { key, ask } = read(url, authorization)
              const { filter, output, masked } = ask(terms)
              const count = filter.count ?? BIG
              return { key, output, masked, filter: { ...filter, count } }
            })
            expect(got).toEqual(askedAnew(url, authorization, terms))
            if (typeof got === 'object') asked += 1
          }
        }
      }),
      { numRuns: 300 },
    )
    expect(asked).toBeGreaterThan(300)
  })

  test('gives questions the same id when they have the same answer, and only then', () => {
    const read = createQuestions(PROVIDER)
    const ids = new Map<string, string>()
    const answers = new Map<string, string>()
    const plain = fc.subarray(['type=http', 'works=90', 'count=50', 'get=json', 'wrap=1', 'city=a'])
    fc.assert(
      fc.property(plain, fc.constantFrom(...TERMS), (pieces, terms) => {
        const { id, filter, output, masked } = read(`/api?key=K&${pieces.join('&')}`, null).ask(
          terms,
        )
        const answer = Bun.inspect({ filter, output, masked }, { depth: 9 })
        expect(ids.get(answer) ?? id).toBe(id)
        expect(answers.get(id) ?? answer).toBe(answer)
        ids.set(answer, id)
        answers.set(id, answer)
      }),
      { numRuns: 1000 },
    )
    expect(ids.size).toBeGreaterThan(50)
  })

  test('works a query out once, whoever asks it', () => {
    const read = createQuestions(PROVIDER)
    const first = read('/api?key=K&type=http&works=90', null).ask(UNBOUND)
    for (const url of ['/api?type=http&key=K2&works=90', '/api?type=http&works=90&key=K3']) {
      expect({ ...read(url, null).ask(UNBOUND) }).toEqual({ ...first })
    }
    expect(read('/api?key=K9&type=http&works=90', null).ask(UNBOUND)).toBe(first)
    expect(read('/api?key=K&type=http&works=90', null).ask(DEMO)).not.toBe(first)
  })

  test('keeps no query that is long: strangers could fill the memory with them', () => {
    const read = createQuestions(PROVIDER)
    const ask = (length: number) => {
      const url = `/api?key=K&city=${'x'.repeat(150)},${'y'.repeat(length - 150)}`
      return read(url, null).ask(UNBOUND)
    }
    expect(ask(300)).toBe(ask(300))
    const long = `/api?key=K&${'&'.repeat(5000)}type=http`
    expect(read(long, null).ask(UNBOUND)).not.toBe(read(long, null).ask(UNBOUND))
  })

  test('reads a target without a query by its header', () => {
    const { key, ask } = createQuestions(PROVIDER)('/api', 'Bearer K')
    expect(key).toBe('K')
    expect(ask(UNBOUND)).toMatchObject({ filter: NO_FILTER, output: TXT, masked: false })
    expect(messageOr(() => createQuestions(PROVIDER)('/api', null))).toStartWith('KEY_MISSING')
  })
})
