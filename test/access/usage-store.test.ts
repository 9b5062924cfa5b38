/**
 * What the port `UsageStore` promises (src/access/ports.ts; contract B3, B6, B10, A2, F3, G5), on every engine, where
 * `any-sequence.test.ts` does not reach.
 */
import { afterAll, describe, expect, test as skippable } from 'bun:test'
import { consumptionOf, keySubject, limitRulesOf } from '../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS, type KeyUse, unusedDay } from '../../src/access/history.ts'
import type { Caller } from '../../src/access/key.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import {
  type Admitted,
  type Decision,
  limitStatus,
  type Subject,
  UNUSED,
  type Usage,
} from '../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import {
  burst,
  DEMO,
  dayWith,
  decideAll,
  IP,
  outcomeOf,
  regular,
  TODAY,
  temp,
} from '../support/limits.ts'
import { cleanUp } from '../support/temporary.ts'
import { ENGINES, type TestUsage } from '../support/usage.ts'

afterAll(cleanUp)

const NOON = 12
/** The largest limit that a plan can have. */
const LIMIT_MAX = 999_999_999_999
const K1 = keySubject('k1')
const FREE = regular({})
const DEMO_SUBJECT: Subject = { kind: 'demo', id: IP }
const both = regular({ ...burst(3, 60), daily: 9 })

/** Usage in use by two servers, with shorthand for what tests do to it. */
class World {
  readonly usage: TestUsage
  readonly one: UsageStore
  readonly two: UsageStore
  constructor(usage: TestUsage) {
    this.usage = usage
    this.one = usage.open()
    this.two = usage.open()
  }

  async admit(caller: Caller, nowMs: number, server = this.one, ip = IP): Promise<Decision> {
    await this.usage.at(nowMs)
    const [decision] = await server.admit([{ rules: limitRulesOf(caller, ip), nowMs }])
    if (decision === undefined) throw new Error('a batch of one has no decision')
    return decision
  }

  async outcome(caller: Caller, nowMs: number, server = this.one): Promise<string> {
    return outcomeOf(await this.admit(caller, nowMs, server))
  }

  async admitted(caller: Caller, nowMs: number, server = this.one): Promise<Admitted> {
    const decision = await this.admit(caller, nowMs, server)
    if (decision.kind === 'refused') throw new Error('it was refused')
    return { rules: limitRulesOf(caller, IP), instants: decision.instants }
  }

  async read(subject: Subject, server = this.one): Promise<Usage> {
    const { usages } = await server.peek([subject], T0)
    return usages[0] ?? UNUSED
  }

  /** What is left of the limits of a caller. */
  async left(caller: Caller, nowMs: number, server = this.one): Promise<number[]> {
    await this.usage.at(nowMs)
    const rules = limitRulesOf(caller, IP)
    const peeked = await server.peek(
      rules.map(({ subject }) => subject),
      nowMs,
    )
    return rules
      .flatMap((rule, i) => limitStatus(rule, peeked.usages[i] ?? UNUSED, peeked.nowMs))
      .map(({ remaining }) => remaining)
  }

  async consume(
    limits: Parameters<typeof regular>[0],
    nowMs: number,
    subnets: number[],
    server = this.one,
  ) {
    await this.usage.at(nowMs)
    const served = { ip: IP, subnets, atMs: nowMs, nowMs }
    const [decision] = await server.consume([consumptionOf(regular(limits), served)])
    return decision
  }

  async networks(day: number): Promise<number> {
    const [counts] = await this.one.countNetworks([{ subject: K1, day }])
    return counts?.served ?? -1
  }

  async prune(nowMs: number, server = this.one): Promise<void> {
    await this.usage.at(nowMs)
    while (await server.prune(nowMs));
  }

  note(records: number, refused: number, nowMs = T0, server = this.one): void {
    server.note({ keyId: 'k1', records, refused, nowMs })
  }

  /** The use of a key, of so many days before and after today. */
  async use(id = 'k1', server = this.one, around = HISTORY_DAYS): Promise<KeyUse> {
    const [use] = await server.history([id], TODAY - around, TODAY + around)
    return use ?? { lastSeenMs: null, days: [] }
  }
  async days(id = 'k1', server = this.one, around = HISTORY_DAYS): Promise<readonly DayUse[]> {
    return (await this.use(id, server, around)).days
  }
}

/** A test on every engine. */
function test(name: string, work: (its: World) => Promise<void>): void {
  for (const engine of ENGINES) {
    skippable.skipIf(!engine.isHere)(`${engine.name}: ${name}`, async () => {
      const usage = await engine.open()
      await work(new World(usage)).finally(() => usage.close())
    })
  }
}

describe('an admission', () => {
  test('counts for a window less one millisecond, and no longer', async its => {
    const twice = regular(burst(2, 5))
    for (const [ms, outcome] of [
      ...[[0, 'ok'] as const, [1, 'ok'] as const, [4999, 'window'] as const],
      ...[[5000, 'ok'] as const, [5000, 'window'] as const, [5001, 'ok'] as const],
    ]) {
      expect([ms, await its.outcome(twice, T0 + ms)]).toEqual([ms, outcome])
    }
  })

  test('counts with the largest limits too, alone and in a batch', async its => {
    const caller = regular({ ...burst(1_000, 86_400), daily: LIMIT_MAX })
    expect(await its.outcome(caller, T0)).toBe('ok')
    expect(await its.outcome(caller, T0)).toBe('ok')
    expect(await its.left(caller, T0)).toEqual([998, LIMIT_MAX - 2])
    const asks = [caller, temp(), caller].map(each => ({
      rules: limitRulesOf(each, IP),
      nowMs: T0,
    }))
    expect((await decideAll(its.one, asks)).map(outcomeOf)).toEqual(['ok', 'ok', 'ok'])
    expect(await its.left(caller, T0)).toEqual([996, LIMIT_MAX - 4])
  })

  test('an empty batch decides nothing', async its => {
    expect(await its.one.admit([])).toEqual([])
    expect(await its.one.consume([])).toEqual([])
    await its.one.refund([])
  })
})

describe('a reset', () => {
  for (const [part, expected] of [
    ['window', { admissions: [], requests: 2 }],
    ['day', { admissions: [T0, T0 + 1], requests: 0 }],
    ['all', { admissions: [], requests: 0 }],
  ] as const)
    test(`of the ${part} resets that part on every server`, async its => {
      for (const ms of [T0, T0 + 1]) await its.admitted(both, ms)
      await its.one.reset(K1, part, T0 + 1)
      expect(await its.read(K1, its.two)).toMatchObject(expected)
      expect((await its.days())[0]?.requests).toBe(2)
    })

  test('of all addresses leaves keys as they are', async its => {
    for (const caller of [DEMO, both]) await its.admitted(caller, T0)
    await its.one.reset({ kind: 'demo', id: null }, 'all', T0)
    expect(await its.read(DEMO_SUBJECT)).toMatchObject({ admissions: [], requests: 0 })
    expect(await its.read(K1)).toMatchObject({ admissions: [T0], requests: 1 })
  })

  test('removes admissions in the future, but keeps when the key was last seen', async its => {
    await its.usage.addKeys('k1', 'k2')
    await its.admitted(regular({}, 'k2'), T0)
    await its.admitted(both, T0 + 9 * DAY_MS)
    await its.usage.at(T0)
    await its.one.reset(K1, 'window', T0)
    expect(await its.read(K1)).toMatchObject({ requests: 0, latestMs: T0 })
    const [one, other] = [await its.use('k1'), await its.use('k2')]
    expect(one.lastSeenMs).toBeGreaterThanOrEqual(T0)
    expect(other.lastSeenMs).toBe(T0)
    expect(await its.admit(both, T0 + 1)).toMatchObject({ kind: 'admitted', atMs: T0 + 1 })
    expect((await its.days()).map(({ day }) => day)).toEqual([TODAY, TODAY + 9])
  })

  test('of the day resets networks, a reset of the window does not', async its => {
    await its.consume({ subnets: 1 }, T0, [1])
    await its.one.reset(K1, 'window', T0)
    expect(await its.networks(TODAY)).toBe(1)
    await its.one.reset(K1, 'day', T0)
    expect(await its.networks(TODAY)).toBe(0)
    expect((await its.consume({ subnets: 1 }, T0, [2]))?.kind).toBe('consumed')
  })
})

describe('networks', () => {
  test('say which set is full, and when a refused answer fits', async its => {
    const plan = { ...burst(1, 86_400), subnets: 3 }
    await its.admitted(regular(plan), T0)
    await its.consume({ subnets: 3, clients: 1 }, T0, [1, 2])
    const over = { kind: 'refused', set: 'served', quota: 3, used: 2, added: 2, all: 3 }
    const [day, window] = [
      await its.consume({ subnets: 3 }, T0, [2, 3, 4, 4]),
      await its.consume(plan, T0, [2, 3, 4]),
    ]
    expect(day).toMatchObject({ ...over, retryAfterSeconds: 12 * 3600 })
    expect(window).toMatchObject({ ...over, retryAfterSeconds: 24 * 3600 })
    await its.usage.at(T0)
    const elsewhere = { ip: '203.0.113.1', subnets: [], atMs: T0, nowMs: T0 }
    const [callers] = await its.one.consume([consumptionOf(regular({ clients: 1 }), elsewhere)])
    expect(callers).toMatchObject({ set: 'callers', quota: 1, used: 1, added: 1, all: 1 })
  })

  test('are counted with the largest quotas too', async its => {
    const plan = { subnets: LIMIT_MAX, clients: LIMIT_MAX }
    expect((await its.consume(plan, T0, [1, 2]))?.kind).toBe('consumed')
    expect((await its.consume(plan, T0, [2, 3]))?.kind).toBe('consumed')
    expect(await its.networks(TODAY)).toBe(3)
  })
})

/** How long usage is kept after a subject's last admission, while others go on. */
const KEPT = [
  ['a key', regular(burst(1, 86_400)), K1, 2 * DAY_MS],
  ['an address', DEMO, DEMO_SUBJECT, 2 * HOUR_MS],
] as const

describe('usage', () => {
  for (const [what, caller, subject, keptMs] of KEPT) {
    for (const [ageMs, kept] of [
      [keptMs, [T0]],
      [keptMs + 1, []],
    ] as const)
      test(`of ${what} is ${kept.length > 0 ? 'kept' : 'removed'} ${ageMs} ms later`, async its => {
        await its.admitted(caller, T0)
        await its.admitted(regular({}, 'other'), T0 + ageMs)
        await its.prune(T0 + ageMs)
        for (const server of [its.one, its.two]) {
          expect((await its.read(subject, server)).admissions).toEqual([...kept])
        }
      })
  }

  for (const [limits, keptMs] of [
    ['burst_requests = 2, burst_seconds = 86400', 2 * DAY_MS],
    ['burst_requests = 2, burst_seconds = 10800', 6 * HOUR_MS],
    ['daily = 2', 2 * DAY_MS],
  ] as const)
    test(`of addresses is kept as long as plan demo counts it: ${limits}`, async its => {
      await its.usage.run(
        `insert into $plans (name, enabled, downloads) values ('demo', true, 1) on conflict do nothing`,
      )
      await its.usage.run(`update $plans set ${limits} where name = 'demo'`)
      await its.admitted(DEMO, T0)
      for (const [ageMs, requests] of [
        [keptMs, 1],
        [keptMs + 1, 0],
      ] as const) {
        await its.admitted(regular({}, 'other'), T0 + ageMs)
        await its.prune(T0 + ageMs)
        expect((await its.read(DEMO_SUBJECT)).requests).toBe(requests)
      }
    })
})

describe('old usage', () => {
  test('of networks is kept for its day and two more days', async its => {
    for (const day of [0, 1, 2, 3]) {
      await its.admitted(FREE, T0 + day * DAY_MS)
      await its.consume({ subnets: 9 }, T0 + day * DAY_MS, [day])
    }
    await its.prune(T0 + 3 * DAY_MS)
    const kept: number[] = []
    for (const day of [0, 1, 2, 3]) kept.push(await its.networks(TODAY + day))
    expect(kept).toEqual([0, 1, 1, 1])
  })

  test('of many subjects is removed; usage that still counts is not', async its => {
    const callers = Array.from({ length: 5_000 }, (_, n) => regular(burst(1, 60), `k${n}`))
    const rules = (from: number) =>
      callers
        .filter((_, n) => n % 2 === from)
        .map(caller => ({ rules: limitRulesOf(caller, IP), nowMs: T0 + from * 3 * DAY_MS }))
    await its.one.admit(rules(0))
    await its.usage.at(T0 + 3 * DAY_MS)
    await its.one.admit(rules(1))
    await its.prune(T0 + 3 * DAY_MS)
    const { usages } = await its.one.peek(
      callers.map(({ id }) => keySubject(id)),
      T0,
    )
    expect(usages.map(({ admissions }) => admissions.length)).toEqual(callers.map((_, n) => n % 2))
  })
})

describe('the use of a key', () => {
  test('is counted once for a temporary key, and together for all addresses of demo', async its => {
    await its.admit(temp('t1'), T0)
    await its.admit(DEMO, T0)
    await its.admit(DEMO, T0 + 1, its.one, '198.51.100.8')
    expect(await its.days('t1')).toEqual([dayWith(TODAY, NOON, 1)])
    expect(await its.days('demo')).toEqual([dayWith(TODAY, NOON, 2)])
    expect(await its.days(IP)).toEqual([])
  })
})

describe('records and refusals', () => {
  test('are visible at once, and on all servers after a flush', async its => {
    await its.usage.addKeys('k1')
    its.note(7, 0)
    its.note(0, 1)
    const noted = [{ ...unusedDay(TODAY), records: 7, refused: 1 }]
    expect([await its.days('k1', its.one), await its.days('k1', its.two)]).toEqual([noted, []])
    for (const _ of ['written', 'not written again']) {
      await its.one.flush()
      expect([await its.days('k1', its.one), await its.days('k1', its.two)]).toEqual([noted, noted])
    }
  })

  test('from a clock that is ahead change no limit and remove no usage', async its => {
    await its.usage.addKeys('k1')
    const once = regular({ daily: 1 })
    await its.admitted(once, T0)
    its.note(0, 1, T0 + 400 * DAY_MS)
    await its.one.flush()
    await its.prune(T0 + 400 * DAY_MS)
    expect(await its.outcome(once, T0 + MINUTE_MS)).toBe('daily')
  })

  test('are counted beyond 32 bits', async its => {
    await its.usage.addKeys('k1')
    const many = 3_000_000_000
    for (const server of [its.one, its.two]) {
      its.note(many, many, T0, server)
      await server.flush()
    }
    expect(await its.days()).toEqual([
      { ...unusedDay(TODAY), records: 2 * many, refused: 2 * many },
    ])
  })
})

describe('past days', () => {
  test('of removed demo addresses stay in the days of demo', async its => {
    await its.admit(DEMO, T0)
    await its.admit(DEMO, T0 + 1, its.one, '198.51.100.8')
    await its.admit(regular({}, 'other'), T0 + 3 * HOUR_MS)
    await its.prune(T0 + 3 * HOUR_MS)
    expect((await its.read(DEMO_SUBJECT)).requests).toBe(0)
    await its.admit(DEMO, T0 + 3 * HOUR_MS)
    const hours = [...Array<number>(NOON).fill(0), 2, 0, 0, 1]
    expect(await its.days('demo')).toEqual([{ ...unusedDay(TODAY), requests: 3, hours }])
  })

  test('of a removed key are not kept', async its => {
    await its.admit(regular({}, 'gone'), T0)
    await its.admit(regular({}, 'other'), T0 + 3 * DAY_MS)
    await its.one.flush()
    await its.prune(T0 + 3 * DAY_MS)
    expect([await its.usage.count('days'), await its.days('gone')]).toEqual([0, []])
  })
})

describe('old days', () => {
  test(`are removed after ${HISTORY_DAYS} days; last seen is kept`, async its => {
    await its.usage.addKeys('k1', 'k2', 'k3')
    await its.admit(regular({}, 'k2'), T0)
    for (let day = 0; day < HISTORY_DAYS + 3; day += 1) {
      await its.admit(FREE, T0 + day * DAY_MS)
      await its.one.flush()
      await its.prune(T0 + day * DAY_MS)
    }
    const kept = (await its.days('k1', its.one, 200)).map(({ day }) => day - TODAY)
    expect([kept.length, kept.at(0), kept.at(-1)]).toEqual([HISTORY_DAYS, 3, HISTORY_DAYS + 2])
    expect(await its.use('k2', its.one, 200)).toEqual({ lastSeenMs: T0, days: [] })
    expect(await its.use('k3', its.one, 200)).toEqual({ lastSeenMs: null, days: [] })
  })
})
