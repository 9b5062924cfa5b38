/**
 * Any sequence on several servers over the same data, on every engine (contract B2 to B8, B10, F3, I2): batches, refunds,
 * resets, changed plans, prunes, restarts, crashes, failures, and a clock that steps. An oracle that remembers everything must
 * agree with each decision and all limits, and a model with the use of keys.
 */
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createAccess } from '../../src/access/access.ts'
import { consumptionOf, limitRulesOf } from '../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS } from '../../src/access/history.ts'
import type { Caller } from '../../src/access/key.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../src/lib/time.ts'
import {
  anyStartMs,
  anyStepMs,
  DEMO,
  decideAll,
  regular,
  temp,
  unwaited,
} from '../support/limits.ts'
import { cleanUp } from '../support/temporary.ts'
import { ENGINES, type Engine, type TestUsage } from '../support/usage.ts'
import { bucketOf, createLimiterOracle, rulesOf as oracleRules } from './limiter-oracle.ts'

afterAll(cleanUp)

const SERVERS = 3
/** Of IPv6, two of one /64; and two that are no addresses. */
const IPS = ['198.51.100.7', '203.0.113.9', '2001:db8::1', '2001:db8::2', '::1', 'unix', 'unknown']
/** Ids of regular keys: usual ones, and texts that a store could trip over. */
const IDS = ['k1', '198.51.100.7', '"],["key', 'ключ\n\u2028'] as const
const OTHERS: readonly Caller[] = [DEMO, DEMO, temp('t1'), temp('t2')]

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
  who: fc.nat({ max: IDS.length + OTHERS.length - 1 }),
  from: fc.nat({ max: IPS.length - 1 }),
  subnets: fc.array(fc.nat({ max: 6 }), { maxLength: 3 }),
})
type Request = { who: number; from: number; subnets: number[] }
const anyStep = fc.record({
  kind: fc.oneof(
    { weight: 20, arbitrary: fc.constant('turn' as const) },
    { weight: 5, arbitrary: fc.constant('refund' as const) },
    {
      weight: 9,
      arbitrary: fc.constantFrom(
        ...([
          'prune',
          'prune ahead',
          'reset',
          'plan',
          'note',
          'flush',
          'restart',
          'crash',
        ] as const),
      ),
    },
  ),
  server: fc.nat({ max: SERVERS - 1 }),
  /** The server whose limits are compared afterwards; the others may fall behind. */
  watched: fc.nat({ max: SERVERS - 1 }),
  stepMs: fc.oneof(anyStepMs, anyStepMs, fc.constantFrom(HOUR_MS / 2, 3 * HOUR_MS, 3 * DAY_MS)),
  requests: fc.array(anyRequest, { minLength: 1, maxLength: 6 }),
  fault: fc.option(fc.nat(), { freq: 4 }),
})
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never
const anyWorld = fc.record({
  startMs: anyStartMs,
  plans: fc.array(anyPlan, { minLength: IDS.length + 1, maxLength: IDS.length + 1 }),
  /** Where old usage is removed, the clock steps back by half an hour at most. */
  isPruned: fc.boolean(),
  snapshot: fc.record({
    chunks: fc.integer({ min: 1, max: 5 }),
    chunkChars: fc.constantFrom(1, 40, 200, 8192),
    removeEvery: fc.integer({ min: 1, max: 5 }),
  }),
  steps: fc.array(anyStep, { minLength: 10, maxLength: 60, size: 'max' }),
})
type World = typeof anyWorld extends fc.Arbitrary<infer T> ? T : never

/** How often something happened. */
const NOTHING = { refused: 0, overQuota: 0, failed: 0, refunded: 0, used: 0 }

/** The use of keys by day, counted by hand. */
function createUseModel() {
  const days = new Map<string, DayUse>()
  const dayOf = (id: string, ms: number): DayUse => {
    const name = `${id} ${utcDay(ms)}`
    const made = {
      day: utcDay(ms),
      requests: 0,
      records: 0,
      refused: 0,
      hours: Array<number>(24).fill(0),
    }
    const day = days.get(name) ?? made
    days.set(name, day)
    return day
  }
  return {
    request(id: string, ms: number, n: 1 | -1): void {
      const day = dayOf(id, ms)
      const hours = day.hours.with(
        new Date(ms).getUTCHours(),
        (day.hours[new Date(ms).getUTCHours()] ?? 0) + n,
      )
      days.set(`${id} ${day.day}`, { ...day, requests: day.requests + n, hours })
    },
    note(id: string, ms: number, records: number, refused: number): void {
      const day = dayOf(id, ms)
      const sum = { records: day.records + records, refused: day.refused + refused }
      days.set(`${id} ${day.day}`, { ...day, ...sum })
    },
    of: (id: string): DayUse[] =>
      comparable([...days].filter(([name]) => name.startsWith(`${id} `)).map(([, day]) => day)),
  }
}
const comparable = (days: readonly DayUse[]): DayUse[] =>
  days
    .map(day => ({ ...day, hours: Array.from({ length: 24 }, (_, n) => day.hours[n] ?? 0) }))
    .filter(({ requests, records, refused }) => requests + records + refused > 0)
    .sort((a, b) => a.day - b.day)

type Sent = { caller: Caller; ip: string; instants: readonly number[] }

/** Takes the steps on servers and on the oracle, which have to agree. */
async function play(engine: Engine, world: World, usage: TestUsage, seen: typeof NOTHING) {
  const { plans, isPruned } = world
  const oracle = createLimiterOracle()
  const use = createUseModel()
  const servers = Array.from({ length: SERVERS }, usage.open)
  const callers = [...IDS.map((id, n) => regular(plans[n] ?? {}, id)), ...OTHERS]
  const sent: Sent[] = []
  let [nowMs, latestMs] = [world.startMs, world.startMs]
  await usage.addKeys(...IDS)
  const ask = ({ who, from, subnets }: Request) => ({
    ...{ caller: callers[who] ?? DEMO, ip: IPS[from] ?? '', subnets },
  })
  const rulesOf = ({ caller, ip }: { caller: Caller; ip: string }) => limitRulesOf(caller, ip)

  /** Runs work that a fault may make fail as a whole; whether it did not fail. */
  async function attempt(its: UsageStore, fault: string | null, work: () => Promise<void>) {
    const repair = fault === null ? () => {} : usage.break(its, fault)
    const isDone = await work().then(
      () => true,
      () => false,
    )
    repair()
    if (!isDone) expect(fault).not.toBeNull()
    seen.failed += Number(!isDone)
    return isDone
  }

  async function turn(its: UsageStore, requests: readonly Request[], fault: string | null) {
    const asked = requests.map(ask)
    const batch = asked.map(each => ({ rules: rulesOf(each), nowMs }))
    if (fault === 'request')
      batch.push({ rules: limitRulesOf(regular({}, 'bad'), ''), nowMs: Number.NaN })
    let decisions: Awaited<ReturnType<typeof decideAll>> = []
    const isDone = await attempt(its, fault, async () => {
      decisions = await decideAll(its, batch)
    })
    if (!isDone) return
    expect(decisions).toEqual(asked.map(({ caller, ip }) => oracle.admit(caller, ip, nowMs)))
    const consumed: { consumption: ReturnType<typeof consumptionOf>; over: number | null }[] = []
    for (const [n, { caller, ip, subnets }] of asked.entries()) {
      const decision = decisions[n]
      if (decision?.kind !== 'admitted') {
        seen.refused += 1
        continue
      }
      const { atMs, instants } = decision
      sent.push({ caller, ip, instants })
      use.request(caller.id, instants[0] ?? atMs, 1)
      if (caller.kind !== 'regular') continue
      const over = oracle.consume(caller, ip, subnets, atMs)
      consumed.push({ consumption: consumptionOf(caller, { ip, subnets, atMs, nowMs }), over })
      seen.overQuota += Number(over !== null)
    }
    const found = await its.consume(consumed.map(({ consumption }) => consumption))
    expect(found.map(each => (each.kind === 'refused' ? each.used : null))).toEqual(
      consumed.map(({ over }) => over),
    )
  }

  async function refund(its: UsageStore, requests: readonly Request[], fault: string | null) {
    const chosen = [...new Set(requests.flatMap(({ from }) => sent.at(-1 - from) ?? []))]
    const batch = chosen.map(each => ({
      rules: rulesOf(each),
      instants: fault === 'request' ? [Number.NaN, Number.NaN] : each.instants,
    }))
    const isDone = await attempt(its, fault, async () => void (await its.refund(batch)))
    if (!isDone) return
    for (const each of chosen) {
      oracle.refund(each.caller, each.ip, each.instants)
      use.request(each.caller.id, each.instants[0] ?? 0, -1)
      sent.splice(sent.indexOf(each), 1)
      seen.refunded += 1
    }
  }

  async function reset(its: UsageStore, { caller, ip }: ReturnType<typeof ask>) {
    for (const { subject } of oracleRules(caller, bucketOf(ip))) oracle.reset(subject, nowMs)
    for (const { subject } of limitRulesOf(caller, ip)) {
      await its.reset(subject, 'all', nowMs)
      // A refund of what was admitted before would take from what came after.
      const kept = sent.filter(each => rulesOf(each).every(rule => rule.subject.id !== subject.id))
      sent.splice(0, sent.length, ...kept)
    }
  }

  /** A plan for the key whose plan changes: its window stays 5 s long, for the store keeps no more than a window needs. */
  const changing = (n: number): Caller => {
    const { burst, ...rest } = plans[n % plans.length] ?? { burst: null }
    return regular({ ...rest, burst: { requests: burst?.requests ?? 3, seconds: 5 } }, IDS[0])
  }
  callers[0] = changing(0)
  type Taken = { its: UsageStore; step: Step; first: Request; fault: string | null }
  const takers: { [kind in Step['kind']]: (taken: Taken) => Promise<void> } = {
    turn: ({ its, step, fault }) => turn(its, step.requests, fault),
    refund: ({ its, step, fault }) => refund(its, step.requests, fault),
    reset: ({ its, first }) => reset(its, ask(first)),
    async prune({ its }) {
      if (isPruned) await its.prune(nowMs)
    },
    async 'prune ahead'({ its, first }) {
      if (isPruned) while (await its.prune(nowMs + first.from * DAY_MS));
    },
    flush: async ({ its }) => its.flush(),
    async note({ its, first }) {
      const [records, refused] = [first.from, first.who]
      its.note({ keyId: IDS[0], records, refused, nowMs })
      use.note(IDS[0], nowMs, records, refused)
    },
    async plan({ first }) {
      callers[0] = changing(first.from)
      usage.forget() // or a refusal could say for a moment what was left before the change
    },
    async restart({ its, step }) {
      await its.flush()
      usage.end(its)
      servers[step.server] = usage.open()
    },
    async crash({ its, step }) {
      await its.flush() // a crash loses use that was not flushed, and nothing else
      servers[step.server] = usage.open()
    },
  }

  for (const step of world.steps) {
    nowMs += step.stepMs
    if (isPruned) nowMs = Math.max(nowMs, latestMs - HOUR_MS / 2)
    latestMs = Math.max(latestMs, nowMs)
    await usage.at(nowMs)
    const faults = step.fault === null ? [] : engine.faults
    const fault = faults[(step.fault ?? 0) % faults.length] ?? null
    const [first = { who: 0, from: 0, subnets: [] }] = step.requests
    await takers[step.kind]({ its: servers[step.server] as UsageStore, step, first, fault })
    const { limits, quotas } = createAccess(
      { find: () => null },
      servers[step.watched] as UsageStore,
    )
    for (const { caller, ip } of step.requests.map(ask)) {
      const found = await limits(unwaited(), caller, ip, nowMs)
      const networks = await quotas(unwaited(), caller, nowMs)
      expect([...found, ...networks]).toEqual(oracle.limits(caller, ip, nowMs))
    }
  }
  for (const its of servers) await its.flush()
  const first = utcDay(latestMs) - HISTORY_DAYS + 1
  for (const its of servers) {
    const uses = await its.history(IDS, first, utcDay(latestMs) + 1)
    expect(uses.map(({ days }) => comparable(days))).toEqual(
      IDS.map(id => use.of(id).filter(({ day }) => day >= first)),
    )
    seen.used += uses.length
  }
}

test.each(ENGINES.filter(({ isHere }) => isHere))(
  'servers decide like an oracle that remembers everything: $name',
  async engine => {
    const seen = { ...NOTHING }
    const property = fc.asyncProperty(anyWorld, async world => {
      const usage = await engine.open(world.snapshot)
      await usage.at(world.startMs)
      await play(engine, world, usage, seen).finally(() => usage.close())
    })
    await fc.assert(property, {
      numRuns: Number(process.env.RUNS ?? engine.runs),
      endOnFailure: true,
    })
    const { failed, ...others } = seen
    for (const times of Object.values(others)) expect(times).toBeGreaterThan(10)
    if (engine.faults.length > 0) expect(failed).toBeGreaterThan(10)
  },
)
