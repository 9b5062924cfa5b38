/** Group commit: calls of one turn of the event loop are worked on together (src/batch.ts). */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createTurnBatch } from '../../src/lib/turn-batch.ts'

/** Resolves in a later turn of the event loop than everything queued so far. */
const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** A batcher that squares, and the batches it was given. */
function squares() {
  const batches: number[][] = []
  const square = createTurnBatch((items: readonly number[]) => {
    batches.push([...items])
    return items.map(item => item * item)
  })
  return { batches, square }
}

describe('createTurnBatch', () => {
  test('works on all items of one turn in one call, in order of arrival', async () => {
    const { batches, square } = squares()
    const results = await Promise.all([3, 1, 2].map(square))
    await nextTurn()
    expect(results).toEqual([9, 1, 4])
    expect(batches).toEqual([[3, 1, 2]])
  })

  test('joins items that arrive from different tasks of the same turn', async () => {
    const { batches, square } = squares()
    const late = async (item: number): Promise<number> => {
      await Promise.resolve()
      return square(item)
    }
    expect(await Promise.all([late(1), square(2), late(3)])).toEqual([1, 4, 9])
    expect(batches).toEqual([[2, 1, 3]])
  })

  test('works on nothing before the turn ends, and not at all when nothing came', async () => {
    const { batches, square } = squares()
    await nextTurn()
    expect(batches).toEqual([])
    const pending = square(5)
    expect(batches).toEqual([])
    expect(await pending).toBe(25)
    await nextTurn()
    expect(batches).toEqual([[5]])
  })

  test('begins a new batch with every turn', async () => {
    const { batches, square } = squares()
    await square(1)
    await Promise.all([square(2), square(3)])
    expect(batches).toEqual([[1], [2, 3]])
  })

  test('an item queued by the work itself belongs to the next batch', async () => {
    const batches: string[][] = []
    const again: Promise<string>[] = []
    const queue = createTurnBatch((items: readonly string[]): string[] => {
      batches.push([...items])
      if (items.includes('first')) again.push(queue('second'))
      return items.map(item => item.toUpperCase())
    })
    expect(await queue('first')).toBe('FIRST')
    expect(await Promise.all(again)).toEqual(['SECOND'])
    expect(batches).toEqual([['first'], ['second']])
  })

  test('settles in order of arrival', async () => {
    const { square } = squares()
    const settled: number[] = []
    await Promise.all(
      [7, 5, 6].map(async item => {
        await square(item)
        settled.push(item)
      }),
    )
    expect(settled).toEqual([7, 5, 6])
  })
})

describe('work that throws', () => {
  test('rejects every item of its batch with that very error, and no other batch', async () => {
    const failure = new Error('the disk is full')
    let broken = false
    const queue = createTurnBatch((items: readonly number[]) => {
      if (broken) throw failure
      return items
    })
    expect(await Promise.all([queue(1), queue(2)])).toEqual([1, 2])
    broken = true
    const outcomes = await Promise.allSettled([queue(3), queue(4), queue(5)])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    for (const outcome of outcomes) {
      expect(outcome.status === 'rejected' && outcome.reason === failure).toBe(true)
    }
    broken = false
    expect(await queue(6)).toBe(6)
  })
})

describe('any sequence of turns', () => {
  test('every item gets its own result, once, and batches are the turns', async () => {
    const turns = fc.array(fc.array(fc.integer(), { maxLength: 8 }), { maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(turns, async given => {
        const batches: number[][] = []
        const label = createTurnBatch((items: readonly number[]) => {
          batches.push([...items])
          return items.map((item, place) => `${batches.length}/${place}:${item}`)
        })
        const full = given.filter(items => items.length > 0)
        for (const [turn, items] of full.entries()) {
          const expected = items.map((item, place) => `${turn + 1}/${place}:${item}`)
          expect(await Promise.all(items.map(label))).toEqual(expected)
        }
        expect(batches).toEqual(full)
      }),
      { numRuns: 50 },
    )
  })
})
