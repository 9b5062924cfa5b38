/**
 * The reference as it is served (contract F5): /openapi.json, whose examples the service
 * answers, and whose generated client works; and /docs.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { STATUS } from '../../src/api/errors.ts'
import { createDocument, type Document } from '../../src/api/openapi/document.ts'
import { EXAMPLE_PROXIES, KEY_EXAMPLE } from '../../src/api/openapi/examples.ts'
import { VERSION } from '../../src/config/version.ts'
import { StoreError } from '../../src/lib/errors.ts'
import { typesOf } from '../../src/proxies/types.ts'
import { allows } from '../api/json-schema.ts'
import type { Answer } from '../support/answer.ts'
import { addKeys, addList, type TestRow } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import type { ServeOptions, Service } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PROVIDER = 'the service'

const KEY = {
  free: 'pl_canaryfreecanaryfreecanaryfreecan',
  standard: 'pl_canarystandardcanarystandardcana',
  customer: 'pl_canarycustomercanarycustomercana',
  daily: 'pl_canarydailycanarydailycanarydail',
  subnets: 'pl_canarysubnetscanarysubnetscanary',
  temp: 'temp_canarytempcanarytempcanarytempc',
}

/** The proxies of the examples, as a list. */
const ROWS = EXAMPLE_PROXIES.map((proxy): TestRow => {
  const { services, types, pingMs, ipOut, cityEn, checkedAt: _, port, ...rest } = proxy
  return {
    ...{ ...rest, ip: `${proxy.ip}:${port}`, ip_out: ipOut, city_en: cityEn, age: 60 },
    types: typesOf(types),
    ping: (pingMs ?? 0) / 1000,
    ...Object.fromEntries([...services].map(name => [name.replace('provider', PROVIDER), true])),
  }
})

/** The list of the examples, and keys that reach every limit. */
function seeded(): string {
  const dir = temporaryDirectory()
  addList(dir, ROWS)
  addKeys(dir, { free: {}, daily: { daily: 3 }, one: { subnets: 1 } }, [
    { key: KEY.free, plan: 'free' },
    { key: KEY.standard, plan: 'standard' },
    { key: KEY.customer, plan: 'standard', label: 'first customer' },
    { key: KEY.daily, plan: 'daily' },
    { key: KEY.subnets, plan: 'one' },
    { key: KEY.temp, plan: null },
  ])
  return dir
}

const bearer = (key: string, client = '198.51.100.7'): RequestInit => ({
  headers: { authorization: `Bearer ${key}`, 'x-forwarded-for': client },
})
const documentOf = async (from: Pick<Service, 'request'>): Promise<Document> =>
  JSON.parse((await from.request('/openapi.json')).text)

let service: Service
beforeAll(async () => {
  service = await startInProcess(seeded(), {})
})

describe('/openapi.json', () => {
  const VARIANTS: readonly ServeOptions[] = [
    {},
    { errors: 'text' },
    { providerService: 'acme mail' },
    { publicStats: 'totals' },
    { publicStats: 'off' },
    { page: 'off' },
  ]
  test.each(VARIANTS)('is the document of a server with %j', async options => {
    const other = await startInProcess(seeded(), options)
    const { errors = 'json', providerService: provider = 'the service' } = options
    const { publicStats: stats = 'full' } = options
    const expected = createDocument({ version: VERSION, provider, errors, stats, lang: 'en' })
    expect(await documentOf(other)).toEqual(expected)
    await other.stop()
  })
})

/** Checks that an answer is as its schema and header fields are declared. */
function expectDeclared(document: Document, path: string, answer: Answer): void {
  const { status, headers, text } = answer
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  const body = type === 'application/json' ? JSON.parse(text) : text
  const response = document.paths[path]?.get.responses[status]
  const schema = response?.content?.[type]?.schema ?? { enum: [] }
  expect([path, status, allows(schema, body, document.components.schemas)]).toEqual([
    ...[path, status, true],
  ])
  const declared = Object.keys(response?.headers ?? {}).map(name => name.toLowerCase())
  const sent = ['x-request-id', 'ratelimit', 'retry-after', 'etag'].filter(name =>
    headers.has(name),
  )
  expect(declared).toEqual(expect.arrayContaining(sent))
}

describe('the service sends the responses of the examples', () => {
  const { paths } = createDocument({
    ...{ version: VERSION, provider: 'the service', errors: 'json', stats: 'off', lang: 'en' },
  })
  const answers = Object.values(paths['/api']?.get.responses['200']?.content ?? {}).flatMap(
    ({ examples = {} }) => Object.entries(examples),
  )
  test.each(answers)('/api %s', async (query, { value }) => {
    const answer = await service.request(`/api?${query}`, bearer(KEY.free))
    expect(answer.status).toBe(200)
    expect(typeof value === 'string' ? answer.text : JSON.parse(answer.text)).toEqual(value)
    expectDeclared(await documentOf(service), '/api', answer)
  })

  const parameters = paths['/api']?.get.parameters ?? []
  test.each(parameters.map(each => [each.name, each] as const))(
    'accepts the example of parameter %s and finds proxies',
    async (name, { example, 'x-forms': forms = [] }) => {
      const value = [example].flat().map(each => encodeURIComponent(String(each)))
      const form = name === 'get' || forms.length === 0 ? '' : `&get=${forms[0]}`
      const path = `/api?${name}=${value.join(',')}${form}`
      const { status, text } = await service.request(path, bearer(KEY.free))
      expect([path, status, status === 200 ? '' : text]).toEqual([path, 200, ''])
    },
  )
})

describe('other paths answer as the document declares', () => {
  test('/key, with the example of its schema: a key of plan standard after two requests', async () => {
    for (const _ of [1, 2]) await service.request('/api', bearer(KEY.customer))
    const answer = await service.request('/key', bearer(KEY.customer))
    expect({ ...JSON.parse(answer.text), id: KEY_EXAMPLE.id }).toEqual(KEY_EXAMPLE)
    expectDeclared(await documentOf(service), '/key', answer)
  })

  test.each(['full', 'totals'] as const)('/stats, %s', async publicStats => {
    const other = await startInProcess(seeded(), { publicStats })
    const document = await documentOf(other)
    const answer = await other.request('/stats', { headers: { 'accept-encoding': 'identity' } })
    expectDeclared(document, '/stats', answer)
    const { properties = {} } = document.components.schemas.Stats ?? {}
    expect(Object.keys(properties)).toEqual(Object.keys(JSON.parse(answer.text)))
    const etag = answer.headers.get('etag') ?? ''
    const again = await other.request('/stats', { headers: { 'if-none-match': etag } })
    expect(Object.keys(document.paths['/stats']?.get.responses ?? {})).toContain(`${again.status}`)
    await other.stop()
  })
})

const repeat = (path: string, times: number): string[] => new Array<string>(times).fill(path)

/** How each error of a path is reached; `before` are requests with the same header. */
const REFUSED: readonly (readonly [
  ...[path: string, code: keyof typeof STATUS, asked: string, init: RequestInit],
  ...[before?: readonly string[]],
])[] = [
  ...['/api', '/key'].flatMap(
    path =>
      [
        [path, 'KEY_MISSING', path, {}],
        [path, 'INVALID_KEY', path, bearer('pl_nobody')],
        [path, 'TEMP_KEY_INVALID', path, bearer('temp_nobody')],
      ] as const,
  ),
  ...['/api', '/key', '/stats'].map(
    path => [path, 'METHOD_NOT_ALLOWED', path, { ...bearer(KEY.free), method: 'POST' }] as const,
  ),
  ['/key', 'INVALID_PARAMETER', `/key?key=${KEY.free}`, {}],
  ['/stats', 'INVALID_PARAMETER', '/stats?ip=1.2.3.4:80', {}],
  ['/stats', 'RATE_LIMIT_EXCEEDED', '/stats', bearer('', '198.51.100.52'), repeat('/stats', 30)],
  ['/api', 'INVALID_PARAMETER', '/api?works=101', bearer(KEY.free)],
  ['/api', 'PROXIES_NOT_FOUND', '/api?country=zz', bearer(KEY.free)],
  ['/api', 'RATE_LIMIT_EXCEEDED', '/api', bearer(KEY.standard), repeat('/api', 5)],
  ['/api', 'DAILY_LIMIT_REACHED', '/api', bearer(KEY.daily), repeat('/api', 3)],
  ['/api', 'SUBNET_LIMIT_REACHED', '/api?country=fr', bearer(KEY.subnets), ['/api?country=de']],
  ['/api', 'DEMO_LIMIT_REACHED', '/api', bearer('demo', '198.51.100.50'), repeat('/api', 2)],
  ['/api', 'TEMP_LIMIT_REACHED', '/api', bearer(KEY.temp, '198.51.100.51'), repeat('/api', 2)],
]

describe.each(['json', 'text'] as const)(
  'the errors in %s are as the document declares',
  errors => {
    let one: Service
    let document: Document
    beforeAll(async () => {
      one = await startInProcess(seeded(), { errors })
      document = await documentOf(one)
    })

    test.each(REFUSED)('%s %s', async (path, code, asked, init, before = []) => {
      for (const earlier of before) expect((await one.request(earlier, init)).status).toBe(200)
      const answer = await one.request(asked, init)
      expectDeclared(document, path, answer)
      expect([code, answer.status]).toEqual([code, STATUS[code]])
      const [example] = document.components.schemas.Error?.examples ?? []
      if (asked === '/api' && code === 'RATE_LIMIT_EXCEEDED') {
        expect(errors === 'text' ? answer.text : JSON.parse(answer.text)).toEqual(example)
      }
    })

    const FAILURES = [
      ['INTERNAL_ERROR', new Error('a mistake')],
      ['DB_EXECUTE_FAILED', new StoreError('it is locked')],
    ] as const
    test.each(FAILURES)('%s, of /api and /key', async (_, failure) => {
      const fail = (): never => {
        throw failure
      }
      const broken = await startInProcess(seeded(), { errors }, ({ keys, usage }) => ({
        keys: { ...keys, find: fail },
        usage: { ...usage, probe: fail },
      }))
      for (const path of ['/api', '/key']) {
        expectDeclared(document, path, await broken.request(path, bearer(KEY.free)))
      }
    })

    test('no other code exists, except for unknown paths', () => {
      const reached = [
        ...REFUSED.map(([, code]) => code),
        ...FAILURES.map(([code]) => code),
        'NOT_FOUND',
      ]
      expect([...new Set<string>(reached)].sort()).toEqual(Object.keys(STATUS).sort())
    })
  },
)
