/**
 * Who may ask how often (src/access.ts, contract B1–B6): the limits as tables on a real SQLite
 * store, and the exact windows and the quotas of networks against naive models.
 */

import type { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type Caller,
  type Charge,
  chargeOne,
  createAccess,
  keySubject,
  metersOf,
  refusalOf,
  termsOf,
} from '../../src/access/access.ts'
import { newKey } from '../../src/access/key.ts'
import { BUILT_IN_PLANS, type Plan } from '../../src/access/plan.ts'
import { admitOne, type UsageStore, type Verdict } from '../../src/access/rate-limit.ts'
import { ApiError } from '../../src/api/errors.ts'
import { openRegistry } from '../../src/app.ts'
import { createUsageStore, openAccessFile } from '../../src/sqlite/access/usage.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const SECOND = 1000
const HOUR = 3600 * SECOND
const DAY = 24 * HOUR
/** T0 is noon: the UTC day ends in twelve hours. */
const MIDNIGHT = T0 + 12 * HOUR
const IP = '198.51.100.7'

const UNLIMITED: Plan = {
  name: 'test',
  burst: null,
  daily: null,
  subnets: null,
  clients: null,
  count: null,
}
const regular = (limits: Partial<Plan>, id = 'k1'): Caller => ({
  kind: 'regular',
  id,
  plan: { ...UNLIMITED, ...limits },
})
const temp = (id = 't1'): Caller => ({ kind: 'temp', id })
const DEMO: Caller = { kind: 'demo', id: 'demo' }
const burst = (requests: number, seconds: number): Partial<Plan> => ({
  burst: { requests, seconds },
})

/** An empty usage store in memory; `tentatively` does something and undoes it. */
function emptyWorld() {
  const db: Database = openAccessFile(':memory:')
  const store: UsageStore = createUsageStore(db)
  const undo = new Error('undo')
  let isTentative = false
  const transact = <T>(work: () => T): T => (isTentative ? work() : store.transaction(work))
  return {
    store,
    close: () => db.close(),
    admit: (caller: Caller, ip: string, nowMs: number): Verdict =>
      transact(() => admitOne(store, metersOf(caller, ip), nowMs)),
    charge: (charge: Charge, nowMs: number): ApiError | null =>
      transact(() => chargeOne(store, charge, nowMs)),
    tentatively<T>(work: () => T): T {
      const done: T[] = []
      isTentative = true
      try {
        store.transaction(() => {
          done.push(work())
          throw undo
        })
      } catch (error) {
        if (error !== undo) throw error
      } finally {
        isTentative = false
      }
      return done[0] as T // work has run: it would have thrown otherwise
    },
  }
}
type World = ReturnType<typeof emptyWorld>

function inEmptyWorld<T>(work: (world: World) => T): T {
  const world = emptyWorld()
  try {
    return work(world)
  } finally {
    world.close()
  }
}

// ---------------------------------------------------------------------------------------------
// Terms, meters, refusals

describe('plans and terms', () => {
  test('standard and classic are built in as the contract says', () => {
    const rest = { subnets: null, clients: null, count: null }
    expect(BUILT_IN_PLANS).toEqual([
      { ...rest, name: 'standard', burst: { requests: 5, seconds: 5 }, daily: 34_560 },
      { ...rest, name: 'classic', burst: { requests: 2, seconds: 5 }, daily: 34_560, subnets: 10 },
    ])
  })

  const terms = [
    ['demo', DEMO, { countMax: 50, worksDefault: 90, masked: true }],
    ['a temporary key', temp(), { countMax: 30, worksDefault: null, masked: false }],
    ['a plan', regular({ count: 7 }), { countMax: 7, worksDefault: null, masked: false }],
    ['no bound', regular({}), { countMax: null, worksDefault: null, masked: false }],
  ] as const
  test.each(terms)('%s has its terms', (_, caller, expected) => {
    expect(termsOf(caller)).toEqual(expected)
  })
})

describe('meters', () => {
  const subjects = (caller: Caller, ip: string) => metersOf(caller, ip).map(m => m.subject)

  test('of a regular key count the key alone, from whatever address', () => {
    const caller = regular({ ...burst(5, 5), daily: 100 })
    const window = { name: 'burst', limit: 5, ms: 5000 }
    expect(metersOf(caller, IP)).toEqual([{ subject: 'key:k1', window, daily: 100 }])
    expect(metersOf(caller, '2001:db8::1')).toEqual(metersOf(caller, IP))
    expect(metersOf(regular({}), IP)).toEqual([{ subject: 'key:k1', window: null, daily: null }])
  })

  test('of demo count the address: 2 a minute', () => {
    const [meter, ...rest] = metersOf(DEMO, IP)
    expect(rest).toEqual([])
    expect(meter).toMatchObject({ window: { limit: 2, ms: 60_000 }, daily: null })
    expect(subjects(DEMO, IP)).not.toEqual(subjects(DEMO, '198.51.100.8'))
  })

  test('of a temporary key count the key and the address: 2 an hour each', () => {
    const meters = metersOf(temp(), IP)
    expect(meters.map(({ window }) => window?.limit)).toEqual([2, 2])
    expect(meters.map(({ window }) => window?.ms)).toEqual([HOUR, HOUR])
    const [key, address] = subjects(temp(), IP)
    expect(key).toBe(keySubject('t1'))
    expect(subjects(temp('t2'), IP)).toEqual([keySubject('t2'), address ?? ''])
    expect(subjects(temp(), '198.51.100.8')[0]).toBe(key ?? '')
    expect(subjects(temp(), '198.51.100.8')[1]).not.toBe(address ?? '')
  })

  test('demo and temporary keys are counted apart at one address', () => {
    expect(subjects(temp(), IP)).not.toContain(subjects(DEMO, IP)[0] ?? '')
  })

  test.each([DEMO, temp()])('IPv6 addresses are counted per /64: $kind', caller => {
    const at = (ip: string) => subjects(caller, ip).at(-1)
    expect(at('2001:db8:0:1:ffff::2')).toBe(at('2001:db8:0:1::1') ?? '')
    expect(at('2001:db8:0:2::1')).not.toBe(at('2001:db8:0:1::1') ?? '')
  })
})

describe('a refusing verdict becomes', () => {
  const verdict = (refused: 'window' | 'daily'): Verdict => ({
    ...{ refused, retryAfterSeconds: 17 },
    ...{ gauges: [], atMs: T0 },
  })
  const retry = { retryAfterSeconds: 17 }
  const paid = regular({ daily: 34_560 })
  const rows = [
    ['RATE_LIMIT_EXCEEDED', paid, 'window', retry],
    ['DAILY_LIMIT_REACHED', paid, 'daily', { ...retry, dailyLimit: 34_560 }],
    ['DEMO_LIMIT_REACHED', DEMO, 'window', retry],
    ['TEMP_LIMIT_REACHED', temp(), 'window', retry],
  ] as const
  test.each(rows)('%s', (code, caller, refused, context) => {
    const error = refusalOf(caller, verdict(refused))
    expect([error.code, error.status, error.context]).toEqual([code, 429, context])
    expect(error.message).toEndWith('; retry after 17 s')
  })
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
    inEmptyWorld(({ admit }) => {
      for (const [seconds, outcome] of steps) {
        const { refused, retryAfterSeconds } = admit(caller, IP, T0 + seconds * SECOND)
        const got = refused === null ? 'ok' : [refused, retryAfterSeconds]
        expect([seconds, got]).toEqual([seconds, outcome === 'ok' ? 'ok' : [...outcome]])
      }
    })
  })
})

describe('subjects', () => {
  test('demo is counted for each address apart', () => {
    inEmptyWorld(({ admit }) => {
      const refusedAt = (ip: string) => admit(DEMO, ip, T0).refused
      expect([IP, IP, IP].map(refusedAt)).toEqual([null, null, 'window'])
      expect(refusedAt('198.51.100.8')).toBeNull()
      const sixes = ['2001:db8::1', '2001:db8::2', '2001:db8::3', '2001:db8:0:1::1']
      expect(sixes.map(refusedAt)).toEqual([null, null, 'window', null])
    })
  })

  test('regular keys are counted apart', () => {
    inEmptyWorld(({ admit }) => {
      const once = burst(1, 5)
      expect(admit(regular(once, 'a'), IP, T0).refused).toBeNull()
      expect(admit(regular(once, 'b'), IP, T0).refused).toBeNull()
      expect(admit(regular(once, 'a'), '198.51.100.8', T0).refused).toBe('window')
    })
  })

  test('a temporary key that is refused for its address is not charged for itself', () => {
    inEmptyWorld(({ admit, store }) => {
      for (const id of ['t1', 't2']) expect(admit(temp(id), IP, T0).refused).toBeNull()
      expect(admit(temp('t3'), IP, T0 + 1).refused).toBe('window')
      expect(store.read(keySubject('t3'))).toBeNull()
      const elsewhere = ['198.51.100.8', '198.51.100.9'].map(ip => admit(temp('t3'), ip, T0 + 2))
      expect(elsewhere.map(({ refused }) => refused)).toEqual([null, null])
    })
  })

  test('an address that is refused for its temporary key is not charged for itself', () => {
    inEmptyWorld(({ admit }) => {
      const others = ['198.51.100.8', '198.51.100.9']
      for (const ip of others) expect(admit(temp(), ip, T0).refused).toBeNull()
      expect(admit(temp(), IP, T0 + 1).refused).toBe('window')
      for (const id of ['t2', 't3']) expect(admit(temp(id), IP, T0 + 2).refused).toBeNull()
      expect(admit(temp('t4'), IP, T0 + 3).refused).toBe('window')
    })
  })
})

describe('admission over several subjects and plans', () => {
  test('of a temporary key waits for the later of its two windows', () => {
    inEmptyWorld(({ admit }) => {
      const ask = (seconds: number, id: string, ip: string) =>
        admit(temp(id), ip, T0 + seconds * SECOND)
      ask(0, 't1', '198.51.100.8')
      ask(100, 't1', '198.51.100.9') // the key opens at 3600
      ask(200, 't2', IP)
      ask(300, 't3', IP) // the address opens at 3800
      expect(ask(400, 't1', IP)).toMatchObject({ refused: 'window', retryAfterSeconds: 3400 })
      expect(ask(3799, 't1', IP).refused).toBe('window')
      expect(ask(3800, 't1', IP).refused).toBeNull()
    })
  })

  test('follows a plan that is lowered: the N-th last admission must be old enough', () => {
    inEmptyWorld(({ admit }) => {
      for (const second of [0, 1, 2, 3, 4]) admit(FIVE, IP, T0 + second * SECOND)
      const lowered = regular(burst(2, 5))
      const refusal = { refused: 'window', retryAfterSeconds: 4 }
      expect(admit(lowered, IP, T0 + 4 * SECOND)).toMatchObject(refusal) // until 3 is 5 s old
      expect(admit(lowered, IP, T0 + 8 * SECOND).refused).toBeNull()
    })
  })

  test('is remembered by the store: another limiter on it goes on where this one was', () => {
    inEmptyWorld(({ store, admit }) => {
      for (let i = 0; i < 5; i++) admit(FIVE, IP, T0 + i)
      expect(store.read(keySubject('k1'))).toEqual({
        admissions: [0, 1, 2, 3, 4].map(i => T0 + i),
        day: 20_777,
        requests: 5,
      })
      admit(FIVE, IP, T0 + 4999)
      expect(store.read(keySubject('k1'))?.requests).toBe(5)
      admit(FIVE, IP, T0 + 5000)
      const admissions = [1, 2, 3, 4, 5000].map(i => T0 + i) // no more than the window asks for
      expect(store.read(keySubject('k1'))).toEqual({ admissions, day: 20_777, requests: 6 })
    })
  })
})

describe('gauges', () => {
  const gauge = (name: string, quota: number, seconds: number, left: number, reset: number) => ({
    name,
    quota,
    windowSeconds: seconds,
    remaining: left,
    resetSeconds: reset,
  })
  const both = regular({ ...burst(2, 5), daily: 3 })
  const stages = [
    [0, null, gauge('burst', 2, 5, 1, 5), gauge('daily', 3, 86_400, 2, 43_200)],
    [1.5, null, gauge('burst', 2, 5, 0, 4), gauge('daily', 3, 86_400, 1, 43_199)],
    [2, 'window', gauge('burst', 2, 5, 0, 3), gauge('daily', 3, 86_400, 1, 43_198)],
    [20, null, gauge('burst', 2, 5, 1, 5), gauge('daily', 3, 86_400, 0, 43_180)],
    [30, 'daily', gauge('burst', 2, 5, 2, 0), gauge('daily', 3, 86_400, 0, 43_170)],
    [43_200, null, gauge('burst', 2, 5, 1, 5), gauge('daily', 3, 86_400, 2, 86_400)],
  ] as const

  test('tell after every request what remains, and when there is more', () => {
    inEmptyWorld(({ admit }) => {
      for (const [seconds, refused, ...gauges] of stages) {
        const verdict = admit(both, IP, T0 + seconds * SECOND)
        const expected = { seconds, refused, gauges }
        expect({ seconds, refused: verdict.refused, gauges: verdict.gauges }).toEqual(expected)
      }
    })
  })

  test('read before any request show everything unused, and use nothing', () => {
    inEmptyWorld(({ store, admit }) => {
      const access = createAccess(() => null, store)
      const fresh = [gauge('burst', 2, 5, 2, 0), gauge('daily', 3, 86_400, 3, 43_200)]
      for (let i = 0; i < 5; i++) expect(access.gauges(both, IP, T0)).toEqual(fresh)
      expect(admit(both, IP, T0).gauges[0]?.remaining).toBe(1)
      expect(access.gauges(both, IP, T0)[0]?.remaining).toBe(1)
    })
  })

  test('show the windows of demo and of temporary keys, none without limits', () => {
    inEmptyWorld(({ admit }) => {
      expect(admit(DEMO, IP, T0).gauges).toEqual([gauge('demo', 2, 60, 1, 60)])
      admit(temp('t1'), IP, T0)
      expect(admit(temp('t2'), IP, T0 + 1000).gauges).toEqual([
        gauge('key', 2, 3600, 1, 3600),
        gauge('address', 2, 3600, 0, 3599),
      ])
      expect(admit(regular({}), IP, T0).gauges).toEqual([])
    })
  })
})

// ---------------------------------------------------------------------------------------------
// Windows and days against a naive model

type Bucket = { ip: string; bucket: string }
const ADDRESSES: readonly Bucket[] = [
  { ip: '198.51.100.7', bucket: 'one' },
  { ip: '198.51.100.8', bucket: 'two' },
  { ip: '2001:db8:0:1::1', bucket: 'six' },
  { ip: '2001:db8:0:1:ffff::2', bucket: 'six' },
  { ip: '2001:db8:0:2::1', bucket: 'other six' },
]

/** A subject of the model, and the rules it must keep. */
type Rule = { who: string; window: { limit: number; ms: number } | null; daily: number | null }

function rulesOf(caller: Caller, { bucket }: Bucket): Rule[] {
  if (caller.kind === 'demo') {
    return [{ who: `demo from ${bucket}`, window: { limit: 2, ms: 60_000 }, daily: null }]
  }
  if (caller.kind === 'temp') {
    const window = { limit: 2, ms: 3_600_000 }
    const subjects = [`key ${caller.id}`, `temp from ${bucket}`]
    return subjects.map(who => ({ who, window, daily: null }))
  }
  const { burst: b, daily } = caller.plan
  const window = b && { limit: b.requests, ms: b.seconds * 1000 }
  return [{ who: `key ${caller.id}`, window, daily }]
}

/** Keeps every admission of every subject for ever, and counts. */
function createModel() {
  const logs = new Map<string, number[]>()
  const logOf = (who: string): number[] => logs.get(who) ?? []
  const judge = ({ who, window, daily }: Rule, nowMs: number) => {
    const log = logOf(who)
    const atMs = Math.max(nowMs, ...log)
    const recent = log.filter(ms => window !== null && ms > atMs - window.ms && ms <= atMs)
    const today = log.filter(ms => Math.floor(ms / DAY) === Math.floor(atMs / DAY))
    return {
      atMs,
      windowFull: window !== null && recent.length >= window.limit,
      dayFull: daily !== null && today.length >= daily,
    }
  }
  return (rules: readonly Rule[], nowMs: number): Pick<Verdict, 'refused' | 'atMs'> => {
    const verdicts = rules.map(rule => judge(rule, nowMs))
    const windowFull = verdicts.some(verdict => verdict.windowFull)
    const dayFull = verdicts.some(verdict => verdict.dayFull)
    const refused = windowFull ? 'window' : dayFull ? 'daily' : null
    if (refused === null) {
      for (const [i, { who }] of rules.entries()) {
        logs.set(who, [...logOf(who), verdicts[i]?.atMs ?? 0])
      }
    }
    return { refused, atMs: Math.max(...verdicts.map(({ atMs }) => atMs)) }
  }
}

const anyBurst = fc.option(
  fc.record({
    requests: fc.integer({ min: 1, max: 5 }),
    seconds: fc.constantFrom(1, 2, 5, 60, 3600, 86_400),
  }),
)
const anyPlan = fc.record({
  burst: anyBurst,
  daily: fc.option(fc.integer({ min: 1, max: 8 })),
})
const stepMs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 1200 }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 12_000 }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...[0, 1, 999, 1000, 1001, 4999, 5000, 5001, 30_000, 59_999, 60_000],
      ...[1_800_000, 3_599_999, 3_600_000],
    ),
  },
  { weight: 1, arbitrary: fc.integer({ min: -20_000, max: -1 }) },
  { weight: 1, arbitrary: fc.constantFrom(-DAY, -HOUR, 12 * HOUR, DAY - 1, DAY) },
)
const startMs = fc.oneof(
  fc.constant(T0),
  fc.integer({ min: MIDNIGHT - 30_000, max: MIDNIGHT }), // the day ends under way
)
/** Which caller asks from which address, after how long. */
const requests = fc.array(
  fc.record({ who: fc.nat({ max: 5 }), from: fc.nat({ max: ADDRESSES.length - 1 }), stepMs }),
  { minLength: 1, maxLength: 80, size: 'max' },
)

/** What the store recorded of each subject, in full, with the rule it must keep. */
type Recorded = Map<string, { rule: Rule; admissions: number[] }>

function noteAdmission(recorded: Recorded, store: UsageStore, caller: Caller, from: Bucket): void {
  const subjects = metersOf(caller, from.ip).map(({ subject }) => subject)
  for (const [i, rule] of rulesOf(caller, from).entries()) {
    const entry = recorded.get(rule.who) ?? { rule, admissions: [] }
    const last = store.read(subjects[i] ?? '')?.admissions.at(-1)
    recorded.set(rule.who, { rule, admissions: [...entry.admissions, last ?? Number.NaN] })
  }
}

/** No interval [t, t+S) and no UTC day holds more than its rule allows. */
function expectKept({ rule, admissions }: { rule: Rule; admissions: readonly number[] }): void {
  expect(admissions).toEqual([...admissions].sort((a, b) => a - b))
  const { window, daily } = rule
  for (const [i, first] of admissions.entries()) {
    const next = admissions[i + (window?.limit ?? 0)]
    if (window && next !== undefined) expect(next - first).toBeGreaterThanOrEqual(window.ms)
    const sameDay = admissions.filter(ms => Math.floor(ms / DAY) === Math.floor(first / DAY))
    if (daily !== null) expect(sameDay.length).toBeLessThanOrEqual(daily)
  }
}

/** After the wait the same request is admitted; a second sooner it is not. */
function expectTight(world: World, caller: Caller, ip: string, nowMs: number, wait: number): void {
  const refusedAt = (ms: number) => world.tentatively(() => world.admit(caller, ip, ms).refused)
  expect(Number.isInteger(wait) && wait >= 1).toBe(true)
  expect(refusedAt(nowMs + wait * SECOND)).toBeNull()
  if (wait > 1) expect(refusedAt(nowMs + (wait - 1) * SECOND)).not.toBeNull()
}

type Outcome = 'ok' | 'window' | 'daily'
type Request = { who: number; from: number; stepMs: number }

/** Sends the requests to the limiter and the model; gives what became of each. */
function replay(world: World, callers: readonly Caller[], start: number, sent: Request[]) {
  const model = createModel()
  const recorded: Recorded = new Map()
  let nowMs = start
  const outcomes = sent.map(({ who, from, stepMs: step }): Outcome => {
    nowMs += step
    const caller = callers[who] ?? DEMO
    const address = ADDRESSES[from] ?? { ip: IP, bucket: 'one' }
    const { refused, atMs, retryAfterSeconds } = world.admit(caller, address.ip, nowMs)
    expect({ refused, atMs }).toEqual(model(rulesOf(caller, address), nowMs))
    if (refused === null) noteAdmission(recorded, world.store, caller, address)
    else expectTight(world, caller, address.ip, nowMs, retryAfterSeconds)
    return refused ?? 'ok'
  })
  for (const entry of recorded.values()) expectKept(entry)
  return outcomes
}

describe('any sequence of requests', () => {
  test('is judged as a model that remembers everything judges it', () => {
    const seen = { ok: 0, window: 0, daily: 0 }
    const plans = fc.tuple(anyPlan, anyPlan, anyPlan)
    const property = fc.property(startMs, plans, requests, (start, limits, sent) => {
      const paid = limits.map((plan, i) => regular(plan, `k${i}`))
      const callers = [...paid, DEMO, temp('t1'), temp('t2')]
      const outcomes = inEmptyWorld(world => replay(world, callers, start, sent))
      for (const outcome of outcomes) seen[outcome]++
    })
    fc.assert(property, { numRuns: 200 })
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})

// ---------------------------------------------------------------------------------------------
// Quotas of networks

/** One answer: what it serves, who asks, and the size of the used set when it is refused. */
type Answer = { subnets?: readonly number[]; ip?: string; at?: number; used?: number }
type Quota = { title: string; plan: Partial<Plan>; answers: readonly Answer[] }

const QUOTAS: readonly Quota[] = [
  {
    title: 'networks served again cost nothing, new ones until the quota is full',
    plan: { subnets: 3 },
    answers: [
      { subnets: [1, 2] },
      { subnets: [2, 3] },
      { subnets: [1, 2, 3] },
      { subnets: [4], used: 3 },
      { subnets: [3, 4], used: 3 },
      { subnets: [3] },
    ],
  },
  {
    title: 'an answer over the quota is refused whole and adds nothing',
    plan: { subnets: 3 },
    answers: [{ subnets: [1, 2] }, { subnets: [2, 3, 4], used: 2 }, { subnets: [5] }],
  },
  {
    title: 'an answer that alone is over the quota is refused at once',
    plan: { subnets: 3 },
    answers: [{ subnets: [1, 2, 3, 4], used: 0 }, { subnets: [1, 2, 3] }],
  },
  {
    title: 'the set is empty again after midnight UTC',
    plan: { subnets: 1 },
    answers: [
      { subnets: [1], at: 0 },
      { subnets: [2], at: 43_199, used: 1 },
      { subnets: [2], at: 43_200 },
      { subnets: [1], at: 43_200, used: 1 },
    ],
  },
  {
    title: 'a clock that steps back over midnight does not open the day before again',
    plan: { subnets: 1 },
    answers: [
      { subnets: [1], at: 43_200 },
      { subnets: [2], at: 43_199, used: 1 },
      { subnets: [1], at: 43_199 },
    ],
  },
  {
    title: 'callers are counted by their /16',
    plan: { clients: 1 },
    answers: [
      { ip: '198.51.100.7' },
      { ip: '198.51.0.1' },
      { ip: '198.52.100.7', used: 1 },
      { ip: '2001:db8::1', used: 1 },
      { ip: '198.51.255.255', subnets: [1, 2, 3, 4, 5, 6] },
    ],
  },
  {
    title: 'IPv6 callers are counted by their /64',
    plan: { clients: 2 },
    answers: [
      { ip: '2001:db8:0:1::1' },
      { ip: '2001:db8:0:1:ffff::1' },
      { ip: '2001:db8:0:2::1' },
      { ip: '2001:db8:0:3::1', used: 2 },
    ],
  },
  {
    title: 'a caller over the quota adds no networks served, and the other way round',
    plan: { subnets: 1, clients: 1 },
    answers: [
      { ip: '198.51.100.7', subnets: [] },
      { ip: '198.52.100.7', subnets: [1], used: 1 },
      { ip: '198.51.100.7', subnets: [2] },
      { ip: '198.51.100.7', subnets: [1], used: 1 },
    ],
  },
  {
    title: 'networks over the quota do not count their caller',
    plan: { subnets: 1, clients: 1 },
    answers: [
      { ip: '198.52.100.7', subnets: [1, 2], used: 0 },
      { ip: '198.51.100.7', subnets: [1] },
    ],
  },
  {
    title: 'without a quota everything is served',
    plan: {},
    answers: [{ subnets: Array.from({ length: 500 }, (_, i) => i) }, { ip: '2001:db8::1' }],
  },
]

describe('quotas of networks', () => {
  test.each(QUOTAS)('$title', ({ plan, answers }) => {
    inEmptyWorld(({ admit, charge }) => {
      const caller = regular(plan)
      for (const [place, { subnets = [], ip = IP, at: seconds = 0, used }] of answers.entries()) {
        const nowMs = T0 + seconds * SECOND
        const refusal = charge({ caller, ip, subnets, verdict: admit(caller, ip, nowMs) }, nowMs)
        const code = used === undefined ? undefined : ('SUBNET_LIMIT_REACHED' as const)
        const got = { code: refusal?.code, used: refusal?.context.usedSubnets }
        expect({ place, ...got }).toEqual({ place, code, used })
      }
    })
  })

  const waits = [
    ['midnight UTC', {}, 0, 43_200],
    ['midnight UTC, rounded up', {}, 0.001, 43_200],
    ['midnight UTC, when the burst window is shorter', burst(2, 5), 0, 43_200],
    ['the burst window, when it outlasts midnight', burst(2, 86_400), 10, 86_390],
    ['at least a second', {}, 43_199.999, 1],
  ] as const
  test.each(waits)('a refused answer waits for %s', (_, plan, seconds, wait) => {
    inEmptyWorld(({ admit, charge }) => {
      const caller = regular({ ...plan, subnets: 1 })
      const answer = (subnets: readonly number[], nowMs: number) =>
        charge({ caller, ip: IP, subnets, verdict: admit(caller, IP, nowMs) }, nowMs)
      expect(answer([1], T0)).toBeNull()
      const refusal = answer([2], T0 + seconds * SECOND)
      expect(refusal?.context).toEqual({ retryAfterSeconds: wait, usedSubnets: 1 })
    })
  })

  test('hold for regular keys only', () => {
    inEmptyWorld(({ admit, charge, store }) => {
      const subnets = Array.from({ length: 100 }, (_, i) => i)
      for (const caller of [DEMO, temp()]) {
        const verdict = admit(caller, IP, T0)
        expect(charge({ caller, ip: IP, subnets, verdict }, T0)).toBeNull()
        expect(store.networks(`${keySubject(caller.id)}:served`, 20_777).size).toBe(0)
      }
    })
  })

  test('are kept for every key apart', () => {
    inEmptyWorld(({ admit, charge }) => {
      for (const id of ['a', 'b']) {
        const caller = regular({ subnets: 1, clients: 1 }, id)
        const ip = id === 'a' ? '198.51.100.7' : '203.0.113.7'
        const verdict = admit(caller, ip, T0)
        expect(charge({ caller, ip, subnets: [id.charCodeAt(0)], verdict }, T0)).toBeNull()
      }
    })
  })
})

const anyAnswer = fc.record({
  subnets: fc.uniqueArray(fc.nat({ max: 9 }), { maxLength: 5 }),
  ip: fc.constantFrom('10.0.0.1', '10.0.9.9', '10.1.0.1', '10.2.0.1', '2001:db8::1'),
  stepMs: fc.oneof(stepMs, fc.integer({ min: 0, max: 6 * HOUR })),
})
const anyQuota = fc.record({
  burst: fc.option(fc.constant({ requests: 2, seconds: 86_400 }), { freq: 2 }),
  daily: fc.option(fc.constant(4)),
  subnets: fc.option(fc.integer({ min: 1, max: 8 }), { freq: 8 }),
  clients: fc.option(fc.integer({ min: 1, max: 3 })),
})
type AnyAnswer = { subnets: number[]; ip: string; stepMs: number }

/** The networks of callers in `anyAnswer`, told anew. */
const networkOf = (ip: string): string => (ip.includes(':') ? 'six' : ip.slice(0, 4))

/** The sets of every day; the size of the set that the answer does not fit in, or `null`. */
function createQuotaModel({ subnets, clients }: Plan) {
  const days = new Map<string, Set<string>>()
  const setOf = (what: string, day: number): Set<string> => days.get(`${what} ${day}`) ?? new Set()
  return (answer: AnyAnswer, atMs: number): number | null => {
    const day = Math.floor(atMs / DAY)
    const wanted = [
      { what: 'served', quota: subnets, add: answer.subnets.map(String) },
      { what: 'callers', quota: clients, add: [networkOf(answer.ip)] },
    ].map(set => ({ ...set, used: setOf(set.what, day) }))
    for (const { quota, add, used } of wanted) {
      if (quota !== null && new Set([...used, ...add]).size > quota) return used.size
    }
    for (const { what, add, used } of wanted) {
      days.set(`${what} ${day}`, new Set([...used, ...add]))
    }
    return null
  }
}

/** Whether the whole request would be admitted and served. */
const isServed = (world: World, caller: Caller, { ip, subnets }: AnyAnswer, nowMs: number) =>
  world.tentatively(() => {
    const verdict = world.admit(caller, ip, nowMs)
    if (verdict.refused !== null) return false
    return world.charge({ caller, ip, subnets, verdict }, nowMs) === null
  })

/** Sends the answers to the limiter and the model; gives how many were served and refused. */
function replayAnswers(world: World, plan: Plan, start: number, sent: AnyAnswer[]) {
  const caller = regular(plan)
  const model = createQuotaModel(plan)
  const seen = { served: 0, refused: 0 }
  let nowMs = start
  for (const answer of sent) {
    nowMs += answer.stepMs
    const verdict = world.admit(caller, answer.ip, nowMs)
    if (verdict.refused !== null) continue
    const refusal = world.charge({ ...answer, caller, verdict }, nowMs)
    expect(refusal?.context.usedSubnets ?? null).toBe(model(answer, verdict.atMs))
    seen[refusal ? 'refused' : 'served']++
    const fitsAlone = answer.subnets.length <= (plan.subnets ?? 10)
    if (refusal === null || !fitsAlone) continue
    const wait = refusal.context.retryAfterSeconds ?? 0
    const after = (seconds: number) => isServed(world, caller, answer, nowMs + seconds * SECOND)
    expect([after(wait - 1) && wait > 1, after(wait)]).toEqual([false, true])
  }
  return seen
}

describe('any sequence of answers', () => {
  test('is charged as a model that keeps every day apart charges it', () => {
    const seen = { served: 0, refused: 0 }
    const answers = fc.array(anyAnswer, { minLength: 1, maxLength: 30, size: 'max' })
    const property = fc.property(startMs, anyQuota, answers, (start, quota, sent) => {
      const plan = { ...UNLIMITED, ...quota }
      const { served, refused } = inEmptyWorld(world => replayAnswers(world, plan, start, sent))
      seen.served += served
      seen.refused += refused
    })
    fc.assert(property, { numRuns: 200 })
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})

// ---------------------------------------------------------------------------------------------
// Access: keys in force, and group commit

describe('authenticate', () => {
  const registry = openRegistry(temporaryDirectory())
  afterAll(() => registry.close())
  const { access, keys } = registry
  const make = (key: string, plan: string | null, expiresAt: number | null) => ({
    key,
    id: keys.add({ key, label: '', plan, expiresAt }, T0).id,
  })
  const made = {
    paid: make(newKey('regular'), 'standard', null),
    own: make('my-own-key', 'classic', null),
    ending: make(newKey('regular'), 'standard', T0 + HOUR),
    revoked: make(newKey('regular'), 'standard', null),
    temp: make(newKey('temp'), null, T0 + HOUR),
    revokedTemp: make(newKey('temp'), null, T0 + HOUR),
  }
  for (const { id } of [made.revoked, made.revokedTemp]) keys.revoke(id, T0)
  const [standard, classic] = BUILT_IN_PLANS

  test.each([
    [made.paid, T0, { kind: 'regular', plan: standard }],
    [made.paid, T0 + 1000 * DAY, { kind: 'regular', plan: standard }],
    [made.own, T0, { kind: 'regular', plan: classic }],
    [made.ending, T0 + HOUR - 1, { kind: 'regular', plan: standard }],
    [made.temp, T0, { kind: 'temp' }],
    [made.temp, T0 + HOUR - 1, { kind: 'temp' }],
    [{ key: 'demo', id: 'demo' }, T0, { kind: 'demo' }],
  ] as const)('knows %j at %d', ({ key, id }, nowMs, caller) => {
    expect(access.authenticate(key, nowMs) as object).toEqual({ id, ...caller })
  })

  const { key } = made.paid
  test.each([
    ['an unknown key', newKey('regular'), T0, 'INVALID_KEY'],
    ['a key at the instant it expires', made.ending.key, T0 + HOUR, 'INVALID_KEY'],
    ['an expired key', made.ending.key, T0 + DAY, 'INVALID_KEY'],
    ['a revoked key', made.revoked.key, T0, 'INVALID_KEY'],
    ['a key in another case', key.toUpperCase(), T0, 'INVALID_KEY'],
    ['a key cut short', key.slice(0, -1), T0, 'INVALID_KEY'],
    ['a key with more', `${key}x`, T0, 'INVALID_KEY'],
    ['the id of a key', made.paid.id, T0, 'INVALID_KEY'],
    ['a key of SQL', "' or 1=1 --", T0, 'INVALID_KEY'],
    ['a zero byte', '\u0000', T0, 'INVALID_KEY'],
    ['demo in capitals', 'DEMO', T0, 'INVALID_KEY'],
    ['an unknown temporary key', newKey('temp'), T0, 'TEMP_KEY_INVALID'],
    ['a temporary key at the instant it expires', made.temp.key, T0 + HOUR, 'TEMP_KEY_INVALID'],
    ['a revoked temporary key', made.revokedTemp.key, T0, 'TEMP_KEY_INVALID'],
    ['the prefix alone', 'temp_', T0, 'TEMP_KEY_INVALID'],
  ] as const)('refuses %s', (_, wrong, nowMs, code) => {
    try {
      access.authenticate(wrong, nowMs)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      expect([error.code, error.status]).toEqual([code, 403])
      expect(error.message).not.toContain(wrong)
      return
    }
    throw new Error('it was let in')
  })
})

/** Access on a store in memory that counts its transactions and can be made to fail. */
function countedAccess() {
  const db = openAccessFile(':memory:')
  const store = createUsageStore(db)
  const counts = { transactions: 0 }
  const counted: UsageStore = {
    ...store,
    transaction: work => {
      counts.transactions++
      return store.transaction(work)
    },
  }
  return {
    access: createAccess(() => null, counted),
    counts,
    store,
    setReadOnly: (on: boolean) => db.run(`pragma query_only = ${on ? 'on' : 'off'}`),
    close: () => db.close(),
  }
}

describe('group commit', () => {
  const verdicts = async (pending: readonly Promise<Verdict>[]) =>
    (await Promise.all(pending)).map(({ refused }) => refused)

  test('judges all requests of a turn in one transaction, in order of arrival', async () => {
    const { access, counts, close } = countedAccess()
    const pending = Array.from({ length: 7 }, () => access.admit(FIVE, IP, T0))
    const other = access.admit(regular(burst(1, 1), 'k2'), IP, T0)
    expect(counts.transactions).toBe(0)
    const expected = [null, null, null, null, null, 'window', 'window'] as const
    expect(await verdicts(pending)).toEqual([...expected])
    expect(await verdicts([other])).toEqual([null])
    expect(counts.transactions).toBe(1)
    const left = await Promise.all(
      pending.map(async verdict => (await verdict).gauges[0]?.remaining),
    )
    expect(left).toEqual([4, 3, 2, 1, 0, 0, 0])
    close()
  })

  test('judges each request by its own instant, though the batch is later', async () => {
    const { access, close } = countedAccess()
    const once = regular(burst(1, 5))
    const instants = [T0, T0 + 4999, T0 + 5000, T0 + 4000]
    const pending = instants.map(nowMs => access.admit(once, IP, nowMs))
    expect(await verdicts(pending)).toEqual([null, 'window', null, 'window'])
    close()
  })

  test('an admission is in the store once it resolves', async () => {
    const { access, store, close } = countedAccess()
    const pending = access.admit(FIVE, IP, T0)
    expect(store.read(keySubject('k1'))).toBeNull()
    await pending
    expect(store.read(keySubject('k1'))?.admissions).toEqual([T0])
    close()
  })

  test('rejects every request of a batch that cannot be written, and counts none', async () => {
    const { access, store, setReadOnly, close } = countedAccess()
    expect((await access.admit(FIVE, IP, T0)).refused).toBeNull()
    setReadOnly(true)
    const outcomes = await Promise.allSettled([1, 2, 3].map(i => access.admit(FIVE, IP, T0 + i)))
    const names = outcomes.map(o => (o.status === 'rejected' ? Object(o.reason).name : 'admitted'))
    expect(names).toEqual(['SQLiteError', 'SQLiteError', 'SQLiteError'])
    setReadOnly(false)
    expect(store.read(keySubject('k1'))?.admissions).toEqual([T0])
    expect((await access.admit(FIVE, IP, T0 + 4)).gauges[0]?.remaining).toBe(3)
    close()
  })

  test('one request that cannot be written takes the good ones before it back', async () => {
    const { access, store, close } = countedAccess()
    const poisoned: Caller = regular(burst(5, 5), 'bad')
    const pending = [access.admit(FIVE, IP, T0), access.admit(poisoned, IP, Number.NaN)]
    const outcomes = await Promise.allSettled(pending)
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(store.read(keySubject('k1'))).toBeNull()
    close()
  })
})

describe('charges', () => {
  const limited = regular({ subnets: 2 })

  test('of one turn are one transaction, served in order of arrival', async () => {
    const { access, counts, close } = countedAccess()
    const verdict = await access.admit(limited, IP, T0)
    counts.transactions = 0
    const charge = (...subnets: number[]) =>
      access.charge({ caller: limited, ip: IP, subnets, verdict }, T0)
    const pending = [charge(1), charge(2, 3), charge(2), charge(3), charge(1, 2)]
    const outcomes = await Promise.allSettled(pending)
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([
      ...[true, false, true, false, true],
    ])
    const [, refusal] = outcomes
    const reason: unknown = refusal?.status === 'rejected' ? refusal.reason : null
    expect(reason).toBeInstanceOf(ApiError)
    expect(reason).toMatchObject({ code: 'SUBNET_LIMIT_REACHED', context: { usedSubnets: 1 } })
    expect(counts.transactions).toBe(1)
    close()
  })

  test('without a quota touch no store', async () => {
    const { access, counts, close } = countedAccess()
    const callers = [regular({}), DEMO, temp()]
    for (const caller of callers) {
      const verdict = await access.admit(caller, IP, T0)
      counts.transactions = 0
      await access.charge({ caller, ip: IP, subnets: [1, 2, 3], verdict }, T0)
      expect(counts.transactions).toBe(0)
    }
    close()
  })

  test('that cannot be written are rejected, and add nothing', async () => {
    const { access, store, setReadOnly, close } = countedAccess()
    const verdict = await access.admit(limited, IP, T0)
    setReadOnly(true)
    const charging = access.charge({ caller: limited, ip: IP, subnets: [1], verdict }, T0)
    expect(await charging.catch((error: unknown) => Object(error).name)).toBe('SQLiteError')
    setReadOnly(false)
    expect(store.networks(`${keySubject('k1')}:served`, 20_777).size).toBe(0)
    close()
  })
})

describe('two servers on one data directory', () => {
  test('enforce every limit together, as exactly as one', async () => {
    const dir = temporaryDirectory()
    const servers = [openRegistry(dir, true), openRegistry(dir, true)]
    const key = newKey('regular')
    servers[0]?.keys.add({ key, label: '', plan: 'classic', expiresAt: null }, T0)
    const admitted: number[] = []
    for (let i = 0; i < 200; i++) {
      const nowMs = T0 + i * 100
      const access = servers[i % 2]?.access
      const caller = access?.authenticate(key, nowMs)
      const verdict = caller && (await access?.admit(caller, IP, nowMs))
      if (verdict?.refused === null) admitted.push(nowMs - T0)
    }
    expect(admitted).toEqual([0, 100, 5000, 5100, 10_000, 10_100, 15_000, 15_100])
    for (const server of servers) server.close()
  })

  test('share the networks of the day, and what was used outlives them', async () => {
    const dir = temporaryDirectory()
    const caller = regular({ subnets: 2 })
    const serve = async (subnet: number): Promise<string> => {
      const registry = openRegistry(dir, true)
      try {
        const verdict = await registry.access.admit(caller, IP, T0)
        await registry.access.charge({ caller, ip: IP, subnets: [subnet], verdict }, T0)
        return 'served'
      } catch (error) {
        return error instanceof ApiError ? error.code : String(error)
      } finally {
        registry.close()
      }
    }
    const outcomes = [await serve(1), await serve(2), await serve(3), await serve(1)]
    expect(outcomes).toEqual(['served', 'served', 'SUBNET_LIMIT_REACHED', 'served'])
  })
})
