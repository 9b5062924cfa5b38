/**
 * What has been used (src/sqlite/usage.ts, contract B3, B6, B8): any number of servers on one file,
 * restarted, swept and failing, against an oracle that remembers everything; what is forgotten and when.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Caller, createAccess } from '../../../src/access/access.ts'
import type { Plan } from '../../../src/access/plan.ts'
import { admitOne, type Meter } from '../../../src/access/rate-limit.ts'
import { ApiError } from '../../../src/api/errors.ts'
import { ACCESS_FILE } from '../../../src/app.ts'
import { createUsageStore, openAccessFile } from '../../../src/sqlite/access/usage.ts'
import { dataVersionOf } from '../../../src/sqlite/database.ts'
import { T0 } from '../../support/fixtures.ts'
import { createLimiterOracle, type LimiterOracle } from '../../support/limiter-oracle.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const SECOND = 1000
const HOUR = 3600 * SECOND
const DAY = 24 * HOUR
const IP = '198.51.100.7'
const TODAY = T0 / DAY - 0.5 // T0 is noon

const plan = (limits: Partial<Plan>): Plan => ({
  ...{ name: 'test', burst: null, daily: null, subnets: null, clients: null, count: null },
  ...limits,
})
const regular = (limits: Partial<Plan>, id = 'k1'): Caller => ({
  ...{ kind: 'regular', id },
  plan: plan(limits),
})
const burst = (requests: number, seconds: number): Partial<Plan> => ({
  burst: { requests, seconds },
})
const DEMO: Caller = { kind: 'demo', id: 'demo' }

/** A server's side of access.db in `dir`; in memory when there is none. */
function openServer(dir: string | null) {
  const db = openAccessFile(dir === null ? ':memory:' : join(dir, 'access.db'), { serving: true })
  const usage = createUsageStore(db)
  const countRows = (table: string): number =>
    db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0
  return {
    db,
    usage,
    access: createAccess(() => null, usage),
    countRows,
    sweep(nowMs: number): void {
      while (usage.removeStale(nowMs));
    },
    close: () => db.close(true),
  }
}
type Server = ReturnType<typeof openServer>

/** Admits, and charges the networks of the answer; gives the code of a refusal, else `ok`. */
async function ask(server: Server, caller: Caller, nowMs: number, subnets: number[] = [], ip = IP) {
  const verdict = await server.access.admit(caller, ip, nowMs)
  if (verdict.refused !== null) return verdict.refused
  try {
    await server.access.charge({ caller, ip, subnets, verdict }, nowMs)
    return 'ok'
  } catch (error) {
    if (error instanceof ApiError) return error.code
    throw error
  }
}

// ---------------------------------------------------------------------------------------------
// Several servers against the oracle

const CALLERS: readonly Caller[] = [
  regular({ ...burst(2, 5), daily: 6 }, 'k1'),
  regular({ ...burst(5, 86_400), subnets: 3 }, 'k2'),
  regular({ daily: 3, subnets: 2, clients: 1 }, 'k3'),
  DEMO,
  { kind: 'temp', id: 't1' },
  { kind: 'temp', id: 't2' },
]
const ADDRESSES = [IP, '203.0.113.9', '2001:db8::1', '2001:db8::2'] as const

const anyRequest = fc.record({
  who: fc.nat({ max: CALLERS.length - 1 }),
  from: fc.nat({ max: ADDRESSES.length - 1 }),
  subnets: fc.uniqueArray(fc.nat({ max: 4 }), { maxLength: 3 }),
})
const anyStepMs = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 3000 }) },
  { weight: 3, arbitrary: fc.constantFrom(4999, 5000, 60_000, HOUR / 2, HOUR, 3 * HOUR) },
  { weight: 1, arbitrary: fc.constantFrom(12 * HOUR, DAY, 3 * DAY) },
  { weight: 1, arbitrary: fc.integer({ min: -HOUR / 2, max: -1 }) },
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
    { weight: 1, arbitrary: fc.constant('sweep' as const) },
    { weight: 1, arbitrary: fc.constant('sweep, the clock far ahead' as const) },
  ),
})

type Asked = { who: number; from: number; subnets: number[] }
const callerOf = ({ who }: Asked): Caller => CALLERS[who] ?? DEMO
const addressOf = ({ from }: Asked): string => ADDRESSES[from] ?? IP

/** Sends the requests in one turn and compares every decision, limit and quota with the oracle. */
async function expectAsTheOracle(
  server: Server,
  oracle: LimiterOracle,
  requests: Asked[],
  nowMs: number,
) {
  const { access } = server
  const verdicts = await Promise.all(
    requests.map(request => access.admit(callerOf(request), addressOf(request), nowMs)),
  )
  const expected = requests.map(request =>
    oracle.admit(callerOf(request), addressOf(request), nowMs),
  )
  expect(verdicts).toEqual(
    expected.map(({ refused, retryAfterSeconds, statuses, atMs }) => ({
      ...{ refused, retryAfterSeconds, gauges: statuses, atMs },
    })),
  )
  for (const [i, verdict] of verdicts.entries()) {
    const request = requests[i]
    if (verdict.refused !== null || request === undefined) continue
    const [caller, ip] = [callerOf(request), addressOf(request)]
    const { subnets } = request
    const charging = access.charge({ caller, ip, subnets, verdict }, nowMs)
    const used = await charging.then(
      () => null,
      (error: unknown) => (error instanceof ApiError ? error.context.usedSubnets : error),
    )
    expect(used).toEqual(oracle.consume(caller, ip, subnets, verdict.atMs))
  }
}

async function expectPoisoned(
  { access }: Server,
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

async function makeMove(server: Server, oracle: LimiterOracle, move: Move['move'], nowMs: number) {
  if (move === 'sweep') server.sweep(nowMs)
  if (move === 'sweep, the clock far ahead') server.sweep(nowMs + 400 * DAY)
  if (typeof move === 'string') return
  const expectIt = move.isPoisoned ? expectPoisoned : expectAsTheOracle
  await expectIt(server, oracle, move.requests, nowMs)
}

/** Plays the moves on two servers of one file, and compares every limit with the oracle after each. */
async function play(moves: readonly Move[]): Promise<void> {
  const dir = temporaryDirectory()
  const servers = new Map([0, 1].map(i => [i, openServer(dir)]))
  const oracle = createLimiterOracle()
  let nowMs = T0 + 12 * HOUR - 5000 // the day ends soon
  let latestMs = nowMs
  for (const { server: i, stepMs, move } of moves) {
    nowMs = Math.max(nowMs + stepMs, latestMs - HOUR / 2)
    latestMs = Math.max(latestMs, nowMs)
    const server = move === 'restart' ? openServer(dir) : servers.get(i)
    if (server === undefined) throw new Error(`no server ${i}`)
    if (move === 'restart') servers.get(i)?.close()
    servers.set(i, server)
    await makeMove(server, oracle, move, nowMs)
    for (const [who, caller] of CALLERS.entries()) {
      const ip = ADDRESSES[who % ADDRESSES.length] ?? IP
      expect(server.access.gauges(caller, ip, nowMs)).toEqual(oracle.statuses(caller, ip, nowMs))
    }
  }
  for (const server of servers.values()) server.close()
}

describe('servers on one file', () => {
  test('judge together as one oracle that remembers everything, whatever happens to them', async () => {
    const moves = fc.array(anyMove, { minLength: 1, maxLength: 60, size: 'max' })
    await fc.assert(fc.asyncProperty(moves, play), { numRuns: 60 })
  }, 30_000)

  test('see what another one admitted before they are asked anything', async () => {
    const dir = temporaryDirectory()
    const [one, two] = [openServer(dir), openServer(dir)]
    const remaining = (server: Server) => server.access.gauges(regular(burst(3, 5)), IP, T0)[0]
    expect(remaining(two)?.remaining).toBe(3)
    await ask(one, regular(burst(3, 5)), T0)
    expect(remaining(two)?.remaining).toBe(2)
    await ask(one, regular(burst(3, 5)), T0)
    expect([remaining(one)?.remaining, remaining(two)?.remaining]).toEqual([1, 1])
    for (const server of [one, two]) server.close()
  })
})

// ---------------------------------------------------------------------------------------------
// What is kept, and for how long

describe('the log of admissions', () => {
  test('keeps what its windows count, not what was ever admitted', async () => {
    const dir = temporaryDirectory()
    const servers = [openServer(dir), openServer(dir)]
    const caller = regular({ ...burst(3, 5), daily: 5000 })
    for (let i = 0; i < 3000; i += 1) {
      const server = servers[i % 2]
      if (server) expect(await ask(server, caller, T0 + i * 2000)).toBe('ok')
    }
    const end = T0 + 2999 * 2000
    for (const server of servers) {
      expect(server.countRows('admissions')).toBeLessThan(1500)
      expect(server.usage.read('key:k1')?.admissions.length).toBeLessThanOrEqual(3)
    }
    const anew = openServer(dir)
    for (const server of [...servers, anew]) {
      const gauges = server.access.gauges(caller, IP, end)
      expect(gauges.map(({ remaining }) => remaining)).toEqual([0, 2000])
      server.close()
    }
  })

  test('is written to the file before an admission resolves', async () => {
    const dir = temporaryDirectory()
    const server = openServer(dir)
    await ask(server, regular(burst(1, 5)), T0)
    const other = openServer(dir) // as after a kill: the first one was never closed
    expect(await ask(other, regular(burst(1, 5)), T0 + 1)).toBe('window')
    for (const each of [server, other]) each.close()
  })
})

/** How long after its last admission a subject is forgotten, once others go on. */
const KEPT = [
  ['a key', regular({ burst: { requests: 1, seconds: 86_400 } }), 'key:k1', 2 * DAY],
  ['an address', DEMO, `demo:${IP}`, 2 * HOUR],
] as const

describe('usage', () => {
  for (const [what, caller, subject, keptMs] of KEPT) {
    test.each([
      [keptMs, 'kept'],
      [keptMs + 1, 'forgotten'],
    ] as const)(`of ${what} is, %d ms later, %s`, async (ageMs, fate) => {
      const dir = temporaryDirectory()
      const server = openServer(dir)
      await ask(server, caller, T0)
      await ask(server, regular({}, 'other'), T0 + ageMs)
      server.sweep(T0 + ageMs)
      const anew = openServer(dir)
      const admissions = fate === 'kept' ? [T0] : undefined
      for (const { usage } of [server, anew]) {
        expect(usage.read(subject)?.admissions).toEqual(admissions)
      }
      expect(anew.countRows('admissions')).toBe(fate === 'kept' ? 2 : 1)
      for (const each of [server, anew]) each.close()
    })
  }
})

describe('what is used up', () => {
  test('is not forgotten because the clock runs ahead of every admission', async () => {
    const server = openServer(null)
    const caller = regular({ burst: { requests: 1, seconds: 86_400 }, subnets: 1 })
    expect(await ask(server, caller, T0, [1])).toBe('ok')
    server.sweep(T0 + 400 * DAY)
    expect(await ask(server, caller, T0 + 1)).toBe('window') // the clock was set right
    expect(server.usage.networks('key:k1:served', TODAY)).toEqual(new Set(['1']))
    server.close()
  })

  test('of a day and the day before keeps its networks, older ones go', async () => {
    const server = openServer(null)
    for (const day of [0, 1, 2, 3]) {
      expect(await ask(server, regular({ subnets: 9 }), T0 + day * DAY, [day])).toBe('ok')
    }
    server.sweep(T0 + 3 * DAY)
    const kept = [0, 1, 2, 3].map(day => [...server.usage.networks('key:k1:served', TODAY + day)])
    expect(kept).toEqual([[], ['1'], ['2'], ['3']])
    server.close()
  })

  test('is forgotten slice by slice, and in the end all of the log is looked at', () => {
    const server = openServer(null)
    const insert = server.db.prepare(
      'insert into admissions (subject, at, requests, kept) values (?, ?, 1, 1)',
    )
    const fill = server.db.transaction(() => {
      for (let n = 0; n < 25_000; n += 1) insert.run(`key:${n}`, n % 2 === 0 ? T0 : T0 - 3 * DAY)
      insert.run('key:last', T0)
    })
    fill()
    const left: number[] = []
    do left.push(server.countRows('admissions'))
    while (server.usage.removeStale(T0))
    left.push(server.countRows('admissions'))
    expect(left).toEqual([25_001, 20_001, 15_000, 12_501])
    server.close()
  })

  test('of networks is forgotten slice by slice too', async () => {
    const server = openServer(null)
    const subnets = Array.from({ length: 4500 }, (_, i) => i)
    await ask(server, regular({ subnets: 9999 }), T0, subnets)
    await ask(server, regular({}), T0 + 9 * DAY)
    const left: number[] = []
    do left.push(server.countRows('networks'))
    while (server.usage.removeStale(T0 + 9 * DAY))
    expect(left).toEqual([4500, 2500, 500])
    expect(server.countRows('networks')).toBe(0)
    server.close()
  })

  test('that is forgotten never hides what another server admits next', async () => {
    const dir = temporaryDirectory()
    const [one, two] = [openServer(dir), openServer(dir)]
    const caller = regular(burst(2, 60))
    await ask(one, caller, T0 + 3 * HOUR)
    await ask(one, DEMO, T0) // the last row, and an old one: the clock was set back
    one.sweep(T0 + 3 * HOUR)
    two.close()
    const anew = openServer(dir)
    expect(await ask(anew, caller, T0 + 3 * HOUR)).toBe('ok')
    expect(await ask(one, caller, T0 + 3 * HOUR)).toBe('window')
    for (const server of [one, anew]) server.close()
  })
})

// ---------------------------------------------------------------------------------------------
// The file

describe('access.db', () => {
  test('that cannot be written fails the probe, which counts nothing', () => {
    const { db, usage, countRows, close } = openServer(null)
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
    const [probing, watching] = [openAccessFile(file, { serving: true }), openAccessFile(file)]
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

  test('holds up a server for a moment only when another process writes, a command longer', () => {
    const file = join(temporaryDirectory(), 'access.db')
    const waits = [openAccessFile(file, { serving: true }), openAccessFile(file)].map(db => {
      const row = db.query<{ timeout: number }, []>('pragma busy_timeout').get()
      db.close()
      return row?.timeout ?? Number.NaN
    })
    expect(waits[0]).toBeLessThanOrEqual(500)
    expect(waits[1]).toBeGreaterThanOrEqual(5000)
  })

  test('has small pages: each admission writes one', () => {
    const db = openAccessFile(':memory:')
    const row = db.query<{ page_size: number }, []>('pragma page_size').get()
    expect(row?.page_size).toBeLessThanOrEqual(1024)
    db.close()
  })
})

const METER: Meter = {
  subject: 'key:k1',
  window: { name: 'burst', limit: 3, ms: 60_000 },
  daily: null,
}

test('a server that starts reads the log before it takes the lock others need', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const running = openAccessFile(file, { serving: true })
  const usage = createUsageStore(running)
  usage.transaction(() => admitOne(usage, [METER], T0))

  const starting = openAccessFile(file, { serving: true })
  starting.run('pragma busy_timeout = 0')
  const store = createUsageStore(starting)
  running.run('begin immediate') // so nothing that is read below was read under the lock
  expect(() => store.transaction(() => {})).toThrow('database is locked')
  running.run('rollback')
  // Rows a connection deletes itself are no news to it: what it still knows, it had read before.
  starting.run('delete from admissions')
  expect(store.read(METER.subject)?.admissions).toEqual([T0])
  starting.close()
  running.close()
})
