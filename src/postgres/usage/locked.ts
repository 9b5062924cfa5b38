/**
 * Owns requests whose subjects' rows somebody has locked for long: they wait here and are tried again,
 * while those of others are decided. Knows nothing of limits.
 */
import type { Admission, Decision, Subject } from '../../access/rate-limit.ts'
import { timerLater } from '../../lib/clock.ts'
import { type Awaitable, BATCH_MAX, type Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { isLockNotFree } from '../errors.ts'
import { nameOf } from './known.ts'

/** What a call comes to: `locked` when a lock was not free in time, so that it did nothing. */
export async function unlessLocked<T>(call: Promise<T>): Promise<T | 'locked'> {
  try {
    return await call
  } catch (failure) {
    if (!isLockNotFree(failure)) throw failure
    return 'locked'
  }
}

/** Of subjects, those whose rows are locked just now. */
const LOCKED = `
  select s.kind, s.id from unnest($1::text[], $2::text[]) s (kind, id)
  left join lateral (
    select true as is_free from proxylist.usage u
    where u.kind = s.kind collate "C" and u.id = s.id collate "C" for update skip locked
  ) f on true
  where f.is_free is null and exists (
    select from proxylist.usage u where u.kind = s.kind collate "C" and u.id = s.id collate "C")`

/** `locked`: a lock was not free in time, and nothing was recorded. */
export type Result = Decision | 'locked'

/** A request that waits. */
type Waiting = {
  admission: Admission
  waited: Waited
  resolve: (decision: Decision) => void
  reject: (reason: unknown) => void
}

const subjectsOf = ({ rules }: Admission): Subject[] => rules.map(({ subject }) => subject)
const namesOf = (items: readonly Waiting[]): ReadonlySet<string> =>
  new Set(items.flatMap(({ admission }) => subjectsOf(admission).map(nameOf)))
const isOf = (names: ReadonlySet<string>, admission: Admission): boolean =>
  subjectsOf(admission).some(subject => names.has(nameOf(subject)))

/**
 * How long a lock may be waited for, and a request in all, `null` for any time; `late` makes what one
 * fails with that would wait longer.
 */
export type LockWaits = { lockMs: number; msMax: number | null; late: () => Error }

/** The names of the subjects of requests whose rows are locked just now. */
async function lockedOf(query: Query, items: readonly Waiting[]): Promise<ReadonlySet<string>> {
  const subjects = items.flatMap(({ admission }) => subjectsOf(admission))
  const rows = await unlessLocked(
    query<Subject>(LOCKED, [
      arrayLiteral(subjects.map(({ kind }) => kind)),
      arrayLiteral(subjects.map(({ id }) => id)),
    ]),
  )
  return new Set(rows === 'locked' ? [] : rows.map(nameOf)) // when the table is, `decide` waits for it
}

type Decide = (batch: readonly Admission[]) => Promise<readonly Result[]>

/** Returns a function that decides requests, of which those that find a row locked wait on, at the end. */
const createDecideThese =
  (decide: Decide, waiting: Set<Waiting>) =>
  async (items: readonly Waiting[]): Promise<void> => {
    if (items.length === 0) return
    const results = await decide(items.map(({ admission }) => admission))
    for (const [i, item] of items.entries()) {
      const result = results[i] ?? 'locked'
      if (!waiting.delete(item)) continue // it was late, and has failed
      if (result !== 'locked') item.resolve(result)
      else waiting.add(item)
    }
  }

/** Most requests of one subject that are tried together: those of others do not wait behind them. */
const EACH_MAX = 100

/** Requests that wait, each no longer than it may. */
function createWaiting({ lockMs, msMax, late }: LockWaits) {
  const waiting = new Set<Waiting>()
  function rejectLate(item: Waiting): void {
    if (waiting.delete(item)) item.reject(late())
  }
  return {
    waiting,
    add(admission: Admission, waited: Waited): Promise<Decision> {
      const { promise, resolve, reject } = Promise.withResolvers<Decision>()
      const item = { admission, waited, resolve, reject }
      waiting.add(item)
      const stop = msMax === null ? () => {} : timerLater(() => rejectLate(item), msMax - waited())
      promise.then(stop, stop) // handled here, too: it may fail before its batch is decided
      return promise
    },
    /** Those to be tried next. Those without time to wait for a lock are late. */
    next(): Waiting[] {
      const counts = new Map<string, number>()
      const items: Waiting[] = []
      for (const item of waiting) {
        if (msMax !== null && item.waited() + lockMs > msMax) rejectLate(item)
        else if (items.length < BATCH_MAX) {
          const [name = ''] = namesOf([item])
          const count = (counts.get(name) ?? 0) + 1
          counts.set(name, count)
          if (count <= EACH_MAX) items.push(item)
        }
      }
      return items
    },
  }
}

/** `query` and `decide` have a connection of their own, on which others do not wait. */
export function createLocked(query: Query, decide: Decide, waits: LockWaits) {
  const { waiting, add, next } = createWaiting(waits)
  const decideThese = createDecideThese(decide, waiting)
  /** Names of subjects whose rows may be locked: their requests do not go with others. */
  const suspects = new Set<string>()
  let isTrying = false

  /** Decides those whose rows are free, and those of one locked row, for which it waits in the queue. */
  async function tryThese(items: readonly Waiting[]): Promise<void> {
    if (items.length === 0) return
    const names = await lockedOf(query, items)
    for (const name of namesOf(items)) if (!names.has(name)) suspects.delete(name)
    const isLocked = ({ admission }: Waiting): boolean => isOf(names, admission)
    await decideThese(items.filter(item => !isLocked(item)))
    const locked = items.filter(isLocked)
    const first = namesOf(locked.slice(0, 1))
    await decideThese(locked.filter(({ admission }) => isOf(first, admission)))
  }

  async function run(): Promise<void> {
    isTrying = true
    await null // all of a batch are tried together
    while (waiting.size > 0) {
      const items = next()
      await tryThese(items).catch(failure => {
        for (const item of items) if (waiting.delete(item)) item.reject(failure)
      })
      boundSuspects()
    }
    isTrying = false
  }

  /** Keeps those that wait, when there are many: addresses may never ask again. */
  function boundSuspects(): void {
    if (suspects.size <= BATCH_MAX) return
    suspects.clear()
    for (const name of namesOf([...waiting])) suspects.add(name)
  }

  function wait(admission: Admission, waited: Waited): Promise<Decision> {
    for (const subject of subjectsOf(admission)) suspects.add(nameOf(subject))
    const promise = add(admission, waited)
    if (!isTrying) void run()
    return promise
  }

  return {
    /** Decisions of a batch, where those that are `null` wait if their rows may be locked. */
    join(
      batch: readonly Admission[],
      decisions: readonly (Decision | null)[],
      waited: Waited,
    ): readonly (Awaitable<Decision> | null)[] {
      if (suspects.size === 0) return decisions
      return batch.map(
        (admission, i) =>
          decisions[i] ?? (isOf(suspects, admission) ? wait(admission, waited) : null),
      )
    },
    /** The results of a batch, where those that are `locked` wait. */
    settle: (
      batch: readonly Admission[],
      results: readonly Result[],
      waited: Waited,
    ): Awaitable<Decision>[] =>
      batch.map((admission, i) => {
        const result = results[i] ?? 'locked'
        return result === 'locked' ? wait(admission, waited) : result
      }),
  }
}
