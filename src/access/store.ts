/**
 * Owns the ports of this folder: what access requires of a store of keys, plans and usage. Methods
 * may return a value or a promise of it. Failures of a store are `StoreError`s.
 */
import type { Awaitable } from '../lib/turn-batch.ts'
import type { KeyRecord, ListedKey, NewKey } from './key.ts'
import type { Consumption, NetworkDecision } from './network-quota.ts'
import type { Plan } from './plan.ts'
import type { Admission, Decision, Subject, Usage } from './rate-limit.ts'

export interface KeyReader {
  /**
   * The record of a key, valid or not; `null` when there is none. Synchronous: cached, else one
   * indexed lookup.
   */
  find(key: string): KeyRecord | null
}

/** `admit`, `consume` and `peek` take a batch and return one result per item, in order. */
export interface UsageStore {
  /** Decides admissions and records those admitted; durable once it returns or resolves. */
  admit(batch: readonly Admission[]): Awaitable<readonly Decision[]>
  /** Adds networks to the sets of the day, or refuses and adds nothing; durable likewise. */
  consume(batch: readonly Consumption[]): Awaitable<readonly NetworkDecision[]>
  /** What subjects have used; counts nothing. */
  peek(batch: readonly Subject[]): Awaitable<readonly Usage[]>
  /** Removes a slice of what no limit counts any more; returns whether more may remain. */
  prune(nowMs: number): Awaitable<boolean>
  /** Throws or rejects when usage cannot be written. */
  probe(): Awaitable<void>
}

/** Outcome of removing a plan; `keys` is the number of keys that use it. */
export type PlanRemoval =
  | { kind: 'removed' }
  | { kind: 'unknown' }
  | { kind: 'in-use'; keys: number }

/** What commands do with keys and plans. */
export interface Registry {
  keys: {
    /** Stores a key and returns its id, or the id of the same key when it exists already. */
    add(key: NewKey, nowMs: number): Awaitable<{ id: string; isNew: boolean }>
    /** Revokes a key permanently. False when no key has this id. */
    revoke(id: string, nowMs: number): Awaitable<boolean>
    list(nowMs: number): Awaitable<ListedKey[]>
  }
  plans: {
    /** All plans, by name. */
    list(): Awaitable<Plan[]>
    find(name: string): Awaitable<Plan | null>
    /** Creates or replaces a plan; it applies to its keys at once. */
    set(plan: Plan): Awaitable<void>
    /** Removes a plan that no key uses. */
    remove(name: string): Awaitable<PlanRemoval>
  }
}
