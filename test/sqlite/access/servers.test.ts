/**
 * Any number of servers on one access.db (contract B3, B6, B8): restarted, crashed, pruned, failing,
 * with a snapshot of few chunks that is written all the time, with requests that are given back.
 * An oracle that keeps everything must agree with every decision, and with all limits after it; and a
 * restore must take what they have written.
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { hasNetworkQuota, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import { DAY_MS, HOUR_MS } from '../../../src/lib/time.ts'
import { LOCK_WAIT } from '../../../src/sqlite/access/usage.ts'
import { ACCESS_FILE } from '../../../src/sqlite/data-directory.ts'
import { createLimiterOracle } from '../../support/limiter-oracle.ts'
import {
  DEMO,
  IP,
  MIDNIGHT,
  type OpenUsage,
  openUsage,
  regular,
  temp,
  unwaited,
} from '../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

/** Where requests come from; two are of one /64, and two are no addresses. */
const PLACES = [IP, '203.0.113.9', '2001:db8::1', '2001:db8::2', '::1', 'unix', 'unknown'] as const
const SERVERS = 3
/** Callers of a run: regular ones with any plan, and these. */
const REGULAR = 4
const OTHERS: readonly Caller[] = [DEMO, DEMO, temp('t1'), temp('t2')]
/** Ids of regular keys: as `newKeyId` makes them, and what no text may take apart. */
const IDS = ['k1', '198.51.100.7', '"],["key', 'ключ\n\u2028'] as const

const anyPlan = fc.record({
  burst: fc.option(
    fc.record({
      requests: fc.integer({ min: 1, max: 5 }),
      seconds: fc.constantFrom(1, 5, 60, 3600, 86_400),
    }),
  ),
  daily: fc.option(fc.integer({ min: 1, max: 8 })),
  subnets: fc.option(fc.integer({ min: 1, max: 4 }), { freq: 2 }),
  clients: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 2 }),
})
const anyRequest = fc.record({
  who: fc.nat({ max: REGULAR + OTHERS.length - 1 }),
  from: fc.nat({ max: PLACES.length - 1 }),
  subnets: fc.uniqueArray(fc.nat({ max: 4 }), { maxLength: 3 }),
})
type Asked = { who: number; from: number; subnets: number[] }
const anyTurn = fc.array(anyRequest, { minLength: 1, maxLength: 6 })

const anyStepMs = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 3000 }) },
  { weight: 3, arbitrary: fc.constantFrom(4999, 5000, 60_000, HOUR_MS / 2, HOUR_MS, 3 * HOUR_MS) },
  { weight: 1, arbitrary: fc.constantFrom(12 * HOUR_MS, DAY_MS, 3 * DAY_MS) },
  { weight: 1, arbitrary: fc.integer({ min: -HOUR_MS / 2, max: -1 }) },
)

/** What makes a turn fail: a request that cannot be written, a statement that fails, a lock. */
const FAULTS = [
  'request',
  'insert on batches',
  'insert on snapshot',
  'delete on batches',
  'locked',
] as const
type Fault = (typeof FAULTS)[number]
const anyMove = fc.record({
  server: fc.nat({ max: SERVERS - 1 }),
  /** The server whose limits are compared afterwards; the others may fall behind. */
  watched: fc.nat({ max: SERVERS - 1 }),
  stepMs: anyStepMs,
  move: fc.oneof(
    { weight: 20, arbitrary: fc.record({ turn: anyTurn, fault: fc.constant(null) }) },
    { weight: 3, arbitrary: fc.record({ turn: anyTurn, fault: fc.constantFrom(...FAULTS) }) },
    {
      weight: 8,
      arbitrary: fc.record({
        /** Which of the requests that were admitted are given back, counted from the latest. */
        refund: fc.array(fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 40 })), {
          minLength: 1,
          maxLength: 4,
        }),
        fault: fc.option(fc.constantFrom(...FAULTS), { freq: 2 }),
      }),
    },
    { weight: 2, arbitrary: fc.constant('restart' as const) },
    { weight: 2, arbitrary: fc.constant('crash' as const) },
    { weight: 2, arbitrary: fc.constant('prune a slice' as const) },
    {
      weight: 3,
      arbitrary: fc.record({ clockAheadMs: fc.constantFrom(0, 0, 400 * DAY_MS) }), // of a prune
    },
  ),
})

const anyWorld = fc.record({
  plans: fc.tuple(anyPlan, anyPlan, anyPlan, anyPlan),
  chunks: fc.integer({ min: 1, max: 5 }),
  snapshots: fc.array(
    fc.record({
      chunkChars: fc.constantFrom(1, 40, 200, 8192),
      removeEvery: fc.integer({ min: 1, max: 5 }),
    }),
    { minLength: SERVERS, maxLength: SERVERS },
  ),
  moves: fc.array(anyMove, { minLength: 1, maxLength: 80, size: 'max' }),
})
type World = typeof anyWorld extends fc.Arbitrary<infer W> ? W : never

const placeOf = ({ from }: Asked): string => PLACES[from] ?? IP

/** How often something was done, to see that the interesting things were; answers over a quota, too. */
const NOTHING = {
  ...{ refused: 0, consumed: 0, overQuota: 0, failed: 0, chunks: 0, removed: 0 },
  ...{ givenBack: 0, notGivenBack: 0 },
}
type Seen = typeof NOTHING
/** A request that was admitted. */
type Sent = { asked: Asked; instants: readonly number[] }

/** A run: its callers, its oracle, its clock. */
function createRun(plans: World['plans'], seen: Seen) {
  const callers = [...plans.map((plan, i) => regular(plan, IDS[i])), ...OTHERS]
  const oracle = createLimiterOracle()
  let nowMs = MIDNIGHT - 5000
  let latestMs = nowMs
  return {
    callers,
    oracle,
    seen,
    /** What was admitted and not given back, the latest last. */
    sent: [] as Sent[],
    callerOf: ({ who }: Asked): Caller => callers[who] ?? DEMO,
    /** Moves the clock, never back by more than half an hour altogether. */
    step(stepMs: number): number {
      nowMs = Math.max(nowMs + stepMs, latestMs - HOUR_MS / 2)
      latestMs = Math.max(latestMs, nowMs)
      return nowMs
    },
  }
}
type TheRun = ReturnType<typeof createRun>

/** Makes the next turn of a server fail; returns what ends that. */
function breakServer({ db }: Pick<OpenUsage, 'db'>, dir: string, fault: Fault | null): () => void {
  if (fault === null || fault === 'request') return () => {}
  if (fault !== 'locked') {
    db.run(`create temp trigger broken before ${fault} begin select raise(abort, 'broken'); end`)
    return () => void db.run('drop trigger broken')
  }
  const other = new Database(join(dir, ACCESS_FILE))
  other.run('begin immediate')
  return () => other.close()
}

/**
 * Sends a turn, with one more request that cannot be written if that is its fault, and compares decisions with
 * the oracle, which knows nothing of one that failed.
 */
async function takeTurn(
  server: OpenUsage,
  dir: string,
  run: TheRun,
  { turn, fault }: { turn: readonly Asked[]; fault: Fault | null },
  nowMs: number,
): Promise<void> {
  const { oracle, callerOf, seen } = run
  const { admit } = server.access
  const repair = breakServer(server, dir, fault)
  const sent = turn.map(asked => admit(unwaited(), callerOf(asked), placeOf(asked), nowMs))
  if (fault === 'request') sent.push(admit(unwaited(), regular({}, 'bad'), IP, Number.NaN))
  const outcomes = await Promise.allSettled(sent)
  repair()
  const decisions = outcomes.flatMap(each => (each.status === 'fulfilled' ? each.value : []))
  if (decisions.length < sent.length) {
    expect(decisions).toBeEmpty()
    expect(fault).not.toBeNull()
    seen.failed += 1
    return
  }
  const expected = turn.map(asked => oracle.admit(callerOf(asked), placeOf(asked), nowMs))
  expect<readonly unknown[]>(decisions).toEqual(expected)
  for (const [i, asked] of turn.entries()) {
    const decision = decisions[i]
    if (decision?.kind !== 'admitted') {
      seen.refused += 1
      continue
    }
    const { instants, atMs } = decision
    run.sent.push({ asked, instants })
    const [caller, ip] = [callerOf(asked), placeOf(asked)]
    const { subnets } = asked
    if (!hasNetworkQuota(caller)) continue
    const consumed = await server.access.consume(unwaited(), caller, { ip, subnets, atMs, nowMs })
    const used = consumed.kind === 'refused' ? consumed.used : null
    seen[used === null ? 'consumed' : 'overQuota'] += 1
    expect(used).toBe(oracle.consume(caller, ip, subnets, atMs))
  }
}

/** Gives requests back in one batch, which counts for nothing if it fails. */
function refund(
  { usage, db }: OpenUsage,
  dir: string,
  { sent, oracle, callerOf, seen }: TheRun,
  { refund: places, fault }: { refund: readonly number[]; fault: Fault | null },
): void {
  const chosen = new Set(places.flatMap(n => sent.at(-1 - n) ?? []))
  const batch = [...chosen].map(({ asked, instants }) => ({
    rules: limitRulesOf(callerOf(asked), placeOf(asked)),
    instants: fault === 'request' ? [Number.NaN, Number.NaN] : instants,
  }))
  const repair = breakServer({ db }, dir, fault)
  try {
    usage.refund(batch)
  } catch {
    expect(fault).not.toBeNull()
    seen.notGivenBack += 1
    return
  } finally {
    repair()
  }
  for (const one of chosen) {
    oracle.refund(callerOf(one.asked), placeOf(one.asked), one.instants)
    sent.splice(sent.indexOf(one), 1)
    seen.givenBack += 1
  }
}

async function expectLimits({ access }: OpenUsage, { callers, oracle }: TheRun, nowMs: number) {
  for (const [who, caller] of callers.entries()) {
    const ip = PLACES[who % PLACES.length] ?? IP
    const limits = await access.limits(unwaited(), caller, ip, nowMs)
    const quotas = await access.quotas(unwaited(), caller, nowMs)
    expect([...limits, ...quotas]).toEqual(oracle.limits(caller, ip, nowMs))
  }
}

/** Makes the moves, and compares the limits of one server with the oracle after each. */
async function play({ plans, chunks, snapshots, moves }: World, seen: Seen): Promise<void> {
  const dir = temporaryDirectory()
  const run = createRun(plans, seen)
  const opened: OpenUsage[] = []
  function open(i: number): OpenUsage {
    const server = openUsage(dir, { chunks, ...snapshots[i] }, { ...LOCK_WAIT, msMax: 0 })
    server.db.run('pragma busy_timeout = 0')
    opened.push(server)
    return server
  }
  const servers = snapshots.map((_, i) => open(i))
  for (const { server: i, watched, stepMs, move } of moves) {
    const nowMs = run.step(stepMs)
    const server = servers[i] as OpenUsage
    if (move === 'restart') {
      server.usage.fold()
      server.close() // one that crashed is never closed
    }
    if (move === 'restart' || move === 'crash') servers[i] = open(i)
    else if (move === 'prune a slice') server.usage.prune(nowMs)
    else if ('clockAheadMs' in move) server.prune(nowMs + move.clockAheadMs)
    else if ('refund' in move) refund(server, dir, run, move)
    else await takeTurn(server, dir, run, move, nowMs)
    await expectLimits(servers[watched] as OpenUsage, run, nowMs)
  }
  const [{ db, countRows }] = servers as [OpenUsage]
  seen.chunks += countRows('snapshot')
  seen.removed += Number(db.prepare('select min(id) - 1 from batches').values()[0]?.[0] ?? 0)
  for (const { close } of opened) close()
}

test('servers on one file decide as one oracle that keeps everything, whatever happens', async () => {
  const seen = { ...NOTHING }
  const property = fc.asyncProperty(anyWorld, world => play(world, seen))
  await fc.assert(property, { numRuns: 60 })
  for (const times of Object.values(seen)) expect(times).toBeGreaterThan(50)
})
