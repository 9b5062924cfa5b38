/**
 * Draws from more matches than are found at once: they are read by the streamer, once for all requests
 * that wait, kept while the list is unchanged, and never the cause of a wrong record.
 */
import { afterAll, afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { entitlementsOf } from '../../src/access/entitlements.ts'
import {
  type Answer,
  type AnswerStreamer,
  bodyOf,
  createAnswerFinder,
} from '../../src/api/answer.ts'
import type { Query } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { createDoorkeeper } from '../../src/lib/bounded-map.ts'
import { type List, openList } from '../../src/sqlite/stores.ts'
import { fillList, listOf, T0, type TestRow } from '../support/fixtures.ts'
import { DEMO as DEMO_CALLER, TENANT } from '../support/limits.ts'
import { nextTurn, PROVIDER, queryOf, readerOf } from '../support/streamer.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

/** Runs work that pauses now and then to its end. */
function withoutPause<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

afterAll(cleanUp)

/** Time passes only where a test says so: the main thread has some for each draw. */
let elapsedMs = 0
const stopTime = () => spyOn(performance, 'now').mockImplementation(() => elapsedMs)
let clock: ReturnType<typeof stopTime>
beforeEach(() => {
  clock = stopTime()
})
afterEach(() => void clock.mockRestore())

const DEMO = { ...entitlementsOf(DEMO_CALLER), worksDefault: null }

/** Rows in 300 /16 networks; every second one is of socks5, and each is a second older. */
const rowsOf = (n: number): TestRow[] =>
  Array.from({ length: n }, (_, i) => ({
    ip: `${10 + (i % 3)}.${i % 100}.${i >> 8}.${i & 255}:80`,
    type: i % 2 === 0 ? 'http' : 'socks5',
    works: i % 101,
    age: i,
  }))
const ROWS = rowsOf(3000)

/** A cache whose reader finds nothing at once, and what its streamer is asked. */
function worldOf(list: List, bytesMax = 2 ** 20) {
  const { finder, matches } = list.proxies
  const asked: string[] = []
  const hooks = { beforeBegin: async () => {}, beforeReply: async () => {} }
  const findNow = createAnswerFinder<never>(finder, PROVIDER)
  const tooLarge = (): 'too-large' => 'too-large'
  const reader = { ...readerOf(list), find: tooLarge, findEndpoints: tooLarge }
  const streamer: AnswerStreamer = {
    async stream(query, nowMs) {
      asked.push('stream')
      return { kind: 'rendered', ...findNow(query, nowMs) }
    },
    async matches({ filter, addressBits }, nowMs, _, onBegin) {
      asked.push('matches')
      const found = withoutPause(matches(filter, { nowMs, addressBits }))
      await hooks.beforeBegin()
      onBegin()
      await hooks.beforeReply()
      return found
    },
    refuseWaiting() {},
  }
  const parts = { reader, streamer, provider: PROVIDER, bytesMax }
  const cache = createResponseCache(parts, createDoorkeeper())
  return {
    hooks,
    cache,
    /** What the streamer was asked since the last call. */
    asked: (): string[] => asked.splice(0),
    async find(query: Query, nowMs = T0, tenant = TENANT): Promise<Answer | null> {
      const found = await cache.find(query, nowMs, true, () => tenant)
      if (found?.kind === 'stream') throw new Error('a stream')
      return found
    },
    async addresses(query: Query, nowMs = T0): Promise<string[]> {
      const found = await this.find(query, nowMs)
      const text = found === null ? '' : Buffer.from(bodyOf(found, nowMs)).toString()
      return text.match(/\d+\.\d+\.\d+\.\d+:\d+/g) ?? []
    },
  }
}

const FORMS = ['', 'type_prefix=1', 'get=json', 'get=csv', 'get=ndjson&fields=ip,city']

describe('many matches', () => {
  test('are read for the first two draws, then kept for every count and form', async () => {
    const world = worldOf(listOf(ROWS))
    const drawn = new Set<string>()
    for (const form of FORMS) {
      for (const count of [1, 2, 1000]) {
        const query = queryOf(`time=9999&sort=random&count=${count}&${form}`)
        const addresses = await world.addresses(query)
        expect(new Set(addresses).size).toBe(count)
        drawn.add(addresses.join())
      }
    }
    expect(drawn.size).toBe(FORMS.length * 3)
    expect(world.asked()).toEqual(['matches', 'matches'])
  })

  test('are drawn from here by a key that has time, and few of them always (contract B9)', async () => {
    const list = listOf(ROWS)
    const { findByIds } = list.proxies
    spyOn(list.proxies, 'findByIds').mockImplementation((filter, options, ids) => {
      elapsedMs += ids.length / 10
      return findByIds(filter, options, ids)
    })
    const world = worldOf(list)
    const draw = async (count: number, tenant = TENANT): Promise<string[]> => {
      const answer = await world.find(
        queryOf(`time=9999&sort=random&get=json&count=${count}`),
        T0,
        tenant,
      )
      expect(answer?.records).toBe(count)
      return world.asked()
    }
    expect([await draw(1), await draw(1), await draw(1)]).toEqual([['matches'], ['matches'], []])
    expect([await draw(1000), await draw(1000), await draw(21)]).toEqual([
      [],
      ['stream'],
      ['stream'],
    ])
    expect([await draw(20), await draw(20)]).toEqual([[], []])
    expect(await draw(1000, { ...TENANT, id: 'other' })).toEqual([])
    elapsedMs += 200
    expect(await draw(1000)).toEqual([])
    elapsedMs += 200
    const cold = queryOf('time=9998&sort=random&get=json&count=900')
    await Promise.all([cold, cold, cold].map(query => world.find(query)))
    expect(world.asked()).toEqual(['matches', 'stream', 'stream'])
  })

  test('are those of the filter, young enough at each draw', async () => {
    const world = worldOf(listOf(ROWS))
    const query = queryOf('type=socks5&time=1000&sort=random&count=1000&type_prefix=1')
    for (const [later, most] of [0, 0, 10, 11, 998, 999].map(s => [s, 500 - Math.floor(s / 2)])) {
      const nowMs = T0 + (later ?? 0) * 1000
      const answer = await world.find(query, nowMs)
      expect(answer?.records).toBe(most)
      expect(Buffer.from(answer ? bodyOf(answer, nowMs) : '').toString()).not.toMatch(/http:/)
    }
    expect(await world.find(query, T0 + 1_000_000)).toBeNull()
    expect(world.asked()).toEqual(['matches', 'matches'])
    expect((await world.find(query, T0 - 1000))?.records).toBe(501) // the clock stepped back
    expect(world.asked()).toEqual(['matches'])
  })

  test('are all drawn from, one time or other', async () => {
    const world = worldOf(listOf(rowsOf(1100)))
    const query = queryOf('time=9999&sort=random&count=100')
    const seen = new Set<string>()
    for (let n = 0; n < 200; n += 1) for (const one of await world.addresses(query)) seen.add(one)
    expect(seen.size).toBe(1100)
  })

  test('are not needed for an answer of more than a thousand: it is streamed', async () => {
    const world = worldOf(listOf(ROWS))
    for (const count of ['', '&count=1001', '&count=3000']) {
      const most = count === '&count=1001' ? 1001 : 3000
      expect(await world.addresses(queryOf(`time=9999&sort=random${count}`))).toHaveLength(most)
    }
    expect(world.asked()).toEqual(['stream', 'stream', 'stream'])
  })
})

describe('many matches', () => {
  test('look once the same to demo, and its addresses are masked', async () => {
    const world = worldOf(listOf(ROWS))
    for (const form of FORMS) {
      const addresses = await world.addresses(queryOf(`time=9999&sort=random&${form}`, DEMO))
      expect(new Set(addresses).size).toBe(50)
      for (const address of addresses) expect(address).toMatch(/^1[012]\.\d+\.0\.0:80$/)
    }
    expect(world.asked()).toEqual(['matches', 'matches'])
  })

  test('are forgotten when the list changes, and when there is no room', async () => {
    const list = listOf(ROWS)
    const world = worldOf(list)
    const query = queryOf('time=9999&sort=random&count=1')
    for (let n = 0; n < 3; n += 1) await world.find(query)
    expect(world.asked()).toHaveLength(2)
    fillList(list, [{ ip: '192.0.2.1:1', type: 'http' }])
    await nextTurn()
    const all = await world.addresses(queryOf('time=9999&sort=random&count=1000'))
    expect(all).toHaveLength(1000)
    await world.find(query)
    expect(world.asked()).toEqual(['matches'])
    const small = worldOf(list, 16 * 1024)
    for (let n = 0; n < 3; n += 1) await small.find(query)
    expect(small.asked()).toHaveLength(3)
  })
})

describe('requests that wait for matches', () => {
  const QUERY = 'time=9999&sort=random&count=1'

  test('at the same time are read for once, whatever their count and form', async () => {
    const world = worldOf(listOf(ROWS))
    const texts = FORMS.map(form => `time=9999&sort=random&count=5&${form}`)
    await Promise.all(texts.map(text => world.find(queryOf(text))))
    expect(world.asked()).toEqual(['matches'])
  })

  test('of another key do not wait in its line: only once reading has begun is it for all', async () => {
    const world = worldOf(listOf(ROWS))
    const [line, reading] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    world.hooks.beforeBegin = () => line.promise
    const ask = (id: string) => world.find(queryOf(QUERY), T0, { ...TENANT, id })
    const waiting = [ask('a'), ask('a')]
    world.hooks.beforeBegin = async () => {}
    world.hooks.beforeReply = () => reading.promise
    const other = ask('b')
    await nextTurn()
    waiting.push(ask('a'), ask('c'))
    expect(world.asked()).toEqual(['matches', 'matches'])
    line.reject(new Error('refused'))
    reading.resolve()
    const results = await Promise.allSettled([...waiting, other])
    const all = results.map(({ status }) => status)
    expect(all).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled'])
  })

  test('do not get those of a list that has changed before they came', async () => {
    const list = listOf(ROWS)
    const world = worldOf(list)
    const gate = Promise.withResolvers<void>()
    world.hooks.beforeReply = () => gate.promise
    const first = world.find(queryOf(QUERY))
    list.begin('replace').commit()
    await nextTurn()
    const second = world.find(queryOf(QUERY))
    gate.resolve()
    expect((await first)?.records).toBe(1)
    expect(await second).toBeNull()
    expect(world.asked()).toEqual(['matches', 'matches'])
    expect(await world.find(queryOf(QUERY))).toBeNull()
  })

  test('do not get those of a later clock, which leaves out what is young enough', async () => {
    const world = worldOf(listOf(ROWS))
    const text = 'time=100&sort=random&count=1000'
    const late = world.find(queryOf(text), T0 + 50_000)
    const early = world.find(queryOf(text), T0)
    expect([(await late)?.records, (await early)?.records]).toEqual([51, 101])
  })

  test('all fail when the reading fails, and the next one reads again', async () => {
    const world = worldOf(listOf(ROWS))
    world.hooks.beforeReply = async () => {
      throw new Error('lost')
    }
    const both = await Promise.allSettled([world.find(queryOf(QUERY)), world.find(queryOf(QUERY))])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    world.hooks.beforeReply = async () => {}
    expect((await world.find(queryOf(QUERY)))?.records).toBe(1)
    expect(world.asked()).toEqual(['matches', 'matches'])
  })
})

describe('a record of a draw is as the list has it', () => {
  test('also in the turn in which another process changes it: then the worker finds it', async () => {
    const dir = temporaryDirectory()
    const [writer, list] = [openList(dir), openList(dir, { isServer: true })]
    for (const { close } of [writer, list]) onCleanUp(close)
    fillList(writer, ROWS)
    await nextTurn()
    const world = worldOf(list)
    const query = queryOf('type=socks5&time=9999&sort=random&count=1000&get=ndjson')
    for (let n = 0; n < 3; n += 1) await world.find(query)
    world.asked()
    list.proxies.version() // read once in this turn
    fillList(writer, ROWS.map(row => ({ ...row, type: 'http', age: 0 })).slice(0, 2000))
    const found = await world.addresses(query)
    expect(found).toHaveLength(500)
    expect(world.asked()).toContain('stream')
    const left = new Set(ROWS.slice(2000).map(({ ip }) => ip))
    expect(found.every(address => left.has(address))).toBe(true)
  })

  test('a row that is gone or too old is found missing by its id', () => {
    const { proxies } = listOf(ROWS)
    const { filter } = queryOf('type=http')
    const at = { nowMs: T0, addressBits: 32 } as const
    const all = proxies.records.findAll(filter, at).map(([id]) => id)
    const some = [all[5] ?? 0, all[2] ?? 0, all[5] ?? 0, all[0] ?? 0]
    expect(proxies.findByIds(filter, at, some)?.rows.map(([id]) => id)).toEqual(some)
    expect(proxies.findByIds(filter, at, [...some, 1])).toBeNull()
    expect(proxies.findByIds(queryOf('type=https').filter, at, some)).toBeNull()
    const oldest = all.at(-1) ?? 0
    expect(proxies.findByIds(filter, at, [oldest])?.rows).toHaveLength(1)
    expect(proxies.findByIds(filter, { ...at, nowMs: T0 + 3000 }, [oldest])).toBeNull()
  })
})
