/**
 * Holds when statistics are made (contract F4), counted by calls and with a clock moved by hand: only
 * when somebody asks, one at a time, at most every 15 seconds.
 */
import { describe, expect, test } from 'bun:test'
import { createStatsCache } from '../../src/proxies/stats-cache.ts'

/** A cache of numbered statistics, which are made when the test says so. */
function createScene() {
  const attempts: { atMs: number; end: ReturnType<typeof Promise.withResolvers<string>> }[] = []
  const scene = { version: '0.0', failure: null as Error | null }
  const read = createStatsCache<string>(
    atMs => {
      const end = Promise.withResolvers<string>()
      attempts.push({ atMs, end })
      return end.promise
    },
    () => {
      if (scene.failure !== null) throw scene.failure
      return scene.version
    },
  )
  const settled = () => new Promise(resolve => setImmediate(resolve))
  return {
    scene,
    /** Reads at this second. */
    at: (seconds: number) => read(seconds * 1000),
    attempts: () => attempts.map(({ atMs }) => atMs / 1000),
    /** Ends the last attempt, with statistics that are called after its instant. */
    async make() {
      const last = attempts.at(-1)
      last?.end.resolve(`made at ${last.atMs / 1000}`)
      await settled()
    },
    async fail(why = 'no') {
      attempts.at(-1)?.end.reject(new Error(why))
      await settled()
    },
  }
}

/** What is read fails with. */
const rejection = (read: unknown): Promise<string> => Promise.resolve(read).then(String, String)

/** One whose statistics were made at 0 s. */
async function createMade() {
  const all = createScene()
  void all.at(0)
  await all.make()
  expect(all.at(0)).toBe('made at 0')
  return all
}

describe('statistics', () => {
  test('are not made while nobody asks', () => {
    expect(createScene().attempts()).toEqual([])
  })

  test('are made at the first request, which waits; others at the same time wait for the same', async () => {
    const { at, attempts, make } = createScene()
    const waiting = [at(0), at(0), at(3)]
    for (const each of waiting) expect(each).toBeInstanceOf(Promise)
    expect(attempts()).toEqual([0])
    await make()
    expect(await Promise.all(waiting)).toEqual(['made at 0', 'made at 0', 'made at 0'])
  })

  test('are made once for 10,000 requests in a second', async () => {
    const { at, attempts, scene } = await createMade()
    for (let n = 0; n < 10_000; n += 1) {
      scene.version = `0.${n}`
      expect(at(n / 10_000)).toBe('made at 0')
    }
    expect(attempts()).toEqual([0])
  })

  test('stay for 15 seconds, also when the list changes', async () => {
    const { scene, at, attempts } = await createMade()
    scene.version = '0.1'
    expect(at(14.999)).toBe('made at 0')
    expect(attempts()).toEqual([0])
  })

  test('of a changed list are made again after 15 seconds; the former ones are served meanwhile', async () => {
    const { scene, at, attempts, make } = await createMade()
    scene.version = '0.1'
    expect([at(15), at(16), at(40)]).toEqual(['made at 0', 'made at 0', 'made at 0'])
    expect(attempts()).toEqual([0, 15])
    await make()
    expect(at(40)).toBe('made at 15')
    expect(attempts()).toEqual([0, 15])
  })
})

describe('statistics that are to be made again', () => {
  test('of a list that changed while they were made are of the version before', async () => {
    const { scene, at, attempts, make } = createScene()
    void at(0)
    scene.version = '0.1'
    await make()
    void at(15)
    expect(attempts()).toEqual([0, 15])
  })

  test('of an unchanged list are made again after a minute: its ages have moved', async () => {
    const { at, attempts, make } = await createMade()
    expect(at(59.999)).toBe('made at 0')
    expect(attempts()).toEqual([0])
    expect(at(60)).toBe('made at 0')
    await make()
    expect([at(60), attempts()]).toEqual(['made at 60', [0, 60]])
  })

  test('older than two minutes are not served: requests wait for newer ones', async () => {
    const { at, make } = await createMade()
    expect(at(119)).toBe('made at 0')
    const waiting = at(120)
    expect(waiting).toBeInstanceOf(Promise)
    await make()
    expect(await waiting).toBe('made at 119')
  })

  test('of the future, as seen by a clock that was set back, are made again', async () => {
    const { at, attempts, make } = await createMade()
    const waiting = at(-3600)
    await make()
    expect([await waiting, at(-3599), attempts()]).toEqual([
      'made at -3600',
      'made at -3600',
      [0, -3600],
    ])
  })
})

describe('a failure', () => {
  test('is that of all who wait, and there is no new attempt for a second', async () => {
    const { at, attempts, fail, make } = createScene()
    const waiting = [at(0), at(0)]
    const outcomes = Promise.allSettled(waiting)
    await fail('the worker has died')
    for (const outcome of await outcomes) expect(outcome).toMatchObject({ status: 'rejected' })
    for (let n = 0; n < 1000; n += 1) {
      expect(await rejection(at(n / 1000))).toBe('Error: the worker has died')
    }
    expect(attempts()).toEqual([0])
    const next = at(1)
    await make()
    expect([await next, attempts()]).toEqual(['made at 1', [0, 1]])
  })

  test('leaves the former statistics, until they are two minutes old', async () => {
    const { scene, at, attempts, fail } = await createMade()
    scene.version = '0.1'
    for (const seconds of [15, 17, 119]) {
      expect(at(seconds)).toBe('made at 0')
      await fail()
      expect(at(seconds + 0.5)).toBe('made at 0')
    }
    expect(attempts()).toEqual([0, 15, 17, 119])
    const outcome = rejection(at(120))
    expect(attempts()).toEqual([0, 15, 17, 119, 120])
    await fail('still not')
    expect(await outcome).toBe('Error: still not')
  })

  test('before anything could be awaited counts as one, too', async () => {
    let attempts = 0
    const read = createStatsCache<string>(
      () => {
        attempts += 1
        throw new Error('no thread is left')
      },
      () => '',
    )
    expect(await rejection(read(0))).toBe('Error: no thread is left')
    await new Promise(resolve => setImmediate(resolve))
    expect(await rejection(read(5000))).toBe('Error: no thread is left')
    expect(attempts).toBe(2)
  })

  test('of the list is one of all requests: nothing of a damaged list is shown', async () => {
    const { scene, at, attempts } = await createMade()
    scene.failure = new Error('the list is damaged')
    expect(() => at(1)).toThrow('the list is damaged')
    expect(() => at(3600)).toThrow('the list is damaged')
    expect(attempts()).toEqual([0])
  })
})
