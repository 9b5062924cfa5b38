/**
 * Exact windows and daily counts (src/access/rate-limit.ts, contract B3, B6): as tables on a real
 * SQLite store, and in random sequences against an oracle that keeps everything.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { limitRulesOf } from '../../src/access/entitlements.ts'
import type { Caller } from '../../src/access/key.ts'
import { type LimitRule, type Subject, UNUSED, wholeSeconds } from '../../src/access/rate-limit.ts'
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

// ---------------------------------------------------------------------------------------------
// Windows and days, as tables

/** At this many seconds after T0, from this address: admitted, or the refusal and its wait. */
type Step = readonly [seconds: number, outcome: 'ok' | readonly ['window' | 'daily', number]]
type Story = { title: string; caller: Caller; steps: readonly Step[] }

const FIVE = regular(burst(5, 5))
const at = (...seconds: number[]): Step[] => seconds.map(second => [second, 'ok'])
const STORIES: readonly Story[] = [
  {
    title: 'five in five seconds, and the sixth waits for the first to be five seconds old',
    caller: FIVE,
    steps: [
      ...at(0, 1, 2, 3, 4),
      [4.001, ['window', 1]],
      [4.999, ['window', 1]],
      [5, 'ok'],
      [5.5, ['window', 1]],
      [6, 'ok'],
    ],
  },
  {
    title: 'no burst at the border of two aligned windows',
    caller: FIVE,
    steps: [
      ...at(4.5, 4.6, 4.7, 4.8, 4.9),
      [5, ['window', 5]],
      [9.499, ['window', 1]],
      [9.5, 'ok'],
    ],
  },
  {
    title: 'five at one instant, and five more exactly five seconds later',
    caller: FIVE,
    steps: [
      ...at(0, 0, 0, 0, 0),
      [0, ['window', 5]],
      [0.001, ['window', 5]],
      ...at(5, 5, 5, 5, 5),
      [5, ['window', 5]],
    ],
  },
  {
    title: 'refused requests do not prolong the wait',
    caller: regular(burst(1, 5)),
    steps: [
      [0, 'ok'],
      [1, ['window', 4]],
      [2, ['window', 3]],
      [4.5, ['window', 1]],
      [5, 'ok'],
    ],
  },
  {
    title: 'a clock that steps back admits no more, and waits are counted on it',
    caller: regular(burst(2, 5)),
    steps: [
      ...at(0, -60),
      [-60, ['window', 65]],
      [-3600, ['window', 3605]],
      [4.999, ['window', 1]],
      [5, 'ok'],
    ],
  },
  {
    title: 'the daily quota is full until midnight UTC',
    caller: regular({ daily: 2 }),
    steps: [
      ...at(0, 1),
      [2, ['daily', 43_198]],
      [43_199.5, ['daily', 1]],
      ...at(43_200, 43_200),
      [43_201, ['daily', 86_399]],
    ],
  },
  {
    title: 'a clock that steps back over midnight does not open the day before again',
    caller: regular({ daily: 1 }),
    steps: [
      ...at(43_199, 43_200),
      [43_199, ['daily', 86_401]],
      [0, ['daily', 129_600]],
      [129_600, 'ok'],
    ],
  },
  {
    title: 'a full window is said before a full day, with the longer of the two waits',
    caller: regular({ ...burst(1, 5), daily: 1 }),
    steps: [
      [0, 'ok'],
      [1, ['window', 43_199]],
      [5, ['daily', 43_195]],
      [43_200, 'ok'],
    ],
  },
  {
    title: 'a window that outlasts midnight sets the wait',
    caller: regular({ ...burst(1, 86_400), daily: 1 }),
    steps: [
      [0, 'ok'],
      [1, ['window', 86_399]],
      [43_200, ['window', 43_200]],
      [86_400, 'ok'],
    ],
  },
  {
    title: 'demo: two a minute',
    caller: DEMO,
    steps: [...at(0, 30), [59.999, ['window', 1]], [60, 'ok'], [60, ['window', 30]]],
  },
  {
    title: 'a temporary key: two an hour',
    caller: temp(),
    steps: [...at(0, 1), [2, ['window', 3598]], [3599.5, ['window', 1]], [3600, 'ok']],
  },
  {
    title: 'a plan without limits refuses nothing',
    caller: regular({}),
    steps: at(...new Array<number>(50).fill(0)),
  },
]

describe('admission', () => {
  test.each(STORIES)('$title', ({ caller, steps }) => {
    withUsage(({ admit }) => {
      for (const [seconds, expected] of steps) {
        const decision = admit(caller, IP, T0 + seconds * SECOND_MS)
        const isRefused = decision.kind === 'refused'
        const outcome = isRefused ? [decision.by, decision.retryAfterSeconds] : 'ok'
        expect<unknown>([seconds, outcome]).toEqual([seconds, expected])
      }
    })
  })
})

describe('subjects', () => {
  test('demo is counted for each address apart', () => {
    withUsage(({ admit }) => {
      const ask = (ip: string) => outcomeOf(admit(DEMO, ip, T0))
      expect([IP, IP, IP].map(ask)).toEqual(['ok', 'ok', 'window'])
      expect(ask('198.51.100.8')).toBe('ok')
      const sixes = ['2001:db8::1', '2001:db8::2', '2001:db8::3', '2001:db8:0:1::1']
      expect(sixes.map(ask)).toEqual(['ok', 'ok', 'window', 'ok'])
    })
  })

  test('regular keys are counted apart', () => {
    withUsage(({ admit }) => {
      const once = burst(1, 5)
      expect(outcomeOf(admit(regular(once, 'a'), IP, T0))).toBe('ok')
      expect(outcomeOf(admit(regular(once, 'b'), IP, T0))).toBe('ok')
      expect(outcomeOf(admit(regular(once, 'a'), '198.51.100.8', T0))).toBe('window')
    })
  })

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

  test('a temporary key that is refused for its address is not counted itself', () => {
    withUsage(({ admit, read }) => {
      for (const id of ['t1', 't2']) expect(outcomeOf(admit(temp(id), IP, T0))).toBe('ok')
      expect(outcomeOf(admit(temp('t3'), IP, T0 + 1))).toBe('window')
      expect(read(keySubject('t3'))).toEqual(UNUSED)
      const elsewhere = ['198.51.100.8', '198.51.100.9'].map(ip => admit(temp('t3'), ip, T0 + 2))
      expect(elsewhere.map(outcomeOf)).toEqual(['ok', 'ok'])
    })
  })

  test('an address that is refused for its temporary key is not counted itself', () => {
    withUsage(({ admit }) => {
      const ask = (id: string, ip: string, nowMs: number) => outcomeOf(admit(temp(id), ip, nowMs))
      for (const ip of ['198.51.100.8', '198.51.100.9']) expect(ask('t1', ip, T0)).toBe('ok')
      expect(ask('t1', IP, T0 + 1)).toBe('window')
      for (const id of ['t2', 't3']) expect(ask(id, IP, T0 + 2)).toBe('ok')
      expect(ask('t4', IP, T0 + 3)).toBe('window')
    })
  })
})

describe('admission by several rules and plans', () => {
  test('of a temporary key waits for the later of its two windows', () => {
    withUsage(({ admit }) => {
      const ask = (seconds: number, id: string, ip: string) =>
        admit(temp(id), ip, T0 + seconds * SECOND_MS)
      ask(0, 't1', '198.51.100.8')
      ask(100, 't1', '198.51.100.9') // the key opens at 3600
      ask(200, 't2', IP)
      ask(300, 't3', IP) // the address opens at 3800
      expect(ask(400, 't1', IP)).toMatchObject({ by: 'window', retryAfterSeconds: 3400 })
      expect(outcomeOf(ask(3799, 't1', IP))).toBe('window')
      expect(outcomeOf(ask(3800, 't1', IP))).toBe('ok')
    })
  })

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
  const status = (name: string, quota: number, seconds: number, left: number, reset: number) => ({
    name,
    quota,
    windowSeconds: seconds,
    remaining: left,
    resetSeconds: reset,
  })
  const both = regular({ ...burst(2, 5), daily: 3 })
  const stages = [
    [0, 'ok', status('burst', 2, 5, 1, 5), status('daily', 3, 86_400, 2, 43_200)],
    [1.5, 'ok', status('burst', 2, 5, 0, 4), status('daily', 3, 86_400, 1, 43_199)],
    [2, 'window', status('burst', 2, 5, 0, 3), status('daily', 3, 86_400, 1, 43_198)],
    [20, 'ok', status('burst', 2, 5, 1, 5), status('daily', 3, 86_400, 0, 43_180)],
    [30, 'daily', status('burst', 2, 5, 2, 0), status('daily', 3, 86_400, 0, 43_170)],
    [43_200, 'ok', status('burst', 2, 5, 1, 5), status('daily', 3, 86_400, 2, 86_400)],
  ] as const

  test('says after every request what remains, and when there is more', () => {
    withUsage(({ admit }) => {
      for (const [seconds, outcome, ...limits] of stages) {
        const decision = admit(both, IP, T0 + seconds * SECOND_MS)
        const expected = { seconds, outcome, limits }
        const actual = { seconds, outcome: outcomeOf(decision), limits: decision.limits }
        expect<unknown>(actual).toEqual(expected)
      }
    })
  })

  test('shows the windows of demo and of temporary keys, none without limits', () => {
    withUsage(({ admit }) => {
      expect(admit(DEMO, IP, T0).limits).toEqual([status('demo', 2, 60, 1, 60)])
      admit(temp('t1'), IP, T0)
      expect(admit(temp('t2'), IP, T0 + 1000).limits).toEqual([
        status('key', 2, 3600, 1, 3600),
        status('address', 2, 3600, 0, 3599),
      ])
      expect(admit(regular({}), IP, T0).limits).toEqual([])
    })
  })

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
