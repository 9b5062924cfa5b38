/**
 * The ports of this folder: what access requires of a store of keys, plans and usage. Methods
 * may return a value or a promise of it. Failures of a store are `StoreError`s.
 */
import type { Awaitable } from '../lib/awaitable.ts'
import type { Waited } from '../lib/turn-batch.ts'
import type { AnswerUse, KeyUse } from './history.ts'
import type {
  EndingKey,
  KeyChanges,
  KeyRecord,
  KeySummary,
  ListedKey,
  NewKey,
  RefusedKey,
  StoredKey,
} from './key.ts'
import type { Consumption, NetworkCounts, NetworkDecision } from './network-quota.ts'
import type { Plan, PlanChanges } from './plan.ts'
import type {
  Admission,
  Admitted,
  Decision,
  Subject,
  SubjectsOfKind,
  Usage,
  UsagePart,
} from './rate-limit.ts'
import type { WaitBound } from './store-timeout.ts'

export interface KeyReader {
  /**
   * The record of a key, valid or not; `null` when there is none. Synchronous: cached, else one
   * indexed lookup.
   */
  find(key: string): KeyRecord | null
}

/**
 * The usage of subjects, in order. `nowMs` is the time by the clock that decides their limits: the caller's, or
 * the shared database's.
 */
export type Used = { usages: readonly Usage[]; nowMs: number }

/**
 * Every method with a batch returns one result per item, in order, or none. `waited`: how long the
 * first of a batch has waited for its turn so far; a store that can hang does not let it wait longer
 * than a request may, all in all.
 */
export interface UsageStore {
  /**
   * Decides admissions and records the admitted requests; durable once it returns or resolves. A decision may be a
   * promise: it waits for a locked row and does not delay the others.
   */
  admit(batch: readonly Admission[], waited?: Waited): Awaitable<readonly Awaitable<Decision>[]>
  /** The longest that one request waits for it; a store that never waits has no bound. */
  readonly bound?: WaitBound
  /**
   * Refuses a request at once, where that is certain without asking a database; `null`: `admit` decides.
   * Stores that never wait do without it.
   */
  refuse?(admission: Admission): Decision | null
  /**
   * Refunds admitted requests: the usage of their subjects is as if they had not been sent, also
   * when others were admitted since then. Call it once for each; durable once it returns or resolves.
   */
  refund(batch: readonly Admitted[]): Awaitable<void>
  /** Adds networks to the sets of the day, or refuses and adds nothing; durable likewise. */
  consume(batch: readonly Consumption[], waited?: Waited): Awaitable<readonly NetworkDecision[]>
  /** The usage of subjects, and the time by the clock that decides their limits; counts nothing. */
  peek(batch: readonly Subject[], nowMs: number): Awaitable<Used>
  /** How many networks a subject has on a UTC day; counts nothing. */
  countNetworks(
    batch: readonly { subject: Subject; day: number }[],
  ): Awaitable<readonly NetworkCounts[]>
  /** Gives a subject, or all of its kind when `id` is null, a fresh start (contract B10). */
  reset(subject: SubjectsOfKind, part: UsagePart, nowMs: number): Awaitable<void>
  /** Adds a response to the use of its key, in memory; `flush` writes it. */
  note(use: AnswerUse): void
  /** Writes the use of keys. Call it every `FLUSH_SECONDS`, and at the end. */
  flush(): Awaitable<void>
  /** The use of keys (`demo` too) from one UTC day to another, inclusive. Other servers may have 30 s to write. */
  history(ids: readonly string[], fromDay: number, toDay: number): Awaitable<readonly KeyUse[]>
  /** Removes a slice of the usage that no limit counts any more; returns true if more may remain. */
  prune(nowMs: number): Awaitable<boolean>
  /** Throws or rejects when usage cannot be written. */
  probe(): Awaitable<void>
}

/** Outcome of removing a plan; `keys` is the number of keys that use it. */
export type PlanRemoval =
  | { kind: 'removed' }
  | { kind: 'unknown' }
  | { kind: 'in-use'; keys: number }

/** Why the key at a position cannot be stored: its secret or its id is known, or its plan is not. */
export type LoadProblem = { index: number } & (
  | { kind: 'known-secret'; id: string }
  | { kind: 'known-id' }
  | { kind: 'unknown-plan' }
)

/** Some keys, and how many there are. */
export type SomeKeys<K> = { keys: K[]; total: number }

/** What commands do with keys, plans and usage. */
export interface Registry {
  usage: UsageStore
  keys: {
    /** Stores a key and returns its id, or the id of the same key when it exists already. */
    add(key: NewKey, nowMs: number): Awaitable<{ id: string; isNew: boolean }>
    /** Changes a key. False when no key has this id. */
    set(id: string, changes: KeyChanges): Awaitable<boolean>
    /**
     * Gives a key a new secret. The present one and those before it end at `untilMs`, each at its own
     * end if that is earlier. Removes secrets that ended by `nowMs`. False when no key has this id.
     */
    rotate(id: string, key: string, untilMs: number, nowMs: number): Awaitable<boolean>
    /** Revokes a key permanently. False when no key has this id. */
    revoke(id: string, nowMs: number): Awaitable<boolean>
    /** Removes a revoked key, and its use. */
    remove(id: string): Awaitable<'removed' | 'unknown' | 'not-revoked'>
    /** All keys, or those with these ids, in the order in which they were made. */
    list(nowMs: number, ids?: readonly string[]): Awaitable<ListedKey[]>
    /** The next keys by id after one, at most so many. */
    scan(after: string, most: number, nowMs: number): Awaitable<KeySummary[]>
    /** Keys with a plan that end between two instants: at most `most` of them, the earliest end first, and their number. */
    ending(fromMs: number, untilMs: number, most: number): Awaitable<SomeKeys<EndingKey>>
    /**
     * Keys whose share of refused requests on the UTC day is above `share`: at most `most` of them, the most often
     * refused first, and their number.
     */
    refused(nowMs: number, share: number, most: number): Awaitable<SomeKeys<RefusedKey>>
    /** How many keys are not revoked, and how many were used today; reads neither all nor their use. */
    count(nowMs: number): Awaitable<{ total: number; usedToday: number }>
    /** How many keys have each plan, revoked ones included; `null`: temporary ones. */
    countByPlan(): Awaitable<{ plan: string | null; keys: number }[]>
    /** All keys as they are stored, in the order of `list`. */
    dump(): Awaitable<StoredKey[]>
    /** Stores all of these keys, or none and returns why. With `isTrial`, it stores none. */
    load(keys: readonly StoredKey[], isTrial: boolean): Awaitable<LoadProblem[]>
  }
  plans: {
    /** All plans, by name. */
    list(): Awaitable<Plan[]>
    /** Creates or changes a plan in one step, and returns it; it applies to its keys at once. */
    set(changes: PlanChanges): Awaitable<Plan>
    /** Removes a plan that no key uses. */
    remove(name: string): Awaitable<PlanRemoval>
  }
}
