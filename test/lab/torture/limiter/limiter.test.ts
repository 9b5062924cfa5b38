/**
 * The program's limiter on real SQLite against the oracle, in all that a client sees of a decision,
 * and that retry_after is minimal; on a clock moved by hand.
 */
import { describe, expect, test } from 'bun:test'
import { createLimiterOracle, rateLimitOf } from '../../../support/limiter-oracle.ts'
import { DEMO, temp } from '../../../support/limits.ts'
import { pick, randomOf } from '../../../support/random.ts'
import {
  ADDRESSES,
  anyPlan,
  type Caller,
  move,
  openLimiter,
  playSequences,
  startMs,
} from './tight.ts'

/** Sends a sequence of requests to both; gives how often each decision was made. */
function compare(random: () => number): { [decision: string]: number } {
  const limiter = openLimiter()
  const oracle = createLimiterOracle()
  const paid = ['a', 'b'].map((id): Caller => ({ kind: 'regular', id, plan: anyPlan(random) }))
  const temporary = ['s', 't'].map(id => temp(id))
  const callers: Caller[] = [...paid, ...temporary, DEMO]
  const seen: { [decision: string]: number } = {}
  let nowMs = startMs(random)
  for (let n = 0; n < 60; n += 1) {
    nowMs += move(random)
    const caller = pick(random, callers)
    const ip = pick(random, ADDRESSES)
    const { limits, ...expected } = oracle.admit(caller, ip, nowMs)
    expect(limiter.admit(caller, ip, nowMs)).toEqual({
      ...expected,
      rateLimit: rateLimitOf(limits),
    })
    const decision = expected.kind === 'refused' ? expected.by : expected.kind
    seen[decision] = (seen[decision] ?? 0) + 1
  }
  limiter.close()
  return seen
}

test('a decision, its wait and its RateLimit are what the oracle says', () => {
  const random = randomOf(11, 'compare')
  const total: { [decision: string]: number } = { admitted: 0, window: 0, daily: 0 }
  for (let sequence = 0; sequence < 100; sequence += 1) {
    for (const [decision, times] of Object.entries(compare(random))) {
      total[decision] = (total[decision] ?? 0) + times
    }
  }
  for (const times of Object.values(total)) expect(times).toBeGreaterThan(100)
})

describe('retry_after', () => {
  const { early, late, overMidnight, steppedBack } = playSequences(11, 2000)

  test('is long enough', () => expect(early).toEqual([]))
  test('is no longer than necessary', () => expect(late).toEqual([]))
  test('was checked over midnight, and after the clock stepped back', () => {
    for (const times of [overMidnight, steppedBack]) expect(times).toBeGreaterThan(200)
  })
})
