/** Why no proxy matches (contract A2): said where it is one thing, of the list as it is, at a bounded cost. */
import { afterAll, describe, expect, test } from 'bun:test'
import { entitlementsOf } from '../../src/access/entitlements.ts'
import { createNotFound } from '../../src/api/not-found.ts'
import type { Query } from '../../src/api/query.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import { createListStore } from '../../src/sqlite/proxies/store.ts'
import type { List } from '../../src/sqlite/stores.ts'
import { fillList, listOf, T0, type TestRow } from '../support/fixtures.ts'
import { DEMO } from '../support/limits.ts'
import { NO_STREAMER, nextTurn, queryOf, readerOf } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [
  { ip: '10.0.0.1:80', type: 'http', country: 'DE', city: 'Берлин', city_en: 'Berlin', age: 30 },
  { ip: '10.0.0.2:81', type: 'socks5', country: 'FR', age: 90_000 },
]
const PREFIX = 'no proxies match the filters'

/** What says why, over a list; what was looked up in it and what the streamer was asked. */
function worldOf(list: List, scanMax = 20_000, types: () => Promise<boolean> = async () => false) {
  const store = createListStore(list.db, scanMax)
  const asked: string[] = []
  const reader: ProxyReader = {
    ...readerOf(list),
    lacks(filter) {
      asked.push('lacks')
      return store.lacks(filter)
    },
    hasType(names) {
      asked.push('type')
      return store.hasType(names)
    },
  }
  const streamer = {
    ...NO_STREAMER,
    hasType() {
      asked.push('scan')
      return types()
    },
  }
  const notFound = createNotFound(reader, streamer)
  return {
    asked: (): string[] => asked.splice(0),
    async why(query: string | Query, later = 0): Promise<string> {
      const asQuery = typeof query === 'string' ? queryOf(query) : query
      const { code, message } = await notFound(asQuery, T0 + later * 1000)
      expect(code).toBe('PROXIES_NOT_FOUND')
      expect(message).toStartWith(PREFIX)
      return message.slice(PREFIX.length)
    },
  }
}

const lacking = (what: string): string => `: no proxy in the list has the given ${what}`
const tooOld = (seconds: number): string =>
  `the newest check is 30 s old, and time allows ${seconds} s`
const CASES: readonly (readonly [query: string, why: string])[] = [
  ['time=29', `: ${tooOld(29)}`],
  // Both, and what no other `time` would help against comes first.
  ['time=0&port=1', `${lacking('port')}; ${tooOld(0)}`],
  ['time=29&country=us', `${lacking('country')}; ${tooOld(29)}`],
  ['time=29&type=https&city=rome', `${lacking('type or city')}; ${tooOld(29)}`],
  ['time=29&country=de', `: ${tooOld(29)}`],
  ['type=https', lacking('type')],
  ['type=https,socks4', lacking('type')],
  ['type=https,socks5', ''], // there is one, though too old
  ['type=socks5', ''],
  ['country=us', lacking('country')],
  ['country=uk', `${lacking('country')}; the code of uk is gb`],
  ['country=us,gb,zz,de', ''],
  ['country=us&cm=except&works=1', ''],
  ['city=rome', lacking('city')],
  ['city=берлин&lang=en', lacking('city')],
  ['city=BERLIN&works=1', ''],
  ['port=82', lacking('port')],
  ['port=81', ''],
  ['type=https&country=us&city=x&port=1', lacking('type, country, city or port')],
  ['type=https&port=1', lacking('type or port')],
  ['ip=10.0.0.9:80', ''],
  ['works=100', ''],
  ['country=fr&port=80', ''],
]

describe('a 404 says why', () => {
  const { why } = worldOf(listOf(ROWS))
  test.each(CASES)('%s → %s', async (query, expected) => {
    expect(await why(query)).toBe(expected)
  })

  test('of an empty list', async () => {
    const world = worldOf(listOf([]))
    for (const query of ['', 'port=1', 'time=5']) {
      expect(await world.why(query)).toBe(': the list is empty')
    }
  })

  test('of demo, unless it says works itself or there is another reason', async () => {
    const demo = (text: string): Query => queryOf(text, entitlementsOf(DEMO))
    const set = '; without works, the demo key gets works=90'
    expect(await why(demo('type=http'))).toBe(set)
    expect(await why(demo('type=http&works=90'))).toBe('')
    expect(await why(demo('type=http&works=0'))).toBe('')
    expect(await why(demo('port=1'))).toBe(lacking('port'))
    expect(await why(demo('type=http'))).toBe(set)
  })
})

describe('what a list lacks', () => {
  test('is looked up once, and the age is that of now', async () => {
    const world = worldOf(listOf(ROWS))
    expect(await world.why('time=5&type=https', 1)).toMatch('is 31 s old')
    expect(await world.why('time=5&type=https', 2)).toMatch('is 32 s old')
    expect(world.asked()).toEqual(['lacks', 'type'])
  })

  test('is looked up again when the list changes', async () => {
    const list = listOf(ROWS)
    const world = worldOf(list)
    expect(await world.why('port=1')).toBe(lacking('port'))
    expect(await world.why('type=https')).toBe(lacking('type'))
    fillList(list, [{ ip: '10.0.0.3:1', type: 'https' }])
    await nextTurn()
    expect(await world.why('port=1&works=1')).toBe('')
    expect(await world.why('type=https&works=1')).toBe('')
  })
})

describe('a type in a list that is too long to be looked through', () => {
  const many = Array.from({ length: 50 }, (_, n) => ({ ip: `10.0.1.${n}:80`, type: 'http' }))
  const list = listOf([...many, { ip: '10.0.2.1:80', type: 'socks5', age: 500 }])

  test('is looked for by the streamer, once for all queries of a list', async () => {
    const world = worldOf(list, 20)
    for (const query of ['type=https', 'type=https&works=1', 'type=https&country=us']) {
      expect(await world.why(query)).toMatch('the given type')
    }
    expect(world.asked().filter(what => what !== 'lacks')).toEqual(['type', 'scan'])
    expect(await world.why('type=http&works=1')).toBe('') // the first rows have it
    expect(world.asked()).toEqual(['lacks', 'type'])
  })

  test('is found by the scan, also behind the first rows', () => {
    const store = createListStore(list.db, 20)
    expect([store.hasType(['socks5']), store.hasType(['socks5'], true)]).toEqual([null, true])
    expect([store.hasType(['https']), store.hasType(['https'], true)]).toEqual([null, false])
    expect(store.hasType(['https', 'http'])).toBe(true)
    expect(createListStore(list.db, 51).hasType(['https'])).toBe(false)
    expect(createListStore(list.db, 50).hasType(['https'])).toBeNull()
  })

  test('is not said to be missing when the streamer fails or the list changes', async () => {
    let fails = true
    const failing = worldOf(list, 20, async () => {
      if (fails) throw new Error('busy')
      return false
    })
    expect(await failing.why('type=https')).toBe('')
    fails = false
    expect(await failing.why('type=https')).toBe(lacking('type'))
    const changing = worldOf(list, 20, async () => {
      list.proxies.shiftChecks(0)
      await nextTurn()
      return false
    })
    expect(await changing.why('type=https')).toBe('')
  })
})
