/**
 * Corners of the limiter that whole requests seldom reach (src/limits.ts, src/access.ts), and what
 * a refusal tells its reader. Sequences of requests are in access.test.ts and usage.test.ts.
 */
import { describe, expect, test } from 'bun:test'
import {
  type Caller,
  chargeOne,
  createAccess,
  metersOf,
  refusalOf,
} from '../../src/access/access.ts'
import type { Plan } from '../../src/access/plan.ts'
import { admitOne, type Meter, type Verdict, wholeSeconds } from '../../src/access/rate-limit.ts'
import { ApiError } from '../../src/api/errors.ts'
import { createUsageStore, openAccessFile } from '../../src/sqlite/access/usage.ts'
import { T0 } from '../support/fixtures.ts'

const IP = '198.51.100.7'
const UNLIMITED: Plan = {
  ...{ name: 'test', burst: null, daily: null, subnets: null, clients: null, count: null },
}
const regular = (limits: Partial<Plan>): Caller => ({
  ...{ kind: 'regular', id: 'k1' },
  plan: { ...UNLIMITED, ...limits },
})
const DEMO: Caller = { kind: 'demo', id: 'demo' }
const TEMP: Caller = { kind: 'temp', id: 't1' }

/** Works with an empty store in memory. */
function withStore<T>(work: (store: ReturnType<typeof createUsageStore>) => T): T {
  const db = openAccessFile(':memory:')
  try {
    return work(createUsageStore(db))
  } finally {
    db.close()
  }
}
type Store = ReturnType<typeof createUsageStore>
const admit = (store: Store, meters: readonly Meter[], nowMs: number): Verdict =>
  store.transaction(() => admitOne(store, meters, nowMs))

test('retry_after is whole seconds, rounded up, and at least one', () => {
  const waits = [-5000, 0, 1, 999, 1000, 1001, 59_999, 60_000].map(wholeSeconds)
  expect(waits).toEqual([1, 1, 1, 1, 1, 2, 60, 60])
})

test('one full day of several is enough to refuse', () => {
  withStore(store => {
    const meter = (subject: string, daily: number): Meter => ({ subject, window: null, daily })
    const meters = [meter('key:a', 1), meter('key:b', 9)]
    expect(admit(store, meters, T0).refused).toBeNull()
    expect(admit(store, meters, T0).refused).toBe('daily')
    expect(store.read('key:b')?.requests).toBe(1)
  })
})

test('of a day that was lowered below its use, nothing remains: not less than that', () => {
  withStore(store => {
    const askWith = (daily: number) => admit(store, metersOf(regular({ daily }), IP), T0)
    for (let i = 0; i < 5; i += 1) askWith(9)
    expect(askWith(2)).toMatchObject({ refused: 'daily', gauges: [{ quota: 2, remaining: 0 }] })
  })
})

describe('the message of a refusal', () => {
  const verdict: Verdict = { refused: 'window', retryAfterSeconds: 17, gauges: [], atMs: T0 }
  const told = [
    ['what a regular key did', regular({}), /^too many requests; retry after 17 s$/],
    ['what demo allows', DEMO, /demo.* 2 requests a minute; retry after 17 s$/],
    ['what a temporary key allows', TEMP, /temporary.* 2 requests an hour.*; retry after 17 s$/],
  ] as const
  test.each(told)('says %s', (_, caller, message) => {
    expect(refusalOf(caller, verdict).message).toMatch(message)
  })

  test('says how many requests a day the plan has', () => {
    const caller = regular({ daily: 34_560 })
    const { message } = refusalOf(caller, { ...verdict, refused: 'daily' })
    expect(message).toMatch(/34560 requests of this day .*; retry after 17 s$/)
  })

  const refusedCharge = (plan: Partial<Plan>, answers: readonly (readonly [string, number[]])[]) =>
    withStore(store => {
      const caller = regular(plan)
      const errors = answers.map(([ip, subnets]) =>
        store.transaction(() =>
          chargeOne(store, { caller, ip, subnets, verdict: { ...verdict, refused: null } }, T0),
        ),
      )
      return errors.at(-1)?.message
    })
  test('says how many networks an answer needs, how many are used, and what to do', () => {
    const message = refusedCharge({ subnets: 3, clients: 9 }, [
      [IP, [1, 2]],
      [IP, [2, 3, 4, 5]],
    ])
    expect(message).toMatch(/needs 3 more \/16 subnets; 2 of the 3 a day .*narrow the filter/)
  })
  test('says how many client networks a plan has', () => {
    const message = refusedCharge({ subnets: 9, clients: 1 }, [
      [IP, [1]],
      ['203.0.113.1', [1]],
    ])
    expect(message).toMatch(/^1 of the 1 client networks a day/)
  })

  test('says of a key that it is invalid or expired, or, of a temporary one, not active', () => {
    withStore(store => {
      const access = createAccess(() => null, store)
      const messageOf = (key: string): string => {
        try {
          return access.authenticate(key, T0).kind
        } catch (error) {
          return error instanceof ApiError ? error.message : String(error)
        }
      }
      expect(messageOf('pl_x')).toMatch(/key is invalid or expired/)
      expect(messageOf('temp_x')).toMatch(/temporary key is expired or not active/)
    })
  })
})

test('networks served and networks of callers are separate sets', () => {
  withStore(store => {
    const caller = regular({ subnets: 2, clients: 2 })
    const verdict = admit(store, metersOf(caller, IP), T0)
    const charge = { caller, ip: IP, subnets: [1, 2], verdict }
    expect(store.transaction(() => chargeOne(store, charge, T0))).toBeNull()
    expect(
      store.transaction(() => chargeOne(store, { ...charge, ip: '203.0.113.1' }, T0)),
    ).toBeNull()
  })
})
