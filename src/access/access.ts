/**
 * Owns who may send requests, and how many (contract B): authenticates a key, admits a request,
 * consumes the network quotas of an answer. The decisions themselves are in `rate-limit.ts` and
 * `network-quota.ts`; what a refusal says to a client is in `api/refusals.ts`.
 */
import { createTurnBatch, type Settle } from '../lib/turn-batch.ts'
import { consumptionOf, hasNetworkQuota, limitRulesOf, type Served } from './entitlements.ts'
import { type Caller, DEMO_KEY } from './key.ts'
import type { Consumption, NetworkDecision } from './network-quota.ts'
import {
  type Admission,
  type Decision,
  type LimitStatus,
  limitStatus,
  UNUSED,
} from './rate-limit.ts'
import type { KeyReader, UsageStore } from './store.ts'

const DEMO: Caller = { kind: 'demo', id: DEMO_KEY }

export type Access = ReturnType<typeof createAccess>

/** Access control on stores. Requests of one turn of the event loop are admitted in one batch. */
export function createAccess(
  keys: KeyReader,
  usage: Pick<UsageStore, 'admit' | 'consume' | 'peek'>,
) {
  const admitInBatch = createTurnBatch((batch: readonly Admission[]) => usage.admit(batch))
  const consumeInBatch = createTurnBatch((batch: readonly Consumption[]) => usage.consume(batch))

  return {
    /** The owner of a key; `null` when the key is unknown, revoked or expired. */
    authenticate(key: string, nowMs: number): Caller | null {
      if (key === DEMO_KEY) return DEMO
      const record = keys.find(key)
      if (record === null || record.revokedAt !== null) return null
      return record.expiresAt === null || nowMs < record.expiresAt ? record.caller : null
    },

    /**
     * Admits a request or returns when to retry; resolves once the admission is durable. `ip` may
     * be empty if the caller is not counted by address; see `Enqueue` for `settle`.
     */
    admit: <T = Decision>(
      caller: Caller,
      ip: string,
      nowMs: number,
      ...settle: Settle<Decision, T>
    ): Promise<T> => admitInBatch({ rules: limitRulesOf(caller, ip), nowMs }, ...settle),

    /** Consumes the network quotas of an answer, where the plan of the caller has them. */
    async consume(caller: Caller, served: Served): Promise<NetworkDecision> {
      if (!hasNetworkQuota(caller)) return { kind: 'consumed' }
      return consumeInBatch(consumptionOf(caller, served))
    },

    /** The status of the caller's limits; counts no request. */
    async limits(caller: Caller, ip: string, nowMs: number): Promise<LimitStatus[]> {
      const rules = limitRulesOf(caller, ip)
      const usages = await usage.peek(rules.map(({ subject }) => subject))
      return rules.flatMap((rule, i) => limitStatus(rule, usages[i] ?? UNUSED, nowMs))
    },
  }
}
