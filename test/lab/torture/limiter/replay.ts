/**
 * Owns the replay of a run of the limiter: every admission of the journal against the oracle,
 * every answer to its admission, and every refusal to a state its subject had meanwhile.
 */
import {
  countBelow,
  dayOf,
  emptyHistory,
  type History,
  judge,
  overAdmissions,
  type Rule,
} from './oracle.ts'
import { type Decision, drawnBy, type Journal, type NetworkSet, setName } from './records.ts'
import { networksOf } from './traffic.ts'

const DAY_MS = 86_400_000

export type Replayed = {
  /** Admissions beyond a window or day, or in a wrong order; networks beyond a quota. */
  over: number
  /** Answers without an admission of their own, admissions without an answer. */
  unmatched: number
  /** Refusals that no state between arrival and answer explains, with all they say. */
  wrong: Decision[]
  /** Networks that were charged and not shown, or shown and not charged. */
  uncharged: number
  refusals: number
  subnetRefusals: number
}

/** A request that was admitted: served, or refused for the networks of its answer. */
export const isAdmitted = ({ status, code }: Decision): boolean =>
  status === 200 || status === 404 || code === 'SUBNET_LIMIT_REACHED'

const historiesOf = ({ histories }: Journal, { subjects }: Decision): History[] =>
  subjects.map(subject => histories.get(subject) ?? emptyHistory())

/** An admission takes a place of the journal for each of its subjects, one after the other. */
const placesOf = ({ subjects }: Decision): number => subjects.length

/** The places of the journal where a request can have been admitted with the answer it got. */
function candidatesOf(journal: Journal, decision: Decision): number[] {
  const histories = historiesOf(journal, decision)
  const [first = emptyHistory()] = histories
  const candidates: number[] = []
  const end = countBelow(first.at, decision.receivedMs + 1)
  const notYet = journal.notYetAt(decision.receivedMs)
  for (let n = countBelow(first.at, decision.nowMs); n < end; n += 1) {
    const seq = first.seq[n] ?? 0
    const counts = histories.map((history, i) => countBelow(history.seq, seq + i))
    const areThere = histories.every((history, i) => history.seq[counts[i] ?? 0] === seq + i)
    if (!areThere || seq >= notYet) continue
    const { said, at, rateLimit } = judge(decision.rules, histories, counts, decision.nowMs)
    const isAt = histories.every((history, i) => history.at[counts[i] ?? 0] === at[i])
    if (said === 'admitted' && isAt && rateLimit === decision.rateLimit) candidates.push(seq)
  }
  return candidates
}

/** The places each admitted request can have, in order. */
type Candidates = ReadonlyMap<Decision, readonly number[]>

/** Gives each admitted request a place of its own where that is possible (Kuhn's algorithm). */
function matchAdmissions(candidates: Candidates): Map<number, Decision> {
  const ordered = [...candidates.keys()].sort((a, b) => a.receivedMs - b.receivedMs)
  const owners = new Map<number, Decision>()
  function place(decision: Decision, tried: Set<number>): boolean {
    for (const seq of candidates.get(decision) ?? []) {
      if (tried.has(seq)) continue
      tried.add(seq)
      const owner = owners.get(seq)
      if (owner !== undefined && !place(owner, tried)) continue
      owners.set(seq, decision)
      return true
    }
    return false
  }
  for (const decision of ordered) place(decision, new Set())
  return owners
}

/**
 * A function to the first place of the journal that may not have been there yet at `ms`. Which of
 * several places a request has may not be known; the first of them was there when it was answered.
 */
function surelyThere(candidates: Candidates): (ms: number) => number {
  const told = [...candidates]
    .map(([one, [seq]]) => ({
      ms: one.receivedMs,
      end: seq === undefined ? 0 : seq + placesOf(one),
    }))
    .sort((a, b) => a.ms - b.ms)
  const instants = told.map(({ ms }) => ms)
  let last = 0
  const ends = told.map(({ end }) => {
    last = Math.max(last, end)
    return last
  })
  return ms => ends[countBelow(instants, ms) - 1] ?? 0
}

const REFUSALS = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

/** The states that the subjects of a request had between two places of the journal. */
function statesBetween(histories: readonly History[], from: number, to: number): number[][] {
  const cuts = new Set(from <= to ? [from] : [])
  for (const [i, { seq }] of histories.entries()) {
    const end = countBelow(seq, to)
    // After an admission, with the places of all its subjects.
    const more = histories.length - i
    for (let n = countBelow(seq, from); n < end; n += 1) cuts.add((seq[n] ?? 0) + more)
  }
  return [...cuts].map(cut => histories.map(({ seq }) => countBelow(seq, cut)))
}

type Bounds = { from: number; to: number }

/** Whether a refusal by window or day is right, in all it says, for a state there was. */
function isRight(journal: Journal, decision: Decision, { from, to }: Bounds): boolean {
  const { of, code, fields, rules, nowMs, rateLimit, retryAfter } = decision
  const histories = historiesOf(journal, decision)
  const dailyLimit = code === 'DAILY_LIMIT_REACHED' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== dailyLimit || Number(retryAfter) !== fields.retry_after) return false
  return statesBetween(histories, from, to).some(counts => {
    const judged = judge(rules, histories, counts, nowMs)
    return (
      judged.said !== 'admitted' &&
      REFUSALS[of.caller][judged.said] === code &&
      judged.retryAfter === fields.retry_after &&
      judged.rateLimit === rateLimit
    )
  })
}

const NO_SET: NetworkSet = { subject: '', day: 0, seq: [], networks: [] }

/** Whether a refusal for networks is right: with the set as large as it says, they do not fit. */
function isRightForNetworks(
  journal: Journal,
  decision: Decision,
  at: number,
  { from, to }: Bounds,
): boolean {
  const { fields, nowMs, of, retryAfter } = decision
  const used = fields.used_subnets ?? -1
  const midnightWait = Math.max(1, Math.ceil(((dayOf(at) + 1) * DAY_MS - nowMs) / 1000))
  // Close to midnight the window may be what is waited for.
  const longest = Math.max(midnightWait, of.limits.burst?.seconds ?? 0)
  const wait = fields.retry_after ?? 0
  if (Number(retryAfter) !== wait || wait < midnightWait || wait > longest) return false
  return drawnBy(decision, networksOf(decision.port)).some(({ subject, quota, networks }) => {
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

/** Networks shown and not charged at the time, or charged and never shown. */
function countUncharged(journal: Journal, owners: ReadonlyMap<number, Decision>, at: AtOf): number {
  const shown = new Map<NetworkSet, Set<string>>()
  let uncharged = 0
  const served = [...owners].filter(([, { status, of }]) => status === 200 && of.caller !== 'demo')
  for (const [seq, decision] of served) {
    const networks = shownIn(decision.body)
    if (!isSame(networks, networksOf(decision.port))) uncharged += 1
    const notYet = journal.notYetAt(decision.receivedMs)
    for (const drawn of drawnBy(decision, networks)) {
      const set = journal.sets.get(setName(drawn.subject, dayOf(at(seq)))) ?? NO_SET
      const known = set.networks.slice(0, countBelow(set.seq, notYet))
      if (!drawn.networks.every(network => known.includes(network))) uncharged += 1
      shown.set(set, new Set([...(shown.get(set) ?? []), ...drawn.networks]))
    }
  }
  for (const set of journal.sets.values()) {
    uncharged += set.networks.filter(network => !shown.get(set)?.has(network)).length
  }
  return uncharged
}

/** Everything that is over a limit in the journal itself, whatever was answered. */
function countOver(journal: Journal, decisions: readonly Decision[]): number {
  const rules = new Map<string, Rule | undefined>()
  const quotas = new Map<string, number>()
  for (const decision of decisions) {
    for (const [i, subject] of decision.subjects.entries()) rules.set(subject, decision.rules[i])
    for (const { subject, quota } of drawnBy(decision, [])) quotas.set(subject, quota)
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

export function replay(journal: Journal, decisions: readonly Decision[]): Replayed {
  const admitted = decisions.filter(isAdmitted)
  const candidates = new Map(admitted.map(one => [one, candidatesOf(journal, one)]))
  const owners = matchAdmissions(candidates)
  const instants = new Map<number, number>()
  for (const { seq, at } of journal.histories.values()) {
    for (const [n, place] of seq.entries()) instants.set(place, at[n] ?? 0)
  }
  const at: AtOf = seq => instants.get(seq) ?? 0
  let owned = 0
  for (const decision of owners.values()) owned += placesOf(decision)

  const thereAt = surelyThere(candidates)
  const boundsOf = ({ nowMs, receivedMs }: Decision): Bounds => ({
    from: thereAt(nowMs),
    to: journal.notYetAt(receivedMs),
  })
  const refused = decisions.filter(one => one.status === 429 && !isAdmitted(one))
  const wrong = refused.filter(one => !isRight(journal, one, boundsOf(one)))
  const forNetworks = [...owners].filter(([, { code }]) => code === 'SUBNET_LIMIT_REACHED')
  for (const [seq, decision] of forNetworks) {
    if (!isRightForNetworks(journal, decision, at(seq), boundsOf(decision))) wrong.push(decision)
  }
  return {
    over: countOver(journal, decisions),
    unmatched: admitted.length - owners.size + journal.rows - owned,
    wrong,
    uncharged: countUncharged(journal, owners, at),
    refusals: refused.length,
    subnetRefusals: forNetworks.length,
  }
}
