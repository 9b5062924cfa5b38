/**
 * Holds what a list shows of itself as a whole, and the worker that makes its statistics (contract F4): it counts
 * what is in the file, and whatever goes wrong is a `StoreError` for those who wait and one sentence for the operator.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { StoreError } from '../../../src/lib/errors.ts'
import { freshRows } from '../../../src/proxies/stats.ts'
import { PROXY_FILE } from '../../../src/sqlite/data-directory.ts'
import { createStatsSource, makeStats, readCounts } from '../../../src/sqlite/proxies/stats.ts'
import { openServerList } from '../../../src/sqlite/server-list.ts'
import { addList, listOf, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

/** More rows than are read at a time. */
const ROWS: readonly TestRow[] = Array.from({ length: 4_100 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: i % 2 === 0 ? 'http' : 'socks5',
  country: i % 3 === 0 ? 'DE' : 'NL',
  city: i % 3 === 0 ? 'Берлин' : '',
  city_en: i % 3 === 0 ? 'Berlin' : '',
  age: i % 700,
  works: i % 101,
}))
const REQUEST = { nowMs: T0, version: '1', part: 'full', provider: 'the service' } as const

/** A source on a list, and what it has reported. */
function sourceOf({ verify = () => {}, later }: Partial<Hooks> = {}) {
  const dir = temporaryDirectory()
  addList(dir, ROWS)
  const failures: unknown[] = []
  const onFailure = (failure: unknown) => void failures.push(failure)
  const file = join(dir, PROXY_FILE)
  return { file, failures, ...createStatsSource(file, { verify, onFailure }, later) }
}
type Hooks = { verify: () => void; later: Parameters<typeof createStatsSource>[2] }

describe('the worker', () => {
  test('makes what would be made in process', async () => {
    const { make, failures } = sourceOf()
    const coded = await make(REQUEST)
    const text = new TextDecoder().decode(coded.identity)
    expect(text).toBe(new TextDecoder().decode(makeStats(listOf(ROWS).db, REQUEST).identity))
    expect(JSON.parse(text)).toMatchObject({ at: T0 / 1000, total: ROWS.length })
    expect(new TextDecoder().decode(Bun.gunzipSync(new Uint8Array(coded.gzip)))).toBe(text)
    expect(new TextDecoder().decode(Bun.zstdDecompressSync(coded.zstd))).toBe(text)
    expect(failures).toEqual([])
  })

  test('has the whole list in one snapshot, page by page', () => {
    const list = listOf(ROWS)
    expect(readCounts(list.db, T0 / 1000)).toMatchObject({
      rows: ROWS.length,
      newest: T0 / 1000,
      oldest: T0 / 1000 - 699,
      cities: [{ city: 'Берлин', city_en: 'Berlin', country: 'DE', count: 1367 }],
    })
  })
})

describe('a failure', () => {
  test('to open the list is reported, and thrown as a StoreError', async () => {
    const { file, make, failures } = sourceOf()
    rmSync(file)
    await expect(make(REQUEST)).rejects.toBeInstanceOf(StoreError)
    expect(String(failures)).toInclude('is missing')
  })

  test('that the list must not be shown any more throws away what was made of it', async () => {
    const failure = new StoreError('the list was replaced')
    const { make, failures } = sourceOf({
      verify() {
        throw failure
      },
    })
    await expect(make(REQUEST)).rejects.toBe(failure)
    expect(failures).toEqual([failure])
  })

  test('to end in time ends the worker', async () => {
    const timers: number[] = []
    const { make, failures } = sourceOf({
      later(run, ms) {
        timers.push(ms)
        queueMicrotask(run)
        return () => {}
      },
    })
    await expect(make(REQUEST)).rejects.toThrow(new StoreError('the statistics could not be made'))
    expect(timers).toEqual([20_000])
    expect(String(failures)).toInclude('longer than 20000 ms')
  })

  test('is what those get who wait when the server stops, which is no news', async () => {
    const { make, close, failures } = sourceOf()
    const waiting = make(REQUEST)
    close()
    await expect(waiting).rejects.toBeInstanceOf(StoreError)
    expect(failures).toEqual([])
  })
})

const rowsOf = (ages: readonly number[]): TestRow[] =>
  ages.map((age, i) => ({ ip: `10.0.${i >> 8}.${i & 255}:80`, type: 'http', age }))

test('half of the rows are newer than the median, or as new', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 100 }), { maxLength: 30 }), ages => {
      const list = listOf(rowsOf(ages))
      const sorted = ages.toSorted((a, b) => a - b)
      const age = sorted[Math.floor(ages.length / 2)]
      expect(list.breakdown(T0).median).toBe(age === undefined ? null : T0 / 1000 - age)
    }),
    { numRuns: 30 },
  )
})

test('fresh rows are those that a query without time sees', () => {
  const list = listOf(rowsOf([0, 60, 599, 600, 601, 86_400, 10 ** 7]))
  expect(freshRows(list.breakdown(T0))).toBe(4)
})

test('a server counts its list in a worker, and fails while the list must not be used', async () => {
  const dir = temporaryDirectory()
  addList(dir, rowsOf([10, 20, 700]))
  const said: string[] = []
  const list = openServerList(
    dir,
    'the service',
    () => T0,
    sentence => said.push(sentence),
  )
  try {
    const counted = await list.stats.count(T0)
    expect(counted).toMatchObject({ rows: 3, newest: T0 / 1000 - 10, median: T0 / 1000 - 20 })
    expect(counted.types[0]).toEqual({ type: 'http', count: 3 })
    const file = join(dir, PROXY_FILE)
    renameSync(file, `${file}.away`)
    await expect(list.stats.count(T0)).rejects.toThrow(file)
    expect(said).not.toBeEmpty()
  } finally {
    list.close()
  }
})
