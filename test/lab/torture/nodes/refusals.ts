/**
 * The proof that each refusal is right: at some instant between sending the request and its
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
 * What the model decides in a state at an instant. The database reads its clock before it waits for the
 * subject, so any state may be judged by any time since the request was sent.
 */
function decider({ rules }: Asked, { of }: Histories, { state, offsetMs }: Judged) {
  const histories = rules.map(({ subject }) => of(subject))
  const changes = histories.map((history, i) => history.changes[(state.changes[i] ?? 0) - 1])
  const counts = changes.map(change => change?.count ?? 0)
  const seqs = changes.map(change => change?.seq ?? 0)
  return (ms: number) => decide(rules, histories, counts, ms + offsetMs, seqs).decision
}
type Decide = ReturnType<typeof decider>

/** Whether a refusal is that of the model, field by field. */
function isOf(asked: Asked, shown: Shown, decision: ReturnType<Decide>): boolean {
  const { code, of, fields, retryAfter } = asked
  if (decision.kind !== 'refused' || CODES[of.caller][decision.by] !== code) return false
  const wait = decision.retryAfterSeconds
  if (Number(retryAfter) !== wait || fields.retry_after !== wait) return false
  const daily = decision.by === 'daily' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== daily) return false
  return decision.limits.every(({ name, remaining, resetSeconds }) => {
    const item = shown.get(name)
    return item?.remaining === remaining && item.resetSeconds === resetSeconds
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

/** Whether the model refuses a request with its very fields at some millisecond. */
function isRightWithin(asked: Asked, shown: Shown, decideAt: Decide, fromMs: number, toMs: number) {
  for (let ms = fromMs; ms <= toMs; ms += 1) if (isOf(asked, shown, decideAt(ms))) return true
  return false
}

/** How a refusal by window or day is wrong; `null` when it is right. */
export function faultOf(asked: Asked, histories: Histories): Fault | null {
  const { sentMs } = asked
  const shown = shownOf(asked)
  const judged = [...judgedBy(asked, histories)].map(each => ({
    decideAt: decider(asked, histories, each),
    toMs: each.state.toMs,
  }))
  const isRight =
    judged.some(({ decideAt, toMs }) => isRightWithin(asked, shown, decideAt, sentMs, toMs)) ||
    judged.some(({ decideAt }) =>
      isRightWithin(asked, shown, decideAt, sentMs - BEHIND_MS, sentMs - 1),
    )
  if (isRight) return null
  const isFull = judged.some(({ decideAt }) => decideAt(sentMs).kind === 'refused')
  return isFull ? 'fields' : 'not-full'
}

/** What the model says of a refused request, and what was counted around it: for people who look for a fault. */
export function explain(asked: Asked, histories: Histories): string[] {
  const { rules, sentMs, receivedMs } = asked
  const decisions = [...judgedBy(asked, histories)].map(judged => {
    const { state, offsetMs } = judged
    const { kind, limits } = decider(asked, histories, judged)(sentMs)
    return `after ${state.changes} with the clock at ${offsetMs}: ${kind} ${rateLimitOf(limits)}`
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
