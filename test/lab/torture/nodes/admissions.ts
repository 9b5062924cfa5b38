/**
 * The proof that answers and the journal are of one another: each admitted request has an
 * admission of its own, each admission a request, and no window holds too many, by the journal and by
 * what the clients saw.
 */
import { decide, overAdmissions, type Rule } from '../../../support/limiter-oracle.ts'
import { countBelow } from '../limiter/records.ts'
import { type Asked, outcomeOf, type Shown, shownOf } from './asked.ts'
import type { Histories, Written } from './histories.ts'

/**
 * How long after the end of its connection, or after a 503, a request may still be counted: the server
 * goes on with a statement whose client is gone.
 */
const LATE_MS = 10_000

type Statuses = ReturnType<typeof statusesAt>

/** The limits of a rule after the `n`-th admission of its subject, at an instant. */
const statusesAt = (rule: Rule, history: Written, n: number, nowMs: number) =>
  decide([rule], [history], [n], nowMs, history.seq.slice(n, n + 1)).decision

/** Whether a RateLimit field has these limits, with resets between those of two instants. */
function isShown(shown: Shown, early: Statuses, late: Statuses): boolean {
  return early.limits.every(({ name, remaining, resetSeconds }, i) => {
    const item = shown.get(name)
    const least = late.limits[i]?.resetSeconds ?? resetSeconds
    return (
      item?.remaining === remaining &&
      Math.min(least, resetSeconds) <= item.resetSeconds &&
      item.resetSeconds <= Math.max(least, resetSeconds)
    )
  })
}

/** A function that says whether the `n`-th admission of a subject can be that of an answer. */
function createComparison(rule: Rule, history: Written, { offsetsBetween }: Histories) {
  const atOwnInstant: Statuses[] = []
  return (asked: Asked, shown: Shown, n: number): boolean => {
    const at = history.at[n] ?? 0
    atOwnInstant[n] ??= statusesAt(rule, history, n, at)
    const own = atOwnInstant[n]
    if (own.kind === 'admitted' && isShown(shown, own, own)) return true
    const waitedMs = (history.realMs[n] ?? 0) - asked.sentMs
    if (isShown(shown, own, statusesAt(rule, history, n, at + waitedMs))) return true
    // The clock may stand behind the last admission: then the decision has its time.
    return offsetsBetween(asked.sentMs, asked.receivedMs).some(offset =>
      isShown(
        shown,
        statusesAt(rule, history, n, asked.sentMs + offset),
        statusesAt(rule, history, n, asked.receivedMs + offset),
      ),
    )
  }
}

/** A request of a subject; `isKnown`: it was answered as admitted. */
type Side = { asked: Asked; isKnown: boolean; entries: number[] }

/** For each request, the admissions that can be its own. */
function candidatesOf(
  rule: Rule,
  history: Written,
  requests: readonly Asked[],
  histories: Histories,
): Side[] {
  const compare = createComparison(rule, history, histories)
  return requests.map(asked => {
    const isKnown = outcomeOf(asked) === 'admitted'
    const from = countBelow(history.realMs, asked.sentMs)
    const to = countBelow(history.realMs, asked.receivedMs + 1 + (isKnown ? 0 : LATE_MS))
    const shown = shownOf(asked)
    const entries: number[] = []
    for (let n = from; n < to; n += 1) if (!isKnown || compare(asked, shown, n)) entries.push(n)
    return { asked, isKnown, entries }
  })
}

/** Gives the items of `from` partners of their own, moving those of others (Kuhn's algorithm). */
function augment(
  from: readonly number[],
  partnersOf: (item: number) => readonly number[],
  partner: Map<number, number>,
): number[] {
  const place = (item: number, tried: Set<number>): boolean => {
    for (const to of partnersOf(item)) {
      if (tried.has(to)) continue
      tried.add(to)
      const owner = partner.get(to)
      if (owner !== undefined && !place(owner, tried)) continue
      partner.set(to, item)
      return true
    }
    return false
  }
  return from.filter(item => !place(item, new Set()))
}

/** What is wrong between the requests of a subject and its admissions. */
export type Unmatched = { lost: Asked[]; unasked: number }

/**
 * Matches all requests of a subject with all its admissions. A matching of all answers and one of all
 * admissions exist together whenever each exists (Mendelsohn and Dulmage), so each is sought alone.
 */
export function matchSubject(
  rule: Rule,
  history: Written,
  requests: readonly Asked[],
  histories: Histories,
): Unmatched {
  const sides = candidatesOf(rule, history, requests, histories)
  const known = sides.flatMap(({ isKnown }, i) => (isKnown ? [i] : []))
  const owners = new Map<number, number>()
  const lost = augment(known, i => sides[i]?.entries ?? [], owners)
  const requestsOf: number[][] = history.at.map(() => [])
  for (const [i, { entries }] of sides.entries()) for (const n of entries) requestsOf[n]?.push(i)
  // The same matching, seen from the admissions, which then look for partners beyond the answers.
  const taken = new Map([...owners].map(([entry, request]) => [request, entry]))
  const free = history.at.flatMap((_, n) => (owners.has(n) ? [] : [n]))
  const unasked = augment(free, n => requestsOf[n] ?? [], taken)
  return { lost: lost.flatMap(i => sides[i]?.asked ?? []), unasked: unasked.length }
}

/** Admissions over a limit by what the clients saw alone: all of them within less than the window. */
export function overSeen(rule: Rule, admitted: readonly Asked[], { offsetsBetween }: Histories) {
  const { window } = rule
  if (window === null) return 0
  const ordered = [...admitted].sort((a, b) => a.receivedMs - b.receivedMs)
  let over = 0
  let first = 0
  for (const [i, { receivedMs }] of ordered.entries()) {
    const sinceMs = receivedMs - window.ms
    while ((ordered[first]?.receivedMs ?? 0) <= sinceMs) first += 1
    if (i - first < window.limit) continue
    const within = ordered.slice(first, i + 1).filter(({ sentMs }) => sentMs > sinceMs).length
    const isSteady = offsetsBetween(sinceMs, receivedMs).length === 1
    if (isSteady && within > window.limit) over += 1
  }
  return over
}

/** Transactions that counted a temporary key and not its address, or the other way round. */
export function countHalves(histories: Histories, isTemporary: (subject: string) => boolean) {
  const balance = new Map<string, number>()
  for (const [subject, { xid }] of histories.all) {
    const sign = subject.startsWith('temp:') ? -1 : isTemporary(subject) ? 1 : 0
    if (sign !== 0) for (const id of xid) balance.set(id, (balance.get(id) ?? 0) + sign)
  }
  return [...balance.values()].filter(sum => sum !== 0).length
}

/** Admissions of the journal over the limit of their subject, or before the one they follow. */
export const overCounted = (rule: Rule | undefined, history: Written): number =>
  rule ? overAdmissions(rule, history) : history.at.length
