/**
 * Owns a limiter that keeps every admission for ever and decides by counting them (contract B2–B6).
 * It is written from the contract and shares no code with the program, which is compared with it.
 */
import type { Caller } from '../../src/access/key.ts'
import type { Decision, LimitStatus } from '../../src/access/rate-limit.ts'

const SECOND = 1000
const DAY = 86_400 * SECOND

/** What one subject of the model is held to. */
export type Rule = {
  who: string
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

/** Clients are counted by their address; of IPv6, by the first four groups. */
const bucketOf = (ip: string): string => ip.split('::', 1).join().split(':', 4).join(':')
const networkOf = (ip: string): string =>
  ip.includes(':') ? bucketOf(ip) : ip.split('.', 2).join('.')

export function rulesOf(caller: Caller, ip: string): Rule[] {
  const bucket = bucketOf(ip)
  if (caller.kind === 'demo') {
    const window = { name: 'demo', limit: 2, ms: 60 * SECOND }
    return [{ who: `demo from ${bucket}`, window, daily: null }]
  }
  if (caller.kind === 'temp') {
    const window = { limit: 2, ms: 3600 * SECOND }
    return [
      { who: `key ${caller.id}`, window: { name: 'key', ...window }, daily: null },
      { who: `temp from ${bucket}`, window: { name: 'address', ...window }, daily: null },
    ]
  }
  const { burst, daily } = caller.plan
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * SECOND }
  return [{ who: `key ${caller.id}`, window, daily }]
}

const dayOf = (ms: number): number => Math.floor(ms / DAY)
const secondsUntil = (atMs: number, nowMs: number): number =>
  Math.max(1, Math.ceil((atMs - nowMs) / SECOND))

/** Every admission of every subject, in order. */
type Logs = Map<string, number[]>
const logOf = (logs: Logs, who: string): readonly number[] => logs.get(who) ?? []

/** The instant a request counts at, and the admissions that its rule counts then. */
function countedBy(logs: Logs, { who, window }: Rule, nowMs: number) {
  const log = logOf(logs, who)
  const atMs = Math.max(nowMs, ...log)
  const recent = window ? log.filter(ms => ms > atMs - window.ms) : []
  const today = log.filter(ms => dayOf(ms) === dayOf(atMs))
  return { atMs, recent, today: today.length }
}

function refusedAt(logs: Logs, rules: readonly Rule[], nowMs: number): 'window' | 'daily' | null {
  const counted = rules.map(rule => ({ ...rule, ...countedBy(logs, rule, nowMs) }))
  if (counted.some(({ window, recent }) => window && recent.length >= window.limit)) {
    return 'window'
  }
  return counted.some(({ daily, today }) => daily !== null && today >= daily) ? 'daily' : null
}

/** The fewest whole seconds after which the request is admitted: tries all that may be it. */
function waitOf(logs: Logs, rules: readonly Rule[], nowMs: number): number {
  const ends = rules.flatMap(({ who, window }) =>
    logOf(logs, who).flatMap(ms => [ms + (window?.ms ?? 0), (dayOf(ms) + 1) * DAY]),
  )
  const waits = [1, ...ends.map(ms => secondsUntil(ms, nowMs))].sort((a, b) => a - b)
  return waits.find(wait => refusedAt(logs, rules, nowMs + wait * SECOND) === null) ?? Number.NaN
}

function limitsOf(logs: Logs, rule: Rule, nowMs: number): LimitStatus[] {
  const { window, daily } = rule
  const { atMs, recent, today } = countedBy(logs, rule, nowMs)
  const limits: LimitStatus[] = []
  if (window) {
    limits.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND,
      remaining: window.limit - recent.length,
      resetSeconds: recent[0] === undefined ? 0 : secondsUntil(recent[0] + window.ms, nowMs),
    })
  }
  if (daily !== null) {
    limits.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY / SECOND,
      remaining: daily - today,
      resetSeconds: secondsUntil((dayOf(atMs) + 1) * DAY, nowMs),
    })
  }
  return limits
}

export function createLimiterModel() {
  const logs: Logs = new Map()
  const networks = new Map<string, Set<string>>()

  return {
    admit(caller: Caller, ip: string, nowMs: number): Decision {
      const rules = rulesOf(caller, ip)
      const limits = () => rules.flatMap(rule => limitsOf(logs, rule, nowMs))
      const by = refusedAt(logs, rules, nowMs)
      if (by !== null) {
        const retryAfterSeconds = waitOf(logs, rules, nowMs)
        return { kind: 'refused', limits: limits(), by, retryAfterSeconds }
      }
      const instants = rules.map(rule => countedBy(logs, rule, nowMs).atMs)
      for (const [i, { who }] of rules.entries()) {
        logs.set(who, [...logOf(logs, who), instants[i] ?? nowMs])
      }
      return { kind: 'admitted', limits: limits(), atMs: Math.max(...instants) }
    },

    limits: (caller: Caller, ip: string, nowMs: number): LimitStatus[] =>
      rulesOf(caller, ip).flatMap(rule => limitsOf(logs, rule, nowMs)),

    /** Adds an answer's networks; `null`, or the size of the day's set that it does not fit in. */
    consume(caller: Caller, ip: string, subnets: readonly number[], atMs: number): number | null {
      if (caller.kind !== 'regular') return null
      const sets = [
        { quota: caller.plan.subnets, what: 'served', add: subnets.map(String) },
        { quota: caller.plan.clients, what: 'callers', add: [networkOf(ip)] },
      ].map(set => {
        const name = `${caller.id} ${set.what} ${dayOf(atMs)}`
        const used = networks.get(name) ?? new Set<string>()
        return { ...set, name, used, after: used.union(new Set(set.add)) }
      })
      const full = sets.find(({ quota, after }) => quota !== null && after.size > quota)
      if (full) return full.used.size
      for (const { name, after } of sets) networks.set(name, after)
      return null
    },
  }
}
