/** The entitlements and the limits of each kind of key (spec 8, contract B2–B7, B9). */
import { isIPv4 } from 'node:net'
import { ipv4Network16, ipv6Prefix } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Caller } from './key.ts'
import type { Consumption } from './network-quota.ts'
import type { Plan } from './plan.ts'
import type { LimitRule, Subject } from './rate-limit.ts'

export type Entitlements = {
  /** Most records in an answer; `null` is unlimited. */
  countMax: number | null
  /** The value of `works` if the query has none. */
  worksDefault: number | null
  /** How many bits of an address are shown: all, or the first half (contract B4). */
  addressBits: 32 | 16
  /** Most streams at once, of a key or a client address (contract B9); `null` is unlimited. */
  streamsMax: number | null
}

type Kind = Caller['kind']
const DIFFERENCES = {
  regular: { worksDefault: null, addressBits: 32 },
  temp: { worksDefault: null, addressBits: 32 },
  demo: { worksDefault: 90, addressBits: 16 },
} as const satisfies { [kind in Kind]: unknown }

type ByPlan = { readonly [kind in Kind]: WeakMap<Plan, Entitlements> }
const byPlan: ByPlan = { regular: new WeakMap(), temp: new WeakMap(), demo: new WeakMap() }
const shared = new Map<string, Entitlements>()

/** The entitlements of a caller. Equal ones share one object, because parsed queries are cached by its identity. */
export function entitlementsOf({ kind, plan }: Caller): Entitlements {
  const known = byPlan[kind].get(plan)
  if (known) return known
  const { count: countMax, downloads: streamsMax } = plan
  const name = [kind, countMax, streamsMax].join(' ')
  const entitlements = shared.get(name) ?? { countMax, streamsMax, ...DIFFERENCES[kind] }
  shared.set(name, entitlements)
  byPlan[kind].set(plan, entitlements)
  return entitlements
}

/** The unit of limits per client address: the IPv4 address, or the IPv6 /64 (contract B7). */
export const clientBucket = (ip: string): string =>
  ip.includes(':') ? `${ipv6Prefix(ip, 4)}::/64` : ip

/** The unit of the quota of caller networks: the IPv4 /16, or the IPv6 /64 (contract B2). */
export const clientNetwork = (ip: string): string =>
  isIPv4(ip) ? `${ipv4Network16(ip)}/16` : clientBucket(ip)

/** The subject that counts a regular or temporary key. */
export const keySubject = (id: string): Subject => ({ kind: 'key', id })

export type Regular = Extract<Caller, { kind: 'regular' }>

/** The window of a plan, named for the RateLimit header fields; `null` is no window. */
const windowOf = ({ burst }: Plan, name: string): LimitRule['window'] =>
  burst && { name, limit: burst.requests, ms: burst.seconds * SECOND_MS }

/** The one rule of a regular key. With many keys, making a rule is faster than reading a cached one. */
function ruleOf({ id, plan }: Regular): LimitRule {
  return { subject: keySubject(id), window: windowOf(plan, 'burst'), daily: plan.daily }
}

/** The rules for requests of `caller` from address `ip`. Daily limits count by key; for `demo`, by address. */
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

/** The served networks of an answer, with its request. Times are Unix milliseconds, see `Consumption`. */
export type Served = { ip: string; subnets: readonly number[]; atMs: number; nowMs: number }

export const hasNetworkQuota = (caller: Caller): caller is Regular =>
  caller.kind === 'regular' && (caller.plan.subnets !== null || caller.plan.clients !== null)

/** Whether limits of `caller` depend on the address of the client. */
export const isCountedByAddress = (caller: Caller): boolean =>
  caller.kind !== 'regular' || hasNetworkQuota(caller)

/** The owner of at most `streamsMax` streams (contract B9): a regular key, or a client address of other keys. */
export type Tenant = { id: string; isTrial: boolean; streamsMax: number | null }

export const tenantOf = (caller: Caller, ip: string): Tenant => ({
  id: caller.kind === 'regular' ? caller.id : clientBucket(ip),
  isTrial: caller.kind !== 'regular',
  streamsMax: entitlementsOf(caller).streamsMax,
})

export const quotasOf = ({ subnets, clients }: Plan): Consumption['quotas'] => ({
  served: subnets,
  callers: clients,
})

/** The networks that an answer consumes of the quotas of `caller`. */
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
