/** What a key looks like, how it is hashed and what of it is shown (src/access/key.ts, contract B1). */
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import {
  hashKey,
  type ListedKey,
  newKey,
  newKeyId,
  secretEnd,
  shownPrefix,
} from '../../src/access/key.ts'

const LETTERS_AND_DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const many = (make: () => string): string[] => Array.from({ length: 500 }, make)

describe('a new key', () => {
  test('is its prefix and 32 letters and digits', () => {
    for (const key of many(() => newKey('regular'))) expect(key).toMatch(/^pl_[A-Za-z0-9]{32}$/)
    for (const key of many(() => newKey('temp'))) expect(key).toMatch(/^temp_[A-Za-z0-9]{32}$/)
  })

  test('uses every letter and digit at every place about equally', () => {
    const secrets = Array.from({ length: 4000 }, () => newKey('regular').slice(3))
    const counts = new Map<string, number>()
    for (const letter of secrets.join('')) counts.set(letter, (counts.get(letter) ?? 0) + 1)
    expect([...counts.keys()].sort()).toEqual([...LETTERS_AND_DIGITS].sort())
    // 128,000 letters: 2,065 of each, standard deviation 45. A biased `byte % 62` gives the first
    // eight letters 2,500; eight deviations up or down do not happen by chance.
    for (const count of counts.values()) {
      expect(count).toBeGreaterThan(1700)
      expect(count).toBeLessThan(2430)
    }
    for (const place of [0, 15, 31]) {
      expect(new Set(secrets.map(secret => secret[place])).size).toBe(62)
    }
  })
})

describe('a public id', () => {
  test('is eight lower-case letters and digits, and is unique', () => {
    const ids = many(newKeyId)
    for (const id of ids) expect(id).toMatch(/^[a-z0-9]{8}$/)
    expect(new Set(ids).size).toBe(ids.length)
  })
})

describe('hashKey', () => {
  test('returns the 32 bytes of SHA-256 of the UTF-8 text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), key => {
        const expected = createHash('sha256').update(key, 'utf8').digest('hex')
        expect(hashKey(key)).toHaveLength(32)
        expect(Buffer.from(hashKey(key)).toString('hex')).toBe(expected)
      }),
    )
  })
})

describe('shownPrefix', () => {
  test.each([
    ['', ''],
    ['ab', ''],
    ['abc', 'a'],
    ['abcdefgh', 'ab'],
    ['abcdefghijklmnopqrstuvwx', 'abcdefgh'],
    ['pl_AbCdEfGhIjKlMnOpQrStUvWxYz012345', 'pl_AbCdE'],
    ['temp_AbCdEfGhIjKlMnOpQrStUvWxYz012345', 'temp_AbC'],
  ])('returns %j as %j', (key, shown) => {
    expect(shownPrefix(key)).toBe(shown)
  })
})

test('an old secret ends with its overlap, or earlier with its key', () => {
  const end = (expiresAt: number | null) => secretEnd(5, { expiresAt } as ListedKey)
  expect([null, 4, 6].map(end)).toEqual([5, 4, 5])
})
