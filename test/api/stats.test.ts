/**
 * Holds how queries about the list are taken (contract F4): with which filters, how many, how long an answer
 * is kept and how many wait; what is answered is in `sqlite/proxies/stats.test.ts`.
 */
import { describe, expect, test } from 'bun:test'
import { ApiError } from '../../src/api/errors.ts'
import { createStatsReader, WAITING_MAX } from '../../src/api/stats.ts'
import type { EncodedBodies } from '../../src/lib/compression.ts'
import { StoreError } from '../../src/lib/errors.ts'
import type { StatsPart, StatsRequest } from '../../src/proxies/stats.ts'
import { NO_FILTER } from '../support/fixtures.ts'

/** A reader whose answers are made when the test says so. */
function scene(part: StatsPart = 'full') {
  const asked: (StatsRequest & { end: ReturnType<typeof Promise.withResolvers<EncodedBodies>> })[] =
    []
  const list = { version: '0.0' }
  const read = createStatsReader({
    source: {
      answer(request) {
        const end = Promise.withResolvers<EncodedBodies>()
        asked.push({ ...request, end })
        return end.promise
      },
    },
    ...{ version: () => list.version, provider: 'the service', part },
  })
  const clients = createIds()
  return {
    list,
    asked,
    /** Asks as a client of its own, or with an address, at a second. */
    ask: (query: string, seconds = 0, ip = clients.next().value) => read(query, ip, seconds * 1000),
    /** Makes all answers that are waited for; each is named by its place. */
    async make() {
      for (const [i, { end }] of asked.entries()) end.resolve(named(i))
      await new Promise(resolve => setImmediate(resolve))
    },
  }
}
/** An address for each client. */
function* createIds(): Generator<string, never> {
  for (let n = 0; ; n += 1) yield `2001:db8:${n}::1`
}
const named = (i: number): EncodedBodies => {
  const bytes = Buffer.from(`answer ${i}`)
  return { identity: bytes, gzip: bytes, zstd: bytes }
}

/** The code and the message of a refusal, and when to come again. */
function refusalOf(ask: () => unknown): [code?: string, message?: string, retryAfter?: number] {
  try {
    ask()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { code, message, context } = error
    return context.retryAfterSeconds === undefined
      ? [code, message]
      : [code, message, context.retryAfterSeconds]
  }
  return []
}

describe('a query', () => {
  test('has the filters and defaults of /api, and its own time and version', () => {
    const { ask, asked, list } = scene()
    list.version = '3.4'
    void ask('', 7)
    const query =
      'type=HTTP,socks5&anon=elite&ping=700&speed=1&time=60&works=9&country=de&cm=except'
    void ask(`${query}&city=Berlin&service=the_service&lang=en&works=`, 8)
    expect(asked).toMatchObject([
      { filter: NO_FILTER, nowMs: 7000, version: '3.4', part: 'full', provider: 'the service' },
      {
        filter: {
          ...{ types: ['http', 'socks5'], anons: ['elite'], pingMaxMs: 700, speedMin: 1 },
          ...{ ageMaxSeconds: 60, worksMin: 9, countries: ['DE'], countryMode: 'except' },
          ...{ cities: ['berlin'], services: ['provider'], lang: 'en' },
        },
      },
    ])
  })

  test.each([
    ['ip=1.2.3.4:80', '/stats does not accept ip'],
    ['port=', '/stats does not accept port'],
    ['get=json', '/stats does not accept get'],
    ['protocol=http', "unknown parameter 'protocol'; did you mean 'type'?"],
    ['works=101', 'works must be an integer from 0 to 100'],
    ['key=pl_secret', 'statistics need no key, and one in the URL ends up in logs'],
    ['pl_secret=1', 'unknown parameter'],
  ])('is refused without counting or repeating a key: %s', (query, message) => {
    const { ask, asked } = scene()
    for (let n = 0; n < 40; n += 1) {
      expect(refusalOf(() => ask(query, 0, '192.0.2.1'))).toEqual(['INVALID_PARAMETER', message])
    }
    void ask('', 0, '192.0.2.1')
    expect(asked.length).toBe(1)
  })

  test('for totals takes no parameter', () => {
    const { ask, asked } = scene('totals')
    const refusal = ['INVALID_PARAMETER', '/stats does not accept country'] as const
    expect(refusalOf(() => ask('country=de'))).toEqual([...refusal])
    void ask('')
    expect(asked).toMatchObject([{ part: 'totals', filter: NO_FILTER }])
  })
})

describe('an answer', () => {
  test('is computed once for equal queries in any spelling', async () => {
    const { ask, asked, make } = scene()
    const waiting = [
      ask('type=http,socks5&country=de'),
      ask('country=DE&type=socks5&type=http'),
      ask('type=socks5,http&country=de&cm=include', 3),
    ]
    await make()
    expect(await Promise.all(waiting)).toEqual([named(0), named(0), named(0)])
    expect(asked.length).toBe(1)
  })

  test('is kept for 15 seconds, or until the list changes', async () => {
    const { ask, asked, list, make } = scene()
    void ask('type=http')
    void ask('type=socks5')
    await make()
    expect([ask('type=http', 14.999), ask('type=socks5', 14.999)]).toEqual([named(0), named(1)])
    void ask('type=http', 15)
    await make()
    expect(ask('type=http', 16)).toEqual(named(2))
    list.version = '0.1'
    void ask('type=http', 16)
    expect(asked.map(({ nowMs, version }) => `${nowMs} ${version}`)).toEqual([
      ...['0 0.0', '0 0.0', '15000 0.0', '16000 0.1'],
    ])
  })

  test('has the previous version when the list changes meanwhile', async () => {
    const { ask, asked, list, make } = scene()
    void ask('')
    list.version = '0.1'
    await make()
    void ask('')
    expect(asked.map(({ version }) => version)).toEqual(['0.0', '0.1'])
  })

  test('is computed again after the clock was set back', async () => {
    const { ask, asked, make } = scene()
    void ask('', 3600)
    await make()
    void ask('', 0)
    expect(asked.length).toBe(2)
  })

  test('that fails, fails for all waiting clients; the next query starts again', async () => {
    const { ask, asked, make } = scene()
    const waiting = Promise.allSettled([ask(''), ask('')])
    asked[0]?.end.reject(new StoreError('the worker has died'))
    const rejected = { status: 'rejected', reason: expect.any(StoreError) } as const
    expect(await waiting).toEqual([rejected, rejected])
    const next = ask('')
    await make()
    expect(await next).toEqual(named(1))
  })
})

describe('queries of a client', () => {
  const RETRY = (seconds: number): ReturnType<typeof refusalOf> => [
    'RATE_LIMIT_EXCEEDED',
    `statistics answer 30 queries in 10 s; retry after ${seconds} s`,
    seconds,
  ]

  test('are at most 30 in any 10 seconds, cached answers included', async () => {
    const { ask, make } = scene()
    const ip = '192.0.2.7'
    void ask('', 0, ip)
    await make()
    for (let n = 1; n < 30; n += 1) expect(ask('', n / 10, ip)).toEqual(named(0))
    expect(refusalOf(() => ask('', 3, ip))).toEqual(RETRY(7))
    expect(refusalOf(() => ask('', 9.999, ip))).toEqual(RETRY(1)) // refused ones prolong nothing
    expect(refusalOf(() => ask('', 10, ip))).toEqual([])
    expect(refusalOf(() => ask('', 10.05, ip))).toEqual(RETRY(1))
    expect(refusalOf(() => ask('', 10.1, ip))).toEqual([])
    expect(refusalOf(() => ask('', 3, '192.0.2.8'))).toEqual([])
  })

  test('are limited too after the clock was set back', () => {
    const { ask } = scene()
    for (let n = 0; n < 30; n += 1) void ask('', 100, '192.0.2.7')
    expect(refusalOf(() => ask('', 50, '192.0.2.7'))).toEqual(RETRY(60))
  })

  test('are counted for each /64 of IPv6 together', () => {
    const { ask } = scene()
    for (let n = 0; n < 30; n += 1) void ask('', 0, `2001:db8::${n}`)
    expect(refusalOf(() => ask('', 0, '2001:db8::ffff'))).toEqual(RETRY(10))
    expect(refusalOf(() => ask('', 0, '2001:db8:0:1::1'))).toEqual([])
  })
})

test('at most 32 queries wait; more are refused, but cached answers are sent', async () => {
  const { ask, make } = scene()
  void ask('')
  await make()
  const waiting = Array.from({ length: WAITING_MAX }, (_, n) => ask(`ping=${n}`))
  const refusal = ['DB_EXECUTE_FAILED', 'too many queries wait for an answer', 1] as const
  expect(WAITING_MAX).toBe(32)
  for (const query of ['ping=99', 'ping=1']) {
    expect(refusalOf(() => ask(query))).toEqual([...refusal])
  }
  expect(ask('')).toEqual(named(0))
  await make()
  await Promise.all(waiting)
  expect(refusalOf(() => ask('ping=99'))).toEqual([])
})
