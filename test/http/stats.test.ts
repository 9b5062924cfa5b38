/**
 * Holds `GET /stats` (contract F4): what it says, to whom, in which form, and that it costs what a
 * constant costs.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { version } from '../../package.json'
import { StoreError } from '../../src/lib/errors.ts'
import type { StatsSource } from '../../src/proxies/store.ts'
import { type Answer, ask } from '../support/answer.ts'
import { ASK, addList, dataDirectory, KEY, T0, type TestRow } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { type Service, startChild, startService } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const rows = (count: number, host: number, values: TestRow): TestRow[] =>
  Array.from({ length: count }, (_, i) => ({ ip: `192.0.${host}.${i}:80`, ...values }))

const BERLIN = { country: 'DE', city: 'Берлин', city_en: 'Berlin' }
const LIST: readonly TestRow[] = [
  ...rows(7, 1, {
    type: 'http',
    anon: 'elite',
    ...BERLIN,
    age: 30,
    works: 97,
    ping: 0.7,
    smtp: true,
  }),
  ...rows(5, 2, { type: 'socks5', country: 'FR', age: 301, speed: 2_000_000 }),
  ...rows(3, 3, { type: 'http', anon: 'elite', country: 'US', age: 30, works: 100, avito: true }),
  ...rows(2, 4, { type: 'http', anon: 'elite', country: 'CA', age: 30 }),
  ...rows(4, 5, { type: 'https', age: 100 }),
]
const DIMENSIONS = {
  type: ['http', 'https', 'socks4', 'socks5'],
  anon: ['', 'transparent', 'anonymous', 'elite'],
  country: ['--', '', 'DE', 'FR'],
  age: [60, 300, 600, 3600, 86_400, 604_800],
  services: ['smtp', 'telegram', 'avito', 'google', 'the service'],
}

const stats = (service: Service, init: RequestInit = {}): Promise<Answer> =>
  service.request('/stats', { ...init, headers: { 'accept-encoding': '', ...init.headers } })

const documentOf = async (service: Service) => JSON.parse((await stats(service)).text)

/** Asks until a member of the document is this: newer statistics are made beside the requests. */
async function until(service: Service, member: string, value: unknown) {
  for (;;) {
    const document = await documentOf(service)
    if (document[member] === value) return document
    await new Promise(resume => setImmediate(resume)) // in process, requests take no turn
  }
}

describe('GET /stats', () => {
  test('says what the list holds, to everybody, without an address', async () => {
    const service = await startService(dataDirectory(LIST))
    const { status, text } = await stats(service)
    expect(status).toBe(200)
    const { histograms, ...rest } = JSON.parse(text)
    expect(rest).toEqual({
      ...{ version, at: T0 / 1000, total: 21, hidden: 4, dimensions: DIMENSIONS },
      cube: {
        type: [0, 0, 3],
        anon: [3, 3, 0],
        country: [0, 2, 3],
        age: [0, 0, 2],
        count: [5, 7, 5],
        smtp: [0, 7, 0],
        telegram: [0, 0, 0],
        avito: [3, 0, 0],
        google: [0, 0, 0],
        'the service': [0, 0, 0],
      },
      cities: [{ ...BERLIN, count: 7 }],
    })
    expect(Object.keys(JSON.parse(text))).toEqual([
      ...['version', 'at', 'total', 'hidden', 'dimensions', 'cube', 'histograms', 'cities'],
    ])
    const { ping, speed, works } = histograms
    expect(ping.counts[ping.edges.indexOf(700) - 1]).toBe(7)
    expect(speed.counts[speed.edges.indexOf(1_000_000)]).toBe(5)
    expect(works.counts.slice(-2)).toEqual([7, 3])
    expect(text).not.toMatch(/192\.0|\d\.\d+\.\d+\.\d/)
  })

  test('is at /stats/ too, whatever is asked with it', async () => {
    const service = await startService(dataDirectory(LIST))
    expect((await service.request('/stats?key=wrong')).status).toBe(200)
    expect((await service.request('/stats/')).status).toBe(200)
    expect(service.output()).not.toContain('wrong')
  })
})

describe('the list behind /stats', () => {
  test('counts checks at another age when they grow older, also while the list is unchanged', async () => {
    const service = await startService(dataDirectory(rows(6, 1, { type: 'http', age: 1 })))
    const agesOf = (document: { cube: { age: number[] } }) =>
      document.cube.age.map(at => DIMENSIONS.age[at])
    expect(agesOf(await documentOf(service))).toEqual([60])
    service.setClock(60)
    expect(agesOf(await until(service, 'at', T0 / 1000 + 60))).toEqual([300])
    // Each so much later that a request does not get the former ones.
    for (const [seconds, bound] of [
      [299, 300],
      [599, 600],
      [3599, 3600],
      [86_399, 86_400],
      [604_799, 604_800],
    ] as const) {
      service.setClock(seconds)
      const document = await documentOf(service)
      expect([document.at, agesOf(document)]).toEqual([T0 / 1000 + seconds, [bound]])
    }
    service.setClock(604_920)
    expect((await documentOf(service)).dimensions.age).toEqual([...DIMENSIONS.age, 8 * 86_400])
  })

  test('says what a list holds that another process has changed, after 15 seconds', async () => {
    const dir = dataDirectory(LIST)
    const service = await startService(dir)
    const { text, headers } = await stats(service)
    expect(JSON.parse(text).total).toBe(21)
    const known = { headers: { 'if-none-match': headers.get('etag') ?? '' } }
    addList(dir, rows(9, 9, { type: 'socks4' }))
    service.setClock(14)
    expect((await stats(service, known)).status).toBe(304)
    service.setClock(15)
    expect((await until(service, 'total', 30)).at).toBe(T0 / 1000 + 15)
    expect((await stats(service, known)).status).toBe(200)
  })

  test('has the name of the provider’s service', async () => {
    const service = await startService(dataDirectory(LIST), { providerService: 'яндекс' })
    const { cube, dimensions } = await documentOf(service)
    expect(dimensions.services.at(-1)).toBe('яндекс')
    expect(cube.яндекс).toEqual([0, 0, 0])
    expect(cube['the service']).toBeUndefined()
  })
})

describe('a request for /stats', () => {
  test('is made in process for the sample', async () => {
    const server = await startChild(dataDirectory([]), {}, ['--sample'])
    const { total, hidden, cube, cities } = await documentOf(server)
    expect(total).toBe(900)
    const shown = cube.count.reduce((sum: number, count: number) => sum + count, 0)
    expect(shown + hidden).toBe(total)
    expect(cities.length).toBeGreaterThan(5)
    await server.stop()
  })

  test('is never counted and never limited', async () => {
    const service = await startService(dataDirectory(LIST, { daily: 1 }))
    const authorization = `Bearer ${KEY}`
    for (let n = 0; n < 20; n += 1) {
      expect((await stats(service, { headers: { authorization } })).status).toBe(200)
      expect((await stats(service)).headers.get('ratelimit')).toBeNull()
    }
    expect(await ask(service, `${ASK}&count=1&time=999`)).toStartWith('200 ')
  })
})

describe('--public-stats', () => {
  test('totals: neither the cube nor the cities', async () => {
    const service = await startService(dataDirectory(LIST), { publicStats: 'totals' })
    const { histograms, ...rest } = await documentOf(service)
    expect(rest).toEqual({ version, at: T0 / 1000, total: 21, hidden: 4, dimensions: DIMENSIONS })
    expect(Object.keys(histograms)).toEqual(['ping', 'speed', 'works'])
  })

  test('off: there is nothing at /stats, for no method', async () => {
    const service = await startService(dataDirectory(LIST), { publicStats: 'off' })
    for (const method of ['GET', 'HEAD', 'POST']) {
      expect((await stats(service, { method })).status).toBe(404)
    }
    expect(await ask(service, '/stats')).toBe('404 NOT_FOUND')
  })
})

/** A service in process whose statistics come from `make`. */
const startWith = (make: StatsSource['make']): Promise<Service> =>
  startInProcess(dataDirectory(LIST), {}, whole => ({ stats: { ...whole.stats, make } }))

const CODED = { identity: Buffer.from('{}'), gzip: Buffer.from('gz'), zstd: Buffer.from('zs') }

test('a failure to make it is 503 with Retry-After, and says nothing internal', async () => {
  let made = 0
  const service = await startWith(async () => {
    made += 1
    if (made === 1) throw new StoreError('/data/proxies.db is locked')
    return CODED
  })
  const { status, headers, text } = await stats(service)
  expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  expect(JSON.parse(text)).toMatchObject({ status: 'error', code: 'DB_EXECUTE_FAILED' })
  expect(text).not.toMatch(/locked|proxies|data\//)
  expect(await ask(service, '/stats')).toBe('503 DB_EXECUTE_FAILED')
  expect(made).toBe(1)
  service.setClock(1)
  expect(await ask(service, '/stats')).toBe('200 {}')
  expect(await ask(service)).toStartWith('200 ')
})
