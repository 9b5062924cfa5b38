/**
 * Draws from more matches than are found at once: the streamer reads them, the cache keeps them while the list is
 * unchanged, and they are never the cause of a wrong record.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import {
  type Answer,
  type AnswerStreamer,
  bodyOf,
  createAnswerRenderer,
} from '../../src/api/answer.ts'
import type { Query } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { type List, openList } from '../../src/sqlite/stores.ts'
import { fillList, listOf, T0, type TestRow } from '../support/fixtures.ts'
import { TENANT } from '../support/limits.ts'
import { nextTurn, PROVIDER, queryOf, readerOf } from '../support/streamer.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

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
  const { findAll, matches } = list.proxies
  const asked: string[] = []
  const render = createAnswerRenderer(PROVIDER)
  let beforeReply = async (): Promise<void> => {}
  const reader = { ...readerOf(list), find: (): 'must-stream' => 'must-stream' }
  const streamer: AnswerStreamer = {
    async stream(query, nowMs) {
      asked.push('stream')
      const { filter, addressBits } = query
      return { kind: 'rendered', ...render(query, findAll(filter, { nowMs, addressBits })) }
    },
    async matches({ filter, addressBits }, nowMs) {
      asked.push('matches')
      const found = matches(filter, { nowMs, addressBits })
      await beforeReply()
      return found
    },
    refuseWaiting() {},
  }
  const cache = createResponseCache({ reader, streamer, provider: PROVIDER, bytesMax })
  return {
    /** Called by the streamer once it has read matches. */
    setBeforeReply(run: () => Promise<void>): void {
      beforeReply = run
    },
    /** What the streamer was asked since the last call. */
    asked: (): string[] => asked.splice(0),
    async find(query: Query, nowMs = T0): Promise<Answer | null> {
      const found = await cache.find(query, nowMs, true, () => TENANT)
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
  test('are read for the first draw, then kept for every count and form', async () => {
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
    expect(world.asked()).toEqual(['matches'])
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
  test('are forgotten when the list changes, and when there is no room', async () => {
    const list = listOf(ROWS)
    const world = worldOf(list)
    const query = queryOf('time=9999&sort=random&count=1')
    for (let n = 0; n < 3; n += 1) await world.find(query)
    expect(world.asked()).toHaveLength(1)
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

test('matches of a list that has changed meanwhile are drawn from, and not kept', async () => {
  const list = listOf(ROWS)
  const world = worldOf(list)
  const query = queryOf('time=9999&sort=random&count=1')
  world.setBeforeReply(async () => {
    list.proxies.shiftChecks(1)
    await nextTurn()
  })
  for (const _ of [1, 2]) expect((await world.find(query))?.records).toBe(1)
  expect(world.asked()).toEqual(['matches', 'matches'])
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
    fillList(writer, ROWS.map(row => ({ ...row, type: 'http', age: 0 })).slice(0, 2000), 'set')
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
    const all = proxies.findAll(filter, at).rows.map(([id]) => id)
    const some = [all[5] ?? 0, all[2] ?? 0, all[5] ?? 0, all[0] ?? 0]
    expect(proxies.findByIds(filter, at, some)?.rows.map(([id]) => id)).toEqual(some)
    expect(proxies.findByIds(filter, at, [...some, 1])).toBeNull()
    expect(proxies.findByIds(queryOf('type=https').filter, at, some)).toBeNull()
    const oldest = all.at(-1) ?? 0
    expect(proxies.findByIds(filter, at, [oldest])?.rows).toHaveLength(1)
    expect(proxies.findByIds(filter, { ...at, nowMs: T0 + 3000 }, [oldest])).toBeNull()
  })
})
