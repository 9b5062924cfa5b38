/** Slots for streams (contract B9), on timers fired by hand. */
import { describe, expect, test } from 'bun:test'
import { ApiError } from '../../../src/api/errors.ts'
import { createStreamSlots, type Release } from '../../../src/sqlite/proxies/stream-slots.ts'

const WAIT_MS = 20_000

function createWorld(total = 64) {
  const timers = new Set<() => void>()
  const slots = createStreamSlots({
    total,
    later(run, ms) {
      expect(ms).toBe(WAIT_MS)
      timers.add(run)
      return () => timers.delete(run)
    },
  })
  return {
    timers,
    refuseWaiting: slots.refuseWaiting,
    /** Fires the timers of all requests that wait. */
    async timeOut(): Promise<void> {
      for (const run of timers) {
        timers.delete(run)
        run()
      }
      await Bun.sleep(0)
    },
    /** Asks for a slot; `state` says what came of it so far. */
    ask(key: string, limit: number | null = 4) {
      const asked: { state: 'waits' | 'has' | ApiError; release: Release } = {
        ...({ state: 'waits', release() {} } as const),
      }
      Promise.try(async () => slots.acquire(key, limit)).then(
        release => Object.assign(asked, { state: 'has', release }),
        (error: unknown) => Object.assign(asked, { state: error }),
      )
      return asked
    },
  }
}
type Asked = ReturnType<ReturnType<typeof createWorld>['ask']>

async function statesOf(...asked: Asked[]): Promise<string> {
  await Bun.sleep(0)
  return asked.map(({ state }) => (state instanceof ApiError ? state.code : state)).join(' ')
}

test('a key has at most its limit; a further request gets the first slot that is released', async () => {
  const { ask } = createWorld()
  const four = [1, 2, 3, 4].map(() => ask('a'))
  const fifth = ask('a')
  const other = ask('b')
  expect(await statesOf(...four, fifth, other)).toBe('has has has has waits has')
  four[2]?.release()
  expect(await statesOf(fifth)).toBe('has')
})

test('a key without a limit may have all slots', async () => {
  const { ask } = createWorld(3)
  expect(await statesOf(...[1, 2, 3, 4].map(() => ask('a', null)))).toBe('has has has waits')
})

test('a changed limit counts for the next request', async () => {
  const { ask } = createWorld()
  const all = [4, 4, 4, 4, 5, 5].map(limit => ask('a', limit))
  expect(await statesOf(...all)).toBe('has has has has has waits')
})

test('all keys together have at most the total, first come first served', async () => {
  const { ask } = createWorld(2)
  const [a, b] = [ask('a', 1), ask('b', 1)]
  const waiting = [ask('a', 1), ask('c', 1), ask('b', 1)]
  expect(await statesOf(a, b, ...waiting)).toBe('has has waits waits waits')
  b.release() // the first that waits is at its limit
  expect(await statesOf(...waiting)).toBe('waits has waits')
  a.release()
  expect(await statesOf(...waiting)).toBe('has has waits')
})

test('a slot is released once', async () => {
  const { ask } = createWorld(1)
  const [first, second] = [ask('a'), ask('b')]
  await statesOf(first)
  first.release()
  first.release()
  const third = ask('c')
  expect(await statesOf(second, third)).toBe('has waits')
})

describe('after 20 seconds', () => {
  test('a request that waits for its key’s own slots gets 429', async () => {
    const { ask, timeOut } = createWorld()
    const all = [ask('a', 1), ask('a', 1)]
    await statesOf()
    await timeOut()
    expect(all[1]?.state).toMatchObject({
      code: 'RATE_LIMIT_EXCEEDED',
      context: { retryAfterSeconds: 1 },
      message: 'at most 1 long answer at once; retry after 1 s',
    })
  })

  test('a request that waits because all slots are taken gets 503', async () => {
    const { ask, timeOut } = createWorld(1)
    const all = [ask('a'), ask('b')]
    await statesOf()
    await timeOut()
    expect(all[1]?.state).toMatchObject({
      code: 'DB_EXECUTE_FAILED',
      context: { retryAfterSeconds: 1 },
    })
  })

  test('a refused request takes no slot, and a request with a slot is not refused', async () => {
    const { ask, timeOut, timers } = createWorld(1)
    const [first, refused] = [ask('a'), ask('b')]
    await statesOf()
    await timeOut()
    const next = ask('c')
    await statesOf()
    first.release()
    expect(await statesOf(refused, next)).toBe('DB_EXECUTE_FAILED has')
    expect(timers.size).toBe(0)
  })
})

test('when the server stops, waiting requests and later ones get 503', async () => {
  const { ask, refuseWaiting } = createWorld(2)
  const held = [ask('a', 1), ask('b')]
  const waiting = [ask('a', 1), ask('c')]
  await statesOf()
  refuseWaiting()
  const late = ask('d')
  expect(await statesOf(...held, ...waiting, late)).toBe(
    'has has DB_EXECUTE_FAILED DB_EXECUTE_FAILED DB_EXECUTE_FAILED',
  )
  held[0]?.release()
  expect(await statesOf(ask('d'))).toBe('has')
})
