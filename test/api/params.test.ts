/**
 * The one table of refused queries, with the message of each refusal (spec 4.1, contract A3, A4).
 * `query.test.ts` tests that good parameters mean the same in every spelling.
 */
import { describe, expect, test } from 'bun:test'
import { createParamsParser, describeParameters } from '../../src/api/query.ts'
import type { Output } from '../../src/api/render.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { fold } from '../../src/proxies/filter.ts'
import { NO_FILTER } from '../support/fixtures.ts'
import { TXT } from '../support/render.ts'
import { refusal } from './thrown.ts'

const PROVIDER = 'the service'
const parseDefault = createParamsParser(PROVIDER)
/** Parses as the endpoint does: with the key that the query itself holds. */
function parse(text: string, provider = PROVIDER) {
  const raw = splitQueryString(text)
  const key = raw.find(({ name, value }) => name === 'key' && value)?.value ?? ''
  return (provider === PROVIDER ? parseDefault : createParamsParser(provider))(raw, key)
}

describe('the parameters', () => {
  test('are in the specified order', () => {
    const names = 'type anon ping speed time works country country_mode cm city port ip service'
    const rest = 'sort count lang get type_prefix fields split_ip format wrap pretty'
    const specified = [...names.split(' '), ...rest.split(' ')]
    const all = describeParameters(PROVIDER).map(({ name }) => name)
    expect(all.filter(name => specified.includes(name))).toEqual(specified)
  })

  test.each(describeParameters(PROVIDER))('treat an empty $name as a missing one', ({ name }) => {
    for (const query of [`${name}=`, name, `get=json&${name}=`, `${name}=&${name}=`]) {
      const kind = query.startsWith('get=json') && name !== 'get' ? 'json' : 'txt'
      const parsed = parse(name === 'get' ? `${name}=` : query)
      expect(parsed).toEqual({ filter: NO_FILTER, output: { ...TXT, kind } })
    }
  })

  const single = describeParameters(PROVIDER).filter(({ list }) => !list)
  test.each(single)('take $name, which is no list, only once', ({ name, forms, example }) => {
    const get = name === 'get' ? '' : `get=${forms[0]}&`
    const query = `${get}${name}=${example}&type=http&${name}=`
    expect(refusal(() => parse(query + example)).message).toBe(`${name} may be given only once`)
    expect(() => parse(query)).not.toThrow()
  })
})

/** The integers, with the filter that each sets and its bounds. */
const INTEGERS = [
  ['ping', 'pingMaxMs', 0, 999_999_999_999_999, ' (milliseconds)'],
  ['speed', 'speedMin', 0, 999_999_999_999_999, ' (bytes per second)'],
  ['time', 'ageMaxSeconds', 0, 999_999_999_999_999, ' (seconds)'],
  ['works', 'worksMin', 0, 100, ''],
  ['port', 'port', 1, 65_535, ''],
  ['count', 'count', 0, 999_999_999_999_999, ''],
] as const

test.each(INTEGERS)('%s is read from its least to its greatest value', (name, member, min, max) => {
  for (const text of [String(min), '007', '%37', String(max)]) {
    const value = Number(decodeURIComponent(text))
    const read = name === 'count' && value === 0 ? null : value // existing clients mean "not given"
    expect(parse(`${name}=${text}`).filter).toEqual({ ...NO_FILTER, [member]: read })
  }
})

const NO_DIGITS = [
  ...['0x10', '1e3', '5.0', '5.', '.5', '%2B5', '+5', '-5', '-0', '%205', '5+', '5%0A', '5%00'],
  ...['1234567890123456', '0000000000000005', '5,6', '5;6', '1_000', '5ms', 'five', 'NaN', 'null'],
  ...['Infinity', '%D9%A5', '%EF%BC%95', '0b1', '0o7', '5n', '[5]', 'true', "5'", '5%20or%201=1'],
]
const NO_UTF8 = ['%', '%z', '%zz', '%a', '%ff', '%c3', '%c3%28', '%ed%a0%80', '%f8%88%80%80%80']
const NO_ADDRESS = [
  ...['1.2.3.4', '1.2.3.4:', ':80', '1.2.3.4:0', '1.2.3.4:65536', '1.2.3.4:123456'],
  ...['1.2.3:80', '1.2.3.4.5:80', '256.2.3.4:80', '01.2.3.4:80', '1..3.4:80', '1.2.3.4:80:80'],
  ...['1.2.3.4:8o', '1.2.3.4:%2B80', '+1.2.3.4:80', '1.2.3.4:80+', '1.2.3.4:80%0A', 'host:80'],
  ...['[::1]:80', '::1:80', '%3A%3Affff:1.2.3.4:80', '1.2.3.4:80,1.2.3.5:80', '0x1.2.3.4:80'],
  ...['http://1.2.3.4:80', '1.2.3.4:-80', '1.2.3.4:8e1', '1.2.3.4%20:80'],
  ...['1.2.3.4:080', '1.2.3.4:00080', '1.2.3.04:80', '1.2.3.4:080&ip='],
]
const NO_LINE = [
  ...['{ip}', '{port}', '{ip}:{prt}', '{ip}:{port}}', '{{ip}:{port}', '{ip}:{port}\u00e9'],
  ...['{ip}:{port}\n', '{IP}:{PORT}', `{ip}:{port}${'x'.repeat(90)}`],
].map(encodeURIComponent)
const FLAG = 'must be 1 or 0, or true or false'
const FIELDS =
  'ip, port, ip_out, type, types, anon, speed, ping, timecheck, country, city, works, smtp, ' +
  'telegram, avito, google, the service'

/** What each parameter must be, and values of it that are refused with just that sentence. */
type BadValues = readonly [parameter: string, sentence: string, values: readonly string[]]
const BAD_VALUES: readonly BadValues[] = [
  ...INTEGERS.map(([name, _, min, max, unit]): BadValues => {
    const outside = [`${max + 1}`, '-1', '9999999999999999', ...(min === 1 ? ['0'] : [])]
    const sentence = `must be an integer from ${min} to ${max}${unit}`
    return [name, sentence, [...outside, ...NO_DIGITS]]
  }),
  [
    ...(['type', 'must be a comma-separated list of http, https, socks4, socks5'] as const),
    ['htp', 'http,ftp', 'http&type=ftp', 'http;socks5', 'http socks5', 'http%00'],
  ],
  ['anon', 'must be a comma-separated list of transparent, anonymous, elite', ['high']],
  [
    'country',
    'must be a comma-separated list of two-letter country codes (ISO 3166-1 alpha-2)',
    ['deu', 'd', 'd1', 'germany', '%D0%B4%D0%B5'],
  ],
  [
    ...(['service', 'must be a comma-separated list of smtp, telegram, avito, google, '] as const),
    ['ftp', 'provider', 'theservice', 'the-service', 'smtp,,x'],
  ],
  ['city', 'must be a comma-separated list of city names', ['a%00b', 'a%0Ab', 'x'.repeat(201)]],
  ['type', 'must be valid UTF-8 in percent-encoding', NO_UTF8.map(text => `http${text}`)],
  ['ip', 'must be an IPv4 address with a port, a.b.c.d:port', NO_ADDRESS],
  ['cm', 'must be include or except', ['exclude', 'include,except', 'EXCEPT']],
  ['country_mode', 'must be include or except', ['Except']],
  ['lang', 'must be ru or en', ['de', 'EN', 'ru,en']],
  [
    'get',
    'must be txt or json or csv or ndjson or txt.file or json.file or csv.file or ndjson.file',
    ['xml', 'csv.gz', '.file', 'jsonx', 'json.file.file', 'txt%0A'],
  ],
  ['type_prefix', FLAG, ['constructor', '01']],
  ['get=json&split_ip', FLAG, ['2']],
  ['get=json&format', 'must be array or object', ['list', 'Array']],
  ['get=json&wrap', FLAG, ['yes']],
  ['get=json.file&pretty', FLAG, ['on']],
  [
    'get=json&fields',
    `must be a comma-separated list of ${FIELDS}`,
    ['id', 'ip,city_en', 'ip%20port'],
  ],
  ['get=csv&fields', `must be a comma-separated list of ${FIELDS}`, ['*']],
  ['get=ndjson&fields', `must be a comma-separated list of ${FIELDS}`, ['nope']],
  [
    'line',
    'must be up to 100 printable ASCII characters with {ip} and {port}, and perhaps {type}, ' +
      '{scheme} and {country}',
    NO_LINE,
  ],
  [
    ...(['sort', 'must be checked or ping or speed or works or random'] as const),
    ['Ping', 'ping,speed', '-ping', 'toString'],
  ],
]

test.each(BAD_VALUES)('%s %s', (parameter, sentence, values) => {
  const name = parameter.split('&').at(-1)
  const whole = sentence.endsWith('google, ') ? sentence + PROVIDER : sentence
  for (const value of values) {
    const { code, status, message } = refusal(() => parse(`${parameter}=${value}`))
    expect([value, code, status, message]).toEqual([
      ...[value, 'INVALID_PARAMETER', 400, `${name} ${whole}`],
    ])
  }
})

const MODES = 'cm and country_mode are one parameter; give one of them, or the same value'
const NOTHING = 'fields=port shows nothing without split_ip=1; give that too, or more fields'
const NO_NAME = 'parameter names must be valid UTF-8 in percent-encoding'

/** Names that there are not, and the nearest that there is. */
const NEAREST: { readonly [name: string]: string } = {
  ...{ contry: 'country', typ: 'type', Type: 'type', services: 'service', splitip: 'split_ip' },
  ...{ 'type-prefix': 'type_prefix', kee: 'key', country_mde: 'country_mode', limit: 'count' },
  ...{ num: 'count', page: 'count', offset: 'count', random: 'sort=random', delimiter: 'line' },
  ...{ exclude_country: 'country=…&cm=except', Protocol: 'type' },
}
const UNKNOWN: { readonly [query: string]: string } = {
  ...{ 'nonsense=1': " 'nonsense'", 'q=1': " 'q'", '__proto__=1': " '__proto__'" },
  ...{ 'timecheck=1': " 'timecheck'", 'ip_out=1.2.3.4': " 'ip_out'" }, // output only
  ...{ 'type[]=http': "; did you mean 'type'?", 'toString=1': " 'toString'" },
  // Ten characters may belong to a key.
  ...{ 'constructor=1': " 'construct…'", 'respons_time=1': " 'respons_t…'" },
  'key=demo&k-5f4dcc3b5aa765d61d8327=1': " 'k-5f4dcc3…'",
  ...{ '%3Cscript%3E=1': '', [`${'x'.repeat(41)}=1`]: '', '=5': '', '=': '' },
  'get=json&__proto__': " '__proto__'",
}

test.each<readonly [query: string, message: string]>([
  ['country=de&cm=except&country_mode=include', MODES],
  ['country=de&cm=include&country_mode=except', MODES],
  ['line={ip}:{port}&type_prefix=1', 'line replaces type_prefix; give only one of them'],
  ...['json', 'csv', 'ndjson', 'json.file', 'csv.file', 'ndjson.file'].flatMap(get => [
    [`get=${get}&fields=port`, NOTHING] as const,
    [`fields=PORT,,port&split_ip=0&get=${get}`, NOTHING] as const,
  ]),
  ...NO_UTF8.map(text => [`type${text}=http`, NO_NAME] as const),
  ['%ff=', NO_NAME],
  ...Object.entries(NEAREST).flatMap(([name, near]) =>
    [name, `${name}=`, `type=http&${name}=1`].map(
      query => [query, `unknown parameter '${name}'; did you mean '${near}'?`] as const,
    ),
  ),
  ...Object.entries(UNKNOWN).map(([query, shown]) => [query, `unknown parameter${shown}`] as const),
])('%s: %s', (query, message) => {
  const error = refusal(() => parse(query))
  expect([error.code, error.message]).toEqual(['INVALID_PARAMETER', message])
})

describe('a name that holds a part of the key', () => {
  const KEY = 'pl_Secret0Secret1Secret2'
  const names = [KEY, `x${KEY}y`, `%70${KEY.slice(1)}`, KEY.slice(3), KEY.slice(0, -3)]
  test.each([...names, KEY.slice(5, 15), `x${KEY.slice(9)}`])('is not repeated: %s', name => {
    const tens = Array.from({ length: KEY.length - 9 }, (_, at) => KEY.slice(at, at + 10))
    for (const key of [`key=${KEY}`, `key=%70${KEY.slice(1)}`, `key=&key=${KEY}`]) {
      for (const query of [`${key}&${name}=1`, `${name}=1&${key}`]) {
        const { code, message } = refusal(() => parse(query))
        expect(code).toBe('INVALID_PARAMETER')
        expect(tens.filter(ten => message.includes(ten))).toEqual([])
      }
    }
  })
})

test.each([
  ['Zürich,zurich,ZU\u0308RICH', 'zürich'],
  ['Орёл,ОРЕЛ', 'орёл'],
  ['GROẞENHAIN,Großenhain,GROSSENHAIN', 'großenhain'],
])(
  'the cities %s are one city: case, accents and composition make no difference',
  (texts, name) => {
    const { cities } = parse(`city=${encodeURIComponent(texts)}`).filter
    expect(cities.map(fold)).toEqual([fold(name)])
  },
)

test('й and и make two different cities', () => {
  expect(parse('city=Йорк,Иорк').filter.cities).toHaveLength(2)
})

describe('the service of the provider', () => {
  test.each([
    ['example', 'example'],
    ['my shop', 'my_shop'],
    ['my shop', 'My+Shop'],
    ['mail.example-1', 'mail.example-1'],
    ['яндекс', 'ЯНДЕКС'],
  ])('called %j is requested as %s', (name, text) => {
    expect(parse(`service=smtp,${text}`, name).filter.services).toEqual(['smtp', 'provider'])
    expect(parse(`get=json&fields=ip,${text}`, name).output.fields).toEqual(['ip', name])
    const { message } = refusal(() => parse('service=the+service', name))
    expect(message).toBe(`service ${BAD_VALUES.find(([each]) => each === 'service')?.[1]}${name}`)
  })

  test('may have a dot, which is not a wildcard', () => {
    expect(() => parse('service=a.b.c', 'a.b.c')).not.toThrow()
    for (const other of ['axb.c', 'a.bxc', 'axbxc']) {
      expect(refusal(() => parse(`service=${other}`, 'a.b.c')).code).toBe('INVALID_PARAMETER')
    }
  })
})

/** Flags in any case; and parameters of another form, which are ignored whatever their value. */
test.each<[query: string, output: Partial<Output>]>([
  ['get=Csv.FILE', { kind: 'csv', isDownload: true }],
  ['type_prefix=true', { line: '{type}://{ip}:{port}' }],
  ['type_prefix=False', {}],
  [
    'get=json&wrap=TRUE&split_ip=True&pretty=false',
    { kind: 'json', wrap: true, splitIp: true, pretty: false },
  ],
  ['get=json&fields=port&split_ip=1', { kind: 'json', fields: ['port'], splitIp: true }],
  ['line={port}%20{ip}', { line: '{port} {ip}' }],
  [`line={ip}:{port}${'x'.repeat(89)}`, { line: `{ip}:{port}${'x'.repeat(89)}` }],
  ['get=txt.file&fields=id&split_ip=x&format=x&wrap=x&wrap=y&pretty=%ff', { isDownload: true }],
  ['get=json&line=nonsense&type_prefix=%ff&type_prefix=2', { kind: 'json' }],
  ['get=csv&type_prefix=x&format=x&wrap=%ff&pretty=0&pretty=1', { kind: 'csv' }],
  ['get=ndjson&wrap=1&format=object&pretty=0', { kind: 'ndjson' }],
])('%s is read', (query, output) => {
  expect(parse(query)).toEqual({ filter: NO_FILTER, output: { ...TXT, ...output } })
})
