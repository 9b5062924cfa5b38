/** Access control (contract B): finds keys, admits and refunds requests, consumes network quotas. */
import type { Awaitable } from '../lib/awaitable.ts'
import { utcDay } from '../lib/time.ts'
import { createTurnBatch } from '../lib/turn-batch.ts'
import {
  consumptionOf,
  hasNetworkQuota,
  keySubject,
  limitRulesOf,
  quotasOf,
  type Regular,
  type Served,
} from './entitlements.ts'
import type { Caller, KeyRecord } from './key.ts'
import { type NetworkDecision, quotaStatuses } from './network-quota.ts'
import type { KeyReader, UsageStore } from './ports.ts'
import { type Decision, instantOf, type LimitStatus, limitStatus, UNUSED } from './rate-limit.ts'
import { createStoreTimeout, type Waits } from './store-timeout.ts'

export type Access = ReturnType<typeof createAccess>

type UsagePort = Pick<
  UsageStore,
  'admit' | 'bound' | 'consume' | 'countNetworks' | 'refund' | 'peek' | 'refuse'
>

/** Access control on stores. A step fails with `StoreError` when a request has waited too long, see `Waits`. */
export function createAccess(keys: KeyReader, usage: UsagePort) {
  const within = createStoreTimeout(usage.bound)
  const admitInBatch = createTurnBatch(usage.admit)
  const consumeInBatch = createTurnBatch(usage.consume)
  const refundInBatch = createTurnBatch(async (batch: Parameters<UsagePort['refund']>[0]) => {
    await usage.refund(batch)
    return batch
  })

  return {
    within,

    /** The record of a key; `null` when it is unknown, revoked, expired, or its plan is off. */
    find(key: string, nowMs: number): KeyRecord | null {
      const record = key === '' ? null : keys.find(key)
      if (record === null || record.revokedAt !== null || !record.caller.plan.enabled) return null
      return record.expiresAt === null || nowMs < record.expiresAt ? record : null
    },

    /** Admits or refuses a request, durably once it resolves. `ip` may be empty if no limit depends on it. */
    admit(waits: Waits, caller: Caller, ip: string, nowMs: number): Awaitable<Decision> {
      const admission = { rules: limitRulesOf(caller, ip), nowMs }
      return usage.refuse?.(admission) ?? within(waits, admitInBatch(admission))
    },

    /** Refunds an admitted request. Call it once. If the store fails, the request stays counted. */
    async refund(
      waits: Waits,
      caller: Caller,
      ip: string,
      instants: readonly number[],
    ): Promise<void> {
      await within(waits, refundInBatch({ rules: limitRulesOf(caller, ip), instants }))
    },

    /** Consumes the network quotas of an answer. */
    consume: (waits: Waits, caller: Regular, served: Served): Awaitable<NetworkDecision> =>
      within(waits, consumeInBatch(consumptionOf(caller, served))),

    /** The status of a caller's request limits; counts nothing. */
    async limits(
      waits: Waits,
      caller: Caller,
      ip: string,
      askedMs: number,
    ): Promise<LimitStatus[]> {
      const rules = limitRulesOf(caller, ip)
      const subjects = rules.map(({ subject }) => subject)
      const { usages, nowMs } = await within(waits, usage.peek(subjects, askedMs))
      return rules.flatMap((rule, i) => limitStatus(rule, usages[i] ?? UNUSED, nowMs))
    },

    /** The status of a caller's network quotas; counts nothing. */
    async quotas(waits: Waits, caller: Caller, askedMs: number): Promise<LimitStatus[]> {
      if (!hasNetworkQuota(caller)) return []
      const subject = keySubject(caller.id)
      const { usages, nowMs } = await within(waits, usage.peek([subject], askedMs))
      const day = utcDay(instantOf(usages[0] ?? UNUSED, nowMs))
      const [counts] = await within(waits, usage.countNetworks([{ subject, day }]))
      return counts === undefined ? [] : quotaStatuses(quotasOf(caller.plan), counts, day, nowMs)
    },
  }
}
