/**
 * Exact windows, daily counts and daily quotas of unique networks (src/access/rate-limit.ts and
 * network-quota.ts, contract B2, B3, B6) on a real SQLite store: in random sequences against an oracle that
 * keeps everything, and what sequences of one plan lack.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { keySubject, limitRulesOf, quotasOf } from '../../src/access/entitlements.ts'
import type { Caller } from '../../src/access/key.ts'
import { type NetworkDecision, quotaStatuses } from '../../src/access/network-quota.ts'
import { type LimitRule, type Subject, wholeSeconds } from '../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../src/lib/time.ts'
import { type Limits, T0 } from '../support/fixtures.ts'
import { bucketOf, createLimiterOracle, type Rule, rulesOf } from '../support/limiter-oracle.ts'
import {
  anyStartMs,
  anyStepMs,
  burst,
  DEMO,
  IP,
  type OpenUsage,
  outcomeOf,
  type Regular,
  regular,
  TODAY,
  temp,
  withUsage,
} from '../support/limits.ts'

test('retry_after is whole seconds, rounded up, and at least one', () => {
  const waits = [-5000, 0, 1, 999, 1000, 1001, 59_999, 60_000].map(wholeSeconds)
  expect(waits).toEqual([1, 1, 1, 1, 1, 2, 60, 60])
})

const FIVE = regular(burst(5, 5))

describe('subjects', () => {
  test('a key, an address of demo and one of temporary keys with the same id are three', () => {
    withUsage(({ usage }) => {
      const window = { name: 'w', limit: 1, ms: 1000 }
      const ask = (kind: Subject['kind']) =>
        usage
          .admit([{ rules: [{ subject: { kind, id: IP }, window, daily: null }], nowMs: T0 }])
          .map(outcomeOf)
      expect((['key', 'demo', 'temp', 'key'] as const).flatMap(ask)).toEqual([
        ...(['ok', 'ok', 'ok', 'window'] as const),
      ])
    })
  })
})

describe('admission by several rules and plans', () => {
  test('follows a plan that is lowered: the N-th last admission must be old enough', () => {
    withUsage(({ admit }) => {
      for (const second of [0, 1, 2, 3, 4]) admit(FIVE, IP, T0 + second * SECOND_MS)
      const lowered = regular(burst(2, 5))
      const refusal = { by: 'window', retryAfterSeconds: 4 } as const
      expect(admit(lowered, IP, T0 + 4 * SECOND_MS)).toMatchObject(refusal) // until 3 is 5 s old
      expect(outcomeOf(admit(lowered, IP, T0 + 8 * SECOND_MS))).toBe('ok')
    })
  })

  test('is refused by one full day of several', () => {
    withUsage(({ usage, read }) => {
      const rule = (id: string, daily: number): LimitRule => ({
        ...{ subject: keySubject(id), window: null, daily },
      })
      const admission = { rules: [rule('a', 1), rule('b', 9)], nowMs: T0 }
      expect(usage.admit([admission, admission]).map(outcomeOf)).toEqual(['ok', 'daily'])
      expect(read(keySubject('b')).requests).toBe(1)
    })
  })

  test('is recorded: as much as the window needs, and the number of the day', () => {
    withUsage(({ read, admit }) => {
      for (let i = 0; i < 5; i++) admit(FIVE, IP, T0 + i)
      const admissions = [0, 1, 2, 3, 4].map(i => T0 + i)
      expect(read(keySubject('k1'))).toMatchObject({ admissions, requests: 5 })
      admit(FIVE, IP, T0 + 4999)
      expect(read(keySubject('k1')).requests).toBe(5)
      admit(FIVE, IP, T0 + 5000)
      const later = [1, 2, 3, 4, 5000].map(i => T0 + i)
      expect(read(keySubject('k1'))).toMatchObject({ admissions: later, requests: 6 })
    })
  })
})

describe('the status of limits', () => {
  test('of a daily limit that was lowered below its use says that none remain, not less', () => {
    withUsage(({ admit }) => {
      const askWith = (daily: number) => admit(regular({ daily }), IP, T0)
      for (let i = 0; i < 5; i += 1) askWith(9)
      expect(askWith(2)).toMatchObject({ by: 'daily', limits: [{ quota: 2, remaining: 0 }] })
    })
  })
})

/** Admits a request and consumes the networks of its answer. */
function serve(
  { admit, consume }: OpenUsage,
  caller: Regular,
  { ip = IP, subnets = [] }: { ip?: string; subnets?: readonly number[] },
  nowMs: number,
): NetworkDecision {
  const decision = admit(caller, ip, nowMs)
  // A request that the window refuses has no answer; where a test asks for one, it counts now.
  const atMs = decision.kind === 'admitted' ? decision.atMs : nowMs
  return consume(caller, { ip, subnets, atMs, nowMs })
}

describe('quotas of networks', () => {
  test('say what is left of each that the plan has', () => {
    const left = (plan: Partial<Limits>) =>
      quotaStatuses(quotasOf(regular(plan).plan), { served: 2, callers: 1 }, TODAY, T0 + 1500).map(
        ({ name, quota, windowSeconds, remaining, resetSeconds }) =>
          `${name} ${remaining}/${quota} ${windowSeconds} ${resetSeconds}`,
      )
    expect(left({ subnets: 3, clients: 2 })).toEqual([
      'subnets 1/3 86400 43199',
      'clients 1/2 86400 43199',
    ])
    expect(left({ subnets: 1 })).toEqual(['subnets 0/1 86400 43199']) // the quota was lowered
    expect(left({})).toEqual([])
  })

  test('that refuse an answer say which set is full, and what the answer has and would add', () => {
    withUsage(usage => {
      const caller = regular({ subnets: 3, clients: 1 })
      expect(serve(usage, caller, { subnets: [1, 2] }, T0).kind).toBe('consumed')
      const over = { kind: 'refused', set: 'served', quota: 3, used: 2, added: 2, all: 3 }
      expect(serve(usage, caller, { subnets: [2, 3, 4, 4] }, T0)).toMatchObject(over)
      const elsewhere = { set: 'callers', quota: 1, used: 1, added: 1, all: 1 }
      expect(serve(usage, caller, { ip: '203.0.113.1' }, T0)).toMatchObject(elsewhere)
    })
  })

  test('are kept for every key apart', () => {
    withUsage(usage => {
      for (const [id, ip, subnet] of [
        ['a', '198.51.100.7', 97],
        ['b', '203.0.113.7', 98],
      ] as const) {
        const caller = regular({ subnets: 1, clients: 1 }, id)
        expect(serve(usage, caller, { ip, subnets: [subnet] }, T0).kind).toBe('consumed')
      }
    })
  })

  test('record the networks of a set that has a quota, and no others', () => {
    withUsage(usage => {
      serve(usage, regular({ subnets: 9 }, 'a'), { subnets: [49_152, 51_968] }, T0)
      serve(usage, regular({ clients: 9 }, 'b'), { subnets: [1], ip: '2001:db8::1' }, T0)
      const recorded = ['a', 'b'].map(id => ({
        served: [...usage.networks(keySubject(id), 'served', TODAY)],
        callers: [...usage.networks(keySubject(id), 'callers', TODAY)],
      }))
      expect(recorded).toEqual([
        { served: ['49152', '51968'], callers: [] },
        { served: [], callers: ['2001:db8:0:0::/64'] },
      ])
      expect(usage.countRows('networks')).toBe(3)
    })
  })
})

// ---------------------------------------------------------------------------------------------
// Any sequence of requests and answers, against the oracle

/** Of IPv6, two of one /64 and one of another. */
const ADDRESSES: readonly string[] = [
  ...[IP, '198.51.100.8', '10.1.0.1', '2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
]
const anyPlan = fc.record({
  burst: fc.option(
    fc.record({
      requests: fc.integer({ min: 1, max: 5 }),
      seconds: fc.constantFrom(1, 2, 5, 60, 3600, 86_400),
    }),
  ),
  daily: fc.option(fc.integer({ min: 1, max: 8 })),
  subnets: fc.option(fc.integer({ min: 1, max: 8 })),
  clients: fc.option(fc.integer({ min: 1, max: 3 })),
})
/** Who asks from which address, after how long, and the networks of the answer. */
const anyRequest = fc.record({
  who: fc.nat({ max: 5 }),
  from: fc.nat({ max: ADDRESSES.length - 1 }),
  stepMs: fc.oneof(anyStepMs, anyStepMs, fc.integer({ min: 0, max: 6 * HOUR_MS })),
  subnets: fc.array(fc.nat({ max: 9 }), { maxLength: 5 }),
})
type Request = { who: number; from: number; stepMs: number; subnets: number[] }

/** Every admission of each subject as the store recorded it, with the rule that it must keep. */
type Recorded = Map<string, { rule: Rule; admissions: number[] }>

function noteAdmission(recorded: Recorded, { read }: OpenUsage, caller: Caller, ip: string): void {
  const rules = rulesOf(caller, bucketOf(ip))
  for (const [i, { subject }] of limitRulesOf(caller, ip).entries()) {
    const rule = rules[i]
    if (rule === undefined) throw new Error('the oracle has fewer rules')
    const before = recorded.get(rule.subject)?.admissions ?? []
    const last = read(subject).admissions.at(-1) ?? Number.NaN
    recorded.set(rule.subject, { rule, admissions: [...before, last] })
  }
}

/** No interval [t, t+S) and no UTC day holds more than its rule allows. */
function expectKept({ rule, admissions }: { rule: Rule; admissions: readonly number[] }): void {
  expect(admissions).toEqual([...admissions].sort((a, b) => a - b))
  const { window, daily } = rule
  for (const [i, first] of admissions.entries()) {
    const next = admissions[i + (window?.limit ?? 0)]
    if (window && next !== undefined) expect(next - first).toBeGreaterThanOrEqual(window.ms)
    const sameDay = admissions.filter(ms => Math.floor(ms / DAY_MS) === Math.floor(first / DAY_MS))
    if (daily !== null) expect(sameDay.length).toBeLessThanOrEqual(daily)
  }
}

/** After the wait the whole request would be served; a second sooner it would not. */
function expectTight(wait: number, isServedAfter: (seconds: number) => boolean): void {
  expect(Number.isInteger(wait) && wait >= 1).toBe(true)
  expect([wait > 1 && isServedAfter(wait - 1), isServedAfter(wait)]).toEqual([false, true])
}

/** Sends the requests to the limiter and the oracle; gives the outcome of each. */
function replay(usage: OpenUsage, callers: readonly Caller[], startMs: number, sent: Request[]) {
  const oracle = createLimiterOracle()
  const recorded: Recorded = new Map()
  let nowMs = startMs
  const outcomes = sent.map(({ who, from, stepMs, subnets }) => {
    nowMs += stepMs
    const caller = callers[who] ?? DEMO
    const ip = ADDRESSES[from] ?? IP
    const decision = usage.admit(caller, ip, nowMs)
    expect(decision).toEqual(oracle.admit(caller, ip, nowMs))
    if (decision.kind === 'refused') {
      expectTight(
        decision.retryAfterSeconds,
        wait => usage.tryAdmit(caller, ip, nowMs + wait * SECOND_MS).kind === 'admitted',
      )
      return outcomeOf(decision)
    }
    noteAdmission(recorded, usage, caller, ip)
    if (caller.kind !== 'regular') return 'ok'
    const answer = { ip, subnets, atMs: decision.atMs, nowMs }
    const consumed = usage.consume(caller, answer)
    const used = oracle.consume(caller, ip, subnets, decision.atMs)
    expect(consumed.kind === 'refused' ? consumed.used : null).toBe(used)
    if (consumed.kind === 'consumed') return 'consumed'
    const fitsAlone = new Set(subnets).size <= (caller.plan.subnets ?? 10)
    if (!fitsAlone) return 'networks'
    expectTight(consumed.retryAfterSeconds, wait => {
      const laterMs = nowMs + wait * SECOND_MS
      const again = usage.tryAdmit(caller, ip, laterMs)
      if (again.kind === 'refused') return false
      const { atMs } = again
      return usage.tryConsume(caller, { ip, subnets, atMs, nowMs: laterMs }).kind === 'consumed'
    })
    return 'networks'
  })
  for (const entry of recorded.values()) expectKept(entry)
  return outcomes
}

test('any sequence of requests and answers is decided as an oracle that keeps everything decides it', () => {
  const seen = { ok: 0, window: 0, daily: 0, consumed: 0, networks: 0 }
  const plans = fc.tuple(anyPlan, anyPlan, anyPlan)
  const requests = fc.array(anyRequest, { minLength: 1, maxLength: 80, size: 'max' })
  fc.assert(
    fc.property(anyStartMs, plans, requests, (startMs, limits, sent) => {
      const paid = limits.map((plan, i) => regular(plan, `k${i}`))
      const callers = [...paid, DEMO, temp('t1'), temp('t2')]
      const outcomes = withUsage(usage => replay(usage, callers, startMs, sent))
      for (const outcome of outcomes) seen[outcome] += 1
    }),
    { numRuns: 300 },
  )
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
})
