/** Maps with a bound keep the last used or added entries, and doorkeepers know repeated keys. */
import { expect, test } from 'bun:test'
import { createBoundedMap, createDoorkeeper, createFifoMap } from '../../src/lib/bounded-map.ts'

test('a map holds as many entries as its bound: the last used ones', () => {
  const left: string[] = []
  const map = createBoundedMap<number, string>(3, value => left.push(value))
  for (const key of [1, 2, 3]) map.set(key, `value ${key}`)
  map.get(1)
  for (const key of [4, 5]) map.set(key, `value ${key}`)
  expect([1, 2, 3, 4, 5].filter(key => map.has(key))).toEqual([1, 4, 5])
  expect(left).toEqual(['value 2', 'value 3'])
})

test('a map may be bounded by the sizes of its entries', () => {
  const map = createBoundedMap<string, number[]>(6, undefined, ({ length }) => 1 + length)
  map.set('a', [1]).set('b', [1, 2])
  expect([...map.keys()].sort()).toEqual(['a', 'b'])
  map.set('b', [1, 2, 3, 4])
  expect([...map.keys()]).toEqual(['b'])
})

test('a FIFO map holds the entries that were added last', () => {
  const map = createFifoMap<number, string>(2)
  for (const key of [1, 2, 1, 3]) map.set(key, `value ${key}`)
  expect([1, 2, 3].map(map.get)).toEqual([undefined, 'value 2', 'value 3'])
  map.clear()
  expect(map.get(3)).toBeUndefined()
})

test('a doorkeeper knows a key from its second time on', () => {
  const isRepeated = createDoorkeeper()
  const keys = ['', 'a', 'b', 'ключ', 'x'.repeat(5000)]
  expect(keys.filter(isRepeated)).toEqual([])
  expect(keys.filter(isRepeated)).toEqual(keys)
  expect(keys.filter(isRepeated)).toEqual(keys)
})

test('a doorkeeper knows nearly all of many keys that are asked for in turn', () => {
  const isRepeated = createDoorkeeper()
  const keys = Array.from({ length: 30_000 }, (_, n) => `/api?key=${n}`)
  expect(keys.filter(isRepeated).length).toBeLessThan(3)
  expect(keys.filter(isRepeated).length).toBeGreaterThan(0.97 * keys.length)
})
