/**
 * Tests of the checker: contract H2 (failures that count), H3 (writes), H4 and H5, sentence by sentence. The queue, the
 * store and the loop are real; the proxies, the judge, the list and the time are fakes.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import type { CheckerOptions } from '../../src/checker/checker.ts'
import type { SelfCheck } from '../../src/checker/ports.ts'
import { StoreError } from '../../src/lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { parseAddress } from '../../src/proxies/proxy.ts'
import { idOf } from '../../src/proxies/row.ts'
import { typeBits } from '../../src/proxies/types.ts'
import { checkerStatusIn, openCandidates } from '../../src/sqlite/candidates.ts'
import { openCheckerList } from '../../src/sqlite/checker-list.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { addList, T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { alive, createWorld, dead } from './world.ts'

afterAll(cleanUp)

type World = ReturnType<typeof createWorld>

/** A world with these addresses, never checked. */
function worldOf(addresses: readonly string[], options: Partial<CheckerOptions> = {}): World {
  const world = createWorld(options)
  addRaw(world, addresses)
  return world
}

function addRaw({ checker }: Pick<World, 'checker'>, addresses: readonly string[]): number {
  return checker.add(
    addresses.map(text => {
      const address = parseAddress(text)
      if (address === null) throw new Error(text)
      return { ...address, types: 0, works: null, checkedAt: 0 }
    }),
  )
}

/** Addresses in different networks. */
const spread = (count: number, first = 0): string[] =>
  Array.from({ length: count }, (_, n) => `${1 + ((n + first) >> 8)}.${(n + first) & 255}.0.1:80`)

/** Runs the checker; `stop` ends it. */
function start(world: World) {
  const stopping = new AbortController()
  const run = world.checker.run(stopping.signal)
  return {
    ...world,
    world,
    run,
    async stop(): Promise<void> {
      stopping.abort()
      await world.time.pass(3 * SECOND_MS)
      await run
    },
    /** Simulates SIGKILL: the checker writes nothing more. */
    kill(): void {
      world.list.failure = new StoreError('killed')
      stopping.abort()
    },
  }
}

const A = '1.2.3.4:80'
const DEFERRED = { kind: 'deferred', why: 'no route', attempts: [], bytes: 0 } as const
const find = ({ store }: World, address: string) => {
  const parsed = parseAddress(address)
  return parsed && store.find(idOf(parsed))
}

describe('the list', () => {
  test('gets a raw address only at its first success', async () => {
    const world = worldOf([A])
    world.answer = () => dead()
    const { list, time, stop } = start(world)
    await time.pass(2 * MINUTE_MS)
    expect(world.begun).toHaveLength(1)
    expect(list.rows.size).toBe(0)
    expect(find(world, A)).toMatchObject({ queue: 'raw', streak: 1, okAtMs: null })
    world.answer = () =>
      alive({ type: 'socks5', anon: 'anonymous', because: 'via', ipOut: '5.6.7.8' })
    await time.pass(5 * MINUTE_MS)
    expect(list.row(A)).toMatchObject({
      ...{ types: typeBits(['socks5']), anon: 'anonymous', ipOut: '5.6.7.8', pingMs: 100 },
      ...{ speed: null, country: '', city: '', servicesStated: new Set() },
    })
    expect(find(world, A)).toMatchObject({ queue: 'living', named: typeBits(['socks5']) })
    await stop()
  })

  test('gets a fresh row only by a success; a failure only lowers works', async () => {
    const world = createWorld()
    world.list.put({ address: A, ageSeconds: 60, works: 80, country: 'DE' })
    world.answer = () => dead()
    const { list, time, stop } = start(world)
    await time.pass(5 * MINUTE_MS)
    const row = list.row(A)
    expect(row).toMatchObject({ checkedAt: T0 / 1000 - 60, country: 'DE' })
    expect(row?.works).toBeLessThan(70)
    world.answer = () => alive()
    await time.pass(5 * MINUTE_MS)
    expect(list.row(A)?.checkedAt).toBeGreaterThan(T0 / 1000 + 250)
    await stop()
  })

  test('is read again once a minute, for rows of other writers', async () => {
    const world = createWorld()
    const { list, time, store, stop } = start(world)
    await time.pass(10 * SECOND_MS)
    list.put({ address: A, ageSeconds: 0 })
    list.put({ address: '2.2.2.2:80', ageSeconds: 700 })
    await time.pass(40 * SECOND_MS)
    expect(store.counts()).toEqual({ living: 0, down: 0, raw: 0 })
    await time.pass(20 * SECOND_MS)
    expect(store.counts()).toEqual({ living: 2, down: 0, raw: 0 })
    expect(world.begun.map(({ address }) => address)).toEqual(['2.2.2.2:80']) // it was down
    await stop()
  })
})

describe('a check measures', () => {
  const requestsIn = (world: World) => world.begun.map(({ request }) => request)

  test('the known type first, from the last success or from the file', async () => {
    const world = createWorld()
    world.checker.add([
      { ip: '1.2.3.4', port: 80, types: typeBits(['socks4']), works: null, checkedAt: 0 },
    ])
    world.answer = () => alive({ type: 'https' })
    const { time, stop } = start(world)
    await time.pass(3 * MINUTE_MS)
    expect(requestsIn(world).map(({ known }) => known)).toEqual(['socks4', 'https'])
    await stop()
  })

  test('speed of working proxies, services and TLS at most every 6 h', async () => {
    const world = worldOf([A], { sliceMs: SECOND_MS })
    const attempt = { type: 'http', purpose: 'speed', result: 'ok', ms: 9, detail: '' } as const
    world.answer = ({ wantsSpeed, wantsServices, wantsTls }) => ({
      ...alive({
        ...(wantsServices && { services: { smtp: false } }),
        ...(wantsTls && { hasTls: true }),
      }),
      attempts: wantsSpeed ? [attempt] : [],
    })
    const { time, stop } = start(world)
    await time.pass(6 * HOUR_MS + 10 * MINUTE_MS)
    for (const what of ['wantsSpeed', 'wantsServices', 'wantsTls'] as const) {
      const times = world.begun.filter(({ request }) => request[what]).map(({ at }) => at)
      expect(times).toHaveLength(2)
      const gapMs = (times[1] ?? 0) - (times[0] ?? 0)
      expect(gapMs).toBeWithin(6 * HOUR_MS, 6 * HOUR_MS + 3 * MINUTE_MS)
      // Of the living: not at the first success.
      expect(times[0] === world.begun[0]?.at).toBe(what !== 'wantsSpeed')
    }
    await stop()
  })

  test('speed within a daily budget, also across restarts', async () => {
    const world = createWorld({ speedBytesADay: 1_000_000, sliceMs: SECOND_MS })
    world.time.step(10 * HOUR_MS)
    world.checker = world.create() // at ten in the evening
    addRaw(world, spread(10))
    world.answer = ({ wantsSpeed }) => ({ ...alive(), bytes: wantsSpeed ? 300_000 : 600 })
    const asked = () => world.begun.filter(({ request }) => request.wantsSpeed).length
    const first = start(world)
    await world.time.pass(30 * MINUTE_MS)
    expect(asked()).toBe(3)
    await first.stop()
    world.checker = world.create()
    const second = start(world)
    await world.time.pass(80 * MINUTE_MS)
    expect(asked()).toBe(3)
    await world.time.pass(20 * MINUTE_MS) // it is the next day
    expect(asked()).toBe(6)
    await second.stop()
  })
})

test('an address is removed when this run must not check it', async () => {
  const world = worldOf(['10.0.0.1:80', A])
  world.checker = world.create({ accepts: ({ ip }) => ip !== '10.0.0.1' })
  const { time, stop } = start(world)
  await time.pass(5 * SECOND_MS)
  await stop()
  expect(world.begun.map(({ address }) => address)).toEqual([A])
  expect(find(world, '10.0.0.1:80')).toBeNull()
  expect(world.status?.queues).toEqual({ living: 1, down: 0, raw: 0 })
})

describe('the queue', () => {
  test('removes an address after 14 days or 20 failures, one that worked after a week', async () => {
    const world = worldOf([A], { perSecond: 1, sliceMs: MINUTE_MS })
    world.list.put({ address: '2.2.2.2:80', ageSeconds: 0 })
    world.answer = () => dead()
    const { time, store, list, stop } = start(world)
    await time.pass(5 * DAY_MS)
    expect(store.counts()).toEqual({ living: 0, down: 1, raw: 1 })
    list.rows.clear() // too old
    await time.pass(4 * DAY_MS)
    expect(store.counts()).toEqual({ living: 0, down: 0, raw: 0 })
    await stop()
  })

  test('reports once that the rate is too low, with the needed rate', async () => {
    const world = createWorld({ perSecond: 2 })
    for (const address of spread(600)) world.list.put({ address, ageSeconds: 100 })
    const { time, said, stop } = start(world)
    await time.pass(5 * SECOND_MS)
    const sentence = 'the rate of 2/s cannot keep the 600 living fresh: 4/s would'
    expect(said).toEqual([sentence])
    expect(world.status).toMatchObject({ neededRate: 4, queues: { living: 600 }, coverage: 1 })
    for (const address of spread(100, 600)) world.list.put({ address, ageSeconds: 100 })
    await time.pass(70 * SECOND_MS)
    expect(world.status).toMatchObject({ queues: { living: 700 } })
    expect(said).toEqual([sentence])
    await stop()
  })
})

/** The largest number of these times within `ms` milliseconds. */
const mostWithin = (times: readonly number[], ms: number): number =>
  Math.max(0, ...times.map(from => times.filter(at => at >= from && at < from + ms).length))

describe('the start of checks', () => {
  test('follows the rate evenly, up to the limit in flight', async () => {
    const world = worldOf(spread(2000), { perSecond: 50, inFlightMax: 100 })
    const { time, stop } = start(world)
    await time.pass(20 * SECOND_MS)
    const times = world.begun.map(({ at }) => at)
    expect(times.length).toBeWithin(940, 1001)
    expect(mostWithin(times, 250)).toBeLessThanOrEqual(13)
    world.takesMs = () => 10 * SECOND_MS
    await time.pass(9 * SECOND_MS)
    expect([...world.inFlight.values()].reduce((sum, n) => sum + n)).toBe(100)
    await stop()
  })

  /** 200 addresses of one network. */
  const CROWD = Array.from({ length: 200 }, (_, n) => `9.9.${n % 20}.1:${80 + Math.floor(n / 20)}`)
  const isOfCrowd = ({ address }: { address: string }): boolean => address.startsWith('9.9.')

  test('is limited to 2 a second in a /16, which does not delay other networks', async () => {
    const world = worldOf(CROWD)
    await world.time.pass(SECOND_MS)
    addRaw(world, spread(100))
    const { time, stop } = start(world)
    await time.pass(10 * SECOND_MS)
    expect(world.begun.filter(check => !isOfCrowd(check))).toHaveLength(100)
    await time.pass(100 * SECOND_MS)
    const times = world.begun.filter(isOfCrowd).map(({ at }) => at)
    expect(new Set(world.begun.map(({ address }) => address)).size).toBe(300)
    expect(mostWithin(times, SECOND_MS)).toBe(2)
    await stop()
  })

  test('waits while 8 checks of a /16 or 2 of an address are in flight', async () => {
    const world = worldOf([...CROWD, ...Array.from({ length: 50 }, (_, n) => `8.8.8.8:${80 + n}`)])
    world.takesMs = () => 30 * SECOND_MS
    const most = { network: 0, address: 0 }
    const { time, stop } = start(world)
    for (let n = 0; n < 240; n += 1) {
      await time.pass(500)
      const open = [...world.inFlight].flatMap(([address, count]) => (count > 0 ? [address] : []))
      const at = (start: string): number => open.filter(address => address.startsWith(start)).length
      most.network = Math.max(most.network, at('9.9.'))
      most.address = Math.max(most.address, at('8.8.8.8:'))
    }
    expect(most).toEqual({ network: 8, address: 2 })
    await stop()
  })
})

describe('a failed check', () => {
  const LIVING = spread(600)

  /** Creates living proxies, causes trouble, and returns how many rows were lowered. */
  async function lowered(
    trouble: (world: World) => Promise<void>,
    options: Partial<CheckerOptions> = {},
  ): Promise<{ lowered: number; world: World }> {
    const world = createWorld({ perSecond: 5, ...options })
    for (const address of LIVING) world.list.put({ address, ageSeconds: 300, works: 90 })
    const { time, list, stop } = start(world)
    await time.pass(35 * SECOND_MS)
    const before = world.begun.length
    list.lowered = 0
    await trouble(world)
    expect(world.begun.length).toBeGreaterThan(before)
    await stop()
    return { lowered: list.lowered, world }
  }
  const OK: SelfCheck = { ok: true, runsForMs: DAY_MS }
  const away = (problem: string) => (): SelfCheck => ({ ok: false, problem })

  test('counts after a later self-check succeeds', async () => {
    const { lowered: rows } = await lowered(async world => {
      world.answer = () => dead('refused')
      await world.time.pass(5 * MINUTE_MS)
    })
    expect(rows).toBeGreaterThan(50)
  })

  test.each([
    ['the judge does not answer', 'the judge does not answer: connection refused'],
    ['the certificate of the judge has ended', 'the certificate of the judge has ended'],
    ['the clock of the judge is wrong', 'the clock of the judge is an hour off'],
  ])('lowers no row while %s: no check starts, and it is reported once', async (_, problem) => {
    const { lowered: rows, world } = await lowered(async world => {
      world.judge = away(problem)
      world.answer = () => dead('proxy error')
      await world.time.pass(MINUTE_MS)
      const begun = world.begun.length
      await world.time.pass(10 * MINUTE_MS)
      expect(world.begun).toHaveLength(begun)
      expect(world.status?.judgeProblem).toMatchObject({ sentence: problem })
      world.judge = () => OK
      world.answer = () => alive()
      await world.time.pass(MINUTE_MS)
    })
    expect(rows).toBe(0)
    expect(world.said).toEqual([
      `${problem}; nothing is checked meanwhile`,
      'the judge answers again',
    ])
    expect(world.status?.judgeProblem).toBeNull()
    expect(world.status?.deferred).toBeGreaterThan(0)
    expect(world.begun.at(-1)?.at).toBeGreaterThan(11 * MINUTE_MS)
  })

  test('lowers no row when the judge restarted between two self-checks', async () => {
    const { lowered: rows, world } = await lowered(async world => {
      world.takesMs = () => 4 * SECOND_MS
      await world.time.pass(5 * SECOND_MS)
      const restartMs = world.time.elapsedMs()
      world.judge = () => ({ ok: true, runsForMs: world.time.elapsedMs() - restartMs })
      world.answer = (_, beganMs) => (beganMs < restartMs ? dead('proxy error') : alive())
      await world.time.pass(2 * MINUTE_MS)
    })
    expect(rows).toBe(0)
    expect(world.status?.deferred).toBeGreaterThan(10)
  })

  test('does not count when it was in flight while the judge was away', async () => {
    const { lowered: rows, world } = await lowered(async world => {
      world.takesMs = () => 14 * SECOND_MS
      await world.time.pass(20 * SECOND_MS)
      const awayMs = world.time.elapsedMs()
      world.judge = away('the judge does not answer')
      await world.time.pass(8 * SECOND_MS)
      world.judge = () => OK
      world.answer = (_, beganMs) => (beganMs < awayMs + 8000 ? dead('no answer') : alive())
      await world.time.pass(2 * MINUTE_MS)
    })
    expect(rows).toBe(0)
    expect(world.status?.deferred).toBeGreaterThan(10)
  })

  test('waits for a self-check, which runs at start and every 30 s', async () => {
    const world = createWorld()
    const { time, stop } = start(world)
    await time.pass(119 * SECOND_MS)
    expect(world.selfChecks).toBe(4)
    await stop()
  })

  test('with a local failure lowers no row, and is repeated', async () => {
    const { lowered: rows, world } = await lowered(async world => {
      world.answer = () => ({ ...DEFERRED, why: 'no descriptor is left' })
      await world.time.pass(MINUTE_MS)
      expect(world.status?.deferred).toBeGreaterThan(50)
      world.answer = () => alive()
      await world.time.pass(15 * SECOND_MS)
      expect(world.begun.filter(({ at }) => at > 95 * SECOND_MS).length).toBeGreaterThan(20)
    })
    expect(rows).toBe(0)
    expect(world.said[0]).toBe('checks are deferred: no descriptor is left')
  })

  test.each([
    [400, true],
    [900, false],
  ])('during a lag of %d ms counts: %p', async (ms, counts) => {
    const { lowered: rows } = await lowered(async world => {
      world.takesMs = () => 6 * SECOND_MS
      await world.time.pass(5 * SECOND_MS)
      world.answer = () => dead()
      for (let n = 0; n < 60; n += 1) {
        world.time.stall(ms)
        await world.time.pass(5 * SECOND_MS)
      }
    })
    expect(rows > 0).toBe(counts)
  })

  test('during a lag writes no ping', async () => {
    const world = createWorld()
    world.list.put({ address: A, ageSeconds: 700, pingMs: 50 })
    world.takesMs = () => 900
    const { time, list, stop } = start(world)
    await time.pass(1200)
    time.stall(400)
    await time.pass(5 * SECOND_MS)
    expect(list.row(A)?.checkedAt).toBeGreaterThanOrEqual(T0 / 1000)
    expect(list.row(A)?.pingMs).toBe(50)
    await time.pass(5 * MINUTE_MS)
    expect(list.row(A)?.pingMs).toBe(100)
    await stop()
  })
})

describe('a running checker', () => {
  test('reports a failure of the list, and writes the results when it works again', async () => {
    const world = worldOf(spread(100))
    const { time, list, said, store, stop } = start(world)
    list.failure = new StoreError('proxies.db is locked by another process')
    await time.pass(10 * SECOND_MS)
    expect([list.rows.size, store.counts().living]).toEqual([0, 0])
    expect(said[0]).toBe('proxies.db is locked by another process')
    list.failure = null
    await time.pass(2 * SECOND_MS)
    expect([list.rows.size, store.counts().living]).toEqual([100, 100])
    await stop()
  })

  test('continues while an import has locked the list, up to 5,000 results', async () => {
    const world = worldOf(spread(20_000), { perSecond: 1000, inFlightMax: 5000, sliceMs: 50 })
    const { time, list, stop } = start(world)
    const { promise, resolve } = Promise.withResolvers<void>()
    list.locked = promise
    await time.pass(30 * SECOND_MS)
    expect(list.rows.size).toBe(0)
    expect(world.begun.length).toBeWithin(5000, 6000)
    list.locked = null
    resolve()
    await time.pass(5 * SECOND_MS)
    expect(list.rows.size).toBeGreaterThan(5000)
    await stop()
  })

  test('repeats after a kill only checks in flight and of the last second', async () => {
    const world = worldOf(spread(1000))
    world.answer = ({ address }) => (parseInt(address.ip.slice(2), 10) % 2 === 0 ? alive() : dead())
    const { time, kill } = start(world)
    await time.pass(20_500)
    const before = world.begun.length
    kill()
    await time.pass(SECOND_MS)
    world.list.failure = null
    world.checker = world.create()
    const again = start(world)
    await time.pass(20 * SECOND_MS)
    const first = new Set(world.begun.slice(0, before).map(({ address }) => address))
    const repeated = world.begun.slice(before).filter(({ address }) => first.has(address))
    expect(first.size).toBeGreaterThan(350)
    expect(repeated.length).toBeLessThanOrEqual(20 + 6)
    await again.stop()
  })

  test('waits for an import when it stops, and then writes all results', async () => {
    const world = worldOf(spread(2_000), { perSecond: 200 })
    const { time, said, list, store, run, stop } = start(world)
    const { promise, resolve } = Promise.withResolvers<void>()
    list.locked = promise
    await time.pass(8 * SECOND_MS)
    const stopped = stop()
    await time.pass(5 * SECOND_MS)
    expect([list.rows.size, said]).toEqual([
      0,
      ['writing the last results once the import has ended'],
    ])
    resolve()
    await stopped
    await run
    expect(list.rows.size).toBeGreaterThan(1_000)
    expect(store.counts().living).toBe(list.rows.size)
  })

  test.each([
    ['back by a day', -DAY_MS],
    ['ahead by a day', DAY_MS],
  ])('keeps its delays when the clock of the machine is set %s', async (_, ms) => {
    const world = worldOf(spread(50), { sliceMs: SECOND_MS })
    const { time, stop, list } = start(world)
    /** How many begin in a quarter of an hour in which the clock is set, or is not. */
    async function begun(isSet: boolean): Promise<number> {
      const before = world.begun.length
      for (let n = 0; n < 15; n += 1) {
        await time.pass(MINUTE_MS)
        if (isSet && n === 5) time.step(ms)
      }
      return world.begun.length - before
    }
    await begun(false)
    const usual = await begun(false)
    expect(await begun(true)).toBeWithin(usual - 30, usual + 30)
    const newest = Math.max(...Array.from(list.rows.values(), ({ checkedAt }) => checkedAt))
    expect(newest).toBeGreaterThanOrEqual(time.clock() / 1000 - 60)
    await stop()
  })
})

describe('a run with --once', () => {
  /** Runs to the end; returns how often each address was checked. */
  async function runOnce(world: World): Promise<Map<string, number>> {
    const run = world.checker.run(new AbortController().signal)
    let hasEnded = false
    void run.then(() => {
      hasEnded = true
    })
    for (let n = 0; n < 1000 && !hasEnded; n += 1) await world.time.pass(SECOND_MS)
    expect(hasEnded).toBeTrue()
    const times = new Map<string, number>()
    for (const { address } of world.begun) times.set(address, (times.get(address) ?? 0) + 1)
    return times
  }

  test('ends when each due address was checked once', async () => {
    const world = createWorld({ once: true, perSecond: 50 })
    const raw = [...spread(500), ...Array.from({ length: 40 }, (_, n) => `9.9.9.${n}:80`)]
    addRaw(world, raw)
    world.list.put({ address: '7.7.7.7:80', ageSeconds: 9000 })
    world.list.put({ address: '6.6.6.6:80', ageSeconds: 10 }) // not due
    world.answer = ({ address }) => (address.ip.endsWith('.9') ? dead() : alive())
    const times = await runOnce(world)
    expect([...times.keys()].sort()).toEqual([...raw, '7.7.7.7:80'].sort())
    expect(Math.max(...times.values())).toBe(1)
    expect(world.time.elapsedMs()).toBeLessThan(40 * SECOND_MS)
    expect(world.status).toMatchObject({ checked: 541, alive: 540, failures: { timeout: 1 } })
    expect(world.list.rows.size).toBe(541)
  })
})

test('with files, results reach the list and candidates survive a restart', async () => {
  const dir = temporaryDirectory()
  const addresses = spread(30)
  addList(dir, [{ ip: A, type: 'http', age: 700, works: 60, country: 'de' }])
  /** Checks for 45 seconds from here, with all in files. */
  async function check(fromSeconds: number): Promise<World> {
    using checks = openCandidates(dir)
    const list = openCheckerList(dir, () => T0)
    const world = createWorld({ store: checks, status: checks.status, list })
    world.answer = ({ address }) => (address.ip.endsWith('.4') ? dead() : alive({ speed: 7000 }))
    world.time.step(fromSeconds * SECOND_MS)
    world.checker = world.create()
    addRaw(world, addresses)
    const { stop } = start(world)
    await world.time.pass(45 * SECOND_MS)
    await stop()
    list.close()
    return world
  }
  const checked = async (fromSeconds: number) =>
    new Set((await check(fromSeconds)).begun.map(({ address }) => address)).size
  expect([await checked(0), await checked(50)]).toEqual([31, 1]) // pauses hold
  using list = openList(dir, { isReader: true })
  const rows = list.db.query('select id, checked_at, works, speed, ping_ms, country from proxies')
  const found = new Map((rows.values() as number[][]).map(([id = 0, ...rest]) => [id, rest]))
  expect(found.size).toBe(31)
  const [checkedAt, lowered] = found.get(idOf({ ip: '1.2.3.4', port: 80 })) ?? []
  expect(checkedAt).toBe(T0 / 1000 - 700)
  expect(lowered).toBeWithin(10, 59)
  const [, works, speed, ping] = found.get(idOf({ ip: '1.5.0.1', port: 80 })) ?? []
  expect([works, speed, ping]).toEqual([-1, 7000, 100])
  expect(checkerStatusIn(dir).read()).toMatchObject({ queues: { living: 30, down: 1, raw: 0 } })
})
