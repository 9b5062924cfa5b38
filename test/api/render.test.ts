/**
 * The written form of an answer: golden files for every output form, the order of members, units,
 * the envelope's filters, and the property that JSON gives back exactly what was rendered.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Output } from '../../src/api/render.ts'
import { canonicalIp } from '../../src/lib/ip.ts'
import { describeFilter, type Filter } from '../../src/proxies/filter.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'
import { ANONS, LANGS, SERVICES } from '../../src/proxies/proxy.ts'
import { bestOf, typeBits, typesOf } from '../../src/proxies/types.ts'
import { golden, NO_FILTER, T0 } from '../support/fixtures.ts'
import { createRenderer, TXT } from '../support/render.ts'
import { berlin } from '../support/rows.ts'

const PROVIDER = 'the service'
const NOW = T0 / 1000

const MEMBERS = [
  ...['ip', 'port', 'ip_out', 'type', 'anon', 'speed', 'ping', 'timecheck', 'country', 'city'],
  ...['works', 'smtp', 'telegram', 'avito', 'google', 'the service'],
]

const perm: Proxy = {
  ...berlin,
  ip: '203.0.113.7',
  port: 1080,
  ipOut: '2001:db8::7',
  types: typeBits(['socks5']),
  anon: 'anonymous',
  speed: 0,
  pingMs: 1500,
  checkedAt: NOW - 90,
  country: 'RU',
  city: 'Пермь "на Каме" \\ {1}',
  cityEn: '',
  works: 0,
  services: new Set(SERVICES),
}
const unknown: Proxy = {
  ...berlin,
  ip: '10.0.0.1',
  port: 3128,
  ipOut: '',
  types: typeBits(['https']),
  anon: '',
  speed: null,
  pingMs: null,
  checkedAt: NOW - 600,
  country: '',
  city: '',
  cityEn: '',
  works: null,
  services: new Set(),
}
const PROXIES = [berlin, perm, unknown]

const FILTER = NO_FILTER
const JSON_OUT: Output = { ...TXT, kind: 'json' }

type Options = {
  proxies?: readonly Proxy[]
  isMasked?: boolean
  filter?: Partial<Filter>
  output?: Partial<Output>
  provider?: string
}
const renderTxt = ({ proxies = PROXIES, output = {}, isMasked }: Options = {}): string =>
  createRenderer(PROVIDER)(proxies, FILTER, { ...TXT, ...output }, T0, isMasked)
const renderJson = ({
  proxies = PROXIES,
  filter,
  output,
  provider,
  isMasked,
}: Options = {}): string =>
  createRenderer(provider ?? PROVIDER)(
    proxies,
    { ...FILTER, ...filter },
    { ...JSON_OUT, ...output },
    T0,
    isMasked,
  )

type Json = { [member: string]: unknown }

const FULL_FILTER: Filter = {
  ...NO_FILTER,
  types: ['http', 'socks5'],
  anons: ['anonymous', 'elite'],
  pingMaxMs: 2000,
  speedMin: 0,
  ageMaxSeconds: 3600,
  worksMin: 90,
  countries: ['DE', 'RU'],
  countryMode: 'except',
  cities: ['берлин', 'paris'],
  lang: 'en',
  port: 8080,
  address: { ip: '185.162.7.9', port: 8080 },
  services: ['telegram', 'provider'],
  sort: 'ping',
  count: 50,
}

const GOLDEN_JSON: readonly (readonly [name: string, Options])[] = [
  ['array', {}],
  ['array-compact', { output: { pretty: false } }],
  ['array-split', { output: { splitIp: true } }],
  ['array-english', { filter: { lang: 'en' } }],
  ['array-masked', { isMasked: true }],
  ['array-one-unknown', { proxies: [unknown] }],
  ['array-fields', { output: { fields: ['works', 'country', 'ip'] } }],
  ['array-fields-split', { output: { fields: ['port', 'type', 'ip'], splitIp: true } }],
  ['array-provider-renamed', { provider: 'acme mail' }],
  ['object', { output: { shape: 'object' } }],
  ['object-compact', { output: { shape: 'object', pretty: false } }],
  ['object-split', { output: { shape: 'object', splitIp: true, fields: ['ip', 'port', 'ping'] } }],
  ['object-masked', { isMasked: true, output: { shape: 'object' } }],
  ['envelope-array', { output: { wrap: true } }],
  ['envelope-array-compact', { output: { wrap: true, pretty: false } }],
  ['envelope-object', { output: { wrap: true, shape: 'object' } }],
  ['envelope-all-filters', { output: { wrap: true, fields: ['ip'] }, filter: FULL_FILTER }],
]

const GOLDEN_RECORDS: readonly (readonly [name: string, Options])[] = [
  ['all.csv', {}],
  ['split.csv', { output: { splitIp: true } }],
  ['english.csv', { filter: { lang: 'en' } }],
  ['masked.csv', { isMasked: true }],
  ['fields.csv', { output: { fields: ['city', 'works', 'ip'] } }],
  ['one-field.csv', { output: { fields: ['city'] } }],
  ['none.csv', { proxies: [] }],
  ['provider-renamed.csv', { provider: 'acme mail', output: { fields: ['ip', 'acme mail'] } }],
  ['all.ndjson', {}],
  ['split.ndjson', { output: { splitIp: true } }],
  ['english.ndjson', { filter: { lang: 'en' } }],
  ['masked.ndjson', { isMasked: true }],
  ['fields.ndjson', { output: { fields: ['works', 'country', 'ip'] } }],
]

const GOLDEN_TXT: readonly (readonly [name: string, Options])[] = [
  ['plain', {}],
  ['type-prefix', { output: { line: '{type}://{ip}:{port}' } }],
  ['masked', { isMasked: true, output: { line: '{type}://{ip}:{port}' } }],
]

describe('golden', () => {
  const kindOf = (name: string) => (name.endsWith('.csv') ? 'csv' : 'ndjson')
  test.each([
    ...GOLDEN_TXT.map(([name, options]) => [`${name}.txt`, renderTxt(options)]),
    ...GOLDEN_JSON.map(([name, options]) => [`${name}.json`, renderJson(options)]),
    ...GOLDEN_RECORDS.map(([name, options]) => {
      const output = { ...options.output, kind: kindOf(name) } as const
      return [name, renderJson({ ...options, output })]
    }),
  ])('%s', (name = '', actual = '') => expect(actual).toBe(golden(`output-${name}`, actual)))
})

describe('CSV', () => {
  const csv = (options: Options = {}): string =>
    renderJson({ ...options, output: { ...options.output, kind: 'csv' } })
  test('quotes only cells that need it', () => {
    const cities = ['a "b" c', 'a, b', 'a\nb', 'a\rb', "l'Aquila", 'São Tomé']
    const written = cities.map(city =>
      csv({ proxies: [{ ...berlin, city }], output: { fields: ['city'] } }).slice(6, -2),
    )
    const quoted = ['"a ""b"" c"', '"a, b"', '"a\nb"', '"a\rb"']
    expect(written).toEqual([...quoted, "l'Aquila", 'São Tomé'])
  })
  test('has no empty line for a record of one empty field', () => {
    const text = csv({ proxies: [unknown, berlin], output: { fields: ['city'] } })
    expect(text).toBe('city\r\n""\r\nБерлин\r\n')
  })
})

/** A JSON text without its strings. */
const withoutStrings = (json: string): string => json.replace(/"(?:[^"\\]|\\.)*"/g, '')

const FILTERS: readonly (readonly [Partial<Filter>, expected: Json])[] = [
  [{}, { time: 600, lang: 'ru' }],
  [
    { pingMaxMs: 0, speedMin: 0 },
    { ping: 0, speed: 0, time: 600, lang: 'ru' },
  ],
  [
    { ageMaxSeconds: 0, worksMin: 0 },
    { time: 0, works: 0, lang: 'ru' },
  ],
  [{ countryMode: 'except' }, { time: 600, lang: 'ru' }], // a mode without a country
  [
    { countries: ['DE', 'US'], services: ['smtp', 'provider'] },
    {
      ...{ time: 600, country: 'de,us', country_mode: 'include' },
      ...{ service: 'smtp,the service', lang: 'ru' },
    },
  ],
]

/** A golden file has them all. */
test.each(FILTERS)('an envelope shows the filters of %j as %j', (filter, expected) => {
  const described = describeFilter({ ...FILTER, ...filter }, PROVIDER)
  expect(JSON.stringify(described)).toBe(JSON.stringify(expected)) // order included
})

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })
const ipv4 = fc.ipV4()
const ipv6 = fc.ipV6().map(ip => canonicalIp(ip) ?? '')
const port = fc.integer({ min: 1, max: 65535 })
const upTo = (max: number) => fc.integer({ min: 0, max })
const BIG = 999_999_999_999_999
/** A record shows the language of its filter alone; golden files show the envelope. */
const someFilter = fc.constantFrom(...LANGS).map(lang => ({ ...FULL_FILTER, lang }))

const someProxy = (): fc.Arbitrary<Proxy> =>
  fc.record({
    ip: ipv4,
    port,
    ipOut: fc.oneof(fc.constant(''), ipv4, ipv6),
    types: fc.integer({ min: 1, max: 15 }),
    anon: fc.constantFrom(...ANONS, ''),
    speed: maybe(upTo(BIG)),
    pingMs: maybe(upTo(BIG)),
    checkedAt: upTo(NOW + 300),
    country: fc.constantFrom('', 'DE', 'RU'),
    city: fc.string({ unit: 'binary' }),
    cityEn: fc.oneof(fc.constant(''), fc.string()),
    works: maybe(upTo(100)),
    services: fc.subarray([...SERVICES]).map(services => new Set(services)),
  })

function expectedRecord(proxy: Proxy, { lang, types }: Filter, { fields, splitIp }: Output): Json {
  const has = (service: (typeof SERVICES)[number]) => proxy.services.has(service)
  const local = new Date((proxy.checkedAt + 7200) * 1000).toISOString()
  const all: [string, unknown][] = [
    ['ip', splitIp ? proxy.ip : `${proxy.ip}:${proxy.port}`],
    ...(splitIp ? [['port', `${proxy.port}`] satisfies [string, string]] : []),
    ['ip_out', proxy.ipOut],
    ['type', bestOf(proxy.types, typeBits(types))],
    ['types', typesOf(proxy.types)],
    ['anon', proxy.anon],
    ['speed', proxy.speed],
    ['ping', proxy.pingMs === null ? null : Number(`${proxy.pingMs}e-3`)],
    ['timecheck', `${local.slice(0, 10)} ${local.slice(11, 19)}`],
    ['country', proxy.country],
    ['city', (lang === 'en' && proxy.cityEn) || proxy.city],
    ['works', proxy.works === null ? '' : `${proxy.works}`],
    ['smtp', has('smtp')],
    ['telegram', has('telegram')],
    ['avito', has('avito')],
    ['google', has('google')],
    ['the service', has('provider')],
  ]
  const isShown = (name: string) => fields?.includes(name) ?? name !== 'types'
  return Object.fromEntries(all.filter(([name]) => isShown(name)))
}

const someOutput = (): fc.Arbitrary<Output> =>
  fc.record({
    kind: fc.constant('json'),
    isDownload: fc.boolean(),
    line: fc.constant(null),
    fields: maybe(fc.shuffledSubarray([...MEMBERS, 'types'])),
    splitIp: fc.boolean(),
    shape: fc.constantFrom('array', 'object'),
    wrap: fc.boolean(),
    pretty: fc.constant(false),
  })

const manyProxies = (): fc.Arbitrary<Proxy[]> =>
  fc.uniqueArray(someProxy(), { selector: ({ ip, port }) => `${ip}:${port}`, maxLength: 8 })

test('JSON gives back every record in order; pretty and compact differ only in white space', () => {
  const render = createRenderer(PROVIDER)
  fc.assert(
    fc.property(manyProxies(), someFilter, someOutput(), (proxies, filter, output) => {
      const [pretty = '', compact = ''] = [true, false].map(pretty =>
        render(proxies, filter, { ...output, pretty }, T0),
      )
      const body = JSON.parse(compact)
      const records = proxies.map(proxy => expectedRecord(proxy, filter, output))
      const keyed = proxies.map(({ ip, port }, i) => [`${ip}:${port}`, records[i]])
      const expected = output.shape === 'array' ? records : Object.fromEntries(keyed)
      expect(JSON.stringify(output.wrap ? body.data : body)).toBe(JSON.stringify(expected))
      if (output.wrap) expect(body.count).toBe(proxies.length)
      expect(withoutStrings(compact)).not.toMatch(/\s/)
      expect(JSON.stringify(JSON.parse(pretty))).toBe(compact)
      expect(JSON.stringify(body, null, 2)).toBe(pretty)
    }),
    { numRuns: 500 },
  )
})
