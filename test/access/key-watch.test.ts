/** Holds what is remembered of replies by key: the refused of an hour. */
import { describe, expect, test } from 'bun:test'
import { createKeyWatch } from '../../src/access/key-watch.ts'
import { T0 } from '../support/fixtures.ts'

const MINUTE = 60_000

function create() {
  const watch = createKeyWatch()
  const say = (id: string, refused: number, atMs = T0): void =>
    watch.note({ keyId: id, records: 0, refused, nowMs: atMs })
  return { ...watch, say }
}

describe('refused requests', () => {
  test('are counted with all requests of their key, those refused most often first', () => {
    const { say, refused } = create()
    for (const [id, count] of [
      ['a', 0],
      ['a', 1],
      ['b', 1],
      ['b', 1],
      ['c', 0],
    ] as const)
      say(id, count)
    expect(refused(T0)).toEqual([
      { id: 'b', requests: 2, refused: 2 },
      { id: 'a', requests: 2, refused: 1 },
    ])
  })

  test('count for an hour, and 15 minutes more at most', () => {
    const { say, refused } = create()
    say('a', 1)
    say('a', 0, T0 + 59 * MINUTE)
    expect(refused(T0 + 60 * MINUTE)).toEqual([{ id: 'a', requests: 2, refused: 1 }])
    expect(refused(T0 + 75 * MINUTE)).toEqual([])
  })

  test('of a clock that was ahead do not count when it is right again', () => {
    const { say, refused } = create()
    say('a', 1, T0 + 600 * MINUTE)
    say('b', 1, T0)
    expect(refused(T0).map(({ id }) => id)).toEqual(['b'])
    say('c', 0, T0 + 600 * MINUTE)
    expect(refused(T0 + 600 * MINUTE)).toEqual([])
  })

  test('of demo are nobody’s', () => {
    const { say, refused } = create()
    say('demo', 1)
    expect(refused(T0)).toEqual([])
  })
})
