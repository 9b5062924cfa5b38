/** The choice on the page as a query that the API accepts, and as the hash of the page (F6). */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createParamsParser, describeParameters } from '../../../src/api/query.ts'
import { splitQueryString } from '../../../src/lib/query-string.ts'
import {
  ANONS,
  type Choice,
  FORMS,
  MEMBERS,
  paramsOf,
  queryString,
  readChoice,
  SORTS,
  START,
  servicesOf,
  TYPES,
  toggled,
} from '../../../src/web/page/model/query.ts'

const SERVICES = servicesOf()
const parse = createParamsParser('the service')
const parsed = (query: string) => parse(splitQueryString(query))
const queryOf = (choice: Choice): string => queryString(paramsOf(choice))
const choiceOf = (change: Partial<Choice>): Choice => ({ ...START, ...change })

const listOf = (values: readonly string[]) => fc.subarray([...values]).map(items => items.join())
const number = fc.oneof(fc.constant(''), fc.integer({ min: 1, max: 100 }).map(String))
const oneOf = (...values: string[]) => fc.constantFrom('', ...values)

/** Everything that the controls offer. */
const choices: fc.Arbitrary<Choice> = fc.record({
  type: listOf(TYPES),
  anon: listOf(ANONS),
  country: listOf(['de', 'nl', 'us']),
  service: listOf(SERVICES),
  city: listOf(['Берлин', "L'Aquila", 'Saint "Denis"', 'a&b=c', '100 %', 'a+b']),
  fields: listOf(MEMBERS.filter(name => name !== 'port')),
  ping: number,
  speed: number,
  time: number,
  works: number,
  port: number,
  count: number,
  ip: oneOf('1.2.3.4:80'),
  country_mode: oneOf('include', 'except'),
  sort: oneOf(...SORTS),
  lang: oneOf('ru', 'en'),
  get: fc.constantFrom(...FORMS, ...FORMS.map(form => `${form}.file`)),
  type_prefix: oneOf('1'),
  line: oneOf('{scheme} {ip} {port}', '{scheme}://{ip}:{port}'),
  unique: oneOf('1'),
  split_ip: oneOf('1'),
  format: oneOf('object'),
  wrap: oneOf('1'),
  pretty: oneOf('0'),
})

describe('the request of the page', () => {
  test('is accepted by the API for any choice', () => {
    fc.assert(
      fc.property(choices, choice => {
        expect(() => parsed(queryOf(choice))).not.toThrow()
      }),
    )
  })

  test('selects the chosen values in the API', () => {
    const choice = choiceOf({
      ...{ type: 'socks5,http', anon: 'elite', country: 'de,nl', country_mode: 'except' },
      ...{ city: "Берлин, L'Aquila", ping: '700', speed: '1000', works: '90', time: '3600' },
      ...{ port: '1080', ip: '1.2.3.4:80', service: 'the service,smtp', sort: 'ping', count: '5' },
      ...{ lang: 'en', get: 'json.file', fields: 'ip,city', split_ip: '1', format: 'object' },
      ...{ wrap: '1', pretty: '0' },
    })
    const { filter, output } = parsed(queryOf(choice))
    expect(filter).toMatchObject({
      ...{ types: ['http', 'socks5'], anons: ['elite'], pingMaxMs: 700, speedMin: 1000 },
      ...{ ageMaxSeconds: 3600, worksMin: 90, countries: ['DE', 'NL'], countryMode: 'except' },
      ...{ cities: ["l'aquila", 'берлин'], lang: 'en', port: 1080 },
      ...{ address: { ip: '1.2.3.4', port: 80 }, services: ['smtp', 'provider'], sort: 'ping' },
      count: 5,
    })
    expect(output).toMatchObject({
      ...{ kind: 'json', isDownload: true, fields: ['ip', 'city'], splitIp: true },
      ...{ shape: 'object', wrap: true, pretty: false },
    })
  })

  test('has every parameter of the API but short names', () => {
    const named = describeParameters('the service').map(({ name }) => name)
    expect(Object.keys(START).sort()).toEqual(named.filter(name => name !== 'cm').sort())
  })

  test('leaves out defaults, and parameters that the form ignores', () => {
    const defaults = { time: '600', sort: 'checked', country_mode: 'except' }
    expect(queryOf(choiceOf({ ...defaults, get: 'txt', wrap: '1', fields: 'ip' }))).toBe('')
    expect(queryOf(choiceOf({ type_prefix: '1' }))).toBe('get=json')
    expect(queryOf(choiceOf({ get: 'txt', type_prefix: '1', line: '{ip} {port}' }))).toBe(
      'line=%7Bip%7D%20%7Bport%7D',
    )
  })
})

describe('the hash of the page', () => {
  test('holds the choice: read back, it gives the same request', () => {
    fc.assert(
      fc.property(choices, choice => {
        const query = queryOf(choice)
        if (query === '') return
        expect(queryOf(readChoice(query))).toBe(query)
      }),
    )
  })

  test('reads lists given twice, short names, any case, plus signs', () => {
    const choice = readChoice('type=SOCKS5&type=http&cm=except&country=De&city=New+York')
    expect(queryOf(choice)).toBe('type=socks5,http&country=de&country_mode=except&city=New%20York')
  })

  test.each(['', '%E0%A4%A', '=&=&&&', 'time=&works=', '__proto__=1&constructor=2', 'my_key'])(
    'without a known parameter shows the whole list: #%s',
    hash => expect(readChoice(hash)).toEqual(START),
  )

  test('keeps known parameters beside unknown ones, and never a key', () => {
    expect(queryOf(readChoice('type=socks5&nonsense=1&key=secret'))).toBe('type=socks5')
  })
})

test('an option is added to a list, and removed again', () => {
  expect(toggled('de', 'nl')).toBe('de,nl')
  expect(toggled('de,nl', 'de')).toBe('nl')
})
