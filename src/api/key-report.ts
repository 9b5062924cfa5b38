/** The report of a key (contract F3), for its owner and for the operator: state, limits, use of today. */
import { limitRulesOf, quotasOf } from '../access/entitlements.ts'
import { type KeyUse, unusedDay } from '../access/history.ts'
import {
  type Caller,
  type KeyRecord,
  type KeyState,
  keyState,
  type ListedKey,
  secretEnd,
} from '../access/key.ts'
import { quotaStatuses } from '../access/network-quota.ts'
import type { Plan } from '../access/plan.ts'
import type { UsageStore } from '../access/ports.ts'
import { type LimitStatus, limitStatus, type Usage } from '../access/rate-limit.ts'
import { formatDay, formatInstant, formatInstantOrNull, utcDay } from '../lib/time.ts'

/** A key, its plan, its usage of limits at `judgedMs`, and its use over time. */
type KeyFacts = { key: ListedKey; plan: Plan; used: Usage; judgedMs: number; use: KeyUse }

/** The limits that are counted by key. Unlimited ones are left out. */
function limitsOf({ key, plan, used, judgedMs: nowMs }: KeyFacts): LimitStatus[] {
  const caller: Caller = { kind: key.plan === null ? 'temp' : 'regular', id: key.id, plan }
  const rules = limitRulesOf(caller, '').filter(({ subject }) => subject.kind === 'key')
  const counts = { served: key.subnetsToday, callers: key.clientsToday }
  const networks = quotaStatuses(quotasOf(plan), counts, utcDay(nowMs), nowMs)
  return [...rules.flatMap(rule => limitStatus(rule, used, nowMs)), ...networks]
}

/** The use of a key on the day of an instant, by hour of UTC. */
function todayOf(use: KeyUse, nowMs: number) {
  const day = utcDay(nowMs)
  const today = use.days.find(each => each.day === day) ?? unusedDay(day)
  const { requests, records, refused } = today
  const hours = Array.from({ length: 24 }, (_, hour) => today.hours[hour] ?? 0)
  return { requests, records, refused, hours }
}

type Named = Pick<ListedKey, 'id' | 'label' | 'expiresAt'> & { plan: string; state: KeyState }

const reportOf = <T>(
  { id, label, plan, state, expiresAt }: Named,
  limits: readonly LimitStatus[],
  today: T,
) => ({
  ...{ id, label, plan, state },
  expires: formatInstantOrNull(expiresAt),
  limits: leftOf(limits),
  today,
})

/** `window` and `reset` are in seconds. */
const leftOf = (limits: readonly LimitStatus[]) =>
  limits.map(({ name, quota, windowSeconds: window, remaining: left, resetSeconds: reset }) => ({
    ...{ name, quota, window, left, reset },
  }))

export const limitsLeft = (facts: KeyFacts) => leftOf(limitsOf(facts))

export type KeyReport = ReturnType<typeof reportOf<ReturnType<typeof todayOf> | null>>

/** The report for the owner of a key. It counts nothing. `today` is `null` for `demo`, which many clients share. */
export async function ownReport(
  { caller, label, expiresAt }: KeyRecord,
  limits: readonly LimitStatus[],
  usage: Pick<UsageStore, 'history'>,
  nowMs: number,
): Promise<KeyReport> {
  const { id, plan, kind } = caller
  const named: Named = { id, label, plan: plan.name, state: 'active', expiresAt }
  if (kind === 'demo') return reportOf(named, limits, null)
  const day = utcDay(nowMs)
  const [use] = await usage.history([id], day, day)
  return reportOf(named, limits, todayOf(use ?? { lastSeenMs: null, days: [] }, nowMs))
}

/** The report for the operator, of any key. It has no limits that are counted by client address. */
export function operatorReport(facts: KeyFacts, nowMs: number) {
  const { key, plan, use } = facts
  const named = { ...key, plan: plan.name, state: keyState(key, nowMs) }
  return {
    ...reportOf(named, limitsOf(facts), todayOf(use, nowMs)),
    note: key.note,
    from: key.from,
    prefix: key.prefix,
    created: formatInstant(key.createdAt),
    old_secrets_until: key.oldSecretsUntil.map(ms => formatInstant(secretEnd(ms, key))),
    last_seen: formatInstantOrNull(use.lastSeenMs),
    days: use.days.map(({ day, requests, records, refused }) => ({
      ...{ day: formatDay(day), requests, records, refused },
    })),
  }
}
