/** Holds what metrics read of a data directory, whatever has happened to it. */
import { afterAll, describe, expect, test } from 'bun:test'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Breakdown } from '../../src/proxies/stats.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { createBreakdown, observeData } from '../../src/sqlite/metrics.ts'
import { openMemoryList } from '../../src/sqlite/server-list.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const WORKING = { health: () => ({ works: true, failures: 0 }) }
const FAILING = { health: () => ({ works: false, failures: 7 }) }

function memoryList() {
  const list = openMemoryList()
  onCleanUp(list.close)
  return list
}

test('databases have the sizes of their files and the health of their supervisors', () => {
  const dir = temporaryDirectory()
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
  addKeys(dir, {}, [], T0)
  const observed = observeData(dir, WORKING, { ...memoryList(), ...FAILING })
  const sizeOf = (name: string) => statSync(join(dir, name)).size
  expect(observed.databases()).toMatchObject([
    { name: ACCESS_FILE, works: true, failures: 0, bytes: sizeOf(ACCESS_FILE) },
    { name: PROXY_FILE, works: false, failures: 7, bytes: sizeOf(PROXY_FILE), walBytes: 0 },
  ])
  expect(observed.space()?.freeBytes).toBeGreaterThan(0)
})

test('the metrics have the feeds of the data directory, or none', async () => {
  const dir = temporaryDirectory()
  const { feeds } = observeData(dir, WORKING, memoryList())
  expect(feeds()).toEqual([])
  const store = openFeeds(dir)
  store.keepOnly([{ id: '1', shown: 'https://example.com/list' }], T0)
  store.close()
  expect((await feeds()).map(({ source }) => source)).toEqual(['https://example.com/list'])
  writeFileSync(
    join(dir, FEEDS_FILE),
    'not a database, and long enough to be read as one'.repeat(9),
  )
  expect(feeds).toThrow()
})

test('a directory that cannot be reached has no sizes and no free bytes, without an error', () => {
  const file = join(temporaryDirectory(), 'file')
  writeFileSync(file, '')
  const observed = observeData(join(file, 'data'), FAILING, { ...memoryList(), ...FAILING })
  expect(observed.databases().map(({ bytes, walBytes }) => (bytes ?? 0) + (walBytes ?? 0))).toEqual(
    [0, 0],
  )
  expect(observed.space()).toBeNull()
  expect(observed.feeds()).toEqual([])
})

describe('the breakdown', () => {
  /** A breakdown whose counts the test ends; each is named by its instant, in seconds. */
  function scene() {
    const attempts: { atMs: number; end: ReturnType<typeof Promise.withResolvers<Breakdown>> }[] =
      []
    const list = { failure: null as Error | null }
    const read = createBreakdown({
      stats: {
        answer: () => Promise.reject(),
        count(atMs) {
          const end = Promise.withResolvers<Breakdown>()
          attempts.push({ atMs, end })
          return end.promise
        },
      },
      version() {
        if (list.failure !== null) throw list.failure
        return '0.0'
      },
    })
    const none = { newest: null, median: null, types: [], countries: [], ages: [] }
    return {
      list,
      at: (seconds: number) => read(seconds * 1000),
      attempts: () => attempts.map(({ atMs }) => atMs / 1000),
      make() {
        const last = attempts.at(-1)
        last?.end.resolve({ ...none, rows: last.atMs / 1000 })
      },
      fail: () => attempts.at(-1)?.end.reject(new Error('no')),
    }
  }

  test('is counted once for all waiting reads, and cached for 15 seconds', async () => {
    const { at, attempts, make } = scene()
    expect(attempts()).toEqual([])
    const waiting = [at(100), at(101), at(114.999)]
    make()
    for (const { rows } of await Promise.all(waiting)) expect(rows).toBe(100)
    void at(115)
    expect(attempts()).toEqual([100, 115])
  })
})
