/** Holds what a list shows of itself as a whole: the check in its middle, in memory and by a worker. */
import { afterAll, expect, test } from 'bun:test'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { freshRows } from '../../../src/proxies/stats.ts'
import { PROXY_FILE } from '../../../src/sqlite/data-directory.ts'
import { openServerList } from '../../../src/sqlite/server-list.ts'
import { addList, listOf, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

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
