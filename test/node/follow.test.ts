/** When a node asks the database, what it copies first, and when it may not answer: all by hand. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { StoreError } from '../../src/lib/errors.ts'
import {
  ASK_AGAIN_MS,
  ASK_EVERY_MS,
  createFollower,
  createFreshness,
  FEW_ROWS_MAX,
  type Followed,
  UNKNOWN_MS_MAX,
} from '../../src/node/follow.ts'
import type { ChangeSource, Copies, ListChanges, Version } from '../../src/node/ports.ts'

const at = (version: number, mark = `m${version}`, database = 'db'): Version => ({
  ...{ database, version, mark },
})

let nowMs = 0
let timers: { run: () => void; at: number }[] = []
let done: string[] = []
let said: Followed[] = []
/** Where the database stands, and the copies. */
let newest = { list: at(0), keys: at(0) }
let own: { list: Version | null; keys: Version | null } = { list: null, keys: null }
let failure: Error | null = null
/** Rows that the next reading of the list finds changed. */
let size = 1
/** What asking, and reading the list, wait for. */
let held: { ask?: Promise<void>; read?: Promise<void> } = {}
/** Ends copying much. */
let much: PromiseWithResolvers<void> | null = null

beforeEach(() => {
  nowMs = 0
  timers = []
  done = []
  said = []
  newest = { list: at(0), keys: at(0) }
  own = { list: null, keys: null }
  failure = null
  size = 1
  held = {}
  much = null
})

async function* nothing(): AsyncGenerator<never> {}

const source: ChangeSource = {
  async versions() {
    done.push('ask')
    await held.ask
    if (failure !== null) throw failure
    return newest
  },
  async readList(since, apply) {
    done.push(`read list ${since?.version ?? 'whole'}`)
    await held.read
    const changes: ListChanges = {
      ...{ isWhole: since === null, since, to: newest.list, size, cities: [] },
      ...{ removed: nothing(), rows: nothing() },
    }
    return apply(changes)
  },
  async readKeys(since) {
    done.push(`read keys ${since?.version ?? 'whole'}`)
    return { isWhole: since === null, since, to: newest.keys, plans: [], removed: [], keys: [] }
  },
}

const copies: Copies = {
  dir: 'data',
  list: {
    version: () => own.list,
    async apply({ to }) {
      done.push(`list ${to.version}`)
      own.list = to
    },
  },
  keys: {
    version: () => own.keys,
    apply({ to }) {
      done.push(`keys ${to.version}`)
      own.keys = to
    },
  },
}

const knows = { kind: 'known', keysAgeMs: 0, listAgeMs: 0, listVersion: 4 } as const
const failed = { kind: 'failed', what: 'keys', message: 'away' } as const
const freshness = (): ReturnType<typeof createFreshness> => createFreshness(() => nowMs)

function start(fresh = freshness()) {
  return createFollower({
    ...{ source, copies, elapsedMs: () => nowMs },
    copyMuch() {
      done.push('copy much')
      much = Promise.withResolvers<void>()
      return much.promise
    },
    onFollowed(followed) {
      said.push(followed)
      fresh.take(followed)
    },
    later(run, ms) {
      const timer = { run, at: nowMs + ms }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  })
}

async function passTurns(): Promise<void> {
  for (let i = 0; i < 30; i += 1) await Promise.resolve()
}
async function pass(ms: number): Promise<void> {
  nowMs += ms
  const due = timers.filter(timer => timer.at <= nowMs)
  timers = timers.filter(timer => timer.at > nowMs)
  for (const { run } of due) run()
  await passTurns()
}
/** What was done since the last call. */
const doneNow = (): string[] => done.splice(0)
/** A follower that has copied all there was. */
async function started(fresh?: ReturnType<typeof freshness>) {
  const follower = start(fresh)
  await passTurns()
  doneNow()
  return follower
}

describe('a node', () => {
  test('copies keys first, then the list, whole when it has no copy', async () => {
    start()
    await passTurns()
    expect(doneNow()).toEqual([
      ...['ask', 'read keys whole', 'keys 0', 'read list whole', 'list 0'],
      'ask', // once more: what came meanwhile would wait for a second
    ])
  })

  test('asks every second, and copies nothing while nothing has changed', async () => {
    await started()
    await pass(ASK_EVERY_MS - 1)
    expect(doneNow()).toBeEmpty()
    await pass(1)
    expect(doneNow()).toEqual(['ask'])
    await pass(ASK_EVERY_MS)
    expect(doneNow()).toEqual(['ask'])
  })

  test('asks at once when a change is announced, and copies what has changed since its version', async () => {
    const { wake } = await started()
    newest = { list: at(7), keys: at(3) }
    wake()
    await passTurns()
    expect(doneNow()).toEqual(['ask', 'read keys 0', 'keys 3', 'read list 0', 'list 7', 'ask'])
  })

  test('asks once more when something is announced while it is asking', async () => {
    const { wake } = await started()
    wake()
    wake()
    wake()
    await passTurns()
    expect(doneNow()).toEqual(['ask', 'ask'])
  })

  test('copies again when a version of the same number is another one: a failover lost it', async () => {
    const { wake } = await started()
    newest = { list: at(0, 'other'), keys: at(0, 'other') }
    wake()
    await passTurns()
    expect(doneNow()).toContain('read list 0')
    expect(own).toEqual(newest)
  })

  /** Stops a node that waits for an answer to its asking, or for the list; all that it then does. */
  async function stopWhile(waiting: 'ask' | 'read'): Promise<string[]> {
    const { stop } = start()
    await passTurns()
    const { promise, resolve } = Promise.withResolvers<void>()
    held = { [waiting]: promise }
    newest = { ...newest, list: at(1) }
    doneNow()
    await pass(ASK_EVERY_MS)
    let hasStopped = false
    const stopped = stop().then(() => {
      hasStopped = true
    })
    await passTurns()
    expect(hasStopped).toBeFalse()
    resolve()
    await stopped
    await pass(ASK_EVERY_MS)
    return doneNow()
  }

  test('asks no more once it stops, and waits for what it is copying', async () => {
    expect(await stopWhile('read')).toEqual(['ask', 'read list 0', 'list 1'])
    expect(own).toEqual(newest)
    expect(timers).toEqual([])
  })

  test('begins to copy nothing once it stops, whatever it hears from the database then', async () => {
    expect(await stopWhile('ask')).toEqual(['ask'])
  })

  test('does not begin to copy much when it is stopped while it reads how much there is', async () => {
    size = FEW_ROWS_MAX + 1
    own = { list: at(0), keys: at(0) }
    expect(await stopWhile('read')).toEqual(['ask', 'read list 0'])
  })

  for (const what of ['list', 'keys'] as const) {
    test(`keeps its ${what} and knows nothing when another database is there, until that is the right one or the copy is removed`, async () => {
      const copy = at(0, 'm0', 'other')
      for (const mend of [() => (newest = { list: copy, keys: copy }), () => (own[what] = null)]) {
        newest = { list: at(0), keys: at(0) }
        own = { list: null, keys: null, [what]: copy }
        const fresh = freshness()
        const { wake, stop } = start(fresh)
        await passTurns()
        expect(doneNow()).toEqual(['ask'])
        expect(said.at(-1)).toMatchObject({
          ...{ kind: 'failed', what: 'keys' },
          message: expect.stringMatching(
            /^it is another database than the copies in data are of: /,
          ),
        })
        expect([fresh.listVersion(), fresh.problem()]).toEqual([
          ...[null, 'the database was not reached yet'],
        ])
        mend()
        wake()
        await passTurns()
        expect(fresh.problem()).toBeNull()
        await stop()
        doneNow()
      }
    })
  }
})

describe('the copy of a list', () => {
  test('is known to be the newest by asking', async () => {
    const fresh = freshness()
    start(fresh)
    await passTurns()
    await pass(ASK_EVERY_MS)
    expect(fresh.lagSeconds()).toBe(0)
  })

  test('is as old as when its copying began, though imports follow each other', async () => {
    const fresh = freshness()
    start(fresh)
    await passTurns()
    newest = { list: at(1), keys: at(0) }
    const reading = Promise.withResolvers<void>()
    held.read = reading.promise
    await pass(ASK_EVERY_MS) // it begins to copy
    await pass(3 * ASK_EVERY_MS)
    expect(fresh.lagSeconds()).toBe(4)
    held.ask = new Promise(() => {})
    reading.resolve()
    await passTurns()
    expect([fresh.listVersion(), fresh.lagSeconds()]).toEqual([1, 3])
  })
})

describe('a node that has much to copy, or cannot', () => {
  test('follows keys while much of the list is copied, and copies it once', async () => {
    size = FEW_ROWS_MAX + 1
    const fresh = freshness()
    const { wake } = start(fresh)
    await passTurns()
    expect(doneNow()).toEqual(['ask', 'read keys whole', 'keys 0', 'read list whole', 'copy much'])
    for (const version of [1, 2, 3]) {
      newest.keys = at(version)
      wake()
      await passTurns()
      expect(doneNow()).toEqual(['ask', `read keys ${version - 1}`, `keys ${version}`])
    }
    expect(fresh.problem()).toBe('the list was not copied yet')
    nowMs += 9_000
    own.list = newest.list
    much?.resolve()
    await passTurns()
    expect(doneNow()).toEqual(['ask'])
    expect(fresh.problem()).toBeNull()
  })

  test('tries again a second after copying much has failed', async () => {
    size = FEW_ROWS_MAX + 1
    start()
    await passTurns()
    much?.reject(new StoreError('the disk is full'))
    await passTurns()
    expect(said.at(-1)).toMatchObject({ kind: 'failed', message: 'the disk is full' })
    doneNow()
    await pass(ASK_EVERY_MS)
    expect(doneNow()).toEqual(['ask', 'read list whole', 'copy much'])
  })

  test('waits twice as long after each further copy that fails, half a minute at most', async () => {
    size = FEW_ROWS_MAX + 1
    start()
    await passTurns()
    const pauses: number[] = []
    for (let n = 0; n < 7; n += 1) {
      much?.reject(new StoreError('the disk is full'))
      await passTurns()
      doneNow()
      let seconds = 0
      while (!doneNow().includes('copy much')) {
        await pass(ASK_EVERY_MS)
        seconds += 1
      }
      pauses.push(seconds)
    }
    expect(pauses).toEqual([1, 2, 4, 8, 16, 30, 30])
  })

  test('asks four times a second, not more often, while the database fails', async () => {
    failure = new StoreError('away')
    const { wake } = start()
    await passTurns()
    expect(doneNow()).toEqual(['ask'])
    await pass(ASK_AGAIN_MS - 1)
    expect(doneNow()).toBeEmpty()
    await pass(1)
    expect(doneNow()).toEqual(['ask'])
    failure = null
    wake()
    await passTurns()
    expect(doneNow()).toContain('keys 0')
  })
})

describe('a node answers', () => {
  test('nobody before it has reached the database', () => {
    const fresh = freshness()
    expect(fresh.problem()).toBe('the database was not reached yet')
    fresh.take(failed)
    expect(fresh.problem()).toBe('the database was not reached yet')
    fresh.take(knows)
    expect(fresh.problem()).toBeNull()
  })

  test('nobody when it could not ask for 5 s, and again once it can', () => {
    const fresh = freshness()
    fresh.take(knows)
    nowMs += UNKNOWN_MS_MAX
    fresh.take(failed)
    expect(fresh.problem()).toBeNull()
    nowMs += 1
    expect(fresh.problem()).toBe('the database was not reached for 5 s')
    fresh.take(knows)
    expect(fresh.problem()).toBeNull()
  })

  test('nobody when asking took so long that what it heard is 5 s old', () => {
    const fresh = freshness()
    nowMs += 10_000
    fresh.take({ ...knows, keysAgeMs: UNKNOWN_MS_MAX + 1 })
    expect(fresh.problem()).toBe('the database was not reached for 5 s')
  })
})

describe('a node is known', () => {
  test('with an old list while a newer one is copied; its lag grows', () => {
    const fresh = freshness()
    fresh.take(knows)
    for (let n = 0; n < 10; n += 1) {
      nowMs += 1_000
      fresh.take({ ...knows, listAgeMs: null })
    }
    expect(fresh.problem()).toBeNull()
    expect([fresh.lagSeconds(), fresh.listVersion()]).toEqual([10, 4])
    fresh.take({ kind: 'known', keysAgeMs: null, listAgeMs: 400, listVersion: 5 })
    expect([fresh.lagSeconds(), fresh.listVersion()]).toEqual([0.4, 5])
  })

  test('with its list while the copy cannot be opened for a moment: a worker is writing it', () => {
    const fresh = freshness()
    fresh.take(knows)
    fresh.take({ ...knows, listAgeMs: null, listVersion: null })
    expect([fresh.problem(), fresh.listVersion()]).toEqual([null, 4])
  })

  test('with a lag that counts from the start while nothing is known', () => {
    const fresh = freshness()
    nowMs += 3_000
    expect([fresh.lagSeconds(), fresh.listVersion()]).toEqual([3, null])
  })
})
