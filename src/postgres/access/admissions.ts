/**
 * Owns admissions in PostgreSQL: one call for a batch, whose function locks what subjects have used
 * and records what they are admitted. The decisions themselves are those of `rate-limit.ts`, on what
 * the database has decided by.
 */
import {
  type Admission,
  type Admitted,
  admit,
  type Decision,
  giveBack,
  type LimitRule,
  type Subject,
  type Usage,
  type UsageTable,
} from '../../access/rate-limit.ts'
import { StoreError } from '../../lib/errors.ts'
import { utcDay } from '../../lib/time.ts'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { UnknownOutcome } from '../errors.ts'
import type { DatabaseClock } from './clock.ts'
import { hasSameLimits, type KnownUsage, nameOf } from './known.ts'

/** How often a batch is sent again, because a subject was removed between adding and locking it. */
const TRIES_MAX = 4

/** A subject of a batch, the rule for all of its requests, and what it has used. */
type Slot = { rule: LimitRule; position: number; usage: Usage }

const bySubject = ({ rule: { subject: a } }: Slot, { rule: { subject: b } }: Slot): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

const emptyUsage = (): Usage => ({ admissions: [], day: 0, requests: 0, latestMs: 0 })

/** Subjects by kind and id. */
function createSlots() {
  const byKind = { key: new Map<string, Slot>(), demo: new Map<string, Slot>() }
  const slots = { ...byKind, temp: new Map<string, Slot>() }
  return {
    find: ({ kind, id }: Subject): Slot | undefined => slots[kind].get(id),
    add({ kind, id }: Subject, slot: Slot): void {
      slots[kind].set(id, slot)
    },
    sorted: (): Slot[] =>
      Object.values(slots)
        .flatMap(known => [...known.values()])
        .sort(bySubject),
  }
}
type Slots = ReturnType<typeof createSlots>

/** The subjects of the first requests of a batch: up to one that has another rule for a subject. */
function slotsOf(batch: readonly Admission[]): { slots: Slots; count: number } {
  const slots = createSlots()
  for (const [count, { rules }] of batch.entries()) {
    const isOther = (rule: LimitRule): boolean => {
      const known = slots.find(rule.subject)
      return known !== undefined && !hasSameLimits(known.rule, rule)
    }
    if (count > 0 && rules.some(isOther)) return { slots, count }
    for (const rule of rules) {
      if (slots.find(rule.subject) === undefined) {
        slots.add(rule.subject, { rule, position: 0, usage: emptyUsage() })
      }
    }
  }
  return { slots, count: batch.length }
}

/** The parameters of `proxylist.admit`; gives each subject its position. */
function parametersOf(batch: readonly Admission[], slots: Slots, sorted: readonly Slot[]) {
  for (const [i, slot] of sorted.entries()) slot.position = i + 1
  const positions = batch.flatMap(({ rules }) =>
    rules.map(({ subject }) => slots.find(subject)?.position ?? 0),
  )
  let end = 0
  const ends = batch.map(({ rules }) => {
    end += rules.length
    return end
  })
  return [
    arrayLiteral(sorted.map(({ rule }) => rule.subject.kind)),
    arrayLiteral(sorted.map(({ rule }) => rule.subject.id)),
    arrayLiteral(sorted.map(({ rule }) => rule.window?.limit ?? null)),
    arrayLiteral(sorted.map(({ rule }) => rule.window?.ms ?? null)),
    arrayLiteral(sorted.map(({ rule }) => rule.daily)),
    arrayLiteral(positions),
    arrayLiteral(ends),
  ]
}

/**
 * Fills in what subjects have used, from the numbers of `proxylist.admit`; returns its clock. Of the
 * admissions that count only the oldest is known: the rule needs no other.
 */
function readUsage(numbers: readonly number[], sorted: readonly Slot[]): number {
  const [nowMs = 0] = numbers
  for (const [i, slot] of sorted.entries()) {
    const [latestMs = 0, counted = 0, oldestMs = 0, requests = 0] = numbers.slice(1 + 4 * i)
    const atMs = Math.max(nowMs, latestMs)
    const admissions = new Array<number>(counted).fill(atMs)
    if (counted > 0) admissions[0] = oldestMs
    slot.usage = { admissions, day: utcDay(atMs), requests, latestMs }
  }
  return nowMs
}

/** The usage of subjects in memory, on which a batch is decided. */
const tableOf = (slots: Slots): UsageTable => ({
  read: subject => slots.find(subject)?.usage ?? null,
  record(subject, atMs, requests, kept) {
    const usage = slots.find(subject)?.usage
    if (usage === undefined) return
    usage.admissions.push(atMs)
    while (usage.admissions.length > kept) usage.admissions.shift()
    usage.day = utcDay(atMs)
    usage.requests = requests
    usage.latestMs = atMs
  },
})

/** Withdraws refusals of subjects that the database is asked for: requests with other rules may pass. */
function askAll(
  batch: readonly Admission[],
  asked: readonly Admission[],
  refusals: (Decision | null)[],
): void {
  const names = new Set(asked.flatMap(({ rules }) => rules.map(({ subject }) => nameOf(subject))))
  for (const [i, { rules }] of batch.entries()) {
    if (rules.some(({ subject }) => names.has(nameOf(subject)))) refusals[i] = null
  }
}

/** Admissions over a connection. */
export function createAdmissions(query: Query, known: KnownUsage, clock: DatabaseClock) {
  /** Calls the function, after it added rows of subjects when it has not found all. */
  async function call(parameters: readonly string[]): Promise<number[]> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const [row] = await query<{ numbers: string | null }>(
        `select proxylist.admit($1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[],
           $6::int[], $7::int[]) as numbers`,
        parameters,
      )
      if (row?.numbers != null) return row.numbers.split(',').map(Number)
      await query('select proxylist.add_subjects($1::text[], $2::text[])', parameters.slice(0, 2))
    }
    throw new StoreError('subjects of the rate limit were removed while they were admitted')
  }

  /** Decides requests that the database has to be asked for. */
  async function ask(batch: readonly Admission[]): Promise<Decision[]> {
    const { slots, count } = slotsOf(batch)
    const some = batch.slice(0, count)
    const sorted = slots.sorted()
    const [sentMs, generation] = [clock.elapsedMs(), known.generation()]
    const nowMs = readUsage(await call(parametersOf(some, slots, sorted)), sorted)
    clock.set(nowMs, sentMs)
    const table = tableOf(slots)
    const decisions = some.map(({ rules }) => admit(table, { rules, nowMs }))
    for (const { rule, usage } of sorted) known.learn(rule, usage, nowMs, generation)
    return count === batch.length ? decisions : [...decisions, ...(await ask(batch.slice(count)))]
  }

  return {
    admit(batch: readonly Admission[]): Awaitable<readonly Decision[]> {
      const refusals = batch.map(({ rules }) => known.refuse(rules))
      const asked = batch.filter((_, i) => refusals[i] === null)
      if (asked.length === 0) return refusals.filter(refusal => refusal !== null)
      if (asked.length < batch.length) askAll(batch, asked, refusals)
      return ask(batch.filter((_, i) => refusals[i] === null)).then(decisions => {
        let next = 0
        return refusals.flatMap(refusal => refusal ?? decisions[next++] ?? [])
      })
    },

    /** Gives back once: when nobody knows whether that was done, it is not done again. */
    async giveBack(batch: readonly Admitted[]): Promise<void> {
      const gifts: { subject: Subject; atMs: number }[] = []
      for (const admitted of batch) {
        giveBack((subject, atMs) => gifts.push({ subject, atMs }), admitted)
      }
      gifts.sort(({ subject: a }, { subject: b }) => {
        if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1
        return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
      })
      try {
        await query('select proxylist.give_back($1::text[], $2::text[], $3::bigint[])', [
          arrayLiteral(gifts.map(({ subject }) => subject.kind)),
          arrayLiteral(gifts.map(({ subject }) => subject.id)),
          arrayLiteral(gifts.map(({ atMs }) => atMs)),
        ])
      } catch (failure) {
        if (!(failure instanceof UnknownOutcome)) throw failure
      } finally {
        for (const { subject } of gifts) known.forget(subject)
      }
    },
  }
}
