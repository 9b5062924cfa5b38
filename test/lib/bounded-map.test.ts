/** A FIFO map keeps the last added entries, and a doorkeeper knows repeated keys. */
import { expect, test } from 'bun:test'
import { createDoorkeeper, createFifoMap } from '../../src/lib/bounded-map.ts'

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

test('a doorkeeper knows nearly all of many keys that are requested in turn', () => {
  const isRepeated = createDoorkeeper()
  const keys = Array.from({ length: 30_000 }, (_, n) => `/api?key=${n}`)
  expect(keys.filter(isRepeated).length).toBeLessThan(3)
  expect(keys.filter(isRepeated).length).toBeGreaterThan(0.97 * keys.length)
})
