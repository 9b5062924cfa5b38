/**
 * Who may send requests, and how many (contract B): authenticates a key, admits a request,
 * consumes the network quotas of an answer. The decisions themselves are in `rate-limit.ts` and
 * `network-quota.ts`; what a refusal says to a client is in `api/errors.ts`.
 */

import type { Awaitable } from '../lib/awaitable.ts'
import { type Later, stopwatch, timerLater } from '../lib/clock.ts'
import { createLines } from '../lib/fair-queue.ts'
import { SECOND_MS, utcDay } from '../lib/time.ts'
import { createTurnBatch, type Settle, type Waited } from '../lib/turn-batch.ts'
import {
  consumptionOf,
  hasNetworkQuota,
  keySubject,
  limitRulesOf,
  quotasOf,
  type Served,
} from './entitlements.ts'
import type { Caller, KeyRecord } from './key.ts'
import { type Consumption, type NetworkDecision, quotaStatuses } from './network-quota.ts'
import type { KeyReader, UsageStore } from './ports.ts'
import {
  type Admission,
  type Admitted,
  type Decision,
  instantOf,
  type LimitStatus,
  limitStatus,
  UNUSED,
} from './rate-limit.ts'
import { createStoreTimeout, type StoreTimeout } from './store-timeout.ts'

export type Access = ReturnType<typeof createAccess>

type Usage = Pick<
  UsageStore,
  'admit' | 'bound' | 'consume' | 'countNetworks' | 'refund' | 'peek' | 'refuse'
>

/**
 * Gives requests back in batches. Those that the store fails to take are kept, and given back before
 * the next admission or after a second, whichever is first.
 */
function createRefund(usage: Usage, { within }: StoreTimeout, later: Later) {
  let owed: Admitted[] = []
  let isRetrying = false

  async function settleOwed(): Promise<void> {
    const batch = owed
    owed = []
    try {
      await usage.refund(batch)
    } catch (error) {
      owed = [...batch, ...owed]
      retry()
      throw error
    }
  }
  function retry(): void {
    if (isRetrying) return
    isRetrying = true
    later(() => {
      isRetrying = false
      if (owed.length > 0) settleOwed().catch(() => {}) // the store's supervisor reports it
    }, SECOND_MS)
  }
  const inBatch = createTurnBatch(async (batch: readonly Admitted[]) => {
    owed.push(...batch)
    await settleOwed()
    return batch
  })

  return {
    /** Resolves once it is given back; rejects when that has to be tried again. */
    refund: (admitted: Admitted): Promise<unknown> => inBatch(admitted),
    /** Does `work` after what is owed was given back. A batch waits for both, no longer than it may wait at all. */
    before<T>(work: (waited?: Waited) => Awaitable<T>, waited?: Waited): Awaitable<T> {
      if (owed.length === 0) return work(waited)
      const sinceNow = waited ?? stopwatch()
      const settling = settleOwed().catch(() => {}) // `work` finds out whether the store is still failing
      return within({ waitedMs: sinceNow() }, settling).then(() => work(sinceNow))
    },
  }
}

/** Answers of more networks, a millisecond or two each, wait in a line of their key, which has so many under way. */
const NETWORKS_FEW = 20
const CONSUMING_EACH = 4

/** Access control on stores. Requests of one turn of the event loop are admitted in one batch. */
export function createAccess(keys: KeyReader, usage: Usage, later: Later = timerLater) {
  const timeout = createStoreTimeout(usage.bound)
  const { refund, before } = createRefund(usage, timeout, later)
  const admitInBatch = createTurnBatch((batch: readonly Admission[], waited) =>
    before(waitedSoFar => usage.admit(batch, waitedSoFar), waited),
  )
  /** Refusals that need no store are answered in batches as well, which takes less time for each. */
  const refuseInBatch = createTurnBatch((batch: readonly Decision[]) => batch)
  const consume = (batch: readonly Consumption[], waited?: Waited) => usage.consume(batch, waited)
  const consumeInBatch = createTurnBatch(consume, ({ networks }) => 1 + networks.served.length)
  const { inLine } = createLines(CONSUMING_EACH)

  /** The record of a key; `null` when it is unknown, revoked, expired, or its plan is off. */
  function find(key: string, nowMs: number): KeyRecord | null {
    const record = key === '' ? null : keys.find(key) // which takes a statement where there is none
    if (record === null || record.revokedAt !== null || !record.caller.plan.enabled) return null
    return record.expiresAt === null || nowMs < record.expiresAt ? record : null
  }

  async function networkLimits(caller: Caller, askedMs: number): Promise<LimitStatus[]> {
    if (!hasNetworkQuota(caller)) return []
    const subject = keySubject(caller.id)
    const { usages, nowMs } = await usage.peek([subject], askedMs)
    const day = utcDay(instantOf(usages[0] ?? UNUSED, nowMs))
    const [counts] = await usage.countNetworks([{ subject, day }])
    return counts === undefined ? [] : quotaStatuses(quotasOf(caller.plan), counts, day, nowMs)
  }

  return {
    timeout,
    networkLimits,
    find,

    /**
     * Admits a request or returns when to retry; resolves once the admission is durable. `ip` may
     * be empty if the caller is not counted by address; see `Enqueue` for `settling`.
     */
    admit<T = Decision>(
      caller: Caller,
      ip: string,
      nowMs: number,
      ...settling: Settle<Decision, T>
    ): Promise<T> {
      const admission = { rules: limitRulesOf(caller, ip), nowMs }
      const refusal = usage.refuse?.(admission) ?? null
      if (refusal !== null) return refuseInBatch(refusal, ...settling)
      return admitInBatch(admission, ...settling)
    },

    /**
     * Gives an admitted request back, once: its windows and its day are as if it had not been sent.
     * `instants` are those of its decision. Rejects when the store fails; it is then tried again.
     */
    async refund(caller: Caller, ip: string, instants: readonly number[]): Promise<void> {
      await refund({ rules: limitRulesOf(caller, ip), instants })
    },

    /** Consumes the network quotas of an answer, where the plan of the caller has them. */
    async consume(caller: Caller, served: Served): Promise<NetworkDecision> {
      if (!hasNetworkQuota(caller)) return { kind: 'consumed', limits: [] }
      const consumption = consumptionOf(caller, served)
      if (served.subnets.length <= NETWORKS_FEW) return consumeInBatch(consumption)
      return inLine(caller.id, () => consumeInBatch(consumption))
    },

    /** The status of the caller's limits; counts no request. */
    async limits(caller: Caller, ip: string, askedMs: number): Promise<LimitStatus[]> {
      const rules = limitRulesOf(caller, ip)
      const subjects = rules.map(({ subject }) => subject)
      const { usages, nowMs } = await usage.peek(subjects, askedMs)
      const windows = rules.flatMap((rule, i) => limitStatus(rule, usages[i] ?? UNUSED, nowMs))
      return [...windows, ...(await networkLimits(caller, nowMs))]
    },
  }
}
