/**
 * Admissions in PostgreSQL: one call for a batch. The SQL function `admit` locks the usage of subjects, decides, records
 * the admissions, and returns the usage before them. From that, `rate-limit.ts` decides again, for header fields and
 * refusals; `test/access/any-sequence.test.ts` verifies that both agree.
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
import { UnknownOutcome } from '../../lib/errors.ts'
import { arrayLiteral, columnsOf, endsOf, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { nameOf, type RefusalCache } from './refusals.ts'

const ADMIT = `select proxylist.admit($1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[],
  $6::int[], $7::int[]) as numbers`

/** The order of the primary key, in which rows are locked. Kinds and ids are ASCII. */
export const byKey = (a: Subject, b: Subject): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

/** The rules of a batch by name of their subject, in the order of the primary key. The first request sets a rule. */
function rulesOf(batch: readonly Admission[]): Map<string, LimitRule> {
  const rules = new Map<string, LimitRule>()
  for (const rule of batch.flatMap(({ rules }) => rules)) {
    const name = nameOf(rule.subject)
    if (!rules.has(name)) rules.set(name, rule)
  }
  return new Map([...rules].sort(([, a], [, b]) => byKey(a.subject, b.subject)))
}

/**
 * The usage of a subject before a call, from the numbers that it returned. Of the admissions that count only the oldest
 * is known: the rule needs no other.
 */
function toUsage({ window }: LimitRule, nowMs: number, numbers: readonly number[]): Usage {
  const [latestMs = 0, counted = 0, oldestMs = 0, requests = 0] = numbers
  const atMs = Math.max(nowMs, latestMs)
  const admissions = new Array<number>(window === null ? 0 : counted).fill(atMs)
  if (admissions.length > 0) admissions[0] = oldestMs
  return { admissions, requests, latestMs }
}

/** Usage by name of its subject, to which is added what requests are admitted: the database has recorded that. */
const tableOf = (usages: ReadonlyMap<string, Usage>): UsageTable => ({
  read: subject => usages.get(nameOf(subject)) ?? UNUSED,
  record(subject, atMs, requests, kept) {
    const usage = usages.get(nameOf(subject))
    if (usage === undefined) return
    usage.admissions.push(atMs)
    while (usage.admissions.length > kept) usage.admissions.shift()
    usage.requests = requests
    usage.latestMs = atMs
  },
})

/** Admissions over a connection that has a lock timeout. */
export const createAdmitBatch =
  (query: Query, cache: RefusalCache, onAdmitted: (admitted: Admitted) => void) =>
  async (batch: readonly Admission[]): Promise<Decision[]> => {
    const byName = rulesOf(batch)
    const ordinals = new Map([...byName.keys()].map((name, i) => [name, i + 1]))
    const rows = [...byName.values()].map(({ subject, window, daily }) => ({
      ...{ ...subject, limit: limitOf(window?.limit), ms: window?.ms ?? 0, daily: limitOf(daily) },
    }))
    const subjects = batch.flatMap(({ rules }) => rules.map(({ subject }) => nameOf(subject)))
    const parameters = [
      ...columnsOf(rows, 'kind', 'id', 'limit', 'ms', 'daily'),
      arrayLiteral(subjects.map(name => ordinals.get(name) ?? null)),
      endsOf(batch.map(({ rules }) => rules)),
    ]
    const learn = cache.asking()
    const [row] = await query<{ numbers: string }>(ADMIT, parameters)
    const [nowMs = 0, ...numbers]: number[] = JSON.parse(`[${row?.numbers ?? ''}]`)
    const usages = new Map(
      [...byName].map(([name, rule], i) => [name, toUsage(rule, nowMs, numbers.slice(4 * i))]),
    )
    const table = tableOf(usages)
    const decisions = batch.map(admission => {
      const rules = admission.rules.map(rule => byName.get(nameOf(rule.subject)) ?? rule)
      const decision = admit(table, { rules, nowMs })
      if (decision.kind === 'admitted') onAdmitted({ rules, instants: decision.instants })
      return decision
    })
    for (const [name, rule] of byName) learn(rule, usages.get(name) ?? UNUSED, nowMs)
    return decisions
  }

/** Refunds once: after an unknown outcome, a second time could refund another request. */
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
