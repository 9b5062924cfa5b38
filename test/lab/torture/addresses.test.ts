/** Which bucket a client is counted in (contract B7), against the oracle of the torture run. */
import { describe, expect, test } from 'bun:test'
import { checkCombinations, clientOf, v4 } from './addresses.ts'

describe('peers, X-Forwarded-For and trusted ranges in combination', () => {
  const { changed, wrong, kinds, buckets } = checkCombinations(7, 2000)

  test('give the bucket that the oracle names', () => expect(wrong).toEqual([]))
  test('leave an untrusted peer in its bucket', () => expect(changed).toEqual([]))
  test('are of every kind', () => {
    for (const count of [buckets, ...Object.values(kinds)]) expect(count).toBeGreaterThan(50)
  })
})

test('the oracle finds the right-most address that is not trusted', () => {
  const means = (...octets: number[]) => ({ text: '', means: v4(...octets) })
  const ranges = [{ text: '10.0.0.0/8', base: v4(10, 0, 0, 0), bits: 104 }]
  const entries = [means(203, 0, 113, 9), means(198, 51, 100, 7), means(10, 0, 0, 2)]
  const client = (peer: ReturnType<typeof means>) => clientOf({ ranges, peer, entries })
  expect(client(means(10, 0, 0, 1))).toBe(v4(198, 51, 100, 7))
  expect(client(means(192, 0, 2, 1))).toBe(v4(192, 0, 2, 1))
})
