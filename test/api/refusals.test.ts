/** What a refusal says to a client (src/api/errors.ts, spec 7, contract B): codes and messages. */
import { describe, expect, test } from 'bun:test'
import type { Caller } from '../../src/access/key.ts'
import type { NetworkDecision } from '../../src/access/network-quota.ts'
import { networkRefusal, rateLimitRefusal } from '../../src/api/errors.ts'
import { burst, DEMO, temp } from '../support/limits.ts'

const withBurst = (caller: Caller, requests: number, seconds: number): Caller => ({
  ...caller,
  plan: { ...caller.plan, ...burst(requests, seconds) },
})

/** `http/reference.test.ts` has whole bodies for the built-in plans. */
describe('a request over a limit of a changed plan', () => {
  const retry = { retryAfterSeconds: 17 }
  const wait = 'retry after 17 s'
  test.each([
    [
      ...(['DEMO_LIMIT_REACHED', withBurst(DEMO, 1, 7), 'window', retry] as const),
      `the demo key allows 1 request in 7 s; ${wait}`,
    ],
    [
      ...(['TEMP_LIMIT_REACHED', withBurst(temp(), 9, 86_400), 'window', retry] as const),
      `a temporary key allows 9 requests in 86400 s, for the key and for the address; ${wait}`,
    ],
    [
      ...(['DAILY_LIMIT_REACHED', { ...DEMO, plan: { ...DEMO.plan, daily: 9 } }] as const),
      ...(['daily', { ...retry, dailyLimit: 9 }] as const),
      `the plan's 9 requests of this day are used up; ${wait}`,
    ],
  ] as const)('gets 429 %s', (code, caller, by, context, message) => {
    const error = rateLimitRefusal(caller, { kind: 'refused', by, ...retry, limits: [] })
    expect<unknown>([error.code, error.status, error.context]).toEqual([code, 429, context])
    expect(error.message).toBe(message)
  })
})

describe('an answer over a quota of networks', () => {
  const decision = {
    kind: 'refused',
    quota: 9,
    used: 7,
    added: 3,
    all: 4,
    limits: [],
    retryAfterSeconds: 17,
  } as const
  const rows: readonly (readonly [Extract<NetworkDecision, { kind: 'refused' }>, string])[] = [
    [
      { ...decision, set: 'served' },
      'this answer needs 3 more /16 subnets; 7 of the 9 a day are used: ' +
        'narrow the filter or lower count',
    ],
    [
      { ...decision, set: 'served', added: 12, all: 16 },
      'this answer has 16 /16 subnets, and the plan allows 9 a day: ' +
        'narrow the filter or lower count',
    ],
    [
      { ...decision, set: 'served', all: 9 },
      'this answer needs 3 more /16 subnets; 7 of the 9 a day are used: ' +
        'narrow the filter or lower count',
    ],
    [{ ...decision, set: 'callers' }, '7 of the 9 client networks a day are used'],
  ]
  test.each(rows)('gets 429 with the used networks: $set', (refused, message) => {
    const error = networkRefusal(refused)
    expect<unknown>([error.code, error.status, error.context]).toEqual([
      ...['SUBNET_LIMIT_REACHED', 429, { retryAfterSeconds: 17, usedSubnets: 7 }],
    ])
    expect(error.message).toBe(message)
  })
})
