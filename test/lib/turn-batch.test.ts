/** Batches: items of one turn of the event loop are worked on together, one batch at a time. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createTurnBatch, oncePerTurn } from '../../src/lib/turn-batch.ts'

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
  test('joins items that arrive from different tasks of the same turn', async () => {
    const { batches, square } = squares()
    const late = async (item: number): Promise<number> => {
      await Promise.resolve()
      return square(item)
    }
    expect(await Promise.all([late(1), square(2), late(3)])).toEqual([1, 4, 9])
    expect(batches).toEqual([[2, 1, 3]])
  })

  test('puts an item queued by the work itself into the next batch', async () => {
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
})

test.each([
  [
    'throws',
    () => {
      throw new Error('the disk is full')
    },
  ],
  ['rejects', () => Promise.reject(new Error('the disk is full'))],
] as const)('when the work %s, all items of the batch fail', async (_, work) => {
  const queue = createTurnBatch<number, number>(work)
  const outcomes = await Promise.allSettled([queue(1), queue(2)])
  expect(outcomes.map(outcome => outcome.status === 'rejected' && String(outcome.reason))).toEqual([
    'Error: the disk is full',
    'Error: the disk is full',
  ])
})

/** A batcher whose work answers later, when a test says so; and its batches. */
function later() {
  const batches: { items: readonly number[]; resolve: () => void; reject: (e: Error) => void }[] =
    []
  let inFlight = 0
  let inFlightMax = 0
  const queue = createTurnBatch((items: readonly number[]): Promise<readonly number[]> => {
    inFlight += 1
    inFlightMax = Math.max(inFlightMax, inFlight)
    const { promise, resolve, reject } = Promise.withResolvers<readonly number[]>()
    batches.push({ items, resolve: () => resolve(items.map(item => item * item)), reject })
    return promise.finally(() => {
      inFlight -= 1
    })
  })
  return {
    queue,
    batches,
    itemsOf: () => batches.map(({ items }) => [...items]),
    inFlightMax: () => inFlightMax,
  }
}

type Action = 'queue' | 'turn' | 'resolve' | 'reject'

/** Does all actions, then ends every batch; gives the items whose batch was rejected. */
async function follow({ queue, batches }: ReturnType<typeof later>, actions: readonly Action[]) {
  const outcomes: Promise<PromiseSettledResult<number>[]>[] = []
  const rejected = new Set<number>()
  let ended = 0
  const end = (action: 'resolve' | 'reject'): void => {
    const batch = batches[ended]
    if (batch === undefined) return
    ended += 1
    if (action === 'resolve') return batch.resolve()
    for (const item of batch.items) rejected.add(item)
    batch.reject(new Error('refused'))
  }
  const actOn = {
    queue: () => void outcomes.push(Promise.allSettled([queue(outcomes.length)])),
    turn: nextTurn,
    resolve: () => end('resolve'),
    reject: () => end('reject'),
  }
  for (const action of actions) await actOn[action]()
  for (const _ of [...outcomes, 'last']) {
    await nextTurn()
    end('resolve')
    await nextTurn()
  }
  return { outcomes: (await Promise.all(outcomes)).flat(), rejected }
}

describe('any order of items, turns and answers', () => {
  const actions = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constant<Action>('queue') },
      { weight: 2, arbitrary: fc.constant<Action>('turn') },
      { weight: 2, arbitrary: fc.constant<Action>('resolve') },
      { weight: 1, arbitrary: fc.constant<Action>('reject') },
    ),
    { maxLength: 30 },
  )

  test('has one batch in flight at most; no item is lost, moved or done twice', async () => {
    await fc.assert(
      fc.asyncProperty(actions, async given => {
        const world = later()
        const { outcomes, rejected } = await follow(world, given)
        expect(world.itemsOf().flat()).toEqual([...outcomes.keys()])
        for (const [item, outcome] of outcomes.entries()) {
          expect(outcome.status).toBe(rejected.has(item) ? 'rejected' : 'fulfilled')
          if (outcome.status === 'fulfilled') expect(outcome.value).toBe(item * item)
        }
        expect(world.inFlightMax()).toBeLessThanOrEqual(1)
      }),
      { numRuns: 150 },
    )
  })
})

describe('oncePerTurn', () => {
  test('reads at most once in a turn, and again in the next', async () => {
    let reads = 0
    const read = oncePerTurn(() => {
      reads += 1
      return reads
    })
    expect([read(), read(), read()]).toEqual([1, 1, 1])
    await Promise.resolve()
    expect(read()).toBe(1)
    await nextTurn()
    expect([read(), read()]).toEqual([2, 2])
  })
})
