/** Sets of types with their ages, and that the order of imports makes no difference to them (contract D2). */
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { nextTurn } from '../../src/lib/errors.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import { bestOf, mergeTypes, typeBits, typesOf } from '../../src/proxies/types.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { T0 } from '../support/fixtures.ts'
import { at, load, NOW } from '../support/incoming.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const DAY = 86_400
const [HTTP, SOCKS5] = [typeBits(['http']), typeBits(['socks5'])]

test('the best type is the best requested type, or else the best of all', () => {
  expect(typesOf(typeBits(['http', 'socks5', 'https']))).toEqual(['socks5', 'https', 'http'])
  expect(bestOf(HTTP + SOCKS5)).toBe('socks5')
  expect(bestOf(HTTP + SOCKS5, HTTP)).toBe('http')
  expect(bestOf(HTTP, SOCKS5)).toBe('http')
})

test('a type is dropped when it was last named more than a day before the newest check', () => {
  const since = (seconds: number) => typesOf(mergeTypes(HTTP, NOW, SOCKS5, NOW + seconds))
  expect(since(DAY)).toEqual(['socks5', 'http'])
  expect(since(DAY + 60)).toEqual(['socks5'])
  expect(since(-DAY)).toEqual(['socks5', 'http'])
  expect(since(-DAY - 60)).toEqual(['http'])
})

test('ages do not drift, however often an address is checked', () => {
  let [types, newest] = [HTTP, NOW]
  for (; newest < NOW + DAY; newest += 59) types = mergeTypes(types, newest, SOCKS5, newest + 59)
  expect(typesOf(mergeTypes(types, newest, SOCKS5, NOW + DAY))).toEqual(['socks5', 'http'])
  expect(typesOf(mergeTypes(types, newest, SOCKS5, NOW + DAY + 60))).toEqual(['socks5'])
})

/** Rows of few addresses, types and times, some of them days apart. */
const someFile = fc.array(
  fc
    .record({
      host: fc.integer({ min: 1, max: 3 }),
      types: fc.integer({ min: 1, max: 15 }),
      ago: fc.constantFrom(0, 1, 59, 61, 3600, DAY - 60, DAY, DAY + 60, 2 * DAY),
    })
    .map(({ host, types, ago }) => at(host, { types, checkedAt: NOW - ago })),
  { maxLength: 6 },
)

async function listOf(files: readonly (readonly IncomingProxy[])[]) {
  using list = openList(null, { clock: () => T0 })
  for (const file of files) await load(list, file)
  const rows = list.db.query('select id, checked_at, types from proxies order by id')
  return rows.values()
}

test('property: files in any order, any number of times, give the same list', async () => {
  const property = fc.asyncProperty(
    fc.array(someFile, { minLength: 1, maxLength: 5 }),
    fc.infiniteStream(fc.nat()),
    async (files, numbers) => {
      const pick = (): number => numbers.next().value
      const again = [...files, ...files.filter(() => pick() % 2 === 0)]
      const shuffled = again.toSorted(() => (pick() % 2) - 0.5)
      expect(await listOf(shuffled)).toEqual(await listOf(files))
    },
  )
  await fc.assert(property, { numRuns: 200 })
})

test('two feeds that share an address leave its row unchanged when imported again', async () => {
  const dir = temporaryDirectory()
  using list = openList(dir, { clock: () => T0 })
  using other = openList(dir)
  const sources = [
    [at(1, { types: HTTP, checkedAt: NOW - 100 })],
    [at(1, { types: SOCKS5, checkedAt: NOW - 3700 })],
  ]
  for (const source of sources) await load(list, source)
  const versionNow = async () => {
    await nextTurn()
    return other.proxies.version()
  }
  const version = await versionNow()
  for (const source of sources) {
    expect(await load(list, source)).toMatchObject({ added: 0, updated: 0, unchanged: 1 })
  }
  expect(await versionNow()).toBe(version)
  const changes = { updated: 1, unchanged: 0 }
  const checked = [at(1, { types: HTTP, checkedAt: NOW })]
  expect(await load(list, checked, 'set')).toMatchObject(changes)
  const found = () => list.db.query('select types & 15 from proxies').values()
  expect(found()).toEqual([[HTTP]])
  expect(await load(list, sources[1] ?? [])).toMatchObject(changes)
  expect(found()).toEqual([[HTTP + SOCKS5]])
  expect(await load(list, checked, 'replace')).toMatchObject(changes)
  expect(found()).toEqual([[HTTP]])
})
