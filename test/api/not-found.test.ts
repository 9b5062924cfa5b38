/** Why no proxy matches (contract A2): a 404 names the reason when there is one. */
import { afterAll, describe, expect, test } from 'bun:test'
import { entitlementsOf } from '../../src/access/entitlements.ts'
import { notFound } from '../../src/api/not-found.ts'
import type { Query } from '../../src/api/query.ts'
import type { List } from '../../src/sqlite/stores.ts'
import { fillList, listOf, T0, type TestRow } from '../support/fixtures.ts'
import { DEMO } from '../support/limits.ts'
import { nextTurn, queryOf } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [
  { ip: '10.0.0.1:80', type: 'http', country: 'DE', city: 'Берлин', city_en: 'Berlin', age: 30 },
  { ip: '10.0.0.2:81', type: 'socks5', country: 'FR', age: 90_000 },
]
const PREFIX = 'no proxies match the filters'

/** Explains 404s of a list. */
function whyOf({ proxies }: List) {
  return (query: string | Query, later = 0): string => {
    const asQuery = typeof query === 'string' ? queryOf(query) : query
    const reason = proxies.explainEmpty(asQuery.filter)
    const { code, message } = notFound(asQuery, T0 + later * 1000, reason)
    expect(code).toBe('PROXIES_NOT_FOUND')
    expect(message).toStartWith(PREFIX)
    return message.slice(PREFIX.length)
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

describe('a 404', () => {
  const why = whyOf(listOf(ROWS))
  test.each(CASES)('for %s says “%s”', (query, expected) => {
    expect(why(query)).toBe(expected)
  })

  test('explains an empty list', () => {
    const whyEmpty = whyOf(listOf([]))
    for (const query of ['', 'port=1', 'time=5']) {
      expect(whyEmpty(query)).toBe(': the list is empty')
    }
  })

  test('explains works=90 of demo, unless works is given or there is another reason', () => {
    const demo = (text: string): Query => queryOf(text, entitlementsOf(DEMO))
    const set = '; without works, the demo key gets works=90'
    expect(why(demo('type=http'))).toBe(set)
    expect(why(demo('type=http&works=90'))).toBe('')
    expect(why(demo('type=http&works=0'))).toBe('')
    expect(why(demo('port=1'))).toBe(lacking('port'))
    expect(why(demo('type=http'))).toBe(set)
  })
})

test('the reason follows the clock and the list', async () => {
  const list = listOf(ROWS)
  const why = whyOf(list)
  expect(why('time=5&works=1', 1)).toMatch('is 31 s old')
  expect(why('time=5&works=1', 2)).toMatch('is 32 s old')
  expect(why('port=1')).toBe(lacking('port'))
  expect(why('type=https')).toBe(lacking('type'))
  fillList(list, [{ ip: '10.0.0.3:1', type: 'https' }])
  await nextTurn()
  expect(why('port=1&works=1')).toBe('')
  expect(why('type=https&works=1')).toBe('')
})
