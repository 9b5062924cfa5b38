/**
 * Owns admissions in PostgreSQL: one call for a batch, whose function locks what subjects have used
 * and records what they are admitted. The decisions themselves are those of `rate-limit.ts`, on what
 * the database has decided by.
 */
import {
  type Admission,
  admit,
  type Decision,
  type LimitRule,
  type Usage,
} from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { utcDay } from '../../lib/time.ts'
import type { Awaitable, Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import type { DatabaseClock } from './clock.ts'
import { type KnownUsage, nameOf } from './known.ts'
import { createLocked, type LockWaits, type Result, unlessLocked } from './locked.ts'
import { createSlots, type Slot, type Slots } from './slots.ts'

/** How often requests are sent again, because a subject was removed between adding and locking it. */
const TRIES_MAX = 4

const ADMIT = `select proxylist.admit($1::text[], $2::text[], $3::int[], $4::int[],
  $5::int[], $6::bigint[], $7::int[]) as numbers`
const ADMIT_TOGETHER = `select proxylist.admit_together($1::text[], $2::text[], $3::int[],
  $4::bigint[], $5::int[], $6::int[], $7::int[]) as numbers`

const parametersOf = (slots: readonly Slot[]): string[] => [
  arrayLiteral(slots.map(({ rule }) => rule.subject.kind)),
  arrayLiteral(slots.map(({ rule }) => rule.subject.id)),
  arrayLiteral(slots.map(({ requests }) => requests)),
  arrayLiteral(slots.map(({ rule, requests }) => (rule.window === null ? 1 : requests))),
  arrayLiteral(slots.map(({ rule }) => limitOf(rule.window?.limit))),
  arrayLiteral(slots.map(({ rule }) => rule.window?.ms ?? 0)),
  arrayLiteral(slots.map(({ rule }) => limitOf(rule.daily))),
]

function togetherParametersOf(
  batch: readonly Admission[],
  slots: Slots,
  sorted: readonly Slot[],
): string[] {
  const positions = new Map(sorted.map((slot, i) => [slot, i + 1]))
  const positionOf = ({ subject }: LimitRule): number => {
    const slot = slots.find(subject)
    return slot === undefined ? 0 : (positions.get(slot) ?? 0)
  }
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
    arrayLiteral(sorted.map(({ rule }) => limitOf(rule.daily))),
    arrayLiteral(batch.flatMap(({ rules }) => rules.map(positionOf))),
    arrayLiteral(ends),
  ]
}

/**
 * What a subject has used. Of the admissions that count only the oldest is known: the rule needs no
 * other.
 */
function usageOf(
  nowMs: number,
  latestMs: number,
  counted: number,
  oldestMs: number,
  requests: number,
): Usage {
  const atMs = Math.max(nowMs, latestMs)
  const admissions = new Array<number>(counted).fill(atMs)
  if (counted > 0) admissions[0] = oldestMs
  return { admissions, day: utcDay(atMs), requests, latestMs }
}

/** Fills in what subjects had used before, from the numbers of `proxylist.admit`; returns its clock. */
function readAdmitted(numbers: readonly number[], sorted: readonly Slot[]): number {
  const [nowMs = 0] = numbers
  for (let i = 1; i < numbers.length; i += 5) {
    const place = numbers[i] ?? 0
    const slot = sorted[Math.abs(place) - 1]
    if (slot === undefined) continue
    slot.isDecided = place > 0
    const more = slot.isDecided ? slot.requests : 0
    const counted = slot.rule.window === null ? 0 : (numbers[i + 2] ?? 0) - more
    slot.usage = usageOf(
      nowMs,
      numbers[i + 1] ?? 0,
      counted,
      numbers[i + 3] ?? 0,
      (numbers[i + 4] ?? 0) - more,
    )
  }
  return nowMs
}

/** The same from those of `proxylist.admit_together`. */
function readTogether(numbers: readonly number[], sorted: readonly Slot[]): number {
  const [nowMs = 0] = numbers
  for (const [i, slot] of sorted.entries()) {
    const first = 1 + 4 * i
    const [latestMs = 0, counted = 0, oldestMs = 0, requests = 0] = numbers.slice(first, first + 4)
    slot.isDecided = true
    slot.usage = usageOf(nowMs, latestMs, counted, oldestMs, requests)
  }
  return nowMs
}

/** Withdraws refusals of subjects that the database is asked for: requests with other rules may pass. */
function withdraw(refusals: (Decision | null)[], batch: readonly Admission[]): void {
  const asked = batch.filter((_, i) => refusals[i] === null)
  if (asked.length === 0 || asked.length === batch.length) return
  const names = new Set(asked.flatMap(({ rules }) => rules.map(({ subject }) => nameOf(subject))))
  for (const [i, { rules }] of batch.entries()) {
    if (rules.some(({ subject }) => names.has(nameOf(subject)))) refusals[i] = null
  }
}

/** `decisions`, with those of `more` where there is none. */
function fillIn<T>(decisions: readonly (T | null)[], more: readonly T[]): T[] {
  let next = 0
  return decisions.flatMap(decision => decision ?? more[next++] ?? [])
}

/** A result for each request that was asked for: others of a batch are refused, or wait for a lock. */
const failEach = (asked: readonly Admission[], failure: unknown): Promise<Decision>[] =>
  asked.map(() => Promise.reject(failure))

/** What a call of the database told. */
type Told = Parameters<KnownUsage['learn']>[2]

/** The two functions of the database. Each fills in the slots; `null` and `locked`: nothing was recorded. */
function createCalls(query: Query, known: KnownUsage, clock: DatabaseClock) {
  async function call(
    text: string,
    parameters: readonly string[],
    waited: Waited,
    read: (numbers: readonly number[]) => number,
  ): Promise<Told | 'locked' | null> {
    const [sentMs, generation] = [clock.elapsedMs(), known.generation()]
    const rows = await unlessLocked(query<{ numbers: string | null }>(text, parameters, waited()))
    if (rows === 'locked') return rows
    const [row] = rows
    if (row?.numbers == null) return null
    const nowMs = read(JSON.parse(`[${row.numbers}]`))
    clock.set({ nowMs, sentMs })
    return { nowMs, sentMs, generation }
  }

  return {
    admit(sorted: readonly Slot[], waited: Waited): Promise<Told | 'locked' | null> {
      const read = (numbers: readonly number[]): number => readAdmitted(numbers, sorted)
      return call(ADMIT, parametersOf(sorted), waited, read)
    },
    together(
      batch: readonly Admission[],
      slots: Slots,
      sorted: readonly Slot[],
      waited: Waited,
    ): Promise<Told | 'locked' | null> {
      const read = (numbers: readonly number[]): number => readTogether(numbers, sorted)
      return call(ADMIT_TOGETHER, togetherParametersOf(batch, slots, sorted), waited, read)
    },
  }
}

/** Returns a function that decides a batch over a connection; all of a call, or none, are `locked`. */
function createDecide(query: Query, known: KnownUsage, clock: DatabaseClock) {
  const calls = createCalls(query, known, clock)

  function learn(sorted: readonly Slot[], told: Told): void {
    for (const { rule, usage } of sorted) if (usage !== null) known.learn(rule, usage, told)
  }

  /** Decides requests with one rule each; `null` for those that are to be decided together. */
  async function ask(
    batch: readonly Admission[],
    slots: Slots,
    waited: Waited,
  ): Promise<(Result | null)[]> {
    const sorted = slots.sorted()
    const told = await calls.admit(sorted, waited)
    if (told === 'locked') return batch.map(() => told)
    if (told === null) throw new StoreError('the database decided nothing')
    const decisions = batch.map(({ rules }) => {
      const decision = admit(slots.table, { rules, nowMs: told.nowMs })
      return decision.kind === 'refused' || slots.isDecided(rules) ? decision : null
    })
    learn(sorted, told)
    return decisions
  }

  /** Decides any requests, up to the first that has another rule for a subject. */
  async function askSome(
    batch: readonly Admission[],
    slots: Slots,
    waited: Waited,
  ): Promise<Result[]> {
    const sorted = slots.sorted()
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const told = await calls.together(batch, slots, sorted, waited)
      if (told === null) continue
      if (told === 'locked') return batch.map(() => told)
      const decisions = batch.map(({ rules }) => admit(slots.table, { rules, nowMs: told.nowMs }))
      learn(sorted, told)
      return decisions
    }
    throw new StoreError('subjects of the rate limit were removed while they were admitted')
  }

  /** Decides any requests, one call after the other. */
  async function askTogether(batch: readonly Admission[], waited: Waited): Promise<Result[]> {
    const results: Result[] = []
    while (results.length < batch.length) {
      const rest = batch.slice(results.length)
      const { slots, count } = createSlots(rest)
      results.push(...(await askSome(rest.slice(0, count), slots, waited)))
    }
    return results
  }

  return async function decide(
    batch: readonly Admission[],
    waited: Waited = stopwatch(),
  ): Promise<Result[]> {
    const { slots, count } = createSlots(batch)
    if (count < batch.length || batch.some(({ rules }) => rules.length !== 1)) {
      return askTogether(batch, waited)
    }
    const results = await ask(batch, slots, waited)
    const rest = batch.filter((_, i) => results[i] === null)
    return fillIn(results, rest.length === 0 ? [] : await askTogether(rest, waited))
  }
}

/**
 * Admissions over a connection, and over another one those that find a row locked; `waits` says how long
 * they may wait.
 */
export function createAdmissions(
  query: Query,
  queryLocked: Query,
  known: KnownUsage,
  clock: DatabaseClock,
  waits: LockWaits,
) {
  const decide = createDecide(query, known, clock)
  const locked = createLocked(queryLocked, createDecide(queryLocked, known, clock), waits)

  return function admitBatch(
    batch: readonly Admission[],
    waited: Waited = stopwatch(),
  ): Awaitable<readonly Awaitable<Decision>[]> {
    const refusals = batch.map(({ rules }) => known.refuse(rules))
    withdraw(refusals, batch)
    const decisions = locked.join(batch, refusals, waited)
    const asked = batch.filter((_, i) => decisions[i] === null)
    if (asked.length === 0) return fillIn(decisions, [])
    return decide(asked, waited).then(
      results => fillIn(decisions, locked.settle(asked, results, waited)),
      failure => {
        if (asked.length === batch.length) throw failure
        return fillIn(decisions, failEach(asked, failure))
      },
    )
  }
}
