/** Names of cities: how long a list has them, that an id is of one name for ever, and which names are read. */
import { afterAll, describe, expect, test } from 'bun:test'
import { LANGS } from '../../../src/proxies/proxy.ts'
import type { List } from '../../../src/sqlite/stores.ts'
import { fillList, listOf, NO_FILTER, T0 } from '../../support/fixtures.ts'
import { cleanUp } from '../../support/temporary.ts'

afterAll(cleanUp)

const AT_T0 = { nowMs: T0, addressBits: 32 } as const
const inCity = (city: string, host = 1) => ({ ip: `192.0.2.${host}:80`, type: 'http', city })
const namesIn = ({ db }: List): unknown[][] =>
  db.query('select id, name from cities order by id').values()

describe('a name that no row has', () => {
  test('is not kept when rows of its own import had it last', () => {
    const list = listOf([inCity('A'), inCity('B'), inCity('C')])
    expect(namesIn(list)).toEqual([[3, 'C']])
    fillList(list, [inCity('D', 2), inCity('E', 2)], 'replace')
    expect(namesIn(list)).toEqual([
      [3, 'C'],
      [5, 'E'],
    ])
  })

  test.each(['merge', 'replace'] as const)('is removed by the next import, %s', mode => {
    const list = listOf([inCity('A'), inCity('B', 2)])
    fillList(list, [inCity('C'), inCity('C', 2)], mode)
    expect(namesIn(list)).toHaveLength(3) // who has read a row before can still say where it is
    fillList(list, [inCity('C')], mode)
    expect(namesIn(list)).toEqual([[3, 'C']])
  })
})

test('an id is never reused for another name, not even the last removed one', () => {
  const list = listOf([inCity('A')])
  fillList(list, [], 'replace')
  for (const city of ['B', 'A']) {
    fillList(list, [], 'replace')
    fillList(list, [inCity(city)], 'replace')
  }
  expect(namesIn(list).at(-1)).toEqual([3, 'A'])
})

test('all names that compare equal are found, however many', () => {
  const marks = (n: number): string =>
    String.fromCharCode(0x300 + (n % 40), 0x300 + Math.floor(n / 40))
  const list = listOf(
    Array.from({ length: 1_500 }, (_, n) => ({
      ip: `10.0.${n >> 8}.${n & 255}:80`,
      type: n % 3 === 0 ? 'socks5' : 'http',
      city: n % 2 === 0 ? `x${marks(n)}` : `y${n}`,
      city_en: n % 2 === 0 ? '' : `x${marks(n)}`,
    })).concat({ ip: '10.9.9.9:80', type: 'http', city: 'x', city_en: 'z' }),
  )
  const { proxies } = list
  for (const lang of LANGS) {
    const filter = { ...NO_FILTER, cities: ['x'], lang }
    expect(list.proxies.findAll(filter, AT_T0).rows).toHaveLength(lang === 'en' ? 1_500 : 1_501)
    expect(list.proxies.findAll({ ...filter, types: ['socks5'] }, AT_T0).rows).toHaveLength(500)
    expect(proxies.findQuickly({ ...filter, count: 9 }, AT_T0)?.rows).toHaveLength(9)
    expect(proxies.explainEmpty(filter).lacking).toEqual([])
    expect(proxies.explainEmpty({ ...filter, cities: ['y'] }).lacking).toEqual(['city'])
    const some = list.proxies.findAll({ ...filter, count: 9 }, AT_T0).rows.map(([id]) => id)
    expect(proxies.findByIds(filter, AT_T0, some)?.rows).toHaveLength(9)
    const other = { ...filter, cities: ['z'] }
    expect(proxies.findByIds(other, AT_T0, some)).toBeNull()
  }
})
