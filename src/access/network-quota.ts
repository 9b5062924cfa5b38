/** The daily quotas of unique networks of served proxies and of callers (contract B2, B6). Pure decisions. */
import { DAY_MS, SECOND_MS, utcDay } from '../lib/time.ts'
import {
  type LimitRule,
  type LimitStatus,
  type Subject,
  UNUSED,
  type Usage,
  type UsageTable,
  wholeSeconds,
  windowWaitMs,
} from './rate-limit.ts'

/** The networks of served proxies, or of callers. */
export type NetworkSet = 'served' | 'callers'

/** The networks that an answer consumes of the quotas of its key. */
export type Consumption = {
  subject: Subject
  /** Most networks a UTC day; `null` is unlimited. */
  quotas: { readonly [S in NetworkSet]: number | null }
  networks: { readonly [S in NetworkSet]: readonly string[] }
  /** The rule that admitted the request, because a retry must pass it too. */
  rule: LimitRule
  /** The instant at which the request counts, and the time of the clock; Unix milliseconds. */
  atMs: number
  nowMs: number
}

export type NetworkDecision =
  | { kind: 'consumed' }
  | {
      kind: 'refused'
      set: NetworkSet
      quota: number
      /** Networks used today before this answer, and new networks of the answer. */
      used: number
      added: number
      /** All networks of the answer. If they exceed `quota`, no day has room for it. */
      all: number
      retryAfterSeconds: number
    }

export type NetworkCounts = { readonly [S in NetworkSet]: number }

type Compared = { used: number; lacking: ReadonlySet<string> }

/** Reads and extends the sets of networks. `day` is a UTC day, see `utcDay`. */
export interface NetworkTable {
  /** How many networks a set has, and which networks of an answer it lacks. */
  compare(subject: Subject, set: NetworkSet, day: number, networks: readonly string[]): Compared
  addNetworks(subject: Subject, set: NetworkSet, day: number, networks: Iterable<string>): void
}

export const SETS: readonly NetworkSet[] = ['served', 'callers']
/** The names of their quotas, as in the limits of a plan. */
const NAMES: { readonly [S in NetworkSet]: string } = { served: 'subnets', callers: 'clients' }

/** The status of the quotas of a key on a UTC day, without unlimited ones. */
export const quotaStatuses = (
  quotas: Consumption['quotas'],
  counts: NetworkCounts,
  day: number,
  nowMs: number,
): LimitStatus[] =>
  SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    return {
      name: NAMES[set],
      quota,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, quota - counts[set]), // the quota may have been lowered
      resetSeconds: wholeSeconds((day + 1) * DAY_MS - nowMs),
    }
  })

/** A quota, the networks used before, and the number of networks that an answer adds. */
export type Addition = { set: NetworkSet; quota: number; used: number; added: number }

/** Decides by the networks used before. `usageOf` reads the usage for the `Retry-After` of a refusal. */
export function decide(
  { networks, rule, atMs, nowMs }: Consumption,
  additions: readonly Addition[],
  usageOf: () => Usage | null,
): NetworkDecision {
  const over = additions.find(({ quota, used, added }) => used + added > quota)
  if (!over) return { kind: 'consumed' }
  const { set, quota, used, added } = over
  const midnightMs = (utcDay(atMs) + 1) * DAY_MS - nowMs
  const windowMs = windowWaitMs(rule, usageOf() ?? UNUSED, nowMs)
  const retryAfterSeconds = wholeSeconds(Math.max(midnightMs, windowMs))
  const all = new Set(networks[set]).size
  return { kind: 'refused', set, quota, used, added, all, retryAfterSeconds }
}

/** Adds an answer's networks to the sets of the day, or refuses it. Call it inside a transaction of the store. */
export function consume(usage: NetworkTable & UsageTable, answer: Consumption): NetworkDecision {
  const { subject, quotas, networks, rule, atMs } = answer
  const day = utcDay(atMs)
  const additions = SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    const { used, lacking } = usage.compare(subject, set, day, networks[set])
    return { set, quota, used, added: lacking.size, lacking }
  })
  const decision = decide(answer, additions, () => usage.read(rule.subject))
  if (decision.kind === 'consumed') {
    for (const { set, lacking } of additions) usage.addNetworks(subject, set, day, lacking)
  }
  return decision
}
