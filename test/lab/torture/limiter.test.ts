/**
 * The limiter (src/limits.ts on real SQLite) against the oracle of the torture run, in all that a
 * client sees of a verdict, and how tight retry_after is; on a clock moved by hand.
 */
import { describe, expect, test } from 'bun:test'
import { type Caller, metersOf } from '../../../src/access/access.ts'
import { admitOne } from '../../../src/access/rate-limit.ts'
import { completeHeaders } from '../../../src/http/headers.ts'
import { createUsageStore, openAccessFile } from '../../../src/sqlite/access/usage.ts'
import { emptyHistory, type History, judge, type Rule, record } from './limiter/oracle.ts'
import { ADDRESSES, anyPlan, move, startMs, tellStories } from './limiter/tight.ts'
import { pick, randomOf } from './part.ts'

type Random = () => number

const twice = (name: string, seconds: number): Rule => ({
  window: { name, limit: 2, ms: seconds * 1000 },
  daily: null,
})

/** What the contract holds a caller to, and the names of what is counted. */
function rulesOf(caller: Caller, ip: string): { rules: Rule[]; names: string[] } {
  const bucket = ip.startsWith('2001:db8:0:1:') ? 'the /64' : ip
  if (caller.kind === 'demo') return { rules: [twice('demo', 60)], names: [`demo ${bucket}`] }
  if (caller.kind === 'temp') {
    const names = [caller.id, `temp ${bucket}`]
    return { rules: [twice('key', 3600), twice('address', 3600)], names }
  }
  const { burst, daily } = caller.plan
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * 1000 }
  return { rules: [{ window, daily }], names: [caller.id] }
}

/** Sends a story of requests to both; gives how often each verdict was said. */
function compare(random: Random): { [said: string]: number } {
  const db = openAccessFile(':memory:')
  const store = createUsageStore(db)
  const histories = new Map<string, History>()
  const paid = ['a', 'b'].map((id): Caller => ({ kind: 'regular', id, plan: anyPlan(random) }))
  const temporary = ['s', 't'].map((id): Caller => ({ kind: 'temp', id }))
  const callers: Caller[] = [...paid, ...temporary, { kind: 'demo', id: 'demo' }]
  const seen: { [said: string]: number } = {}
  let nowMs = startMs(random)
  for (let n = 0; n < 60; n += 1) {
    nowMs += move(random)
    const caller = pick(random, callers)
    const ip = pick(random, ADDRESSES)
    const { rules, names } = rulesOf(caller, ip)
    const its = names.map(name => histories.get(name) ?? emptyHistory())
    const expected = judge(
      rules,
      its,
      its.map(({ at }) => at.length),
      nowMs,
    )
    const verdict = store.transaction(() => admitOne(store, metersOf(caller, ip), nowMs))
    expect({
      said: verdict.refused ?? 'admitted',
      retryAfter: verdict.refused === null ? 0 : verdict.retryAfterSeconds,
      rateLimit: completeHeaders('', verdict.gauges, {}).ratelimit ?? '',
    }).toEqual({
      said: expected.said,
      retryAfter: expected.retryAfter,
      rateLimit: expected.rateLimit,
    })
    seen[expected.said] = (seen[expected.said] ?? 0) + 1
    if (expected.said !== 'admitted') continue
    for (const [i, name] of names.entries()) {
      const history = its[i] ?? emptyHistory()
      record(history, expected.at[i] ?? 0, n)
      histories.set(name, history)
    }
  }
  db.close()
  return seen
}

test('a verdict, its wait and its RateLimit are what the oracle says', () => {
  const random = randomOf(11, 'compare')
  const total: { [said: string]: number } = { admitted: 0, window: 0, daily: 0 }
  for (let story = 0; story < 100; story += 1) {
    for (const [said, times] of Object.entries(compare(random))) {
      total[said] = (total[said] ?? 0) + times
    }
  }
  for (const times of Object.values(total)) expect(times).toBeGreaterThan(100)
})

describe('retry_after', () => {
  const { early, late, overMidnight, steppedBack } = tellStories(11, 2000)

  test('is long enough', () => expect(early).toEqual([]))
  test('is no longer than it must be', () => expect(late).toEqual([]))
  test('was seen over midnight, and after the clock stepped back', () => {
    for (const times of [overMidnight, steppedBack]) expect(times).toBeGreaterThan(200)
  })
})
