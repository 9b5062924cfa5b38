/** Holds what the entries of the response cache count: lookups, evictions, and their size. */
import { describe, expect, test } from 'bun:test'
import type { Answer } from '../../src/api/answer.ts'
import { createCacheEntries } from '../../src/api/response-cache.ts'

const answerOf = (bytes: number): Answer => ({
  ...{ kind: 'answer', records: 1, subnets: [] },
  chunks: [new Uint8Array(bytes)],
})

/** Entries that hold an answer of 1,000 bytes for each of these ids, right for one version. */
function holding(bytesMax: number, ids: readonly string[]) {
  const entries = createCacheEntries(bytesMax)
  for (const id of ids) {
    const content = answerOf(1000)
    entries.set(id, { content, listVersion: 'v', fromSeconds: 0, toSeconds: 10 })
  }
  return entries
}

describe('a lookup', () => {
  test('that finds what is right is a hit', () => {
    const entries = holding(2 ** 20, ['a'])
    for (let i = 0; i < 3; i += 1) entries.lookUp('a', 'v', 5)
    expect(entries.counts()).toMatchObject({ hits: 3, misses: 0 })
  })

  test.each([
    ['of what is not there', 'b', 'v', 5],
    ['of another version of the list', 'a', 'w', 5],
    ['of an answer that has grown old', 'a', 'v', 11],
  ])('%s is a miss', (_, id, version, seconds) => {
    const entries = holding(2 ** 20, ['a'])
    expect(entries.lookUp(id, version, seconds)).toBeUndefined()
    expect(entries.counts()).toMatchObject({ hits: 0, misses: 1 })
  })

  test('of what is only known to be too large is a miss: the streamer finds it', () => {
    const entries = holding(2 ** 20, [])
    entries.set('a', { content: 'too-large', listVersion: 'v', fromSeconds: 0, toSeconds: 10 })
    expect(entries.lookUp('a', 'v', 5)).toBe('too-large')
    expect(entries.counts()).toMatchObject({ hits: 0, misses: 1 })
  })
})

test('an entry that makes room is an eviction; one that is replaced is none', () => {
  const entries = holding(5000, ['a', 'b', 'b'])
  expect(entries.counts()).toMatchObject({ evictions: 0, entries: 2 })
  const { bytes } = entries.counts()
  const full = holding(5000, ['a', 'b', 'c', 'd'])
  expect(full.counts()).toEqual({
    ...{ hits: 0, misses: 0, evictions: 2, entries: 2 },
    ...{ bytes, bytesMax: 5000 },
  })
  expect(full.has('a')).toBeFalse()
})

test('the size is that of content and of what others hold for it, and never above the bound', () => {
  const entries = createCacheEntries(5000)
  const content = answerOf(1000)
  entries.set('a', { content, listVersion: 'v', fromSeconds: 0, toSeconds: 10 })
  const { bytes } = entries.counts()
  expect(bytes).toBeGreaterThan(1000)
  expect(entries.reserve('a', content, 500)).toBeTrue()
  expect(entries.counts()).toMatchObject({ bytes: bytes + 500, entries: 1, evictions: 0 })
  expect(entries.reserve('a', content, 5000)).toBeFalse()
  expect(entries.counts().bytes).toBe(bytes + 500)
})
