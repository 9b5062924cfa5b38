/**
 * How much of the main thread selects may take (src/api/response-cache.ts, contract B9), and that
 * the response cache keeps to it.
 */
import { afterAll, afterEach, describe, expect, spyOn, test } from 'bun:test'
import { createResponseCache, createSelectBudgets } from '../../src/api/response-cache.ts'
import { listOf, T0 } from '../support/fixtures.ts'
import { NO_STREAMER, PROVIDER, queryOf, readerOf } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const key = (id: string) => ({ id, isTrial: false, downloads: 4 })
const address = (id: string) => ({ id, isTrial: true, downloads: 1 })
type Tenant = ReturnType<typeof key>

function createWorld() {
  let nowMs = 0
  const { hasTime, spend } = createSelectBudgets(() => nowMs)
  return {
    pass: (ms: number) => {
      nowMs += ms
    },
    /** Selects for as long as there is time, `ms` each; gives how long that went on. */
    selectAll(tenantOf: (n: number) => Tenant, ms: number, most = 1000): number {
      const sinceMs = nowMs
      for (let n = 0; n < most && hasTime(tenantOf(n)); n += 1) {
        spend(tenantOf(n), () => {
          nowMs += ms
        })
      }
      return nowMs - sinceMs
    },
    hasTime,
    spend,
  }
}

test('no key selects for long at once, and others still can', () => {
  const { selectAll, hasTime } = createWorld()
  expect(selectAll(() => key('greedy'), 2)).toBeLessThanOrEqual(40)
  expect(hasTime(key('greedy'))).toBe(false)
  expect(hasTime(key('other'))).toBe(true)
})

test('no crowd of addresses selects for long at once, and keys still can', () => {
  const { selectAll, hasTime } = createWorld()
  expect(selectAll(n => address(`192.0.2.${n}`), 2)).toBeLessThanOrEqual(14)
  expect(hasTime(address('198.51.100.1'))).toBe(false)
  expect(hasTime(key('paying'))).toBe(true)
})

test('addresses together take a tenth of the time, however many they are', () => {
  const { selectAll, pass } = createWorld()
  let usedMs = 0
  for (let ms = 0; ms < 10_000; ms += 10) {
    usedMs += selectAll(n => address(`${ms}.${n}`), 3)
    pass(10)
  }
  expect(usedMs).toBeGreaterThan(900)
  expect(usedMs).toBeLessThan(1300)
})

test('a select that takes very long is paid for', () => {
  const { selectAll, pass, hasTime } = createWorld()
  expect(selectAll(() => address('192.0.2.1'), 200)).toBe(200)
  pass(1_600)
  expect(hasTime(address('192.0.2.2'))).toBe(false)
  pass(200)
  expect(hasTime(address('192.0.2.2'))).toBe(true)
})

test('a select that fails is paid for, too', () => {
  const { pass, spend, hasTime } = createWorld()
  const fail = (): never => {
    pass(100)
    throw new Error('broken')
  }
  expect(() => spend(key('a'), fail)).toThrow('broken')
  expect(hasTime(key('a'))).toBe(false)
})

let restoreClock = (): void => {}
afterEach(() => restoreClock())

/** A cache on a clock that only selects move, each by `selectMs`; no two queries are the same. */
function createCache(order: string, selectMs: number, hasWorker = true) {
  let nowMs = 0
  const clock = spyOn(performance, 'now').mockImplementation(() => nowMs)
  restoreClock = () => void clock.mockRestore()
  const by: string[] = []
  const reader = readerOf(listOf([{ ip: '192.0.2.1:80', type: 'http' }]), () => {
    by.push('main thread')
    nowMs += selectMs
  })
  const answer = { kind: 'answer', records: 1, subnets: [1], chunks: [new Uint8Array(1)] } as const
  const streamer = {
    ...NO_STREAMER,
    async stream() {
      by.push('worker')
      return { kind: 'rendered', answer, oldestSeconds: 0 } as const
    },
  }
  const cache = createResponseCache({
    ...{ reader, streamer: hasWorker ? streamer : null, provider: PROVIDER, bytesMax: 2 ** 20 },
  })
  let asked = 0
  return {
    /** Says what has found the answer. */
    async ask(tenant: Tenant): Promise<string> {
      asked += 1
      const query = queryOf(`time=${90_000 + asked}${order}`)
      expect(await cache.find(query, T0, false, () => tenant)).not.toBeNull()
      expect(by).toHaveLength(asked)
      return by.at(-1) ?? ''
    },
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

describe.each(['', '&get=json', '&sort=random'])('the response cache, with query %p,', order => {
  test('lets the worker select for a key that has used its time, and only for that key', async () => {
    const { ask, pass } = createCache(order, 100)
    expect([await ask(key('a')), await ask(key('a'))]).toEqual(['main thread', 'worker'])
    expect(await ask(key('b'))).toBe('main thread')
    pass(100)
    expect(await ask(key('a'))).toBe('main thread')
  })

  test('lets the worker select for all addresses once they have used their time', async () => {
    const { ask } = createCache(order, 12)
    const crowd: string[] = []
    for (let n = 0; n < 41; n += 1) crowd.push(await ask(address(`192.0.2.${n}`)))
    expect(crowd.filter(by => by !== 'worker')).toEqual(['main thread'])
    expect(await ask(key('paying'))).toBe('main thread')
  })

  test('selects itself where there is no worker', async () => {
    const { ask } = createCache(order, 100, false)
    for (const _ of [1, 2, 3]) expect(await ask(address('192.0.2.1'))).toBe('main thread')
  })
})
