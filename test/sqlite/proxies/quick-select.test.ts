/** Holds what quick selects remember of the list: bounded, and forgotten when the list changes. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { Filter } from '../../../src/proxies/filter.ts'
import { ENDPOINT_COLUMNS } from '../../../src/sqlite/proxies/columns.ts'
import { createQuickSelect, QUICK_RECORDS_MAX } from '../../../src/sqlite/proxies/quick-select.ts'
import { createReader } from '../../../src/sqlite/proxies/reader.ts'
import { createListStore } from '../../../src/sqlite/proxies/store.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { endpointOf } from '../../support/rows.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

const opened: List[] = []
function open(dir: string | null): List {
  const list = openList(dir)
  opened.push(list)
  return list
}
afterAll(async () => {
  for (const list of opened) list.close()
  await cleanUp()
})

const AT_T0 = { nowMs: T0, addressBits: 32 } as const
/** Entries of each branch that a quick select may read here. */
const FEW = 7
/** Above the number of horizons that are kept in memory. */
const MANY = 12_000

describe('horizons', () => {
  /** A quick select that counts the horizons it reads, and what it finds on one port or in a city. */
  function counted(rows: readonly TestRow[]) {
    const list = open(null)
    fillList(list, rows)
    const reader = createReader(list.db)
    let read = 0
    const number: typeof reader.number = (sql, values) => {
      read += 1
      return reader.number(sql, values)
    }
    const select = createQuickSelect({ ...reader, number }, FEW)
    return {
      read: () => read,
      find(filter: Partial<Filter>, version = 1) {
        const search = reader.search({ ...NO_FILTER, ...filter }, AT_T0)
        return select(search, 10, ENDPOINT_COLUMNS, version)?.map(row => endpointOf(row).port)
      },
    }
  }

  test('are read once for each value, and again when the version is another', () => {
    const { read, find } = counted([{ ip: '192.0.2.1:80', type: 'http' }])
    for (const _ of [1, 2, 3]) expect(find({ port: 80 })).toEqual([80])
    expect(read()).toBe(1)
    expect(find({ port: 81 })).toEqual([])
    expect(read()).toBe(2)
    for (const version of [2, 3, 2]) expect(find({ port: 80 }, version)).toEqual([80])
    expect(read()).toBe(5)
  })

  test('of many ports are not all kept, and what is found stays right', () => {
    const { read, find } = counted(
      Array.from({ length: 40 }, (_, n) => ({ ip: `192.0.2.1:${1 + n * 300}`, type: 'http' })),
    )
    for (let port = 1; port <= MANY; port += 1) {
      if (find({ port })?.length !== Number(port % 300 === 1)) throw new Error(`port ${port}`)
    }
    expect(read()).toBe(MANY)
    expect(find({ port: MANY })).toEqual([]) // one of the latest is still known
    expect(read()).toBe(MANY)
    expect(find({ port: 1 })).toEqual([1]) // the first is not
    expect(read()).toBe(MANY + 1)
  })

  test('of many cities are not all kept, and what is found stays right', () => {
    const { read, find } = counted(
      Array.from({ length: MANY }, (_, n) => ({
        ip: `192.0.2.1:${1 + n}`,
        type: 'http',
        city: `city ${n}`,
      })),
    )
    for (let n = 0; n < MANY; n += 1) {
      if (find({ cities: [`city ${n}`] })?.[0] !== n + 1) throw new Error(`city ${n}`)
    }
    expect(read()).toBe(MANY)
    expect(find({ cities: ['city 0'] })).toEqual([1])
    expect(read()).toBe(MANY + 1)
  })
})

describe('a quick select right after the list changes', () => {
  /** `n` rows, the last of them the oldest and the only one of socks5. */
  const rows = (n: number): TestRow[] =>
    Array.from({ length: n }, (_, age) => ({
      ip: `10.0.${age >> 8}.${age & 255}:80`,
      type: age === n - 1 ? 'socks5' : 'http',
      age,
    }))
  const SOCKS5: Filter = { ...NO_FILTER, types: ['socks5'] }
  const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

  /** The ports found by each of these filters, by records and by endpoints; `null`: it gave up. */
  const findEach = ({ records, endpoints, version }: ReturnType<typeof createListStore>) =>
    [SOCKS5, { ...SOCKS5, port: 80 }, { ...SOCKS5, countries: [], count: 1 }].flatMap(filter =>
      [records, endpoints].map(
        selector =>
          selector.findQuickly(filter, AT_T0, version())?.map(row => endpointOf(row).ip) ?? null,
      ),
    )
  const all = <T>(value: T): T[] => new Array<T>(6).fill(value)

  test('finds by other connections’ changes what a full select finds', async () => {
    const dir = temporaryDirectory()
    const [writer, list] = [open(dir), open(dir)]
    const few = createListStore(list.db, FEW)
    const replace = (n: number): Promise<void> => {
      writer.db.run('delete from proxies')
      fillList(writer, rows(n))
      return nextTurn() // the version is read once in a turn
    }
    await replace(3)
    expect(findEach(few)).toEqual(all(['10.0.0.2']))
    await replace(50)
    expect(findEach(few)).toEqual(all(null)) // it lies beyond what may be read
    await replace(FEW)
    expect(findEach(few)).toEqual(all([`10.0.0.${FEW - 1}`]))
    await replace(0)
    expect(findEach(few)).toEqual(all([]))
  })

  test('finds by changes of its own connection what a full select finds', () => {
    const list = open(null)
    const few = createListStore(list.db, FEW)
    const change = (n: number): void => {
      fillList(list, rows(n))
      few.noteChange()
    }
    change(3)
    expect(findEach(few)).toEqual(all(['10.0.0.2']))
    list.db.run('delete from proxies')
    change(50)
    expect(findEach(few)).toEqual(all(null))
    few.removeOlderThan(T0 - 1000)
    expect(findEach(few)).toEqual(all([])) // two rows of http are left
    few.shiftChecks(-1000)
    expect(findEach(few)).toEqual(all([])) // and now they are too old
  })
})

test('more records than a quick select gives are too many, for both kinds', () => {
  const list = open(null)
  const { records, endpoints, version } = list.proxies
  const load = (from: number, to: number): void =>
    fillList(
      list,
      Array.from({ length: to - from }, (_, i) => ({
        ip: `10.0.0.1:${1 + from + i}`,
        type: 'http',
      })),
    )
  const lengths = (count: number | null) =>
    [records, endpoints].map(
      selector => selector.findQuickly({ ...NO_FILTER, count }, AT_T0, version())?.length ?? null,
    )
  load(0, QUICK_RECORDS_MAX)
  expect(lengths(null)).toEqual([QUICK_RECORDS_MAX, QUICK_RECORDS_MAX])
  load(QUICK_RECORDS_MAX, QUICK_RECORDS_MAX + 1)
  expect(lengths(null)).toEqual([null, null])
  expect(lengths(QUICK_RECORDS_MAX + 1)).toEqual([null, null])
  expect(lengths(QUICK_RECORDS_MAX)).toEqual([QUICK_RECORDS_MAX, QUICK_RECORDS_MAX])
})
