/** The ports of a store of keys, plans and usage. Failures of a store are `StoreError`s. */
import type { Awaitable } from '../lib/awaitable.ts'
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
  /** The record of a key, valid or not; `null` if it is unknown. Synchronous: a cache, or one indexed lookup. */
  find(key: string): KeyRecord | null
}

/** The usage of subjects, in order. `nowMs` is the time of the clock behind limits: the server's or the shared database's. */
export type Used = { usages: readonly Usage[]; nowMs: number }

/** A method with a batch returns one result per item, in order, or none. */
export interface UsageStore {
  /** Decides admissions and records admitted requests, durably once it returns or resolves. */
  admit(batch: readonly Admission[]): Awaitable<readonly Decision[]>
  /** The longest that one request waits for the store. Stores that never wait lack it. */
  readonly bound?: WaitBound
  /** Refuses a request if that is certain without a database; else `null`. Stores that never wait lack it. */
  refuse?(admission: Admission): Decision | null
  /** Refunds admitted requests, durably once it resolves: as if they had not been sent. Call it once for each. */
  refund(batch: readonly Admitted[]): Awaitable<void>
  /** Adds networks to the sets of the day, or refuses and adds nothing; durable once it returns or resolves. */
  consume(batch: readonly Consumption[]): Awaitable<readonly NetworkDecision[]>
  peek(batch: readonly Subject[], nowMs: number): Awaitable<Used>
  countNetworks(
    batch: readonly { subject: Subject; day: number }[],
  ): Awaitable<readonly NetworkCounts[]>
  /** Resets the usage of a subject, or of all of its kind if `id` is null (contract B10). */
  reset(subject: SubjectsOfKind, part: UsagePart, nowMs: number): Awaitable<void>
  /** Adds a response to the use of its key, in memory; `flush` writes it. */
  note(use: AnswerUse): void
  /** Writes the use of keys. Call it every `FLUSH_SECONDS`, and at the end. */
  flush(): Awaitable<void>
  /** The use of keys and of `demo` between two UTC days, inclusive. It lacks up to 30 s of other servers. */
  history(ids: readonly string[], fromDay: number, toDay: number): Awaitable<readonly KeyUse[]>
  /** Removes a slice of usage that limits no longer count; returns true if more may remain. */
  prune(nowMs: number): Awaitable<boolean>
  /** Throws or rejects when usage cannot be written. */
  probe(): Awaitable<void>
}

/** Outcome of removing a plan; `keys` is the number of keys that use it. */
export type PlanRemoval =
  | { kind: 'removed' }
  | { kind: 'unknown' }
  | { kind: 'in-use'; keys: number }

/** Why the key at `index` cannot be stored: its secret or id exists already, or its plan does not. */
export type LoadProblem = { index: number } & (
  | { kind: 'known-secret'; id: string }
  | { kind: 'known-id' }
  | { kind: 'unknown-plan' }
)

/** Some keys, and how many there are. */
export type SomeKeys<K> = { keys: K[]; total: number }

export interface Registry {
  usage: UsageStore
  keys: {
    /** Stores a key and returns its id. If the key exists already, returns the id that it has. */
    add(key: NewKey, nowMs: number): Awaitable<{ id: string; isNew: boolean }>
    /** Changes a key. False when no key has this id. */
    set(id: string, changes: KeyChanges): Awaitable<boolean>
    /** Gives a key a new secret. Old ones end at `untilMs` or their own end. False when no key has this id. */
    rotate(id: string, key: string, untilMs: number, nowMs: number): Awaitable<boolean>
    /** Revokes a key permanently. False when no key has this id. */
    revoke(id: string, nowMs: number): Awaitable<boolean>
    /** Removes a revoked key and its use. */
    remove(id: string): Awaitable<'removed' | 'unknown' | 'not-revoked'>
    /** The keys with these ids, or all keys, in order of creation. */
    list(nowMs: number, ids?: readonly string[]): Awaitable<ListedKey[]>
    /** The next `most` keys by id after the id `after`. */
    scan(after: string, most: number, nowMs: number): Awaitable<KeySummary[]>
    /** Regular keys that end between two instants: at most `most` of them, the earliest end first, and their number. */
    ending(fromMs: number, untilMs: number, most: number): Awaitable<SomeKeys<EndingKey>>
    /** Keys with `REFUSED_MIN` refused requests on the UTC day, more than `share` of theirs: most refused first. */
    refused(nowMs: number, share: number, most: number): Awaitable<SomeKeys<RefusedKey>>
    /** The number of keys that are not revoked, and of those used today. Fast with many keys. */
    count(nowMs: number): Awaitable<{ total: number; usedToday: number }>
    /** The number of keys of each plan, revoked ones included; `null`: temporary keys. */
    countByPlan(): Awaitable<{ plan: string | null; keys: number }[]>
    /** All stored keys, in the order of `list`. */
    dump(): Awaitable<StoredKey[]>
    /** Stores all of these keys, or none and returns why. With `isTrial`, stores none. */
    load(keys: readonly StoredKey[], isTrial: boolean): Awaitable<LoadProblem[]>
  }
  plans: {
    list(): Awaitable<Plan[]>
    /** Creates or changes a plan and returns it. The change applies to its keys at once. */
    set(changes: PlanChanges): Awaitable<Plan>
    /** Removes a plan that no key uses. */
    remove(name: string): Awaitable<PlanRemoval>
  }
}
