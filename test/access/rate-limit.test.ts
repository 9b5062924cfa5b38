/**
 * Exact windows and daily counts (src/access/rate-limit.ts, contract B3, B6) on a real SQLite store:
 * in random sequences against an oracle that keeps everything, and what sequences of one plan lack.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { limitRulesOf } from '../../src/access/entitlements.ts'
import type { Caller } from '../../src/access/key.ts'
import { type LimitRule, type Subject, wholeSeconds } from '../../src/access/rate-limit.ts'
import { DAY_MS, SECOND_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import { bucketOf, createLimiterOracle, type Rule, rulesOf } from '../support/limiter-oracle.ts'
import {
  anyStartMs,
  anyStepMs,
  burst,
  DEMO,
  IP,
  type OpenUsage,
  type Outcome,
  outcomeOf,
  regular,
  TODAY,
  temp,
  withUsage,
} from '../support/limits.ts'

const keySubject = (id: string): Subject => ({ kind: 'key', id })

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
      expect(read(keySubject('k1'))).toMatchObject({ admissions, day: TODAY, requests: 5 })
      admit(FIVE, IP, T0 + 4999)
      expect(read(keySubject('k1')).requests).toBe(5)
      admit(FIVE, IP, T0 + 5000)
      const later = [1, 2, 3, 4, 5000].map(i => T0 + i)
      expect(read(keySubject('k1'))).toMatchObject({ admissions: later, day: TODAY, requests: 6 })
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

// ---------------------------------------------------------------------------------------------
// Windows and days against the oracle

const ADDRESSES: readonly string[] = [
  ...[IP, '198.51.100.8', '2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
]
const anyPlan = fc.record({
  burst: fc.option(
    fc.record({
      requests: fc.integer({ min: 1, max: 5 }),
      seconds: fc.constantFrom(1, 2, 5, 60, 3600, 86_400),
    }),
  ),
  daily: fc.option(fc.integer({ min: 1, max: 8 })),
})
/** Who asks from which address, after how long. */
const anyRequests = fc.array(
  fc.record({
    who: fc.nat({ max: 5 }),
    from: fc.nat({ max: ADDRESSES.length - 1 }),
    stepMs: anyStepMs,
  }),
  { minLength: 1, maxLength: 80, size: 'max' },
)
type Request = { who: number; from: number; stepMs: number }

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

/** After the wait the same request is admitted; a second sooner it is not. */
function expectTight(
  { tryAdmit }: OpenUsage,
  caller: Caller,
  ip: string,
  at: number,
  wait: number,
) {
  const outcomeAfter = (seconds: number) =>
    outcomeOf(tryAdmit(caller, ip, at + seconds * SECOND_MS))
  expect(Number.isInteger(wait) && wait >= 1).toBe(true)
  expect(outcomeAfter(wait)).toBe('ok')
  if (wait > 1) expect(outcomeAfter(wait - 1)).not.toBe('ok')
}

/** Sends the requests to the limiter and the oracle; gives the outcome of each. */
function replay(usage: OpenUsage, callers: readonly Caller[], startMs: number, sent: Request[]) {
  const oracle = createLimiterOracle()
  const recorded: Recorded = new Map()
  let nowMs = startMs
  const outcomes = sent.map(({ who, from, stepMs }): Outcome => {
    nowMs += stepMs
    const caller = callers[who] ?? DEMO
    const ip = ADDRESSES[from] ?? IP
    const decision = usage.admit(caller, ip, nowMs)
    expect(decision).toEqual(oracle.admit(caller, ip, nowMs))
    if (decision.kind === 'admitted') noteAdmission(recorded, usage, caller, ip)
    else expectTight(usage, caller, ip, nowMs, decision.retryAfterSeconds)
    return outcomeOf(decision)
  })
  for (const entry of recorded.values()) expectKept(entry)
  return outcomes
}

describe('any sequence of requests', () => {
  test('is decided as an oracle that keeps everything decides it', () => {
    const seen = { ok: 0, window: 0, daily: 0 }
    const plans = fc.tuple(anyPlan, anyPlan, anyPlan)
    const property = fc.property(anyStartMs, plans, anyRequests, (startMs, limits, sent) => {
      const paid = limits.map((plan, i) => regular(plan, `k${i}`))
      const callers = [...paid, DEMO, temp('t1'), temp('t2')]
      const outcomes = withUsage(usage => replay(usage, callers, startMs, sent))
      for (const outcome of outcomes) seen[outcome]++
    })
    fc.assert(property, { numRuns: 200 })
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})
