/**
 * Several servers on one database (src/postgres/usage/, contract I2): any sequence of batches,
 * give-backs, resets and clocks is decided as one oracle decides it that remembers everything.
 */
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { consumptionOf, limitRulesOf } from '../../../src/access/entitlements.ts'
import type { Caller } from '../../../src/access/key.ts'
import type { NetworkDecision } from '../../../src/access/network-quota.ts'
import type { UsageStore } from '../../../src/access/ports.ts'
import { type Admitted, limitStatus, UNUSED } from '../../../src/access/rate-limit.ts'
import { createLimiterOracle, type LimiterOracle } from '../../support/limiter-oracle.ts'
import {
  anyStartMs,
  anyStepMs,
  burst,
  DEMO,
  decideAll,
  regular,
  temp,
} from '../../support/limits.ts'
import { HAS_POSTGRES } from '../../support/postgres.ts'
import { cleanUp } from '../../support/temporary.ts'
import { openPostgres, type TestUsage } from '../../support/usage.ts'

afterAll(cleanUp)

const SERVERS = 3
const IPS = ['198.51.100.7', '198.51.100.8', '2001:db8::1', '203.0.113.9']
/** Two plans of the key `a`, which are changed now and then. */
const PLANS = [
  regular({ ...burst(2, 5), daily: 6, subnets: 4, clients: 2 }, 'a'),
  regular({ ...burst(5, 5), daily: 9, subnets: 4 }, 'a'),
]
const CALLERS: readonly Caller[] = [
  DEMO, // here is the key `a`
  regular(burst(3, 60), 'b'),
  regular({ daily: 3, clients: 1 }, 'c'),
  regular({}, 'd'),
  DEMO,
  temp('t1'),
  temp('t2'),
]

const anyRequest = fc.record({
  caller: fc.nat({ max: CALLERS.length - 1 }),
  ip: fc.nat({ max: IPS.length - 1 }),
  subnets: fc.array(fc.nat({ max: 6 }), { maxLength: 3 }),
})
const anyStep = fc.record({
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant('admit' as const) },
    { weight: 2, arbitrary: fc.constant('refund' as const) },
    { weight: 2, arbitrary: fc.constant('limits' as const) },
    { weight: 1, arbitrary: fc.constant('reset' as const) },
    { weight: 1, arbitrary: fc.constant('change plan' as const) },
  ),
  server: fc.nat({ max: SERVERS - 1 }),
  stepMs: anyStepMs,
  requests: fc.array(anyRequest, { minLength: 1, maxLength: 6 }),
})
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

const ipOf = (n: number): string => IPS[n] ?? ''

type Sent = { caller: Caller; ip: string; instants: readonly number[] }

/** The sequence on servers and on the oracle. */
class Play {
  nowMs: number
  plan = 0
  readonly sent: Sent[] = []
  readonly usage: TestUsage
  readonly servers: readonly UsageStore[]
  readonly oracle: LimiterOracle = createLimiterOracle()
  constructor(usage: TestUsage, startMs: number) {
    this.usage = usage
    this.nowMs = startMs
    this.servers = Array.from({ length: SERVERS }, usage.open)
  }

  callerOf = (n: number): Caller => (n === 0 ? PLANS[this.plan] : CALLERS[n]) ?? DEMO

  async take({ kind, server, stepMs, requests }: Step): Promise<void> {
    this.nowMs += stepMs
    await this.usage.at(this.nowMs)
    const its = this.servers[server] as UsageStore
    if (kind === 'admit') await this.admit(its, requests)
    if (kind === 'refund') await this.refund(its)
    if (kind === 'limits') await this.limits(its, requests)
    if (kind === 'change plan') {
      this.plan = 1 - this.plan
      this.usage.forget() // or a refusal could say for a moment what was left before the change
    }
    if (kind === 'reset') await this.reset(its, requests)
  }

  private async admit(its: UsageStore, requests: Step['requests']): Promise<void> {
    const asked = requests.map(({ caller, ip, subnets }) => ({
      ...{ caller: this.callerOf(caller), ip: ipOf(ip), subnets },
    }))
    const decisions = await decideAll(
      its,
      asked.map(({ caller, ip }) => ({ rules: limitRulesOf(caller, ip), nowMs: 0 })),
    )
    const expected = asked.map(({ caller, ip }) => this.oracle.admit(caller, ip, this.nowMs))
    expect(decisions).toEqual(expected)
    const consumed: { consumption: ReturnType<typeof consumptionOf>; over: number | null }[] = []
    for (const [i, { caller, ip, subnets }] of asked.entries()) {
      const decision = decisions[i]
      if (decision?.kind !== 'admitted') continue
      this.sent.push({ caller, ip, instants: decision.instants })
      if (caller.kind !== 'regular') continue
      const { atMs } = decision
      const over = this.oracle.consume(caller, ip, subnets, atMs)
      consumed.push({ consumption: consumptionOf(caller, { ip, subnets, atMs, nowMs: 0 }), over })
    }
    const found = await its.consume(consumed.map(({ consumption }) => consumption))
    expect(found.map(usedOf)).toEqual(consumed.map(({ over }) => over))
  }

  private async refund(its: UsageStore): Promise<void> {
    const last = this.sent.splice(-2)
    await its.refund(
      last.map(
        ({ caller, ip, instants }): Admitted => ({ rules: limitRulesOf(caller, ip), instants }),
      ),
    )
    for (const { caller, ip, instants } of last) this.oracle.refund(caller, ip, instants)
  }

  private async limits(its: UsageStore, requests: Step['requests']): Promise<void> {
    for (const request of requests) {
      const [caller, ip] = [this.callerOf(request.caller), ipOf(request.ip)]
      const rules = limitRulesOf(caller, ip)
      const { usages, nowMs } = await its.peek(
        rules.map(({ subject }) => subject),
        0,
      )
      const found = rules.flatMap((rule, i) => limitStatus(rule, usages[i] ?? UNUSED, nowMs))
      const expected = this.oracle.limits(caller, ip, this.nowMs)
      expect(found).toEqual(expected.filter(({ name }) => !/subnets|clients/.test(name)))
    }
  }

  private async reset(its: UsageStore, [request]: Step['requests']): Promise<void> {
    const rules = limitRulesOf(this.callerOf(request?.caller ?? 0), ipOf(request?.ip ?? 0))
    for (const { subject } of rules) {
      await its.reset(subject, 'all', 0)
      this.oracle.reset(`${subject.kind}:${subject.id}`, this.nowMs)
      // What was admitted before is not given back: it would take from what came after.
      const isReset = ({ caller, ip }: Sent): boolean =>
        limitRulesOf(caller, ip).some(rule => rule.subject.id === subject.id)
      const kept = this.sent.filter(sent => !isReset(sent))
      this.sent.splice(0, this.sent.length, ...kept)
    }
  }
}

const usedOf = (decision: NetworkDecision): number | null =>
  decision.kind === 'refused' ? decision.used : null

test.skipIf(!HAS_POSTGRES)('three servers decide as one oracle that remembers everything', () => {
  const someSteps = fc.array(anyStep, { minLength: 10, maxLength: 50 })
  const property = fc.asyncProperty(anyStartMs, someSteps, async (startMs, steps) => {
    const usage = await openPostgres()
    await usage.at(startMs)
    const play = new Play(usage, startMs)
    try {
      for (const step of steps) await play.take(step)
    } finally {
      await usage.close()
    }
  })
  return fc.assert(property, { numRuns: Number(process.env.RUNS ?? 20) })
})
