/**
 * The parameters of a query: what is refused, and with which sentence (spec 4.1, contract A3, A4). That good
 * ones are read as they were meant, and what holds of any query string, is in `query.test.ts`.
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

type Outputs = readonly (readonly [query: string, output: Partial<Output>])[]
type Refusals = readonly (readonly [query: string, message: string])[]

const outputsAre = (rows: Outputs) =>
  test.each(rows)('%s', (query, output) => {
    expect(parse(query)).toEqual({ filter: NO_FILTER, output: { ...TXT, ...output } })
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
      expect(parse(query)).toEqual({ filter: NO_FILTER, output: TXT })
    }
  })

  test.each(describeParameters(PROVIDER))(
    'an empty $name is as if it were left out',
    ({ name }) => {
      for (const query of [`${name}=`, name, `get=json&${name}=`, `${name}=&${name}=`]) {
        const expected = query.startsWith('get=json') && name !== 'get' ? 'json' : 'txt'
        const { filter, output } = parse(name === 'get' ? `${name}=` : query)
        expect([filter, output]).toEqual([NO_FILTER, { ...TXT, kind: expected }])
      }
    },
  )
})

describe('lists refuse an item that is not on offer', () => {
  const types = ['htp', 'http,ftp', 'http&type=ftp', 'http;socks5', 'http socks5', 'http%00']
  const countries = ['deu', 'd', 'd1', 'germany', '%D0%B4%D0%B5']
  const services = ['ftp', 'provider', 'theservice', 'the-service', 'smtp,,x']
  areRefused([
    ...types.map(text => [`type=${text}`, TYPE_LIST] as const),
    ['anon=high', ANON_LIST],
    ...countries.map(text => [`country=${text}`, COUNTRY_LIST] as const),
    ...services.map(text => [`service=${text}`, SERVICE_LIST] as const),
  ])
})

describe('a parameter that is no list', () => {
  const single = describeParameters(PROVIDER).filter(({ list }) => !list)
  test.each(single)('may be given only once: $name', ({ name, forms, example }) => {
    const get = name === 'get' ? '' : `get=${forms[0]}&`
    for (const rest of ['', '&type=http']) {
      const { message } = refusal(() => parse(`${get}${name}=${example}${rest}&${name}=${example}`))
      expect(message).toBe(`${name} may be given only once`)
    }
    expect(() => parse(`${get}${name}=${example}&${name}=`)).not.toThrow()
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
  test.each(['GROẞENHAIN', 'Großenhain', 'GROSSENHAIN'])('%s is one name', name => {
    const { cities } = parse(`city=${encodeURIComponent(name)}`).filter
    expect(cities.map(fold)).toEqual([fold('GROẞENHAIN')])
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
    for (const text of [String(min), '007', '%37', String(max)]) {
      const value = Number(decodeURIComponent(text))
      const read = name === 'count' && value === 0 ? null : value // existing clients mean "not given"
      expect(parse(`${name}=${text}`).filter).toEqual({ ...NO_FILTER, [member]: read })
    }
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
})

describe('country_mode and cm', () => {
  const both = 'cm and country_mode are one parameter; give one of them, or the same value'
  areRefused([
    ['country=de&cm=except&country_mode=include', both],
    ['country=de&cm=include&country_mode=except', both],
    ['cm=exclude', 'cm must be include or except'],
    ['country_mode=Except', 'country_mode must be include or except'],
    ['cm=include,except', 'cm must be include or except'],
  ])
})

describe('service', () => {
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
  const JSON_WITH = { kind: 'json', wrap: true, splitIp: true, pretty: false } as const
  const GET =
    'get must be txt or json or csv or ndjson or txt.file or json.file or csv.file or ndjson.file'
  areRefused([
    ...['de', 'EN', 'ru,en'].map(text => [`lang=${text}`, 'lang must be ru or en'] as const),
    ...['xml', 'csv.gz', '.file', 'jsonx', 'json.file.file', 'txt%0A'].map(
      text => [`get=${text}`, GET] as const,
    ),
    ['type_prefix=constructor', 'type_prefix must be 1 or 0, or true or false'],
    ['type_prefix=01', 'type_prefix must be 1 or 0, or true or false'],
    ['get=json&split_ip=2', 'split_ip must be 1 or 0, or true or false'],
    ['get=json&format=list', 'format must be array or object'],
    ['get=json&wrap=yes', 'wrap must be 1 or 0, or true or false'],
    ['get=json.file&pretty=on', 'pretty must be 1 or 0, or true or false'],
  ])
  outputsAre([
    ['get=JSON', { kind: 'json' }],
    ['get=Csv.FILE', { kind: 'csv', isDownload: true }],
    ['type_prefix=true', { line: '{type}://{ip}:{port}' }],
    ['type_prefix=False', {}],
    ['get=json&wrap=TRUE&split_ip=True&pretty=false', JSON_WITH],
  ])
})

describe('fields', () => {
  const message =
    'fields must be a comma-separated list of ip, port, ip_out, type, types, anon, speed, ping, ' +
    'timecheck, country, city, works, smtp, telegram, avito, google, the service'
  const refused = ['json&fields=id', 'json&fields=ip,city_en', 'json&fields=ip%20port']
  const others = ['json.file&fields=*', 'csv&fields=nope', 'ndjson&fields=nope']
  areRefused([...refused, ...others].map(text => [`get=${text}`, message] as const))

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

describe('line', () => {
  const message =
    'line must be up to 100 printable ASCII characters with {ip} and {port}, and perhaps ' +
    '{type}, {scheme} and {country}'
  const refused = [
    ...['{ip}', '{port}', '{ip}:{prt}', '{ip}:{port}}', '{{ip}:{port}', '{ip}:{port}\u00e9'],
    ...['{ip}:{port}\n', '{IP}:{PORT}', `{ip}:{port}${'x'.repeat(90)}`],
  ]
  areRefused([
    ...refused.map(text => [`line=${encodeURIComponent(text)}`, message] as const),
    ['line={ip}:{port}&type_prefix=1', 'line replaces type_prefix; give only one of them'],
    ['line={ip}:{port}&line={ip}:{port}', 'line may be given only once'],
  ])
  outputsAre([
    ['line={port}%20{ip}', { line: '{port} {ip}' }],
    [`line={ip}:{port}${'x'.repeat(89)}`, { line: `{ip}:{port}${'x'.repeat(89)}` }],
    ['get=json&line=nonsense', { kind: 'json' }],
  ])
})

describe('sort', () => {
  const message = 'sort must be checked or ping or speed or works or random'
  const refused = ['Ping', 'ping,speed', '-ping', 'toString']
  areRefused(refused.map(text => [`sort=${text}`, message] as const))
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
    // With an empty value too.
    ['limit=5', "unknown parameter 'limit'; did you mean 'count'?"],
    ...(['num', 'page', 'offset'] as const).map(
      name => [`${name}=5`, `unknown parameter '${name}'; did you mean 'count'?`] as const,
    ),
    ['random=1', "unknown parameter 'random'; did you mean 'sort=random'?"],
    [
      'exclude_country=ru',
      "unknown parameter 'exclude_country'; did you mean 'country=…&cm=except'?",
    ],
    ['delimiter=,', "unknown parameter 'delimiter'; did you mean 'line'?"],
    ['Protocol=http', "unknown parameter 'Protocol'; did you mean 'type'?"],
    ['contry=', "unknown parameter 'contry'; did you mean 'country'?"],
    ['contry', "unknown parameter 'contry'; did you mean 'country'?"],
    ['get=json&__proto__', "unknown parameter '__proto__'"],
    ['=', 'unknown parameter'],
    ['%ff=', 'parameter names must be valid UTF-8 in percent-encoding'],
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
