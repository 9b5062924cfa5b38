/**
 * Admissions in PostgreSQL: one call for a batch. The SQL function `admit` locks the usage of subjects, decides, records
 * the admissions, and returns the usage before them. From that, `rate-limit.ts` decides again, for header fields and
 * refusals; `test/postgres/usage/any-sequence.test.ts` verifies that both agree.
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
import { stopwatch } from '../../lib/clock.ts'
import { UnknownOutcome } from '../../lib/errors.ts'
import type { Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, columnsOf, endsOf, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { nameOf, type RefusalCache } from './refusals.ts'

const ADMIT = `select proxylist.admit($1::text[], $2::text[], $3::int[], $4::int[], $5::bigint[],
  $6::int[], $7::int[], $8::int[]) as numbers`

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
export const byKey = (a: Subject, b: Subject): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

/** Groups the requests of a batch by subject. The first request sets the rule, if a plan changed meanwhile. */
function group(batch: readonly Admission[]) {
  const byName = new Map<string, Group>()
  const find = (subject: Subject): Group | undefined => byName.get(nameOf(subject))
  for (const rule of batch.flatMap(({ rules }) => rules)) {
    const its = find(rule.subject)
    if (its !== undefined) its.requests += 1
    else byName.set(nameOf(rule.subject), { ordinal: 0, rule, requests: 1, usage: null })
  }
  const groups = [...byName.values()].sort((a, b) => byKey(a.rule.subject, b.rule.subject))
  for (const [i, its] of groups.entries()) its.ordinal = i + 1
  return { groups, find }
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

/** When a call fails, its requests do, but not those that an earlier call has recorded. */
const orFail = <D>(
  requests: readonly Admission[],
  deciding: Promise<readonly D[]>,
): Promise<readonly (D | Promise<never>)[]> =>
  deciding.catch(failure => requests.map(() => Promise.reject(failure)))

/** Admissions over a connection that has a lock timeout. */
export function createAdmitBatch(
  query: Query,
  cache: RefusalCache,
  onAdmitted: (admitted: Admitted) => void,
) {
  /** Decides requests in one call; without `locks` it leaves some out (`null`), see the function in SQL. */
  async function call(
    batch: readonly Admission[],
    grouped: Grouped,
    locks: boolean,
    waited: Waited,
  ): Promise<(Decision | null)[]> {
    const { groups, find } = grouped
    const learn = cache.asking()
    const rows = groups.map(({ rule: { subject, window, daily }, requests }) => ({
      ...{ ...subject, requests, ms: window?.ms ?? 0 },
      ...{ limit: limitOf(window?.limit), daily: limitOf(daily) },
    }))
    const parameters = [
      ...columnsOf(rows, 'kind', 'id', 'requests', 'limit', 'ms', 'daily'),
      ...ordinalsOf(batch, grouped, locks),
    ]
    const [row] = await query<{ numbers: string }>(ADMIT, parameters, waited())
    const nowMs = readUsed(JSON.parse(`[${row?.numbers ?? ''}]`), groups)
    const table = tableOf(grouped)
    const decisions = batch.map(admission => {
      const rules = admission.rules.map(rule => find(rule.subject)?.rule ?? rule)
      if (rules.some(({ subject }) => find(subject)?.usage == null)) return null
      const decision = admit(table, { rules, nowMs })
      if (decision.kind === 'admitted') onAdmitted({ rules, instants: decision.instants })
      return decision
    })
    for (const { rule, usage } of groups) if (usage !== null) learn(rule, usage, nowMs)
    return decisions
  }

  return async (
    batch: readonly Admission[],
    waited: Waited = stopwatch(),
  ): Promise<readonly Awaitable<Decision>[]> => {
    const grouped = group(batch)
    // All rules of a request admit it, or none; requests count in order of arrival.
    const locks = batch.some(({ rules }) => rules.length > 1)
    const found = await call(batch, grouped, locks, waited)
    const left = batch.filter((_, i) => found[i] === null)
    const more = left.length === 0 ? [] : await orFail(left, call(left, group(left), true, waited))
    let next = 0
    return found.flatMap(decision => decision ?? more[next++] ?? [])
  }
}

/**
 * Returns a function that refunds once: if the outcome is unknown, it does not try again, because a
 * second time could refund what another request has used.
 */
export const createRefund =
  (query: Query, cache: RefusalCache, onRefunded: (admitted: Admitted) => void) =>
  async (batch: readonly Admitted[]): Promise<void> => {
    const given: (Subject & { atMs: number })[] = []
    for (const admitted of batch) {
      refund((subject, atMs) => given.push({ ...subject, atMs }), admitted)
    }
    given.sort(byKey)
    try {
      const text = 'select proxylist.give_back($1::text[], $2::text[], $3::bigint[])'
      await query(text, columnsOf(given, 'kind', 'id', 'atMs'))
      batch.forEach(onRefunded)
    } catch (failure) {
      if (!(failure instanceof UnknownOutcome)) throw failure
    } finally {
      cache.forget()
    }
  }
