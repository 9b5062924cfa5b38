/**
 * The parameters of a query: what is refused, and with which sentence (spec 4.1, contract A3, A4), and
 * properties of any query string. That good ones are read as they were meant is in `query.test.ts`.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createParamsParser, describeParameters } from '../../src/api/query.ts'
import type { Output } from '../../src/api/render.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { describeFilter, type Filter, fold, SORTS } from '../../src/proxies/filter.ts'
import { ANONS, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { NO_FILTER } from '../support/fixtures.ts'
import { anyQuery } from './query-strings.ts'
import { refusal, unlessRefused } from './thrown.ts'

const PROVIDER = 'the service'
const parseDefault = createParamsParser(PROVIDER)
/** Parses as the endpoint does: with the key that the query itself holds. */
function parse(text: string, provider = PROVIDER) {
  const raw = splitQueryString(text)
  const key = raw.find(({ name, value }) => name === 'key' && value)?.value ?? ''
  return (provider === PROVIDER ? parseDefault : createParamsParser(provider))(raw, key)
}

const FILTER = NO_FILTER
const OUTPUT: Output = {
  kind: 'txt',
  isDownload: false,
  hasTypePrefix: false,
  fields: null,
  splitIp: false,
  shape: 'array',
  wrap: false,
  pretty: true,
}

type Filters = readonly (readonly [query: string, filter: Partial<Filter>])[]
type Outputs = readonly (readonly [query: string, output: Partial<Output>])[]
type Refusals = readonly (readonly [query: string, message: string])[]

const filtersAre = (rows: Filters) =>
  test.each(rows)('%s', (query, filter) => {
    expect(parse(query)).toEqual({ filter: { ...FILTER, ...filter }, output: OUTPUT })
  })
const outputsAre = (rows: Outputs) =>
  test.each(rows)('%s', (query, output) => {
    expect(parse(query)).toEqual({ filter: FILTER, output: { ...OUTPUT, ...output } })
  })
const areRefused = (rows: Refusals) =>
  test.each(rows)('%s: %s', (query, message) => {
    const error = refusal(() => parse(query))
    expect([error.code, error.message]).toEqual(['INVALID_PARAMETER', message])
  })

const TYPE_LIST = 'type must be a comma-separated list of http, https, socks4, socks5'
const ANON_LIST = 'anon must be a comma-separated list of transparent, anonymous, elite'
const COUNTRY_LIST =
  'country must be a comma-separated list of two-letter country codes (ISO 3166-1 alpha-2)'
const SERVICE_LIST =
  'service must be a comma-separated list of smtp, telegram, avito, google, the service'

describe('the parameters', () => {
  test('are those of spec 4.1, in its order, and sort', () => {
    const names = 'type anon ping speed time works country country_mode cm city port ip service'
    const rest = 'sort count lang get type_prefix fields split_ip format wrap pretty'
    const specified = [...names.split(' '), ...rest.split(' ')]
    const all = describeParameters(PROVIDER).map(({ name }) => name)
    expect(all.filter(name => specified.includes(name))).toEqual(specified)
  })

  test('all take their defaults when none is given', () => {
    for (const query of ['', '&', '&&&', 'key=K', 'key=K&']) {
      expect(parse(query)).toEqual({ filter: FILTER, output: OUTPUT })
    }
  })

  test.each(describeParameters(PROVIDER))(
    'an empty $name is as if it were left out',
    ({ name }) => {
      for (const query of [`${name}=`, name, `get=json&${name}=`, `${name}=&${name}=`]) {
        const expected = query.startsWith('get=json') && name !== 'get' ? 'json' : 'txt'
        const { filter, output } = parse(name === 'get' ? `${name}=` : query)
        expect([filter, output]).toEqual([FILTER, { ...OUTPUT, kind: expected }])
      }
    },
  )
})

describe('lists', () => {
  describe('refuse an item that is not on offer', () => {
    areRefused([
      ['type=htp', TYPE_LIST],
      ['type=http,ftp', TYPE_LIST],
      ['type=http&type=ftp', TYPE_LIST],
      ['type=http;socks5', TYPE_LIST],
      ['type=http socks5', TYPE_LIST],
      ['type=http%00', TYPE_LIST],
      ['anon=high', ANON_LIST],
      ['country=deu', COUNTRY_LIST],
      ['country=d', COUNTRY_LIST],
      ['country=d1', COUNTRY_LIST],
      ['country=germany', COUNTRY_LIST],
      ['country=%D0%B4%D0%B5', COUNTRY_LIST],
    ])
  })
})

describe('cities', () => {
  test('that differ only in accents are one city', () => {
    expect(parse('city=Zürich,zurich,Орёл,ОРЕЛ').filter.cities).toHaveLength(2)
    expect(parse('city=Йорк,Иорк').filter.cities).toHaveLength(2)
  })
  test('that differ only in case or composition are one city', () => {
    const composed = encodeURIComponent('Zürich')
    const decomposed = encodeURIComponent('ZU\u0308RICH')
    const { cities } = parse(`city=${composed},${decomposed}`).filter
    expect(cities.map(fold)).toEqual([fold('zürich')])
  })
  areRefused([
    ['city=a%00b', 'city must be a comma-separated list of city names'],
    ['city=a%0Ab', 'city must be a comma-separated list of city names'],
    [`city=${'x'.repeat(201)}`, 'city must be a comma-separated list of city names'],
    ['city=%D0', 'city must be valid UTF-8 in percent-encoding'],
  ])
})

/** Each with the member it sets and what it accepts. */
const INTEGERS = [
  ['ping', 'pingMaxMs', 0, 999_999_999_999_999, ' (milliseconds)'],
  ['speed', 'speedMin', 0, 999_999_999_999_999, ' (bytes per second)'],
  ['time', 'ageMaxSeconds', 0, 999_999_999_999_999, ' (seconds)'],
  ['works', 'worksMin', 0, 100, ''],
  ['port', 'port', 1, 65_535, ''],
  ['count', 'count', 0, 999_999_999_999_999, ''],
] as const

describe.each(INTEGERS)('the integer %s', (name, member, min, max, unit) => {
  const message = `${name} must be an integer from ${min} to ${max}${unit}`

  test('is read from its least to its greatest value', () => {
    for (const value of [Math.max(min, 1), 7, max]) {
      expect(parse(`${name}=${value}`).filter).toEqual({ ...FILTER, [member]: value })
    }
    expect(parse(`${name}=%37`).filter[member]).toBe(7)
  })

  test('is refused below its least and above its greatest value', () => {
    const outside = [String(max + 1), '-1', '9999999999999999', ...(min === 1 ? ['0'] : [])]
    for (const text of outside) {
      expect([text, refusal(() => parse(`${name}=${text}`)).message]).toEqual([text, message])
    }
  })

  test.each([
    ['0x10', '1e3', '5.0', '5.', '.5', '%2B5', '+5', '-5', '-0', '%205', '5+', '5%0A', '5%00'],
    ['1234567890123456', '0000000000000005', '5,6', '5;6', '1_000', '5ms', 'five', 'NaN', 'null'],
    ['Infinity', '%D9%A5', '%EF%BC%95', '0b1', '0o7', '5n', '[5]', 'true', "5'", '5%20or%201=1'],
  ])('takes plain decimal digits only, not %s, %s, %s …', (...texts) => {
    for (const text of texts) {
      const error = refusal(() => parse(`${name}=${text}`))
      expect([text, error.code, error.message]).toEqual([text, 'INVALID_PARAMETER', message])
    }
  })

  test('may be given only once', () => {
    for (const query of [`${name}=5&${name}=6`, `${name}=5&type=http&${name}=5`]) {
      expect(refusal(() => parse(query)).message).toBe(`${name} may be given only once`)
    }
    expect(parse(`${name}=5&${name}=`).filter[member]).toBe(5)
  })
})

describe('zero', () => {
  filtersAre([
    ['count=0', { count: null }], // existing clients mean "not given"
    ['count=000', { count: null }],
    ['time=0', { ageMaxSeconds: 0 }],
    ['ping=0', { pingMaxMs: 0 }],
    ['speed=0', { speedMin: 0 }],
    ['works=0', { worksMin: 0 }],
  ])
})

describe('ip', () => {
  const message = 'ip must be an IPv4 address with a port, a.b.c.d:port'
  const refused = [
    ...['1.2.3.4', '1.2.3.4:', ':80', '1.2.3.4:0', '1.2.3.4:65536', '1.2.3.4:123456'],
    ...['1.2.3:80', '1.2.3.4.5:80', '256.2.3.4:80', '01.2.3.4:80', '1..3.4:80', '1.2.3.4:80:80'],
    ...['1.2.3.4:8o', '1.2.3.4:%2B80', '+1.2.3.4:80', '1.2.3.4:80+', '1.2.3.4:80%0A', 'host:80'],
    ...['[::1]:80', '::1:80', '%3A%3Affff:1.2.3.4:80', '1.2.3.4:80,1.2.3.5:80', '0x1.2.3.4:80'],
    ...['http://1.2.3.4:80', '1.2.3.4:-80', '1.2.3.4:8e1', '1.2.3.4%20:80'],
    ...['1.2.3.4:080', '1.2.3.4:00080', '1.2.3.04:80', '1.2.3.4:080&ip='], // leading zeros
  ]
  areRefused(refused.map(text => [`ip=${text}`, message] as const))
  areRefused([['ip=1.2.3.4:80&ip=1.2.3.4:80', 'ip may be given only once']])
})

describe('country_mode and cm', () => {
  const both = 'cm and country_mode are one parameter; give one of them, or the same value'
  areRefused([
    ['country=de&cm=except&country_mode=include', both],
    ['country=de&cm=include&country_mode=except', both],
    ['cm=exclude', 'cm must be include or except'],
    ['country_mode=Except', 'country_mode must be include or except'],
    ['cm=include,except', 'cm must be include or except'],
    ['cm=except&cm=except', 'cm may be given only once'],
    ['country_mode=except&country_mode=include', 'country_mode may be given only once'],
  ])
})

describe('service', () => {
  areRefused([
    ['service=ftp', SERVICE_LIST],
    ['service=provider', SERVICE_LIST],
    ['service=theservice', SERVICE_LIST],
    ['service=the-service', SERVICE_LIST],
    ['service=smtp,,x', SERVICE_LIST],
  ])

  const renamed = [
    ['example', 'example'],
    ['my shop', 'my shop'],
    ['my shop', 'my_shop'],
    ['my shop', 'My+Shop'],
    ['mail.example-1', 'mail.example-1'],
    ['яндекс', 'ЯНДЕКС'],
  ] as const
  test.each(renamed)('%j is asked for as %s when the provider is called so', (name, text) => {
    expect(parse(`service=${text}`, name).filter.services).toEqual(['provider'])
    expect(parse(`service=smtp,${text}`, name).filter.services).toEqual(['smtp', 'provider'])
    const { fields } = parse(`get=json&fields=ip,${text}`, name).output
    expect(fields).toEqual(['ip', name])
    const message = SERVICE_LIST.replace(PROVIDER, name)
    expect(refusal(() => parse('service=the+service', name)).message).toBe(message)
  })

  test('a dot in the name of the provider is no wildcard', () => {
    expect(() => parse('service=a.b.c', 'a.b.c')).not.toThrow()
    for (const other of ['axb.c', 'a.bxc', 'axbxc']) {
      expect(refusal(() => parse(`service=${other}`, 'a.b.c')).code).toBe('INVALID_PARAMETER')
    }
  })
})

describe('lang, get and flags', () => {
  const GET =
    'get must be txt or json or csv or ndjson or txt.file or json.file or csv.file or ndjson.file'
  areRefused([
    ['lang=de', 'lang must be ru or en'],
    ['lang=EN', 'lang must be ru or en'],
    ['lang=ru,en', 'lang must be ru or en'],
    ['lang=ru&lang=ru', 'lang may be given only once'],
    ['get=xml', GET],
    ['get=CSV', GET],
    ['get=csv.gz', GET],
    ['get=.file', GET],
    ['get=JSON', GET],
    ['get=jsonx', GET],
    ['get=json.file.file', GET],
    ['get=txt%0A', GET],
    ['get=txt&get=json', 'get may be given only once'],
    ['get=json&get=json', 'get may be given only once'],
    ['type_prefix=true', 'type_prefix must be 1 or 0'],
    ['type_prefix=01', 'type_prefix must be 1 or 0'],
    ['type_prefix=1&type_prefix=1', 'type_prefix may be given only once'],
    ['get=json&split_ip=2', 'split_ip must be 1 or 0'],
    ['get=json&format=list', 'format must be array or object'],
    ['get=json&wrap=yes', 'wrap must be 1 or 0'],
    ['get=json.file&pretty=on', 'pretty must be 1 or 0'],
    ['get=json&wrap=1&wrap=0', 'wrap may be given only once'],
  ])
})

describe('fields', () => {
  const message =
    'fields must be a comma-separated list of ip, port, ip_out, type, anon, speed, ping, ' +
    'timecheck, country, city, works, smtp, telegram, avito, google, the service'
  areRefused([
    ['get=json&fields=id', message],
    ['get=json&fields=ip,city_en', message],
    ['get=json&fields=ip%20port', message],
    ['get=json.file&fields=*', message],
    ['get=csv&fields=nope', message],
    ['get=ndjson&fields=nope', message],
  ])

  describe('that leave nothing to show are refused', () => {
    const nothing = 'fields=port shows nothing without split_ip=1; give that too, or more fields'
    areRefused(
      ['json', 'csv', 'ndjson', 'json.file', 'csv.file', 'ndjson.file'].flatMap(get => [
        [`get=${get}&fields=port`, nothing] as const,
        [`fields=PORT,,port&split_ip=0&get=${get}`, nothing] as const,
      ]),
    )
    outputsAre([
      ['get=json&fields=port&split_ip=1', { kind: 'json', fields: ['port'], splitIp: true }],
      ['get=csv&fields=port,type', { kind: 'csv', fields: ['port', 'type'] }],
      ['fields=port', {}], // of another output
    ])
  })
})

describe('sort', () => {
  const message = 'sort must be checked or ping or speed or works or random'
  areRefused([
    ['sort=Ping', message],
    ['sort=ping,speed', message],
    ['sort=-ping', message],
    ['sort=toString', message],
    ['sort=ping&sort=ping', 'sort may be given only once'],
  ])
})

describe('parameters of the other output mode are ignored whatever their value', () => {
  outputsAre([
    ['fields=nonsense', {}],
    ['split_ip=2', {}],
    ['format=list', {}],
    ['wrap=yes&wrap=no', {}],
    ['pretty=%ff', {}],
    ['get=txt&fields=id&split_ip=x&format=x&wrap=x&pretty=x', {}],
    ['get=txt.file&pretty=0&wrap=1&format=object&fields=ip&split_ip=1', { isDownload: true }],
    ['get=json&type_prefix=1', { kind: 'json' }],
    ['type_prefix=nonsense&get=json', { kind: 'json' }],
    ['get=json.file&type_prefix=%ff&type_prefix=2', { kind: 'json', isDownload: true }],
    ['get=csv&type_prefix=x&format=x&wrap=%ff&pretty=0&pretty=1', { kind: 'csv' }],
    ['get=ndjson&wrap=1&format=object&pretty=0', { kind: 'ndjson' }],
  ])
})

describe('an unknown parameter', () => {
  areRefused([
    ['contry=de', "unknown parameter 'contry'; did you mean 'country'?"],
    ['typ=http', "unknown parameter 'typ'; did you mean 'type'?"],
    ['Type=http', "unknown parameter 'Type'; did you mean 'type'?"],
    ['services=smtp', "unknown parameter 'services'; did you mean 'service'?"],
    ['splitip=1', "unknown parameter 'splitip'; did you mean 'split_ip'?"],
    ['type-prefix=1', "unknown parameter 'type-prefix'; did you mean 'type_prefix'?"],
    ['type=http&kee=1', "unknown parameter 'kee'; did you mean 'key'?"],
    ['nonsense=1', "unknown parameter 'nonsense'"],
    ['q=1', "unknown parameter 'q'"],
    ['timecheck=1', "unknown parameter 'timecheck'"], // output only
    ['ip_out=1.2.3.4', "unknown parameter 'ip_out'"],
    ['type[]=http', "unknown parameter; did you mean 'type'?"],
    ['constructor=1', "unknown parameter 'construct…'"], // ten characters may be a key's
    ['respons_time=1', "unknown parameter 'respons_t…'"],
    ['country_mde=1', "unknown parameter 'country_mde'; did you mean 'country_mode'?"],
    ['__proto__=1', "unknown parameter '__proto__'"],
    ['toString=1', "unknown parameter 'toString'"],
    ['%3Cscript%3E=1', 'unknown parameter'],
    [`${'x'.repeat(41)}=1`, 'unknown parameter'],
    ['=5', 'unknown parameter'],
    ['%ff=1', 'parameter names must be valid UTF-8 in percent-encoding'],
    ['get=json&nonsense=1', "unknown parameter 'nonsense'"],
  ])

  const KEY = 'pl_Secret0Secret1Secret2'
  test.each([
    `key=${KEY}&${KEY}=1`,
    `${KEY}=1&key=${KEY}`,
    `key=${KEY}&x${KEY}y=1`,
    `key=${KEY}&%70${KEY.slice(1)}=1`,
    `key=%70${KEY.slice(1)}&${KEY}=1`,
    `key=&key=${KEY}&${KEY}=1`,
  ])('is not named when its name holds the key: %s', query => {
    const error = refusal(() => parse(query))
    expect(error.code).toBe('INVALID_PARAMETER')
    expect(error.message).not.toContain(KEY)
  })

  test('a part of the key as a name was repeated whole', () => {
    for (const part of [KEY.slice(3), KEY.slice(0, -3), KEY.slice(5, 15), `x${KEY.slice(9)}`]) {
      const { code, message } = refusal(() => parse(`key=${KEY}&${part}=1`))
      expect(code).toBe('INVALID_PARAMETER')
      const tens = Array.from({ length: KEY.length - 9 }, (_, at) => KEY.slice(at, at + 10))
      expect(tens.filter(ten => message.includes(ten))).toEqual([])
    }
  })

  test('a key of another form as a name was repeated whole', () => {
    const { message } = refusal(() => parse('key=demo&k-5f4dcc3b5aa765d61d8327=1'))
    expect(message).toBe("unknown parameter 'k-5f4dcc3…'")
  })
})

describe('an unknown parameter is refused with an empty value too', () => {
  areRefused([
    ['contry=', "unknown parameter 'contry'; did you mean 'country'?"],
    ['contry', "unknown parameter 'contry'; did you mean 'country'?"],
    ['get=json&__proto__', "unknown parameter '__proto__'"],
    ['=', 'unknown parameter'],
    ['%ff=', 'parameter names must be valid UTF-8 in percent-encoding'],
  ])
})

describe('percent sequences that are not UTF-8', () => {
  const bad = ['%', '%z', '%zz', '%a', '%ff', '%c3', '%c3%28', '%ed%a0%80', '%f8%88%80%80%80']
  test.each(bad)('%s is refused in a value and in a name', sequence => {
    const inValue = refusal(() => parse(`type=http${sequence}`))
    expect(inValue.message).toBe('type must be valid UTF-8 in percent-encoding')
    const inName = refusal(() => parse(`type${sequence}=http`))
    expect(inName.message).toBe('parameter names must be valid UTF-8 in percent-encoding')
    for (const { code, status } of [inValue, inName]) {
      expect([code, status]).toEqual(['INVALID_PARAMETER', 400])
    }
  })
})

// ---------------------------------------------------------------------------------------------
// Properties

/** One value for each of some parameters, most of them good: queries that often parse. */
const goodQuery = fc
  .record(
    {
      type: fc.subarray([...TYPES, 'HTTP']).map(String),
      anon: fc.subarray([...ANONS]).map(String),
      ping: fc.nat().map(String),
      speed: fc.nat().map(String),
      time: fc.nat().map(String),
      works: fc.nat({ max: 100 }).map(String),
      country: fc.subarray(['de', 'US', 'ru', 'zz']).map(String),
      cm: fc.constantFrom('include', 'except'),
      city: fc.array(fc.string({ unit: 'binary', maxLength: 12 }), { maxLength: 4 }).map(String),
      port: fc.integer({ min: 1, max: 65_535 }).map(String),
      ip: fc.tuple(fc.ipV4(), fc.integer({ min: 1, max: 65_535 })).map(pair => pair.join(':')),
      service: fc.subarray(['smtp', 'telegram', 'avito', 'google', 'the_service']).map(String),
      sort: fc.constantFrom(...SORTS),
      count: fc.nat().map(String),
      lang: fc.constantFrom('ru', 'en'),
    },
    { requiredKeys: [] },
  )
  .map(values => new URLSearchParams(values).toString())

const isWithin = (value: number | null, min: number, max: number): boolean =>
  value === null || (Number.isInteger(value) && value >= min && value <= max)
const isSubset = (some: readonly string[], all: readonly string[]): boolean =>
  new Set(some).size === some.length && some.every(item => all.includes(item))

/** The names of the members that are out of bounds. */
function outOfBounds(filter: Filter): string[] {
  const most = 999_999_999_999_999
  const isPort = (port: number | null) => isWithin(port, 1, 65_535)
  const checks: { [member in keyof Filter]?: boolean } = {
    types: isSubset(filter.types, TYPES),
    anons: isSubset(filter.anons, ANONS),
    pingMaxMs: isWithin(filter.pingMaxMs, 0, most),
    speedMin: isWithin(filter.speedMin, 0, most),
    ageMaxSeconds: filter.ageMaxSeconds !== null && isWithin(filter.ageMaxSeconds, 0, most),
    worksMin: isWithin(filter.worksMin, 0, 100),
    countries: isSubset(
      filter.countries,
      filter.countries.filter(c => /^[A-Z]{2}$/.test(c)),
    ),
    countryMode: ['include', 'except'].includes(filter.countryMode),
    cities:
      new Set(filter.cities.map(fold)).size === filter.cities.length &&
      filter.cities.every(city => city !== '' && city.length <= 200 && !city.includes(',')),
    lang: ['ru', 'en'].includes(filter.lang),
    port: isPort(filter.port),
    address:
      filter.address === null ||
      (/^\d+\.\d+\.\d+\.\d+$/.test(filter.address.ip) && isPort(filter.address.port)),
    services: isSubset(filter.services, SERVICES),
    sort: filter.sort === null || SORTS.includes(filter.sort),
    count: isWithin(filter.count, 1, most),
  }
  return Object.entries(checks).flatMap(([member, isGood]) => (isGood ? [] : [member]))
}

/** Without countries the mode has no effect (contract A4), and is not described (A6). */
const inEffect = (filter: Filter): Filter =>
  filter.countries.length > 0 ? filter : { ...filter, countryMode: 'include' }

const asQuery = (described: { [name: string]: unknown }): string =>
  Object.entries(described)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&')

describe('any query string', () => {
  const options = { numRuns: 2000 }

  test('gives a filter within bounds, or an ApiError and nothing else', () => {
    let parsed = 0
    fc.assert(
      fc.property(fc.oneof(anyQuery, goodQuery), text => {
        const query = unlessRefused(() => parse(text))
        if (query === null) return
        parsed++
        expect(outOfBounds(query.filter)).toEqual([])
      }),
      options,
    )
    expect(parsed).toBeGreaterThan(200)
  })

  test('that is accepted asks for what its filter, described and sent back, asks for', () => {
    let parsed = 0
    fc.assert(
      fc.property(fc.oneof(anyQuery, goodQuery), text => {
        fc.pre(text.isWellFormed())
        const query = unlessRefused(() => parse(text))
        if (query === null) return
        parsed++
        const described = describeFilter(query.filter, PROVIDER)
        const again = parse(asQuery(described)).filter
        expect(inEffect(again)).toEqual(inEffect(query.filter))
        expect(describeFilter(again, PROVIDER)).toEqual(described)
      }),
      options,
    )
    expect(parsed).toBeGreaterThan(200)
  })
})
