/** Owns the entitlements and the limits of each kind of key (spec 8, contract B2–B7). */
import { isIPv4 } from 'node:net'
import { ipv4Network16, ipv6Prefix } from '../lib/ip.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Caller } from './key.ts'
import type { Consumption } from './network-quota.ts'
import type { LimitRule, Subject } from './rate-limit.ts'

/** How a kind of key changes a query. */
export type Entitlements = {
  /** Most records in an answer; `null` is unlimited. */
  countMax: number | null
  /** Used when the query has no `works`. */
  worksDefault: number | null
  /** How much of an address is shown: all of it, or the first half (contract B4). */
  addressBits: 32 | 16
}

const DEMO: Entitlements = { countMax: 50, worksDefault: 90, addressBits: 16 }
const TEMP: Entitlements = { countMax: 30, worksDefault: null, addressBits: 32 }
/** One object for all plans with the same `count`, so that queries can be looked up by it. */
const REGULAR = new Map<number | null, Entitlements>()

/**
 * The entitlements of a caller: one shared object for each kind and `count`, because parsed queries
 * are cached by its identity. Do not change or copy it.
 */
export function entitlementsOf(caller: Caller): Entitlements {
  if (caller.kind === 'demo') return DEMO
  if (caller.kind === 'temp') return TEMP
  const { count: countMax } = caller.plan
  const known = REGULAR.get(countMax)
  if (known) return known
  const entitlements: Entitlements = { countMax, worksDefault: null, addressBits: 32 }
  REGULAR.set(countMax, entitlements)
  return entitlements
}

const DEMO_WINDOW = { name: 'demo', limit: 2, ms: MINUTE_MS }
const TEMP_WINDOW = { limit: 2, ms: HOUR_MS }

/** What a limit per client address counts: the IPv4 address, or the IPv6 /64 (contract B7). */
export const clientBucket = (ip: string): string =>
  ip.includes(':') ? `${ipv6Prefix(ip, 4)}::/64` : ip

/** The network that a quota of callers counts: the IPv4 /16, or the IPv6 /64 (contract B2). */
export const clientNetwork = (ip: string): string =>
  isIPv4(ip) ? `${ipv4Network16(ip)}/16` : clientBucket(ip)

/** The subject that a regular or temporary key is counted under. */
export const keySubject = (id: string): Subject => ({ kind: 'key', id })

type Regular = Extract<Caller, { kind: 'regular' }>

/** The rules of regular keys, by caller, which is one object as long as its key is in memory. */
const regularRules = new WeakMap<Regular, LimitRule>()

function regularRule(caller: Regular): LimitRule {
  const known = regularRules.get(caller)
  if (known) return known
  const { burst, daily } = caller.plan
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * SECOND_MS }
  const rule = { subject: keySubject(caller.id), window, daily }
  regularRules.set(caller, rule)
  return rule
}

/** The rules that limit requests of `caller` from address `ip`. */
export function limitRulesOf(caller: Caller, ip: string): readonly LimitRule[] {
  if (caller.kind === 'regular') return [regularRule(caller)]
  const id = clientBucket(ip)
  if (caller.kind === 'demo') {
    return [{ subject: { kind: 'demo', id }, window: DEMO_WINDOW, daily: null }]
  }
  return [
    { subject: keySubject(caller.id), window: { name: 'key', ...TEMP_WINDOW }, daily: null },
    { subject: { kind: 'temp', id }, window: { name: 'address', ...TEMP_WINDOW }, daily: null },
  ]
}

/** An answer and the request that it is for. Times are Unix milliseconds, see `Consumption`. */
export type Served = { ip: string; subnets: readonly number[]; atMs: number; nowMs: number }

/** Whether the plan of `caller` limits unique networks. */
export const hasNetworkQuota = (caller: Caller): caller is Regular =>
  caller.kind === 'regular' && (caller.plan.subnets !== null || caller.plan.clients !== null)

/** Whether the address of its client matters for a request of `caller`. */
export const isCountedByAddress = (caller: Caller): boolean =>
  caller.kind !== 'regular' || hasNetworkQuota(caller)

/** What an answer consumes of the network quotas of `caller`. */
export function consumptionOf(caller: Regular, { ip, subnets, atMs, nowMs }: Served): Consumption {
  const rule = regularRule(caller)
  return {
    subject: rule.subject,
    quotas: { served: caller.plan.subnets, callers: caller.plan.clients },
    networks: { served: subnets.map(String), callers: [clientNetwork(ip)] },
    rule,
    atMs,
    nowMs,
  }
}
