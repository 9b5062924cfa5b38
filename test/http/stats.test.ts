/**
 * Holds `GET /stats` (contract F4): that it says what `/api` answers, to whom, in which form, and how it refuses.
 * Its numbers are counted in `sqlite/proxies/stats.test.ts`, its parameters and limits in `api/stats.test.ts`.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { StoreError } from '../../src/lib/errors.ts'
import type { StatsSource } from '../../src/proxies/store.ts'
import { type Answer, ask } from '../support/answer.ts'
import { ASK, addList, dataDirectory, T0, type TestRow } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { countedRows, queries } from '../support/list-statistics.ts'
import type { Service } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'
import { pageRows } from '../web/page-rows.ts'

afterAll(cleanUp)

const rows = (count: number, host: number, values: TestRow): TestRow[] =>
  Array.from({ length: count }, (_, i) => ({ ip: `192.${host}.0.${i}:80`, ...values }))

const BERLIN = { country: 'DE', city: 'Берлин', city_en: 'Berlin' }
const LIST: readonly TestRow[] = [
  ...rows(2, 1, { type: 'http', anon: 'elite', ...BERLIN, age: 30, works: 97, smtp: true }),
  ...rows(1, 2, { type: 'socks5', country: 'FR', age: 301, speed: 2_000_000, ping: 0.7 }),
  ...rows(1, 3, { type: 'https', age: 700 }),
]

const clients = (function* (): Generator<string, never> {
  for (let n = 0; ; n += 1) yield `2001:db8:${n}::1`
})()
/** Asks as a client that has not asked before. */
const stats = (service: Service, query = '', init: RequestInit = {}): Promise<Answer> =>
  service.request(`/stats${query}`, {
    ...init,
    headers: { 'accept-encoding': '', 'x-forwarded-for': clients.next().value, ...init.headers },
  })
const documentOf = async (service: Service, query = '') =>
  JSON.parse((await stats(service, query)).text)

const queryOf = (texts: { [name: string]: string }): string =>
  new URLSearchParams(texts).toString().replaceAll('+', '%20')

describe('GET /stats', () => {
  test('is also at /stats/, and refuses a key in the URL without logging it', async () => {
    const service = await startInProcess(dataDirectory(LIST), {})
    expect((await service.request('/stats/?type=http')).status).toBe(200)
    expect(await ask(service, '/stats?key=wrong')).toBe('400 INVALID_PARAMETER')
    expect(service.output()).not.toContain('wrong')
  })

  test('agrees with /api for any list and filter at the same second', async () => {
    let matching = 0
    const property = fc.asyncProperty(
      countedRows,
      fc.array(queries, { minLength: 4, maxLength: 16 }),
      async (list, asked) => {
        const service = await startInProcess(dataDirectory(list), {})
        for (const texts of asked) {
          const query = queryOf(texts)
          const document = await documentOf(service, `?${query}`)
          const answer = await service.request(`${ASK}&get=ndjson&${query}`)
          const found = answer.status === 404 ? [] : answer.text.trim().split('\n')
          expect([query, document.matching]).toEqual([query, found.length])
          const masked = [...new Map(found.map(line => [maskOf(line), maskedOf(line)])).values()]
          expect([query, document.examples.length]).toEqual([query, Math.min(20, masked.length)])
          matching += document.matching
        }
        await service.stop()
      },
    )
    await fc.assert(property, { numRuns: 40 })
    expect(matching).toBeGreaterThan(20)
  }, 120_000)

  test('shows the first records of demo as examples', async () => {
    const service = await startInProcess(dataDirectory(pageRows(500)), {})
    const demo = await service.request('/api?key=demo&get=json&works=0&type=http&count=20')
    const { examples } = await documentOf(service, '?works=0&type=http')
    expect(examples).toEqual(JSON.parse(demo.text))
  })
})

/** The look of a line of NDJSON when it is masked, and what of it tells twins apart. */
const maskedOf = (line: string): string =>
  line.replace(/"ip":"(\d+\.\d+)\.\d+\.\d+/, '"ip":"$1.0.0')
const maskOf = (line: string): string => /"ip":"[^"]+"/.exec(maskedOf(line))?.[0] ?? ''

describe('the list behind /stats', () => {
  test('has changes of another process at once', async () => {
    const dir = dataDirectory(LIST)
    const service = await startInProcess(dir, {})
    const { text, headers } = await stats(service)
    const known = { headers: { 'if-none-match': headers.get('etag') ?? '' } }
    expect((await stats(service, '', known)).status).toBe(304)
    addList(dir, rows(9, 9, { type: 'socks4' }))
    await new Promise(resume => setImmediate(resume)) // in process, requests take no turn
    const changed = await stats(service, '', known)
    expect(changed.status).toBe(200)
    expect(JSON.parse(changed.text)).toMatchObject({ total: 13, facets: { type: { socks4: 9 } } })
    expect(JSON.parse(changed.text).version).not.toBe(JSON.parse(text).version)
  })
})

describe('a client of /stats', () => {
  test('is limited to 30 queries in 10 s, also by HEAD and with a known ETag', async () => {
    const service = await startInProcess(dataDirectory(LIST), {})
    const from = { 'x-forwarded-for': '192.0.2.9' }
    const first = await stats(service, '', { headers: from })
    const known = { ...from, 'if-none-match': first.headers.get('etag') ?? '' }
    for (let n = 1; n < 30; n += 1) {
      const method = n % 2 === 0 ? 'HEAD' : 'GET'
      expect((await stats(service, '', { method, headers: known })).status).toBe(304)
      expect((await stats(service, '?ip=1', { headers: from })).status).toBe(400)
    }
    const { status, headers, text } = await stats(service, '', { headers: from })
    expect([status, headers.get('retry-after'), headers.get('ratelimit')]).toEqual([
      429,
      '10',
      null,
    ])
    expect(JSON.parse(text)).toMatchObject({ code: 'RATE_LIMIT_EXCEEDED', retry_after: 10 })
    expect((await stats(service)).status).toBe(200)
  })
})

describe('--public-stats', () => {
  test('totals gives two numbers, and takes no filter', async () => {
    const service = await startInProcess(dataDirectory(LIST), { publicStats: 'totals' })
    const { version, ...rest } = await documentOf(service)
    expect(rest).toEqual({ at: T0 / 1000, total: 4, matching: 3 })
    expect(await ask(service, '/stats?type=http')).toBe('400 INVALID_PARAMETER')
  })

  test('off makes /stats not found, for every method', async () => {
    const service = await startInProcess(dataDirectory(LIST), { publicStats: 'off' })
    for (const method of ['GET', 'HEAD', 'POST']) {
      expect((await stats(service, '', { method })).status).toBe(404)
    }
    expect(await ask(service, '/stats')).toBe('404 NOT_FOUND')
  })
})

/** A service in process whose statistics come from `answer`. */
const startWith = (answer: StatsSource['answer']): Promise<Service> =>
  startInProcess(dataDirectory(LIST), {}, whole => ({ stats: { ...whole.stats, answer } }))

test('a failed query is 503 with Retry-After and without internal details', async () => {
  const service = await startWith(async () => {
    throw new StoreError('/data/proxies.db is locked')
  })
  const { status, headers, text } = await stats(service)
  expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  expect(JSON.parse(text)).toMatchObject({ status: 'error', code: 'DB_EXECUTE_FAILED' })
  expect(text).not.toMatch(/locked|proxies|data\//)
  expect(await ask(service)).toStartWith('200 ')
})
