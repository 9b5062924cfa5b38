/**
 * The written form of an answer: golden files for every output form, the order of members, units,
 * the envelope's filters, and the property that JSON gives back exactly what was rendered.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createParamsParser } from '../../src/api/query.ts'
import { memberNames, type Output } from '../../src/api/render.ts'
import { canonicalIp } from '../../src/lib/ip.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { describeFilter, type Filter, SORTS } from '../../src/proxies/filter.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'
import { ANONS, LANGS, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { golden, NO_FILTER, T0 } from '../support/fixtures.ts'
import { createRenderer } from '../support/render.ts'
import { berlin } from '../support/rows.ts'

const PROVIDER = 'the service'
const NOW = T0 / 1000

const MEMBERS = [
  ...['ip', 'port', 'ip_out', 'type', 'anon', 'speed', 'ping', 'timecheck', 'country', 'city'],
  ...['works', 'smtp', 'telegram', 'avito', 'google', 'the service'],
]
const UNSPLIT = MEMBERS.filter(name => name !== 'port')

const perm: Proxy = {
  ...berlin,
  ip: '203.0.113.7',
  port: 1080,
  ipOut: '2001:db8::7',
  type: 'socks5',
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
  type: 'https',
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
const TXT: Output = {
  kind: 'txt',
  isDownload: false,
  hasTypePrefix: false,
  fields: null,
  splitIp: false,
  shape: 'array',
  wrap: false,
  pretty: true,
}
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
/** The only record of a rendering. */
const recordOf = (options: Options): Json => {
  const [record] = JSON.parse(renderJson({ proxies: [berlin], ...options }))
  return record
}

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
  ['type-prefix', { output: { hasTypePrefix: true } }],
  ['masked', { isMasked: true, output: { hasTypePrefix: true } }],
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
  test('has a header line, and CRLF at the end of every line (RFC 4180)', () => {
    const lines = csv().split('\r\n')
    expect(lines[0]).toBe(UNSPLIT.join(','))
    expect(lines).toHaveLength(1 + PROXIES.length + 1)
    expect(lines.at(-1)).toBe('')
    expect(csv()).not.toMatch(/[^\r]\n/)
  })
  test('quotes what needs it, and nothing else', () => {
    const cities = ['a "b" c', 'a, b', 'a\nb', 'a\rb', "l'Aquila", 'São Tomé']
    const written = cities.map(city =>
      csv({ proxies: [{ ...berlin, city }], output: { fields: ['city'] } }).slice(6, -2),
    )
    const quoted = ['"a ""b"" c"', '"a, b"', '"a\nb"', '"a\rb"']
    expect(written).toEqual([...quoted, "l'Aquila", 'São Tomé'])
  })
  test('a record of one empty field is no empty line', () => {
    const text = csv({ proxies: [unknown, berlin], output: { fields: ['city'] } })
    expect(text).toBe('city\r\n""\r\nБерлин\r\n')
  })
  test('leaves unknown values empty', () => {
    const [, line] = csv({ proxies: [unknown] }).split('\r\n')
    const empty = '10.0.0.1:3128,,https,,,,2026-11-20 13:50:00,,,,false,false,false,false,false'
    expect(line).toBe(empty)
  })
})

describe('NDJSON', () => {
  test('is the records of JSON, one a line, whatever format, wrap and pretty', () => {
    const records: unknown[] = JSON.parse(renderJson())
    const lines = records.map(record => `${JSON.stringify(record)}\n`).join('')
    for (const output of [{}, { wrap: true, pretty: false }, { shape: 'object' } as const]) {
      expect(renderJson({ output: { ...output, kind: 'ndjson' } })).toBe(lines)
    }
  })
})

describe('text', () => {
  test('every line ends in a newline, the last one too', () => {
    expect(renderTxt({ proxies: [berlin] })).toBe('185.162.7.9:8080\n')
    expect(renderTxt()).toBe('185.162.7.9:8080\n203.0.113.7:1080\n10.0.0.1:3128\n')
  })
  test('JSON options change nothing', () => {
    const output = { fields: ['type'], splitIp: true, shape: 'object', wrap: true } as const
    expect(renderTxt({ output: { ...output, pretty: false } })).toBe(renderTxt())
  })
})

describe('members of a record', () => {
  test('stand in the order of spec 2.1', () => {
    expect(Object.keys(recordOf({}))).toEqual(UNSPLIT)
    expect(Object.keys(recordOf({ output: { splitIp: true } }))).toEqual(MEMBERS)
    expect(memberNames(PROVIDER)).toEqual(MEMBERS)
  })
  test('unknown values keep their place', () => {
    expect(Object.keys(recordOf({ proxies: [unknown] }))).toEqual(UNSPLIT)
  })
  test('keep their order whatever the order of fields', () => {
    const backwards = recordOf({ output: { fields: MEMBERS.toReversed() } })
    expect(Object.keys(backwards)).toEqual(UNSPLIT)
    const some = recordOf({ output: { fields: ['the service', 'works', 'type', 'ip'] } })
    expect(Object.keys(some)).toEqual(['ip', 'type', 'works', 'the service'])
  })
  for (const name of UNSPLIT) {
    test(`fields=${name} gives that member alone`, () => {
      expect(recordOf({ output: { fields: [name] } })).toEqual({ [name]: recordOf({})[name] })
    })
  }
  const ports: readonly (readonly [fields: string[] | null, splitIp: boolean, keys: string[]])[] = [
    [null, false, UNSPLIT],
    [null, true, MEMBERS],
    [['ip'], true, ['ip']],
    [['ip', 'port'], true, ['ip', 'port']],
    [['ip', 'port'], false, ['ip']],
    [['port'], true, ['port']],
    [['port'], false, []],
  ]
  for (const [fields, splitIp, keys] of ports) {
    test(`port, with split_ip ${splitIp} and fields ${fields}`, () => {
      expect(Object.keys(recordOf({ output: { fields, splitIp } }))).toEqual(keys)
    })
  }
  test('have the types of the contract', () => {
    const record = recordOf({ output: { splitIp: true } })
    expect(record).toMatchObject({ ip: '185.162.7.9', port: '8080', works: '97', ping: 0.532 })
    expect(record).toMatchObject({ speed: 1_250_000, smtp: false, telegram: true })
    expect(recordOf({}).ip).toBe('185.162.7.9:8080')
  })
  test('say what is unknown as the contract has it', () => {
    expect(recordOf({ proxies: [unknown] })).toEqual({
      ...{ ip: '10.0.0.1:3128', ip_out: '', type: 'https', anon: '', speed: null, ping: null },
      ...{ timecheck: '2026-11-20 13:50:00', country: '', city: '', works: '' },
      ...{ smtp: false, telegram: false, avito: false, google: false, 'the service': false },
    })
  })
  test('a known zero is not an unknown', () => {
    expect(recordOf({ proxies: [perm] })).toMatchObject({ works: '0', speed: 0 })
  })
  test('the city is English with lang=en where there is an English name', () => {
    const cities = (lang: 'ru' | 'en') =>
      JSON.parse(renderJson({ filter: { lang } })).map(({ city }: Json) => city)
    expect(cities('ru')).toEqual(['Берлин', perm.city, ''])
    expect(cities('en')).toEqual(['Berlin', perm.city, ''])
  })
  test('the provider service carries its own name, and is still the same flag', () => {
    const record = recordOf({ proxies: [perm], provider: 'acme mail' })
    expect(Object.keys(record)).toEqual([...UNSPLIT.slice(0, -1), 'acme mail'])
    expect(record['acme mail']).toBe(true)
  })
})

describe('units', () => {
  const pings: readonly (readonly [pingMs: number | null, written: string])[] = [
    [null, 'null'],
    [0, '0'],
    [1, '0.001'],
    [10, '0.01'],
    [532, '0.532'],
    [999, '0.999'],
    [1000, '1'],
    [1500, '1.5'],
    [60_007, '60.007'],
    [999_999_999_999_999, '999999999999.999'],
  ]
  for (const [pingMs, written] of pings) {
    test(`a ping of ${pingMs} ms is written ${written}`, () => {
      const output = { fields: ['ping'], pretty: false }
      expect(renderJson({ proxies: [{ ...berlin, pingMs }], output })).toBe(`[{"ping":${written}}]`)
    })
  }

  const times: readonly (readonly [utc: string, timecheck: string])[] = [
    ['1970-01-01T00:00:00Z', '1970-01-01 02:00:00'],
    ['2026-11-20T12:00:00Z', '2026-11-20 14:00:00'],
    ['2026-07-01T00:00:05Z', '2026-07-01 02:00:05'], // no summer time
    ['2026-12-31T22:30:00Z', '2027-01-01 00:30:00'],
    ['2028-02-28T23:00:00Z', '2028-02-29 01:00:00'],
  ]
  for (const [utc, timecheck] of times) {
    test(`a check at ${utc} is shown as ${timecheck}`, () => {
      const proxies = [{ ...berlin, checkedAt: Date.parse(utc) / 1000 }]
      expect(recordOf({ proxies }).timecheck).toBe(timecheck)
    })
  }
})

/** A JSON text without its strings. */
const withoutStrings = (json: string): string => json.replace(/"(?:[^"\\]|\\.)*"/g, '')

describe('white space', () => {
  for (const shape of ['array', 'object'] as const) {
    for (const wrap of [false, true]) {
      const output = { shape, wrap }
      test(`pretty=0 has none outside strings (${shape}, wrap ${wrap})`, () => {
        const compact = renderJson({ output: { ...output, pretty: false } })
        expect(withoutStrings(compact)).not.toMatch(/\s/)
        expect(compact).toContain('"the service"')
        expect(compact).toContain('на Каме')
      })
      test(`pretty=1 indents by two spaces (${shape}, wrap ${wrap})`, () => {
        const pretty = renderJson({ output })
        expect(pretty).toBe(JSON.stringify(JSON.parse(pretty), null, 2))
        expect(pretty).toMatch(/^[[{]\n {2}\S/)
      })
    }
  }
})

describe('format=object', () => {
  for (const splitIp of [false, true]) {
    test(`is keyed by ip:port, split_ip ${splitIp}`, () => {
      const output = { shape: 'object', splitIp } as const
      const answer = JSON.parse(renderJson({ output }))
      expect(Object.keys(answer)).toEqual(['185.162.7.9:8080', '203.0.113.7:1080', '10.0.0.1:3128'])
      expect(Object.values(answer)).toEqual(JSON.parse(renderJson({ output: { splitIp } })))
    })
  }
  test('masked, is keyed by the masked address', () => {
    const answer = JSON.parse(
      renderJson({ proxies: [berlin], isMasked: true, output: { shape: 'object' } }),
    )
    expect(Object.keys(answer)).toEqual(['185.162.0.0:8080'])
  })
})

describe('the envelope', () => {
  test('holds its members in the order of spec 2.2', () => {
    const envelope = JSON.parse(renderJson({ output: { wrap: true } }))
    expect(Object.keys(envelope)).toEqual(['status', 'count', 'timestamp', 'filters', 'data'])
    expect(envelope).toMatchObject({ status: 'ok', count: 3 })
    expect(envelope.timestamp).toBe('2026-11-20T12:00:00.000Z')
  })
  test('wraps exactly what an unwrapped answer holds', () => {
    for (const shape of ['array', 'object'] as const) {
      const bare = JSON.parse(renderJson({ output: { shape } }))
      expect(JSON.parse(renderJson({ output: { shape, wrap: true } })).data).toEqual(bare)
    }
  })
  test('counts the records, not the limit', () => {
    const envelope = JSON.parse(renderJson({ output: { wrap: true }, filter: { count: 50 } }))
    expect(envelope.count).toBe(3)
    expect(envelope.filters.count).toBe(50)
  })
})

const FILTERS: readonly (readonly [what: string, Partial<Filter>, expected: Json])[] = [
  ['nothing given: time and lang', {}, { time: 600, lang: 'ru' }],
  ['lists', { types: ['http', 'socks4'] }, { type: 'http,socks4', time: 600, lang: 'ru' }],
  ['bounds of zero', { pingMaxMs: 0, speedMin: 0 }, { ping: 0, speed: 0, time: 600, lang: 'ru' }],
  ['time of zero', { ageMaxSeconds: 0 }, { time: 0, lang: 'ru' }],
  ['works of zero', { worksMin: 0 }, { time: 600, works: 0, lang: 'ru' }],
  ['works', { worksMin: 90 }, { time: 600, works: 90, lang: 'ru' }],
  [
    'country in lower case, with its mode',
    { countries: ['DE', 'US'] },
    { time: 600, country: 'de,us', country_mode: 'include', lang: 'ru' },
  ],
  ['mode without country', { countryMode: 'except' }, { time: 600, lang: 'ru' }],
  ['cities', { cities: ['москва', 'paris'] }, { time: 600, city: 'москва,paris', lang: 'ru' }],
  [
    'the provider service by its name',
    { services: ['smtp', 'provider'] },
    { time: 600, service: 'smtp,the service', lang: 'ru' },
  ],
  ['sort', { sort: 'checked' }, { time: 600, sort: 'checked', lang: 'ru' }],
  ['count', { count: 1 }, { time: 600, count: 1, lang: 'ru' }],
]

describe('filters of the envelope', () => {
  for (const [what, filter, expected] of FILTERS) {
    test(what, () => {
      const described = describeFilter({ ...FILTER, ...filter }, PROVIDER)
      expect(JSON.stringify(described)).toBe(JSON.stringify(expected)) // order included
    })
  }
  test('stand in the order of spec 4.1', () => {
    expect(Object.keys(describeFilter(FULL_FILTER, PROVIDER))).toEqual([
      ...['type', 'anon', 'ping', 'speed', 'time', 'works', 'country', 'country_mode', 'city'],
      ...['port', 'ip', 'service', 'sort', 'count', 'lang'],
    ])
  })
  test('can be sent back as a query', () => {
    const parse = createParamsParser(PROVIDER)
    fc.assert(
      fc.property(someFilter(), filter => {
        const query = new URLSearchParams()
        for (const [name, value] of Object.entries(describeFilter(filter, PROVIDER))) {
          query.set(name, String(value))
        }
        expect(parse(splitQueryString(query.toString())).filter).toEqual(filter)
      }),
    )
  })
})

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })
const subset = <T>(list: readonly T[]) => fc.subarray([...list])
const ipv4 = fc.ipV4()
const ipv6 = fc.ipV6().map(ip => canonicalIp(ip) ?? '')
const port = fc.integer({ min: 1, max: 65535 })
const upTo = (max: number) => fc.integer({ min: 0, max })
const BIG = 999_999_999_999_999

/** A filter as the query parser would give it: lists sorted, the mode only beside a country. */
const someFilter = (): fc.Arbitrary<Filter> =>
  fc
    .record({
      types: subset(TYPES),
      anons: subset(ANONS),
      pingMaxMs: maybe(upTo(BIG)),
      speedMin: maybe(upTo(BIG)),
      ageMaxSeconds: upTo(BIG),
      worksMin: maybe(upTo(100)),
      countries: subset(['DE', 'FR', 'RU']),
      countryMode: fc.constantFrom('include', 'except'),
      cities: subset(['berlin', 'new york', 'москва & co', 'пермь']),
      lang: fc.constantFrom(...LANGS),
      port: maybe(port),
      address: maybe(fc.record({ ip: ipv4, port })),
      services: subset(SERVICES),
      sort: maybe(fc.constantFrom(...SORTS)),
      count: maybe(fc.integer({ min: 1, max: BIG })),
    })
    .map(({ countryMode, ...filter }) => ({
      ...{ ...NO_FILTER, ...filter },
      countryMode: filter.countries.length > 0 ? countryMode : 'include',
    }))

const someProxy = (): fc.Arbitrary<Proxy> =>
  fc.record({
    ip: ipv4,
    port,
    ipOut: fc.oneof(fc.constant(''), ipv4, ipv6),
    type: fc.constantFrom(...TYPES),
    anon: fc.constantFrom(...ANONS, ''),
    speed: maybe(upTo(BIG)),
    pingMs: maybe(upTo(BIG)),
    checkedAt: upTo(NOW + 300),
    country: fc.constantFrom('', 'DE', 'RU'),
    city: fc.string({ unit: 'binary' }),
    cityEn: fc.oneof(fc.constant(''), fc.string()),
    works: maybe(upTo(100)),
    services: subset(SERVICES).map(services => new Set(services)),
  })

/** What a record should hold, written down independently of the renderer. */
function expectedRecord(proxy: Proxy, { lang }: Filter, { fields, splitIp }: Output): Json {
  const has = (service: (typeof SERVICES)[number]) => proxy.services.has(service)
  const local = new Date((proxy.checkedAt + 7200) * 1000).toISOString()
  const all: [string, unknown][] = [
    ['ip', splitIp ? proxy.ip : `${proxy.ip}:${proxy.port}`],
    ...(splitIp ? [['port', `${proxy.port}`] satisfies [string, string]] : []),
    ['ip_out', proxy.ipOut],
    ['type', proxy.type],
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
  return Object.fromEntries(all.filter(([name]) => fields === null || fields.includes(name)))
}

const someOutput = (): fc.Arbitrary<Output> =>
  fc.record({
    kind: fc.constant('json'),
    isDownload: fc.boolean(),
    hasTypePrefix: fc.boolean(),
    fields: maybe(fc.shuffledSubarray(MEMBERS)),
    splitIp: fc.boolean(),
    shape: fc.constantFrom('array', 'object'),
    wrap: fc.boolean(),
    pretty: fc.boolean(),
  })

const manyProxies = (): fc.Arbitrary<Proxy[]> =>
  fc.uniqueArray(someProxy(), { selector: ({ ip, port }) => `${ip}:${port}`, maxLength: 8 })

describe('property: rendered JSON', () => {
  test('gives back every record, in order, whatever the options', () => {
    const render = createRenderer(PROVIDER)
    fc.assert(
      fc.property(manyProxies(), someFilter(), someOutput(), (proxies, filter, output) => {
        const body = JSON.parse(render(proxies, filter, output, T0))
        const data = output.wrap ? body.data : body
        const records = proxies.map(proxy => expectedRecord(proxy, filter, output))
        const keyed = proxies.map(({ ip, port }, i) => [`${ip}:${port}`, records[i]])
        const expected = output.shape === 'array' ? records : Object.fromEntries(keyed)
        expect(JSON.stringify(data)).toBe(JSON.stringify(expected))
        if (output.wrap) expect(body.count).toBe(proxies.length)
      }),
      { numRuns: 500 },
    )
  })
  test('differs between pretty and compact in white space alone', () => {
    const render = createRenderer(PROVIDER)
    fc.assert(
      fc.property(manyProxies(), someFilter(), someOutput(), (proxies, filter, output) => {
        const written = (pretty: boolean) => render(proxies, filter, { ...output, pretty }, T0)
        expect(withoutStrings(written(false))).not.toMatch(/\s/)
        expect(JSON.stringify(JSON.parse(written(true)))).toBe(written(false))
        expect(JSON.stringify(JSON.parse(written(false)), null, 2)).toBe(written(true))
      }),
    )
  })
})
