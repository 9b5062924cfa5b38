/**
 * Admissions in PostgreSQL: one call for a batch. The SQL function `admit` locks what subjects have used,
 * decides, records what they are admitted, and returns what they had used before. By these numbers
 * `rate-limit.ts` decides here once more, for header fields and refusals. That both decide alike is held by
 * `test/postgres/usage/any-sequence.test.ts`.
 *
 * Other nodes lock a row for milliseconds, a person in psql for minutes. A call waits for locks, but not
 * long; after one that waited in vain, calls leave out rows that are locked, and only the requests of
 * these wait: they are tried again until they are late.
 */
import {
  type Admission,
  type Admitted,
  admit,
  type Decision,
  type LimitRule,
  refund,
  type Subject,
  UNUSED,
  type Usage,
  type UsageTable,
} from '../../access/rate-limit.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { rejectAfter, stopwatch, timerLater } from '../../lib/clock.ts'
import { UnknownOutcome } from '../../lib/errors.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import type { Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, columnsOf, endsOf, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { isLockNotFree } from '../errors.ts'
import { type DatabaseClock, hasSameLimits, nameOf, type RefusalCache } from './refusals.ts'

const ADMIT = `select proxylist.admit($1::text[], $2::text[], $3::int[], $4::int[], $5::bigint[],
  $6::int[], $7::int[], $8::int[], $9) as numbers`

/** How long calls leave out locked rows after one waited in vain: who locks one is likely to again. */
const SKIP_LOCKED_MS = MINUTE_MS
/** Requests that are tried again together, and the pause before that. */
const BATCH_MAX = 1_000
const RETRY_MS = 5

type Group = {
  /** Its ordinal in the order of the primary key, from 1 on. */
  ordinal: number
  /** The rule of all these requests, and how many they are. */
  rule: LimitRule
  requests: number
  /** What the subject has used; `null`: the call left it out. */
  usage: Usage | null
}

/** The order of the primary key, in which rows are locked. Kinds and ids are ASCII. */
const byKey = (a: Subject, b: Subject): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

/** Groups the first `count` requests of a batch: up to one that has another rule for a subject. */
function group(batch: readonly Admission[]) {
  const byName = new Map<string, Group>()
  const find = (subject: Subject): Group | undefined => byName.get(nameOf(subject))
  const hasOtherLimits = (rule: LimitRule): boolean => {
    const its = find(rule.subject)
    return its !== undefined && !hasSameLimits(its.rule, rule)
  }
  let count = 0
  for (const { rules } of batch) {
    if (rules.some(hasOtherLimits)) break
    for (const rule of rules) {
      const its = find(rule.subject)
      if (its !== undefined) its.requests += 1
      else byName.set(nameOf(rule.subject), { ordinal: 0, rule, requests: 1, usage: null })
    }
    count += 1
  }
  const groups = [...byName.values()].sort((a, b) => byKey(a.rule.subject, b.rule.subject))
  for (const [i, its] of groups.entries()) its.ordinal = i + 1
  return { groups, find, count }
}

type Grouped = ReturnType<typeof group>

/** What groups have used, to which is added what requests are admitted: the database has recorded that. */
const tableOf = ({ find }: Grouped): UsageTable => ({
  read: subject => find(subject)?.usage ?? UNUSED,
  record(subject, atMs, requests, kept) {
    const usage = find(subject)?.usage
    if (usage == null) return
    usage.admissions.push(atMs)
    while (usage.admissions.length > kept) usage.admissions.shift()
    usage.requests = requests
    usage.latestMs = atMs
  },
})

/** For a call that locks: the ordinals of the subjects of all requests, and where those of each end. */
function ordinalsOf(batch: readonly Admission[], { find }: Grouped, locks: boolean) {
  if (!locks) return [null, null]
  const ordinals = batch.flatMap(({ rules }) =>
    rules.map(({ subject }) => find(subject)?.ordinal ?? null),
  )
  return [arrayLiteral(ordinals), endsOf(batch.map(({ rules }) => rules))]
}

/**
 * Fills in what subjects had used before, from the numbers of `proxylist.admit`; returns its clock. Of the
 * admissions that count only the oldest is known: the rule needs no other.
 */
function readUsed([nowMs = 0, ...numbers]: readonly number[], groups: readonly Group[]): number {
  for (let i = 0; i < numbers.length; i += 5) {
    const [ordinal = 0, latestMs = 0, counted = 0, oldestMs = 0, requests = 0] = numbers.slice(i)
    const its = groups[ordinal - 1]
    if (its === undefined) continue
    const atMs = Math.max(nowMs, latestMs)
    const admissions = new Array<number>(its.rule.window === null ? 0 : counted).fill(atMs)
    if (admissions.length > 0) admissions[0] = oldestMs
    its.usage = { admissions, requests, latestMs }
  }
  return nowMs
}

type Waiting = {
  admission: Admission
  waited: Waited
  resolve: (decision: Decision) => void
  reject: (reason: unknown) => void
}

/**
 * What becomes of a request; `null`: a subject was left out, as its row is locked or another call decides. One
 * whose call has failed fails alone: what other calls of its batch have decided is recorded.
 */
type Attempted = Decision | { kind: 'failed'; failure: unknown } | null

/**
 * How long a request may wait in all, `null` for any time, and how much of that it needs for another try;
 * `late` makes what one fails with that has less.
 */
type LockWaits = { msMax: number | null; tryMs: number; late: () => Error }

/** Admissions over a connection that has a lock timeout. */
export function createAdmitBatch(
  query: Query,
  cache: RefusalCache,
  clock: DatabaseClock,
  { msMax, tryMs, late }: LockWaits,
) {
  let skipUntilMs = Number.NEGATIVE_INFINITY
  let waiting: Waiting[] = []
  let isRetrying = false

  /** Decides requests in one call; with `locks` also those that the other call leaves out. */
  async function decideGrouped(
    batch: readonly Admission[],
    grouped: Grouped,
    locks: boolean,
    waited: Waited,
  ): Promise<Attempted[]> {
    const { groups, find } = grouped
    const waits = clock.elapsedMs() >= skipUntilMs
    const [sentMs, generation] = [clock.elapsedMs(), cache.generation()]
    const rows = groups.map(({ rule: { subject, window, daily }, requests }) => ({
      ...{ ...subject, requests, ms: window?.ms ?? 0 },
      ...{ limit: limitOf(window?.limit), daily: limitOf(daily) },
    }))
    const parameters = [
      ...columnsOf(rows, 'kind', 'id', 'requests', 'limit', 'ms', 'daily'),
      ...ordinalsOf(batch, grouped, locks),
      waits,
    ]
    try {
      const [row] = await query<{ numbers: string }>(ADMIT, parameters, waited())
      const nowMs = readUsed(JSON.parse(`[${row?.numbers ?? ''}]`), groups)
      clock.set({ nowMs, sentMs })
      const table = tableOf(grouped)
      const decisions = batch.map(({ rules }) =>
        rules.every(({ subject }) => find(subject)?.usage != null)
          ? admit(table, { rules, nowMs })
          : null,
      )
      for (const { rule, usage } of groups) {
        if (usage !== null) cache.learn(rule, usage, { nowMs, sentMs, generation })
      }
      return decisions
    } catch (failure) {
      if (!isLockNotFree(failure)) return batch.map(() => ({ kind: 'failed', failure }))
      if (!waits) return batch.map(() => null)
      skipUntilMs = clock.elapsedMs() + SKIP_LOCKED_MS
      return decideGrouped(batch, grouped, locks, waited)
    }
  }

  async function decide(batch: readonly Admission[], waited: Waited): Promise<Attempted[]> {
    const grouped = group(batch)
    const some = batch.slice(0, grouped.count)
    // Those with several rules are admitted for all or none, in order of arrival.
    const locks = some.some(({ rules }) => rules.length > 1)
    let outcomes = await decideGrouped(some, grouped, locks, waited)
    const left = some.filter((_, i) => outcomes[i] === null)
    if (left.length > 0 && !locks) {
      const more = await decideGrouped(left, group(left), true, waited)
      outcomes = outcomes.map(outcome => outcome ?? more.shift() ?? null)
    }
    const rest = batch.slice(grouped.count)
    return rest.length === 0 ? outcomes : [...outcomes, ...(await decide(rest, waited))]
  }

  async function retry(): Promise<void> {
    const items = waiting.slice(0, BATCH_MAX).filter(({ waited, reject }) => {
      const isLate = msMax !== null && waited() + tryMs > msMax
      if (isLate) {
        skipUntilMs = clock.elapsedMs() + SKIP_LOCKED_MS
        reject(late())
      }
      return !isLate
    })
    waiting = waiting.slice(BATCH_MAX)
    const admissions = items.map(({ admission }) => admission)
    const outcomes = items.length === 0 ? [] : await decide(admissions, stopwatch())
    for (const [i, item] of items.entries()) {
      const outcome = outcomes[i] ?? null
      if (outcome === null) waiting.push(item)
      else if (outcome.kind === 'failed') item.reject(outcome.failure)
      else item.resolve(outcome)
    }
    isRetrying = waiting.length > 0
    if (isRetrying) timerLater(() => void retry(), RETRY_MS)
  }

  /** Tries again until the request is late: also while a try hangs. */
  function wait(admission: Admission, waited: Waited): Promise<Decision> {
    const { promise, resolve, reject } = Promise.withResolvers<Decision>()
    waiting.push({ admission, waited, resolve, reject })
    if (!isRetrying) timerLater(() => void retry(), RETRY_MS)
    isRetrying = true
    return rejectAfter(promise, msMax && Math.max(0, msMax - waited()), late)
  }

  return async function admitBatch(
    batch: readonly Admission[],
    waited: Waited = stopwatch(),
  ): Promise<readonly Awaitable<Decision>[]> {
    const outcomes = await decide(batch, waited)
    return batch.map((admission, i): Awaitable<Decision> => {
      const outcome = outcomes[i] ?? null
      if (outcome === null) return wait(admission, waited)
      return outcome.kind === 'failed' ? Promise.reject(outcome.failure) : outcome
    })
  }
}

/**
 * Returns a function that refunds once: if the outcome is unknown, it does not try again, because a
 * second time could refund what another request has used.
 */
export const createRefund =
  (query: Query, cache: RefusalCache) =>
  async (batch: readonly Admitted[]): Promise<void> => {
    const given: (Subject & { atMs: number })[] = []
    for (const admitted of batch) {
      refund((subject, atMs) => given.push({ ...subject, atMs }), admitted)
    }
    given.sort(byKey)
    try {
      const text = 'select proxylist.give_back($1::text[], $2::text[], $3::bigint[])'
      await query(text, columnsOf(given, 'kind', 'id', 'atMs'))
    } catch (failure) {
      if (!(failure instanceof UnknownOutcome)) throw failure
    } finally {
      for (const subject of given) cache.forget(subject)
    }
  }
