/** What is chosen on the page, as a query that the API takes and as the hash of the page (F6). */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createParamsParser, describeParameters } from '../../../src/api/query.ts'
import { splitQueryString } from '../../../src/lib/query-string.ts'
import {
  ANONS,
  type Choice,
  FORMS,
  ignoredIn,
  isInvalid,
  MEMBERS,
  type Name,
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
const queryOf = (choice: Choice): string => queryString(paramsOf(choice, SERVICES))
const choiceOf = (change: Partial<Choice>): Choice => ({ ...START, ...change })

const text = fc.string({ unit: 'binary', maxLength: 30 })
const listOf = (values: readonly string[]) =>
  fc.array(fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...values) }, text)).map(i => i.join())
const number = fc.oneof(
  fc.nat().map(String),
  fc.constantFrom('', '0', '101', '65536', '1e3', '-1'),
  text,
)
const oneOf = (...values: string[]) => fc.oneof(fc.constantFrom('', ...values), text)

/** Anything that the controls can hold, and anything that can be typed into them. */
const choices: fc.Arbitrary<Choice> = fc.record({
  type: listOf(TYPES),
  anon: listOf(ANONS),
  country: listOf(['de', 'nl', 'us']),
  service: listOf(SERVICES),
  city: fc.oneof(listOf(['Берлин', "L'Aquila", 'Saint "Denis"', 'a&b=c']), text),
  fields: listOf([...MEMBERS, 'types', ...SERVICES]),
  ping: number,
  speed: number,
  time: number,
  works: number,
  port: number,
  count: number,
  ip: oneOf('1.2.3.4:80', '999.1.1.1:1', '1.2.3.4:0', '01.2.3.4:5'),
  country_mode: oneOf('include', 'except'),
  sort: oneOf(...SORTS),
  lang: oneOf('ru', 'en'),
  get: fc.constantFrom(...FORMS, ...FORMS.map(form => `${form}.file`)),
  type_prefix: oneOf('1'),
  line: oneOf('{scheme} {ip} {port}', '{ip}', '{ip}:{port} {x}', `{ip}:{port}${'-'.repeat(90)}`),
  unique: oneOf('1'),
  split_ip: oneOf('1'),
  format: oneOf('array', 'object'),
  wrap: oneOf('1'),
  pretty: oneOf('0', '1'),
})

test.each([
  ['type=socks5&country=de&cm=except&get=csv', []],
  ['country=xxxx', ['country=xxxx']],
  ['country=DE,xxxx&port=0', ['country=xxxx', 'port=0']],
  ['service=smtp,the_service,nothing', ['service=nothing']],
  ['colour=red&type=', ['colour=red']],
  ['country=%%%', ['country=%%%']],
  ['key=secret&API_KEY=secret', ['key', 'API_KEY']],
])('of #%s is ignored: %j', (query, ignored) => {
  expect(ignoredIn(query, SERVICES)).toEqual(ignored)
})

describe('the request of the page', () => {
  test('is one that the API accepts, whatever is chosen and typed', () => {
    fc.assert(
      fc.property(choices, choice => {
        expect(() => parsed(queryOf(choice))).not.toThrow()
      }),
      { numRuns: 1000 },
    )
  })

  test('means to the API what was chosen', () => {
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

  test('leaves out what is the default, and what the form ignores', () => {
    const defaults = { time: '600', sort: 'checked', country_mode: 'except' }
    expect(queryOf(choiceOf({ ...defaults, get: 'txt', wrap: '1', fields: 'ip' }))).toBe('')
    expect(queryOf(choiceOf({ type_prefix: '1' }))).toBe('get=json')
  })

  test.each<[Name, string]>([
    ['ping', '5.0'],
    ['works', '101'],
    ['port', '65536'],
    ['port', '0'],
    ['ip', '999.1.1.1:1'],
    ['ip', '1.2.3.4'],
    ['ip', '1.2.3.4:080'],
    ['ip', '1.2.3.4:80.5'],
    ['count', 'all'],
    ['country', 'xxxx'],
  ])('leaves %s=%s out and says that it is wrong', (name, value) => {
    expect(isInvalid(name, value)).toBe(true)
    expect(queryOf(choiceOf({ [name]: value }))).toBe('get=json')
  })

  test('leaves out services that this service does not have', () => {
    const choice = choiceOf({ service: 'smtp,bogus,my shop' })
    expect(queryString(paramsOf(choice, ['smtp', 'my shop']))).toBe(
      'service=smtp,my%20shop&get=json',
    )
  })
})

describe('the hash of the page', () => {
  test('holds the choice: read back, it is the same request', () => {
    fc.assert(
      fc.property(choices, choice => {
        const query = queryOf(choice)
        if (query === '') return
        expect(queryOf(readChoice(query))).toBe(query)
      }),
      { numRuns: 1000 },
    )
  })

  test('reads what the API reads: lists given twice, short names, any case, plus signs', () => {
    const choice = readChoice('type=SOCKS5&type=http&cm=except&country=De&city=New+York')
    expect(queryOf(choice)).toBe('type=socks5,http&country=de&country_mode=except&city=New%20York')
  })

  test.each([
    '',
    'country=xxxx',
    'country=%%%',
    '%E0%A4%A',
    ...['=&=&&&', '&&==&', 'time=&works=1e3', `type=${'x'.repeat(5000)}`],
    'ping=fast&works=1000',
    '__proto__=1&constructor=2',
    'my_key',
  ])('that is damaged shows the whole list: #%s', hash => {
    expect(readChoice(hash)).toEqual(START)
  })

  test('that is damaged in part keeps the rest', () => {
    expect(queryOf(readChoice('country=xxxx,de&ping=fast&type=socks5&nonsense=1'))).toBe(
      'type=socks5&country=de',
    )
  })

  test('never throws, and what it gives is a request that the API accepts', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), hash => {
        expect(() => parsed(queryOf(readChoice(hash)))).not.toThrow()
      }),
      { numRuns: 2000 },
    )
  })
})

test('an option is added to a list, and taken away again', () => {
  expect(toggled('de', 'nl')).toBe('de,nl')
  expect(toggled('de,nl', 'de')).toBe('nl')
})
