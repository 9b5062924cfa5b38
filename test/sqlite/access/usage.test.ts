/**
 * Usage in SQLite (src/sqlite/access/usage.ts, contract B3, B6, B8): any number of servers on one
 * file, restarted, pruned and failing, against an oracle that keeps everything; what is removed, when.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { keySubject } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import type { LimitRule } from '../../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS } from '../../../src/lib/time.ts'
import { openAccessFile } from '../../../src/sqlite/access/store.ts'
import { createUsageStore } from '../../../src/sqlite/access/usage.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import { ACCESS_FILE } from '../../../src/sqlite/stores.ts'
import { T0 } from '../../support/fixtures.ts'
import { createLimiterOracle, type LimiterOracle } from '../../support/limiter-oracle.ts'
import {
  burst,
  DEMO,
  IP,
  MIDNIGHT,
  type OpenUsage,
  openUsage,
  regular,
  TODAY,
  temp,
} from '../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const K1 = keySubject('k1')

/** Admits, and consumes the networks of the answer; gives what refuses, else `ok`. */
async function ask({ access }: OpenUsage, caller: Caller, nowMs: number, subnets: number[] = []) {
  const admission = await access.admit(caller, IP, nowMs)
  if (admission.kind === 'refused') return admission.by
  const served = { ip: IP, subnets, atMs: admission.atMs, nowMs }
  const decision = await access.consume(caller, served)
  return decision.kind === 'refused' ? decision.set : 'ok'
}

// ---------------------------------------------------------------------------------------------
// Several servers against an oracle

const CALLERS: readonly Caller[] = [
  regular({ ...burst(2, 5), daily: 6 }, 'k1'),
  regular({ ...burst(5, 86_400), subnets: 3 }, 'k2'),
  regular({ daily: 3, subnets: 2, clients: 1 }, 'k3'),
  DEMO,
  temp('t1'),
  temp('t2'),
]
const ADDRESSES = [IP, '203.0.113.9', '2001:db8::1', '2001:db8::2'] as const

const anyRequest = fc.record({
  who: fc.nat({ max: CALLERS.length - 1 }),
  from: fc.nat({ max: ADDRESSES.length - 1 }),
  subnets: fc.uniqueArray(fc.nat({ max: 4 }), { maxLength: 3 }),
})
const anyStepMs = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 3000 }) },
  { weight: 3, arbitrary: fc.constantFrom(4999, 5000, 60_000, HOUR_MS / 2, HOUR_MS, 3 * HOUR_MS) },
  { weight: 1, arbitrary: fc.constantFrom(12 * HOUR_MS, DAY_MS, 3 * DAY_MS) },
  { weight: 1, arbitrary: fc.integer({ min: -HOUR_MS / 2, max: -1 }) },
)
const anyMove = fc.record({
  server: fc.nat({ max: 1 }),
  stepMs: anyStepMs,
  move: fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({
        requests: fc.array(anyRequest, { minLength: 1, maxLength: 4 }),
        /** One request of the turn cannot be written: none of them counts. */
        isPoisoned: fc.oneof(
          { weight: 9, arbitrary: fc.constant(false) },
          { weight: 1, arbitrary: fc.constant(true) },
        ),
      }),
    },
    { weight: 2, arbitrary: fc.constant('restart' as const) },
    { weight: 1, arbitrary: fc.constant('prune' as const) },
    { weight: 1, arbitrary: fc.constant('prune, the clock far ahead' as const) },
  ),
})

type Asked = { who: number; from: number; subnets: number[] }
const callerOf = ({ who }: Asked): Caller => CALLERS[who] ?? DEMO
const addressOf = ({ from }: Asked): string => ADDRESSES[from] ?? IP

/** Sends the requests in one turn and compares every decision with the oracle. */
async function expectAsTheOracle(
  server: OpenUsage,
  oracle: LimiterOracle,
  requests: Asked[],
  nowMs: number,
) {
  const { access } = server
  const decisions = await Promise.all(
    requests.map(request => access.admit(callerOf(request), addressOf(request), nowMs)),
  )
  const expected = requests.map(request =>
    oracle.admit(callerOf(request), addressOf(request), nowMs),
  )
  expect(decisions).toEqual(expected)
  for (const [i, admission] of decisions.entries()) {
    const request = requests[i]
    if (admission.kind === 'refused' || request === undefined) continue
    const [caller, ip] = [callerOf(request), addressOf(request)]
    const { subnets } = request
    const { atMs } = admission
    const decision = await access.consume(caller, { ip, subnets, atMs, nowMs })
    const used = decision.kind === 'refused' ? decision.used : null
    expect(used).toBe(oracle.consume(caller, ip, subnets, atMs))
  }
}

async function expectPoisoned(
  { access }: OpenUsage,
  _: LimiterOracle,
  requests: Asked[],
  nowMs: number,
) {
  const poison = access.admit(regular(burst(5, 5), 'bad'), IP, Number.NaN)
  const others = requests.map(asked => access.admit(callerOf(asked), addressOf(asked), nowMs))
  const outcomes = await Promise.allSettled([poison, ...others])
  expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
}

type Move = typeof anyMove extends fc.Arbitrary<infer M> ? M : never

async function makeMove(
  server: OpenUsage,
  oracle: LimiterOracle,
  move: Move['move'],
  nowMs: number,
) {
  if (move === 'prune') server.prune(nowMs)
  if (move === 'prune, the clock far ahead') server.prune(nowMs + 400 * DAY_MS)
  if (typeof move === 'string') return
  const expectIt = move.isPoisoned ? expectPoisoned : expectAsTheOracle
  await expectIt(server, oracle, move.requests, nowMs)
}

/** Makes the moves on two servers of one file, and compares every limit with the oracle after each. */
async function play(moves: readonly Move[]): Promise<void> {
  const dir = temporaryDirectory()
  const servers = new Map([0, 1].map(i => [i, openUsage(dir)]))
  const oracle = createLimiterOracle()
  let nowMs = MIDNIGHT - 5000
  let latestMs = nowMs
  for (const { server: i, stepMs, move } of moves) {
    nowMs = Math.max(nowMs + stepMs, latestMs - HOUR_MS / 2)
    latestMs = Math.max(latestMs, nowMs)
    const server = move === 'restart' ? openUsage(dir) : servers.get(i)
    if (server === undefined) throw new Error(`no server ${i}`)
    if (move === 'restart') servers.get(i)?.close()
    servers.set(i, server)
    await makeMove(server, oracle, move, nowMs)
    for (const [who, caller] of CALLERS.entries()) {
      const ip = ADDRESSES[who % ADDRESSES.length] ?? IP
      expect(await server.access.limits(caller, ip, nowMs)).toEqual(
        oracle.limits(caller, ip, nowMs),
      )
    }
  }
  for (const server of servers.values()) server.close()
}

describe('servers on one file', () => {
  test('decide together as one oracle that keeps everything, whatever happens to them', async () => {
    const moves = fc.array(anyMove, { minLength: 1, maxLength: 60, size: 'max' })
    await fc.assert(fc.asyncProperty(moves, play), { numRuns: 60 })
  }, 30_000)

  test('see what another one admitted before they admit anything themselves', async () => {
    const dir = temporaryDirectory()
    const [one, two] = [openUsage(dir), openUsage(dir)]
    const remaining = async ({ access }: OpenUsage) =>
      (await access.limits(regular(burst(3, 5)), IP, T0))[0]?.remaining
    expect(await remaining(two)).toBe(3)
    await ask(one, regular(burst(3, 5)), T0)
    expect(await remaining(two)).toBe(2)
    await ask(one, regular(burst(3, 5)), T0)
    expect([await remaining(one), await remaining(two)]).toEqual([1, 1])
    for (const server of [one, two]) server.close()
  })
})

// ---------------------------------------------------------------------------------------------
// What is recorded, and for how long

describe('the table of admissions', () => {
  test('holds what windows count, not everything that was ever admitted', async () => {
    const dir = temporaryDirectory()
    const servers = [openUsage(dir), openUsage(dir)]
    const caller = regular({ ...burst(3, 5), daily: 5000 })
    const watching = openAccessFile(join(dir, ACCESS_FILE))
    const lastAdmission = watching.query<{ at: number }, []>(
      'select at from admissions order by id desc limit 1',
    )
    for (let i = 0; i < 3000; i += 1) {
      const server = servers[i % 2]
      if (server) expect(await ask(server, caller, T0 + i * 2000)).toBe('ok')
      expect(lastAdmission.get()?.at).toBe(T0 + i * 2000) // what counts is never removed
    }
    const end = T0 + 2999 * 2000
    for (const server of servers) {
      expect(server.countRows('admissions')).toBeLessThan(1500)
      expect(server.read(K1).admissions.length).toBeLessThanOrEqual(3)
    }
    const another = openUsage(dir)
    for (const server of [...servers, another]) {
      const limits = await server.access.limits(caller, IP, end)
      expect(limits.map(({ remaining }) => remaining)).toEqual([0, 2000])
      server.close()
    }
    watching.close()
  })

  test('is written to the file before an admission resolves', async () => {
    const dir = temporaryDirectory()
    const server = openUsage(dir)
    await ask(server, regular(burst(1, 5)), T0)
    const other = openUsage(dir) // as after a kill: the first one was never closed
    expect(await ask(other, regular(burst(1, 5)), T0 + 1)).toBe('window')
    for (const each of [server, other]) each.close()
  })
})

/** How long usage is kept after a subject's last admission, while others go on. */
const KEPT = [
  ['a key', regular(burst(1, 86_400)), K1, 2 * DAY_MS],
  ['an address', DEMO, { kind: 'demo', id: IP }, 2 * HOUR_MS],
] as const

describe('usage', () => {
  for (const [what, caller, subject, keptMs] of KEPT) {
    test.each([
      [keptMs, 'kept'],
      [keptMs + 1, 'removed'],
    ] as const)(`of ${what} is, %d ms later, %s`, async (ageMs, fate) => {
      const dir = temporaryDirectory()
      const server = openUsage(dir)
      await ask(server, caller, T0)
      await ask(server, regular({}, 'other'), T0 + ageMs)
      server.prune(T0 + ageMs)
      const another = openUsage(dir)
      const admissions = fate === 'kept' ? [T0] : []
      for (const { read } of [server, another]) {
        expect(read(subject).admissions).toEqual(admissions)
      }
      expect(another.countRows('admissions')).toBe(fate === 'kept' ? 2 : 1)
      for (const each of [server, another]) each.close()
    })
  }
})

describe('what is used up', () => {
  test('is not removed because the clock runs ahead of every admission', async () => {
    const server = openUsage()
    const caller = regular({ ...burst(1, 86_400), subnets: 1 })
    expect(await ask(server, caller, T0, [1])).toBe('ok')
    server.prune(T0 + 400 * DAY_MS)
    expect(await ask(server, caller, T0 + 1)).toBe('window') // the clock was corrected
    expect(server.networks(K1, 'served', TODAY)).toEqual(new Set(['1']))
    server.close()
  })

  test('of a day and the day before keeps its networks, older ones are removed', async () => {
    const server = openUsage()
    for (const day of [0, 1, 2, 3]) {
      expect(await ask(server, regular({ subnets: 9 }), T0 + day * DAY_MS, [day])).toBe('ok')
    }
    server.prune(T0 + 3 * DAY_MS)
    const kept = [0, 1, 2, 3].map(day => [...server.networks(K1, 'served', TODAY + day)])
    expect(kept).toEqual([[], ['1'], ['2'], ['3']])
    server.close()
  })

  test('is removed slice by slice, and in the end all of the table is looked at', () => {
    const server = openUsage()
    const insert = server.db.prepare(
      `insert into admissions (subject_kind, subject_id, at, requests, kept)
       values ('key', ?, ?, 1, 1)`,
    )
    const fill = server.db.transaction(() => {
      for (let n = 0; n < 25_000; n += 1) insert.run(String(n), n % 2 === 0 ? T0 : T0 - 3 * DAY_MS)
      insert.run('last', T0)
    })
    fill()
    const left: number[] = []
    do left.push(server.countRows('admissions'))
    while (server.usage.prune(T0))
    left.push(server.countRows('admissions'))
    expect(left).toEqual([25_001, 20_001, 15_000, 12_501])
    server.close()
  })

  test('of networks is removed slice by slice too', async () => {
    const server = openUsage()
    const subnets = Array.from({ length: 4500 }, (_, i) => i)
    await ask(server, regular({ subnets: 9999 }), T0, subnets)
    await ask(server, regular({}), T0 + 9 * DAY_MS)
    const left: number[] = []
    do left.push(server.countRows('networks'))
    while (server.usage.prune(T0 + 9 * DAY_MS))
    expect(left).toEqual([4500, 2500, 500])
    expect(server.countRows('networks')).toBe(0)
    server.close()
  })

  test('that is removed never hides what another server admits next', async () => {
    const dir = temporaryDirectory()
    const [one, two] = [openUsage(dir), openUsage(dir)]
    const caller = regular(burst(2, 60))
    await ask(one, caller, T0 + 3 * HOUR_MS)
    await ask(one, DEMO, T0) // the last row, and an old one: the clock was set back
    one.prune(T0 + 3 * HOUR_MS)
    two.close()
    const another = openUsage(dir)
    expect(await ask(another, caller, T0 + 3 * HOUR_MS)).toBe('ok')
    expect(await ask(one, caller, T0 + 3 * HOUR_MS)).toBe('window')
    for (const server of [one, another]) server.close()
  })
})

// ---------------------------------------------------------------------------------------------
// The file

describe('access.db', () => {
  test('that cannot be written fails the probe, which counts nothing', () => {
    const { db, usage, countRows, close } = openUsage()
    usage.probe()
    expect(countRows('admissions')).toBe(0)
    db.run('pragma query_only = on')
    expect(() => usage.probe()).toThrow(/readonly/)
    db.run('pragma query_only = off')
    expect(() => usage.probe()).not.toThrow()
    close()
  })

  test('is written by every probe, not by the first alone', () => {
    const file = join(temporaryDirectory(), ACCESS_FILE)
    const [probing, watching] = [openAccessFile(file, { isServer: true }), openAccessFile(file)]
    const usage = createUsageStore(probing)
    const version = dataVersionOf(watching)
    const seen = [version()]
    for (const _ of [1, 2, 3]) {
      usage.probe()
      seen.push(version())
    }
    expect(new Set(seen).size).toBe(4)
    probing.close()
    watching.close()
  })
})

const RULE: LimitRule = {
  subject: K1,
  window: { name: 'burst', limit: 3, ms: 60_000 },
  daily: null,
}

test('a server that starts reads the table before it takes the lock that others need', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const running = openAccessFile(file, { isServer: true })
  const usage = createUsageStore(running)
  usage.admit([{ rules: [RULE], nowMs: T0 }])

  const starting = openAccessFile(file, { isServer: true })
  starting.run('pragma busy_timeout = 0')
  const store = createUsageStore(starting)
  running.run('begin immediate') // so nothing below was read under the lock
  expect(() => store.admit([])).toThrow('database is locked')
  running.run('rollback')
  // A connection does not notice rows that it deletes itself: what it still knows, it read before.
  starting.run('delete from admissions')
  expect(store.peek([K1])[0]?.admissions).toEqual([T0])
  starting.close()
  running.close()
})
