/**
 * Owns the proof that each refusal is right: at some instant between sending the request and its
 * answer, the naive model refuses it as well, and with the same fields.
 */
import { dayOf, decide, quotaName, rateLimitOf, setName } from '../../../support/limiter-oracle.ts'
import { countBelow, quotasOf } from '../limiter/records.ts'
import { networksOf } from '../limiter/traffic.ts'
import { type Asked, type Shown, shownOf } from './asked.ts'
import type { Histories, Written, WrittenSet } from './histories.ts'

/** The code of a refusal, by the kind of key and what is full. */
export const CODES = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

/** How a refusal is wrong: no limit was full, or a field is not what the model says. */
export type Fault = 'not-full' | 'fields'

/** How many changes of each subject of a request were counted at some time, and until when, by the real clock. */
type State = { toMs: number; changes: number[] }

/** All ways to take one of the numbers from `least[i]` to `most[i]` for each `i`. */
const combinations = (least: readonly number[], most: readonly number[]): number[][] =>
  least.reduce<number[][]>(
    (all, from, i) =>
      all.flatMap(counts =>
        Array.from({ length: (most[i] ?? from) - from + 1 }, (_, more) => [...counts, from + more]),
      ),
    [[]],
  )

/** How far from a request its explanation looks for what was counted. */
const AROUND_MS = 1_000

/** The other nodes hear of what was given back within this time, and may refuse until then. */
const HEARD_MS = 1_000

/** The first instant whose state a request may be judged by. */
function firstMs(written: readonly Written[], sentMs: number): number {
  const back = written.flatMap(({ changes, changedMs }) => {
    const [from, to] = [countBelow(changedMs, sentMs - HEARD_MS), countBelow(changedMs, sentMs)]
    const first = changes.slice(from, to).findIndex(({ isBack }) => isBack)
    return first < 0 ? [] : [changedMs[from + first] ?? sentMs]
  })
  return Math.min(sentMs, ...back)
}

/**
 * The states from sending a request to its answer: before and after each change by others. Those of
 * one transaction are written at once, in any order, so within a millisecond any part of them may have
 * been counted.
 */
function statesOf({ rules, sentMs, receivedMs }: Asked, { of }: Histories): State[] {
  const written = rules.map(({ subject }) => of(subject))
  const changesBefore = (ms: number) => written.map(({ changedMs }) => countBelow(changedMs, ms))
  const beginMs = firstMs(written, sentMs)
  const instants = new Set([beginMs])
  for (const { changedMs } of written) {
    const end = countBelow(changedMs, receivedMs + 1)
    for (const ms of changedMs.slice(countBelow(changedMs, beginMs), end)) instants.add(ms)
  }
  const ordered = [...instants].sort((a, b) => a - b)
  return ordered.flatMap((fromMs, i) =>
    combinations(changesBefore(fromMs), changesBefore(fromMs + 1)).flatMap(changes =>
      [fromMs, ordered[i + 1] ?? receivedMs].map(toMs => ({ toMs, changes })),
    ),
  )
}

const isBetween = (value: number, one: number, other: number): boolean =>
  Math.min(one, other) <= value && value <= Math.max(one, other)

/**
 * A node that refuses by itself knows the clock of the database as well as the last answer from there
 * came in time: fields that count down may be behind by this.
 */
const BEHIND_MS = 1_000

/**
 * What the model decides in a state: at the earliest, at the latest, and for a clock that is behind. The
 * database reads its clock before it waits for the subject, so any state may be judged by the time at
 * which the request was sent.
 */
function decideIn(asked: Asked, { of }: Histories, state: State, offsetMs: number) {
  const histories = asked.rules.map(({ subject }) => of(subject))
  const changes = histories.map((history, i) => history.changes[(state.changes[i] ?? 0) - 1])
  const counts = changes.map(change => change?.count ?? 0)
  const seqs = changes.map(change => change?.seq ?? 0)
  const at = (ms: number) => decide(asked.rules, histories, counts, ms + offsetMs, seqs).decision
  return { begin: at(asked.sentMs), early: at(asked.sentMs - BEHIND_MS), late: at(state.toMs) }
}
type Decisions = ReturnType<typeof decideIn>

/** Whether the fields of a refusal are those of the model, at some instant of the state. */
function hasFields({ code, of, fields, retryAfter }: Asked, shown: Shown, pair: Decisions) {
  const { begin, early, late } = pair
  // A window may end meanwhile, and the day stay full.
  const isNamed = [begin, late].some(
    each => each.kind === 'refused' && CODES[of.caller][each.by] === code,
  )
  if (begin.kind !== 'refused' || !isNamed) return false
  const firstWait = early.kind === 'refused' ? early.retryAfterSeconds : begin.retryAfterSeconds
  const lastWait = late.kind === 'refused' ? late.retryAfterSeconds : 1
  const wait = fields.retry_after ?? -1
  if (Number(retryAfter) !== wait || !isBetween(wait, lastWait, firstWait)) return false
  const daily = code === 'DAILY_LIMIT_REACHED' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== daily) return false
  return late.limits.every(({ name, remaining, resetSeconds }, i) => {
    const item = shown.get(name)
    const first = early.limits[i]
    if (item === undefined || first === undefined) return false
    return (
      isBetween(item.remaining, first.remaining, remaining) &&
      isBetween(item.resetSeconds, first.resetSeconds, resetSeconds)
    )
  })
}

/** A state, and how far the clock of limits is ahead in it. */
type Judged = { state: State; offsetMs: number }

/**
 * The states that a request may be judged by. A node refuses by what it heard last and by its own timer:
 * for it the clock of limits goes on as before a step, until its subject has room by that.
 */
function* judgedBy(asked: Asked, histories: Histories): Generator<Judged> {
  const { rules, sentMs, receivedMs } = asked
  const states = statesOf(asked, histories)
  for (const offsetMs of histories.offsetsBetween(sentMs, receivedMs)) {
    for (const state of states) yield { state, offsetMs }
  }
  for (const { offsetMs, endMs } of histories.clocksBefore(receivedMs)) {
    const changes = rules.map(({ subject }) => countBelow(histories.of(subject).changedMs, endMs))
    yield { state: { toMs: receivedMs, changes }, offsetMs }
    for (const state of states) yield { state, offsetMs }
  }
}

/** How a refusal by window or day is wrong; `null` when it is right. */
export function faultOf(asked: Asked, histories: Histories): Fault | null {
  const shown = shownOf(asked)
  let isFull = false
  for (const { state, offsetMs } of judgedBy(asked, histories)) {
    const pair = decideIn(asked, histories, state, offsetMs)
    if (hasFields(asked, shown, pair)) return null
    isFull ||= pair.begin.kind === 'refused'
  }
  return isFull ? 'fields' : 'not-full'
}

/** What the model says of a refused request, and what was counted around it: for people who look for a fault. */
export function explain(asked: Asked, histories: Histories): string[] {
  const { rules, sentMs, receivedMs } = asked
  const decisions = [...judgedBy(asked, histories)].map(({ state, offsetMs }) => {
    const { begin } = decideIn(asked, histories, state, offsetMs)
    return `after ${state.changes} with the clock at ${offsetMs}: ${begin.kind} ${rateLimitOf(begin.limits)}`
  })
  const changes = rules.flatMap(({ subject }) => {
    const { changes: all, changedMs } = histories.of(subject)
    const from = countBelow(changedMs, sentMs - AROUND_MS)
    const to = countBelow(changedMs, receivedMs + AROUND_MS)
    return all.slice(from, to).map((change, i) => {
      const what = change.isBack ? 'gave back' : 'admitted'
      return `change ${from + i + 1} ${what}, ${(changedMs[from + i] ?? 0) - sentMs} ms after sending`
    })
  })
  return [...new Set(decisions), ...changes]
}

const NO_SET: WrittenSet = { networks: [], realMs: [] }

/** The days that a request can count for: that of the clock, or of an admission that it is behind. */
function daysOf({ sentMs, receivedMs, rules }: Asked, { of, offsetsBetween }: Histories): number[] {
  const days = new Set(
    offsetsBetween(sentMs, receivedMs).flatMap(offset => [
      dayOf(sentMs + offset),
      dayOf(receivedMs + offset),
    ]),
  )
  for (const { subject } of rules) {
    const { at, realMs } = of(subject)
    const last = at[countBelow(realMs, receivedMs + 1) - 1]
    if (last !== undefined) days.add(dayOf(last))
  }
  return [...days]
}

/** How many networks of a set can have been there while a request was under way. */
const boundsOf = ({ realMs }: WrittenSet, { sentMs, receivedMs }: Asked) => ({
  least: countBelow(realMs, sentMs),
  most: countBelow(realMs, receivedMs + 1),
})

/** Whether a refusal for networks is right: they do not fit in a set of the size that it names. */
export function isRightForNetworks(asked: Asked, histories: Histories): boolean {
  const used = asked.fields.used_subnets ?? -1
  return daysOf(asked, histories).some(day =>
    quotasOf(asked, networksOf(asked.port)).some(({ subject, quota, networks }) => {
      const set = histories.sets.get(setName(subject, day)) ?? NO_SET
      const { least, most } = boundsOf(set, asked)
      if (!isBetween(used, least, most)) return false
      return new Set([...set.networks.slice(0, used), ...networks]).size > quota
    }),
  )
}

/** Networks of an answer that were not in their set when it arrived. */
export function missingNetworks(
  asked: Asked,
  shownNetworks: readonly string[],
  histories: Histories,
): number {
  const shown = shownOf(asked)
  return quotasOf(asked, shownNetworks).filter(({ subject, quota, networks }) => {
    const used = quota - (shown.get(quotaName(subject))?.remaining ?? Number.NaN)
    return !daysOf(asked, histories).some(day => {
      const set = histories.sets.get(setName(subject, day)) ?? NO_SET
      const { most } = boundsOf(set, asked)
      const known = set.networks.slice(0, Math.min(used, most))
      return networks.every(network => known.includes(network))
    })
  }).length
}
