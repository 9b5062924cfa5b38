/**
 * Slots for long answers (src/sqlite/proxies/downloads.ts, contract B8, B9), on a clock moved by hand; and
 * their leases over all servers on a data directory, also those that are killed: real locks on real files.
 */
import { describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import type { Tenant } from '../../../src/access/entitlements.ts'
import { ApiError } from '../../../src/api/errors.ts'
import {
  createLeases,
  createSemaphore,
  type SemaphoreOptions,
  type Slot,
  type TakeLease,
} from '../../../src/sqlite/proxies/downloads.ts'
import { onCleanUp, temporaryDirectory } from '../../support/temporary.ts'

const key = (id: string, downloads: number | null = 4): Tenant => ({
  id,
  isTrial: false,
  downloads,
})
const address = (id: string, downloads: number | null = 1): Tenant => ({
  ...{ id, isTrial: true, downloads },
})

const WAIT_MS = 20_000

/** What servers on one data directory may have together. */
function countLeases(): TakeLease {
  const counts = new Map<string, number>()
  return ({ id, downloads }) => {
    const count = counts.get(id) ?? 0
    if (downloads !== null && count >= downloads) return null
    counts.set(id, count + 1)
    return () => void counts.set(id, (counts.get(id) ?? 0) - 1)
  }
}

/** The pools of two servers on one data directory, and their timers. */
function createPool(slots = 64, takeLease = countLeases()) {
  let nowMs = 0
  const timers = new Set<{ run: () => void; atMs: number }>()
  const options: SemaphoreOptions = {
    slots,
    what: 'long answer',
    takeLease,
    waitMsMax: WAIT_MS,
    elapsedMs: () => nowMs,
    later(run, ms) {
      const timer = { run, atMs: nowMs + ms }
      timers.add(timer)
      return () => timers.delete(timer)
    },
  }
  const servers = [createSemaphore(options), createSemaphore(options)]
  return {
    nowMs: () => nowMs,
    timers,
    refuseWaiting: () => servers[0]?.refuseWaiting(),
    /** Asks for a slot; what came of it so far is in `state`. */
    ask(tenant: Tenant, server = 0) {
      const asked: { state: 'waits' | 'has' | ApiError; slot: Slot | null; atMs: number } = {
        ...({ state: 'waits', slot: null, atMs: Number.NaN } as const),
      }
      Promise.try(async () => servers[server]?.acquire(tenant)).then(
        slot => Object.assign(asked, { state: 'has', slot, atMs: nowMs }),
        (error: unknown) => Object.assign(asked, { state: error, atMs: nowMs }),
      )
      return asked
    },
    /** Lets so much time pass, timer by timer. */
    async pass(ms: number): Promise<void> {
      const endMs = nowMs + ms
      for (;;) {
        for (let n = 0; n < 4; n += 1) await null
        const due = [...timers].filter(({ atMs }) => atMs <= endMs)
        const [next] = due.sort((a, b) => a.atMs - b.atMs)
        if (next === undefined) break
        timers.delete(next)
        nowMs = next.atMs
        next.run()
      }
      nowMs = endMs
    },
  }
}
type Pool = ReturnType<typeof createPool>

/** Fills slots with answers whose readers are as idle as `idleMs` says; counts those ended. */
async function fill(pool: Pool, keys: number, each: number, idleMs: () => number) {
  const ended: string[] = []
  for (let n = 0; n < keys * each; n += 1) {
    const id = `key ${n % keys}`
    const asked = pool.ask(key(id, each))
    await pool.pass(0)
    const sinceMs = pool.nowMs()
    asked.slot?.send({
      idleMs,
      ageMs: () => pool.nowMs() - sinceMs,
      end() {
        ended.push(id)
        asked.slot?.release()
      },
    })
  }
  return ended
}

const refusalOf = ({ state }: ReturnType<Pool['ask']>) => {
  if (!(state instanceof ApiError)) throw new Error(`it ${state}`)
  return [state.code, state.context]
}

describe('a key', () => {
  test('has at most `downloads` long answers; a further one waits its turn', async () => {
    const pool = createPool()
    const four = Array.from({ length: 4 }, () => pool.ask(key('a')))
    const fifth = pool.ask(key('a'))
    await pool.pass(3_000)
    expect([...four, fifth].map(({ state }) => state).join(' ')).toBe('has has has has waits')
    four[2]?.slot?.release()
    await pool.pass(0)
    expect([fifth.state, fifth.atMs]).toEqual(['has', 3_000])
  })

  test('with a changed plan is counted by the new limit', async () => {
    const pool = createPool()
    for (let n = 0; n < 4; n += 1) pool.ask(key('a'))
    const more = pool.ask(key('a', 5))
    const toMany = pool.ask(key('a', 5))
    await pool.pass(0)
    expect([more.state, toMany.state]).toEqual(['has', 'waits'])
  })

  test('cannot have more than some requests wait, and keeps none of another from beginning', async () => {
    const pool = createPool()
    const asked = Array.from({ length: 100 }, () => pool.ask(key('a')))
    const other = pool.ask(key('other'))
    await pool.pass(0)
    expect([other.state, other.atMs]).toEqual(['has', 0])
    const states = Map.groupBy(asked, ({ state }) => (typeof state === 'string' ? state : '429'))
    expect([...states].map(([state, all]) => [state, all.length])).toEqual([
      ['has', 4],
      ['waits', 64],
      ['429', 32],
    ])
  })
})

test('no more than 1,000 requests wait in all', async () => {
  const pool = createPool(1)
  pool.ask(key('first'))
  const asked = Array.from({ length: 1_010 }, (_, n) => pool.ask(key(`key ${n % 20}`)))
  await pool.pass(0)
  expect(asked.filter(({ state }) => state === 'waits')).toHaveLength(1_000)
})

describe('when all slots are taken', () => {
  test('a free one goes to the key that has least, then to the one that waits longest', async () => {
    const pool = createPool(4)
    const held = [0, 1, 2].map(() => pool.ask(key('a')))
    held.push(pool.ask(key('b')))
    const waiting = new Map<string, ReturnType<Pool['ask']>>()
    for (const id of ['a', 'b', 'd', 'c']) {
      waiting.set(id, pool.ask(key(id)))
      await pool.pass(1)
    }
    const order: string[] = []
    for (const { slot } of held) {
      slot?.release()
      await pool.pass(0)
      for (const [id, { state }] of waiting) {
        if (state !== 'has') continue
        order.push(id)
        waiting.delete(id)
      }
    }
    expect(order).toEqual(['d', 'c', 'a', 'b'])
  })

  test('by slow readers, a slow one of the key that has most is ended at once', async () => {
    const pool = createPool()
    const ended = await fill(pool, 16, 4, () => 6_000)
    const other = pool.ask(key('other'))
    await pool.pass(0)
    expect([other.state, other.atMs]).toEqual(['has', 0])
    expect(ended).toHaveLength(1)
  })

  test('by readers that become slow, one is ended within a second of that', async () => {
    const pool = createPool()
    let idleMs = 0
    await fill(pool, 16, 4, () => idleMs)
    const other = pool.ask(key('other'))
    await pool.pass(3_500)
    expect(other.state).toBe('waits')
    idleMs = 2_000
    await pool.pass(1_000)
    expect(other.state).toBe('has')
  })

  test('by readers that become slow, everybody who has none gets one within a second', async () => {
    const pool = createPool()
    let idleMs = 0
    const ended = await fill(pool, 16, 4, () => idleMs)
    const others = Array.from({ length: 20 }, (_, n) => pool.ask(key(`other ${n}`)))
    await pool.pass(5_000)
    expect(ended).toEqual([])
    idleMs = 2_500
    await pool.pass(1_000)
    expect(others.map(({ state }) => state)).toEqual(others.map(() => 'has'))
    expect(ended).toHaveLength(20)
  })

  test('by fast readers of the key that has most, a slow one of another is ended', async () => {
    const pool = createPool(7)
    await fill(pool, 1, 4, () => 100)
    const slow = Array.from({ length: 3 }, () => pool.ask(key('slow')))
    await pool.pass(0)
    for (const { slot } of slow) {
      slot?.send({ idleMs: () => 2_500, ageMs: () => 3_000, end: () => slot.release() })
    }
    const other = pool.ask(key('other'))
    await pool.pass(0)
    expect(other.state).toBe('has')
  })

  test('by fast readers, those of the last minute are left alone', async () => {
    const pool = createPool()
    const ended = await fill(pool, 16, 4, () => 100)
    const other = pool.ask(key('other'))
    await pool.pass(WAIT_MS)
    expect(ended).toEqual([])
    expect(refusalOf(other)).toEqual(['DB_EXECUTE_FAILED', { retryAfterSeconds: 1 }])
    await pool.pass(60_000)
    const later = pool.ask(key('other'))
    await pool.pass(1_000)
    expect([later.state, ended.length]).toEqual(['has', 1])
  })

  test('evenly, nobody is ended', async () => {
    const pool = createPool(8)
    const ended = await fill(pool, 8, 1, () => 60_000)
    const other = pool.ask(key('other'))
    await pool.pass(19_999)
    expect([other.state, ended.length]).toEqual(['waits', 0])
  })
})

describe('a refusal says whose limit was reached, and how many that is', () => {
  const CASES: readonly (readonly [
    what: string,
    held: readonly Tenant[],
    asks: Tenant,
    says: string,
  ])[] = [
    [
      ...(['of a key', [key('a', 2), key('a', 2)], key('a', 2)] as const),
      'this key may have 2 long answers under way at once; retry after 1 s',
    ],
    [
      ...(['of an address', [address('1')], address('1')] as const),
      'the demo and temporary keys of an address may have 1 long answer under way at once; retry after 1 s',
    ],
    [
      ...(['of all addresses', ['1', '2', '3', '4'].map(id => address(id)), address('5')] as const),
      'all demo and temporary keys may have 4 long answers under way at once; retry after 1 s',
    ],
    [
      ...(['of all, without a limit of an address', Array(4).fill(address('1', null))] as const),
      address('2', null),
      'all demo and temporary keys may have 4 long answers under way at once; retry after 1 s',
    ],
    [
      ...(['of a key without a limit, which has all', Array(4).fill(key('a', null))] as const),
      key('a', null),
      'this key may have 4 long answers under way at once; retry after 1 s',
    ],
    [
      ...(['of all keys', Array(4).fill(key('a', null)), key('b')] as const),
      'too many long answers are under way; try again shortly',
    ],
  ]
  test.each(CASES)('%s', async (_, held, asks, says) => {
    const pool = createPool(4)
    const first = held.map(tenant => pool.ask(tenant))
    const refused = pool.ask(asks)
    await pool.pass(WAIT_MS)
    expect(first.map(({ state }) => state)).toEqual(held.map(() => 'has'))
    const code = says.endsWith('try again shortly') ? 'DB_EXECUTE_FAILED' : 'RATE_LIMIT_EXCEEDED'
    expect(refused.state).toMatchObject({ message: says, code })
  })
})

describe('on two servers, a key', () => {
  test('has at most `downloads` long answers together, and a further one as soon as one ends', async () => {
    const pool = createPool()
    const four = [0, 1, 0, 1].map(server => pool.ask(key('a'), server))
    const fifth = pool.ask(key('a'), 1)
    const other = pool.ask(key('b'), 1)
    await pool.pass(3_000)
    expect(four.map(({ state }) => state)).toEqual(['has', 'has', 'has', 'has'])
    expect([fifth.state, other.state, other.atMs]).toEqual(['waits', 'has', 0])
    four[0]?.slot?.release() // on the other one
    await pool.pass(100)
    expect(fifth.state).toBe('has')
    expect(pool.ask(key('a'), 0).state).toBe('waits')
  })

  test('is refused with 429 after 20 s, and nothing is left of it', async () => {
    const pool = createPool()
    const four = Array.from({ length: 4 }, () => pool.ask(key('a'), 0))
    const fifth = pool.ask(key('a'), 1)
    await pool.pass(WAIT_MS - 1)
    expect(fifth.state).toBe('waits')
    await pool.pass(1)
    expect(refusalOf(fifth)).toEqual(['RATE_LIMIT_EXCEEDED', { retryAfterSeconds: 1 }])
    await pool.pass(1_000)
    expect(pool.timers.size).toBe(0)
    for (const { slot } of four) slot?.release()
    const next = pool.ask(key('a'), 1)
    await pool.pass(0)
    expect([next.state, next.atMs]).toEqual(['has', pool.nowMs()])
  })

  test('that waits for another server does not keep others from a free slot', async () => {
    const pool = createPool(2)
    for (let n = 0; n < 2; n += 1) pool.ask(key('a', 2), 0)
    const blocked = pool.ask(key('a', 2), 1)
    await pool.pass(50)
    const others = ['b', 'c'].map(id => pool.ask(key(id), 1))
    await pool.pass(0)
    expect([blocked, ...others].map(({ state }) => state)).toEqual(['waits', 'has', 'has'])
  })
})

test('what cannot be counted is refused, and nothing is left of it', async () => {
  const refusal = new ApiError('DB_EXECUTE_FAILED', 'it cannot be counted')
  let isFailing = true
  const pool = createPool(1, () => {
    if (isFailing) throw refusal
    return () => {}
  })
  const first = pool.ask(key('a'))
  await pool.pass(0)
  expect(first.state).toBe(refusal)
  isFailing = false
  const [second, third] = [pool.ask(key('a')), pool.ask(key('b'))]
  await pool.pass(0)
  isFailing = true
  second.slot?.release()
  await pool.pass(2_000)
  expect([third.state, pool.timers.size]).toEqual([refusal, 0])
})

test('a slot is released once, and nothing is left of it', async () => {
  const pool = createPool(1)
  const [one, two] = [pool.ask(key('a')), pool.ask(key('b'))]
  await pool.pass(0)
  one.slot?.release()
  one.slot?.release()
  const three = pool.ask(key('c'))
  await pool.pass(0)
  expect([two.state, three.state]).toEqual(['has', 'waits'])
  two.slot?.release()
  await pool.pass(2_000)
  expect([three.state, pool.timers.size]).toEqual(['has', 0])
})

test('when the server stops, what waits is refused with 503, and what would wait too', async () => {
  const pool = createPool(2)
  const [one, other] = [pool.ask(key('a')), pool.ask(key('b'))]
  const waiting = [pool.ask(key('a')), pool.ask(key('c'))]
  await pool.pass(0)
  pool.refuseWaiting()
  const late = pool.ask(key('d'))
  await pool.pass(0)
  for (const asked of [...waiting, late]) {
    expect(refusalOf(asked)).toEqual(['DB_EXECUTE_FAILED', { retryAfterSeconds: 1 }])
  }
  expect([one.state, other.state]).toEqual(['has', 'has'])
  one.slot?.release()
  const free = pool.ask(key('d')) // it need not wait
  await pool.pass(0)
  expect(free.state).toBe('has')
})

const tenant = (id: string, downloads: number | null, isTrial = false): Tenant => ({
  ...{ id, isTrial, downloads },
})

test('servers on one data directory have at most `downloads` together, of each key', () => {
  const dir = temporaryDirectory()
  const [one, two] = [createLeases(dir), createLeases(dir)]
  const four = [one, two, one, two].map(({ take }) => take(tenant('k', 4)))
  expect(four).not.toContain(null)
  for (const { take } of [one, two]) expect(take(tenant('k', 4))).toBeNull()
  expect(one.take(tenant('other', 1))).not.toBeNull()
  four[1]?.()
  four[1]?.() // once
  const again = one.take(tenant('k', 4))
  expect([again === null, two.take(tenant('k', 4))]).toEqual([false, null])
  one.close()
  two.close()
})

test('a key without a limit is not counted', () => {
  const dir = temporaryDirectory()
  const { take } = createLeases(dir)
  for (let n = 0; n < 99; n += 1) expect(take(tenant('k', null))).not.toBeNull()
  expect(readdirSync(dir)).toEqual([])
})

test('an address and a key of the same name are counted apart', () => {
  const { take, close } = createLeases(temporaryDirectory())
  const ids = [tenant('::1', 1), tenant('::1', 1, true), tenant('2001:db8::/64', 1, true)]
  for (const one of ids) expect(take(one)).not.toBeNull()
  for (const one of ids) expect(take(one)).toBeNull()
  close()
})

test('no file is left when answers end, and none says whose they are', () => {
  const dir = temporaryDirectory()
  const { take, close } = createLeases(dir)
  const ends = ['203.0.113.9', '2001:db8:1:2::/64'].map(id => take(tenant(id, 2, true)))
  const files = readdirSync(dir).filter(name => !name.endsWith('-journal')) // of SQLite
  expect(files).toHaveLength(2)
  for (const file of files) expect(file).toMatch(/^answer-[0-9a-z]{5,}-0\.lock$/)
  for (const end of ends) end?.()
  expect(readdirSync(dir)).toEqual([])
  take(tenant('k', 1))
  close()
  expect(readdirSync(dir)).toEqual([])
})

/** A server in a process of its own that has one long answer of a tenant. */
async function startOther(dir: string, held: Tenant) {
  const path = `${import.meta.dir}/../../../src/sqlite/proxies/downloads.ts`
  const script = `
    import { createLeases } from ${JSON.stringify(path)}
    const leases = createLeases(${JSON.stringify(dir)})
    leases.take(${JSON.stringify(held)})
    console.log('has it')
    setInterval(() => leases, 1000)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  onCleanUp(() => child.kill('SIGKILL'))
  await child.stdout.getReader().read()
  return child
}

test('what a killed server had is free at once, and its files are removed at the next start', async () => {
  const dir = temporaryDirectory()
  const { take, close } = createLeases(dir)
  const [a, b] = [tenant('a', 1), tenant('b', 1)]
  const others = [await startOther(dir, a), await startOther(dir, b)]
  expect([take(a), take(b)]).toEqual([null, null])
  for (const child of others) child.kill('SIGKILL')
  await Promise.all(others.map(({ exited }) => exited))
  const locks = () => readdirSync(dir).filter(name => name.endsWith('.lock'))
  expect([take(a) === null, locks().length]).toEqual([false, 2])
  const next = createLeases(dir) // takes nothing from a server that runs
  expect([next.take(a), locks().length]).toEqual([null, 1])
  close()
  expect(readdirSync(dir)).toEqual([])
})

test('what cannot be counted, because no file can be made, is refused', () => {
  const dir = temporaryDirectory()
  const { take } = createLeases(dir)
  rmSync(dir, { recursive: true })
  expect(() => take(tenant('k', 1))).toThrow(ApiError)
  mkdirSync(dir)
  expect(take(tenant('k', 1))).not.toBeNull()
})
