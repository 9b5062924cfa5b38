/**
 * The replay of a run: every admission of the journal is held against the oracle, every
 * answer against its admission, and every refusal against the states its subjects had meanwhile.
 */
import {
  dayOf,
  decide,
  emptyHistory,
  type History,
  overAdmissions,
  quotaName,
  type Rule,
  rateLimitOf,
  setName,
} from '../../../support/limiter-oracle.ts'
import { countBelow, type Journal, type NetworkSet, type Observed, quotasOf } from './records.ts'
import { networksOf } from './traffic.ts'

const DAY_MS = 86_400_000

export type Replayed = {
  /** Admissions over a window or day, or out of order; networks over a quota. */
  over: number
  /** Answers without an admission of their own, admissions without an answer. */
  unmatched: number
  /** Refusals that no state between arrival and answer explains. */
  wrong: Observed[]
  /** Networks that were counted and not shown, or shown and not counted. */
  unconsumed: number
  refusals: number
  subnetRefusals: number
}

/** A request that was admitted: served, or refused for the networks of its answer. */
export const isAdmitted = ({ status, code }: Observed): boolean =>
  status === 200 || status === 404 || code === 'SUBNET_LIMIT_REACHED'

const historiesOf = ({ histories }: Journal, { rules }: Observed): History[] =>
  rules.map(({ subject }) => histories.get(subject) ?? emptyHistory())

/** An admission has a place in the journal for each of its subjects, one after the other. */
const placesOf = ({ rules }: Observed): number => rules.length

/** The quotas of networks in a RateLimit field, which follow those that admitted the request. */
const NETWORK_ITEMS = /(?:^|, )"(subnets|clients)";r=(\d+);t=\d+/g

/** How many networks RateLimit says are left of a quota. */
function leftOf({ rateLimit }: Observed, subject: string): number {
  const name = quotaName(subject)
  const [, , left] = [...rateLimit.matchAll(NETWORK_ITEMS)].find(([, item]) => item === name) ?? []
  return Number(left ?? Number.NaN)
}

/** The places in the journal at which a request can have been admitted with its answer. */
function candidatesOf(journal: Journal, observed: Observed): number[] {
  const histories = historiesOf(journal, observed)
  const [first = emptyHistory()] = histories
  const candidates: number[] = []
  const end = countBelow(first.at, observed.receivedMs + 1)
  const notYet = journal.notYetAt(observed.receivedMs)
  const rateLimit = observed.rateLimit.replace(NETWORK_ITEMS, '')
  for (let n = countBelow(first.at, observed.nowMs); n < end; n += 1) {
    const seq = first.seq[n] ?? 0
    const counts = histories.map((history, i) => countBelow(history.seq, seq + i))
    const exist = histories.every((history, i) => history.seq[counts[i] ?? 0] === seq + i)
    if (!exist || seq >= notYet) continue
    const seqs = counts.map(() => seq)
    const { decision, instants } = decide(observed.rules, histories, counts, observed.nowMs, seqs)
    const isAt = histories.every((history, i) => history.at[counts[i] ?? 0] === instants[i])
    const isShown = rateLimitOf(decision.limits) === rateLimit
    if (decision.kind === 'admitted' && isAt && isShown) candidates.push(seq)
  }
  return candidates
}

/** The possible places of each admitted request, in order. */
type Candidates = ReadonlyMap<Observed, readonly number[]>

/** Gives each admitted request a place of its own where that is possible (Kuhn's algorithm). */
function matchAdmissions(candidates: Candidates): Map<number, Observed> {
  const ordered = [...candidates.keys()].sort((a, b) => a.receivedMs - b.receivedMs)
  const owners = new Map<number, Observed>()
  function place(observed: Observed, tried: Set<number>): boolean {
    for (const seq of candidates.get(observed) ?? []) {
      if (tried.has(seq)) continue
      tried.add(seq)
      const owner = owners.get(seq)
      if (owner !== undefined && !place(owner, tried)) continue
      owners.set(seq, observed)
      return true
    }
    return false
  }
  for (const observed of ordered) place(observed, new Set())
  return owners
}

/**
 * A function that gives the first place of the journal that may not have existed yet at `ms`. Of
 * the possible places of a request, the first existed when it was answered.
 */
function certainAt(candidates: Candidates): (ms: number) => number {
  const ends = [...candidates]
    .map(([one, [seq]]) => ({
      ms: one.receivedMs,
      end: seq === undefined ? 0 : seq + placesOf(one),
    }))
    .sort((a, b) => a.ms - b.ms)
  const instants = ends.map(({ ms }) => ms)
  let last = 0
  const latest = ends.map(({ end }) => {
    last = Math.max(last, end)
    return last
  })
  return ms => latest[countBelow(instants, ms) - 1] ?? 0
}

const REFUSALS = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

/** The admissions of each subject at a place of the journal. */
type State = { counts: number[]; seq: number }

/** The states that the subjects of a request had between two places of the journal. */
function statesBetween(histories: readonly History[], from: number, to: number): State[] {
  const cuts = new Set(from <= to ? [from] : [])
  for (const [i, { seq, givenBack }] of histories.entries()) {
    const end = countBelow(seq, to)
    // After an admission, with the places of all its subjects.
    const more = histories.length - i
    for (let n = countBelow(seq, from); n < end; n += 1) cuts.add((seq[n] ?? 0) + more)
    for (const back of givenBack) {
      if (from <= back.seq && back.seq < to) cuts.add(back.seq + more)
    }
  }
  return [...cuts].map(cut => ({
    counts: histories.map(({ seq }) => countBelow(seq, cut)),
    seq: cut,
  }))
}

type Bounds = { from: number; to: number }

const NO_SET: NetworkSet = { subject: '', day: 0, seq: [], networks: [] }

/** Whether RateLimit says of each quota of networks what was left of it at some time between. */
const showsQuotas = (
  journal: Journal,
  observed: Observed,
  atMs: number,
  { from, to }: Bounds,
): boolean =>
  quotasOf(observed, []).every(({ subject, quota }) => {
    const { seq } = journal.sets.get(setName(subject, dayOf(atMs))) ?? NO_SET
    const used = quota - leftOf(observed, subject)
    return countBelow(seq, from) <= used && used <= countBelow(seq, to)
  })

/** Whether a refusal by window or day is right in every field, for one of the states. */
function isRight(journal: Journal, observed: Observed, { from, to }: Bounds): boolean {
  const { of, code, fields, rules, nowMs, rateLimit, retryAfter } = observed
  const histories = historiesOf(journal, observed)
  const dailyLimit = code === 'DAILY_LIMIT_REACHED' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== dailyLimit || Number(retryAfter) !== fields.retry_after) return false
  return statesBetween(histories, from, to).some(({ counts, seq }) => {
    const seqs = counts.map(() => seq)
    const { decision, instants } = decide(rules, histories, counts, nowMs, seqs)
    return (
      decision.kind === 'refused' &&
      showsQuotas(journal, observed, Math.max(...instants), { from, to }) &&
      REFUSALS[of.caller][decision.by] === code &&
      decision.retryAfterSeconds === fields.retry_after &&
      rateLimitOf(decision.limits) === rateLimit.replace(NETWORK_ITEMS, '')
    )
  })
}

/** Whether a refusal for networks is right: they do not fit in a set of the size it names. */
function isRightForNetworks(
  journal: Journal,
  observed: Observed,
  at: number,
  { from, to }: Bounds,
): boolean {
  const { fields, nowMs, of, retryAfter } = observed
  const used = fields.used_subnets ?? -1
  const midnightWait = Math.max(1, Math.ceil(((dayOf(at) + 1) * DAY_MS - nowMs) / 1000))
  // Close to midnight the window may end later.
  const longest = Math.max(midnightWait, of.limits.burst?.seconds ?? 0)
  const wait = fields.retry_after ?? 0
  if (Number(retryAfter) !== wait || wait < midnightWait || wait > longest) return false
  return quotasOf(observed, networksOf(observed.port)).some(({ subject, quota, networks }) => {
    const set = journal.sets.get(setName(subject, dayOf(at))) ?? NO_SET
    const wasSo = countBelow(set.seq, from) <= used && used <= countBelow(set.seq, to)
    return wasSo && new Set([...set.networks.slice(0, used), ...networks]).size > quota
  })
}

type AtOf = (seq: number) => number

const shownIn = (body: string): string[] =>
  [...body.matchAll(/^(\d+\.\d+)\./gm)].map(([, network = '']) => network)

const isSame = (some: readonly string[], others: readonly string[]): boolean =>
  new Set(some).symmetricDifference(new Set(others)).size === 0

/**
 * Networks that were shown and not counted by then, or not in what RateLimit says is used, or
 * counted and never shown.
 */
function countUnconsumed(
  journal: Journal,
  owners: ReadonlyMap<number, Observed>,
  at: AtOf,
): number {
  const shown = new Map<NetworkSet, Set<string>>()
  let unconsumed = 0
  const served = [...owners].filter(([, { status, of }]) => status === 200 && of.caller !== 'demo')
  for (const [seq, observed] of served) {
    const networks = shownIn(observed.body)
    if (!isSame(networks, networksOf(observed.port))) unconsumed += 1
    const notYet = journal.notYetAt(observed.receivedMs)
    for (const quota of quotasOf(observed, networks)) {
      const set = journal.sets.get(setName(quota.subject, dayOf(at(seq)))) ?? NO_SET
      const used = quota.quota - leftOf(observed, quota.subject)
      const known = set.networks.slice(0, Math.min(used, countBelow(set.seq, notYet)))
      if (!quota.networks.every(network => known.includes(network))) unconsumed += 1
      shown.set(set, new Set([...(shown.get(set) ?? []), ...quota.networks]))
    }
  }
  for (const set of journal.sets.values()) {
    unconsumed += set.networks.filter(network => !shown.get(set)?.has(network)).length
  }
  return unconsumed
}

/** Everything in the journal that is over a limit. */
function countOver(journal: Journal, all: readonly Observed[]): number {
  const rules = new Map<string, Rule>()
  const quotas = new Map<string, number>()
  for (const observed of all) {
    for (const rule of observed.rules) rules.set(rule.subject, rule)
    for (const { subject, quota } of quotasOf(observed, [])) quotas.set(subject, quota)
  }
  let over = journal.miscounted
  for (const [subject, history] of journal.histories) {
    const rule = rules.get(subject)
    over += rule ? overAdmissions(rule, history) : history.at.length
  }
  for (const { subject, networks } of journal.sets.values()) {
    over += Math.max(0, networks.length - (quotas.get(subject) ?? 0))
  }
  return over
}

export function replay(journal: Journal, all: readonly Observed[]): Replayed {
  const admitted = all.filter(isAdmitted)
  const candidates = new Map(admitted.map(one => [one, candidatesOf(journal, one)]))
  const owners = matchAdmissions(candidates)
  const instants = new Map<number, number>()
  for (const { seq, at } of journal.histories.values()) {
    for (const [n, place] of seq.entries()) instants.set(place, at[n] ?? 0)
  }
  const at: AtOf = seq => instants.get(seq) ?? 0
  let owned = 0
  for (const observed of owners.values()) owned += placesOf(observed)

  const certain = certainAt(candidates)
  const boundsOf = ({ nowMs, receivedMs }: Observed): Bounds => ({
    from: certain(nowMs),
    to: journal.notYetAt(receivedMs),
  })
  const refused = all.filter(one => one.status === 429 && !isAdmitted(one))
  const wrong = refused.filter(one => !isRight(journal, one, boundsOf(one)))
  const forNetworks = [...owners].filter(([, { code }]) => code === 'SUBNET_LIMIT_REACHED')
  for (const [seq, observed] of forNetworks) {
    if (!isRightForNetworks(journal, observed, at(seq), boundsOf(observed))) wrong.push(observed)
  }
  return {
    over: countOver(journal, all),
    unmatched: admitted.length - owners.size + journal.rows - journal.givenBack - owned,
    wrong,
    unconsumed: countUnconsumed(journal, owners, at),
    refusals: refused.length,
    subnetRefusals: forNetworks.length,
  }
}
