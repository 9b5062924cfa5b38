/**
 * Daily quotas of unique networks (src/access/network-quota.ts, contract B2, B6) on a real SQLite
 * store: in random sequences against an oracle that keeps every day apart, and what it has no word of.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { keySubject } from '../../src/access/entitlements.ts'
import type { NetworkDecision } from '../../src/access/network-quota.ts'
import { HOUR_MS, SECOND_MS } from '../../src/lib/time.ts'
import { type Limits, T0 } from '../support/fixtures.ts'
import { createLimiterOracle } from '../support/limiter-oracle.ts'
import {
  anyStartMs,
  anyStepMs,
  IP,
  type OpenUsage,
  type Regular,
  regular,
  TODAY,
  withUsage,
} from '../support/limits.ts'

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
  test('say what is left of each that the plan has, after the answer or without it', () => {
    withUsage(usage => {
      const left = (plan: Partial<Limits>, subnets: readonly number[], nowMs: number) =>
        serve(usage, regular(plan), { subnets }, nowMs).limits.map(
          ({ name, quota, windowSeconds, remaining, resetSeconds }) =>
            `${name} ${remaining}/${quota} ${windowSeconds} ${resetSeconds}`,
        )
      const both = { subnets: 3, clients: 2 }
      expect(left(both, [1, 2], T0)).toEqual(['subnets 1/3 86400 43200', 'clients 1/2 86400 43200'])
      const later = T0 + 1500
      expect(left(both, [3, 4], later)).toEqual([
        'subnets 1/3 86400 43199',
        'clients 1/2 86400 43199',
      ])
      expect(left({ clients: 2 }, [3, 4], later)).toEqual(['clients 1/2 86400 43199'])
      expect(left({ subnets: 1 }, [1], later)).toEqual(['subnets 0/1 86400 43199']) // a new limit
      expect(left({}, [1], later)).toEqual([])
    })
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
// Quotas against the oracle

/** Two of one /64, and one of another. */
const SIXES = ['2001:db8::1', '2001:db8::ffff', '2001:db8:0:1::1']
const anyAnswer = fc.record({
  subnets: fc.array(fc.nat({ max: 9 }), { maxLength: 5 }),
  ip: fc.constantFrom('10.0.0.1', '10.0.9.9', '10.1.0.1', '10.2.0.1', ...SIXES),
  stepMs: fc.oneof(anyStepMs, fc.integer({ min: 0, max: 6 * HOUR_MS })),
})
const anyQuota = fc.record({
  burst: fc.option(fc.constant({ requests: 2, seconds: 86_400 }), { freq: 2 }),
  daily: fc.option(fc.constant(4)),
  subnets: fc.option(fc.integer({ min: 1, max: 8 }), { freq: 8 }),
  clients: fc.option(fc.integer({ min: 1, max: 3 })),
})
type AnyAnswer = { subnets: number[]; ip: string; stepMs: number }

/** Whether the whole request would be admitted and its answer served. */
function isServed(usage: OpenUsage, caller: Regular, { ip, subnets }: AnyAnswer, nowMs: number) {
  const decision = usage.tryAdmit(caller, ip, nowMs)
  if (decision.kind === 'refused') return false
  return usage.tryConsume(caller, { ip, subnets, atMs: decision.atMs, nowMs }).kind === 'consumed'
}

/** Sends the answers to the limiter and the oracle; gives how many were served and refused. */
function replay(usage: OpenUsage, caller: Regular, startMs: number, sent: AnyAnswer[]) {
  const oracle = createLimiterOracle()
  const seen = { consumed: 0, refused: 0 }
  let nowMs = startMs
  for (const answer of sent) {
    nowMs += answer.stepMs
    const { ip, subnets } = answer
    const admission = usage.admit(caller, ip, nowMs)
    expect(admission).toEqual(oracle.admit(caller, ip, nowMs))
    if (admission.kind === 'refused') continue
    const { atMs } = admission
    const decision = usage.consume(caller, { ip, subnets, atMs, nowMs })
    const used = decision.kind === 'refused' ? decision.used : null
    expect(used).toBe(oracle.consume(caller, ip, subnets, atMs))
    seen[decision.kind]++
    const fitsAlone = new Set(subnets).size <= (caller.plan.subnets ?? 10)
    if (decision.kind === 'consumed' || !fitsAlone) continue
    const wait = decision.retryAfterSeconds
    const after = (seconds: number) => isServed(usage, caller, answer, nowMs + seconds * SECOND_MS)
    expect([after(wait - 1) && wait > 1, after(wait)]).toEqual([false, true])
  }
  return seen
}

describe('any sequence of answers', () => {
  test('consumes as an oracle that keeps every day apart does', () => {
    const seen = { consumed: 0, refused: 0 }
    const answers = fc.array(anyAnswer, { minLength: 1, maxLength: 30, size: 'max' })
    const property = fc.property(anyStartMs, anyQuota, answers, (startMs, quota, sent) => {
      const { consumed, refused } = withUsage(usage => replay(usage, regular(quota), startMs, sent))
      seen.consumed += consumed
      seen.refused += refused
    })
    fc.assert(property, { numRuns: 200 })
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})
