/** The entitlements and the limits of each kind of key (spec 8, contract B2–B7, B9). */
import { isIPv4 } from 'node:net'
import { ipv4Network16, ipv6Prefix } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Caller } from './key.ts'
import type { Consumption } from './network-quota.ts'
import type { Plan } from './plan.ts'
import type { LimitRule, Subject } from './rate-limit.ts'

/** How a kind of key changes a query. */
export type Entitlements = {
  /** Most records in an answer; `null` is unlimited. */
  countMax: number | null
  /** Used when the query has no `works`. */
  worksDefault: number | null
  /** How much of an address is shown: all of it, or the first half (contract B4). */
  addressBits: 32 | 16
  /** Most long answers at once, of a key or a client address (contract B9); `null` is unlimited. */
  downloads: number | null
}

type Kind = Caller['kind']
const DIFFERENCES = {
  regular: { worksDefault: null, addressBits: 32 },
  temp: { worksDefault: null, addressBits: 32 },
  demo: { worksDefault: 90, addressBits: 16 },
} as const satisfies { [kind in Kind]: unknown }

/** The entitlements of plans, and one object for all with the same values. */
type ByPlan = { readonly [kind in Kind]: WeakMap<Plan, Entitlements> }
const byPlan: ByPlan = { regular: new WeakMap(), temp: new WeakMap(), demo: new WeakMap() }
const shared = new Map<string, Entitlements>()

/**
 * The entitlements of a caller: one shared object for each kind, `count` and `downloads`, because
 * parsed queries are cached by its identity. Do not change or copy it.
 */
export function entitlementsOf({ kind, plan }: Caller): Entitlements {
  const known = byPlan[kind].get(plan)
  if (known) return known
  const { count: countMax, downloads } = plan
  const name = [kind, countMax, downloads].join(' ')
  const entitlements = shared.get(name) ?? { countMax, downloads, ...DIFFERENCES[kind] }
  shared.set(name, entitlements)
  byPlan[kind].set(plan, entitlements)
  return entitlements
}

/** What a limit per client address counts: the IPv4 address, or the IPv6 /64 (contract B7). */
export const clientBucket = (ip: string): string =>
  ip.includes(':') ? `${ipv6Prefix(ip, 4)}::/64` : ip

/** The network that a quota of callers counts: the IPv4 /16, or the IPv6 /64 (contract B2). */
export const clientNetwork = (ip: string): string =>
  isIPv4(ip) ? `${ipv4Network16(ip)}/16` : clientBucket(ip)

/** The subject that a regular or temporary key is counted under. */
export const keySubject = (id: string): Subject => ({ kind: 'key', id })

export type Regular = Extract<Caller, { kind: 'regular' }>

/** The window of a plan under a name for the RateLimit header fields; `null` is no window. */
const windowOf = ({ burst }: Plan, name: string): LimitRule['window'] =>
  burst && { name, limit: burst.requests, ms: burst.seconds * SECOND_MS }

/** The one rule of a regular key: with many keys, one that is kept takes longer to read than to make. */
function ruleOf({ id, plan }: Regular): LimitRule {
  return { subject: keySubject(id), window: windowOf(plan, 'burst'), daily: plan.daily }
}

/** The rules that limit requests of `caller` from address `ip`. Daily requests count by key; with `demo`, by address. */
export function limitRulesOf(caller: Caller, ip: string): readonly LimitRule[] {
  if (caller.kind === 'regular') return [ruleOf(caller)]
  const { plan } = caller
  const id = clientBucket(ip)
  if (caller.kind === 'demo') {
    return [{ subject: { kind: 'demo', id }, window: windowOf(plan, 'demo'), daily: plan.daily }]
  }
  return [
    { subject: keySubject(caller.id), window: windowOf(plan, 'key'), daily: plan.daily },
    { subject: { kind: 'temp', id }, window: windowOf(plan, 'address'), daily: null },
  ]
}

/** An answer and the request that it is for. Times are Unix milliseconds, see `Consumption`. */
export type Served = { ip: string; subnets: readonly number[]; atMs: number; nowMs: number }

export const hasNetworkQuota = (caller: Caller): caller is Regular =>
  caller.kind === 'regular' && (caller.plan.subnets !== null || caller.plan.clients !== null)

/** Whether the address of its client matters for a request of `caller`. */
export const isCountedByAddress = (caller: Caller): boolean =>
  caller.kind !== 'regular' || hasNetworkQuota(caller)

/**
 * Whose long answers are counted together (contract B9): a key on a plan, or a client address of `demo` and
 * `temp_` keys. It may have `downloads` of them at once; `null` is unlimited.
 */
export type Tenant = { id: string; isTrial: boolean; downloads: number | null }

export const tenantOf = (caller: Caller, ip: string): Tenant => ({
  id: caller.kind === 'regular' ? caller.id : clientBucket(ip),
  isTrial: caller.kind !== 'regular',
  downloads: entitlementsOf(caller).downloads,
})

export const quotasOf = ({ subnets, clients }: Plan): Consumption['quotas'] => ({
  served: subnets,
  callers: clients,
})

/** What an answer consumes of the network quotas of `caller`. */
export function consumptionOf(caller: Regular, { ip, subnets, atMs, nowMs }: Served): Consumption {
  const rule = ruleOf(caller)
  return {
    subject: rule.subject,
    quotas: quotasOf(caller.plan),
    networks: { served: subnets.map(String), callers: [clientNetwork(ip)] },
    rule,
    atMs,
    nowMs,
  }
}
