/**
 * The ports of this folder: where copies are made from, and where they are written. A copy is
 * that of the list, or that of keys and plans. Failures of a store are `StoreError`s.
 */
import type { StoredKey } from '../access/key.ts'
import type { Plan } from '../access/plan.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { City, Row } from '../proxies/row.ts'

/**
 * Where a list, or keys and plans, stand in a database: changes are numbered in the order of their
 * commits. A random mark distinguishes a version from one of the same number that a failover lost.
 */
export type Version = { database: string; version: number; mark: string }

export type Versions = { list: Version; keys: Version }

/** Whether two versions are of the same content; `null` is no copy. */
export const isSameVersion = (a: Version | null, b: Version | null): boolean =>
  a?.database === b?.database && a?.version === b?.version && a?.mark === b?.mark

/** What changed in a list up to a version: since an earlier one, or all of it. */
export type ListChanges = {
  isWhole: boolean
  /** The version that the changes start from: a copy at another one stays as it is. */
  since: Version | null
  to: Version
  /** Rows that are added, changed or removed. */
  size: number
  cities: readonly City[]
  removed: AsyncIterable<readonly number[]>
  rows: AsyncIterable<readonly Row[]>
}

/** What changed in keys up to a version; plans are few, so there are always all of them. */
export type KeyChanges = {
  isWhole: boolean
  since: Version | null
  to: Version
  plans: readonly Plan[]
  removed: readonly string[]
  keys: readonly StoredKey[]
}

export interface ChangeSource {
  versions(): Promise<Versions>
  /**
   * Calls `apply` with what changed since a version, as of one moment; with all of it when that
   * version is `null`, too old, or not known.
   */
  readList<T>(since: Version | null, apply: (changes: ListChanges) => Promise<T>): Promise<T>
  /** What changed since a version, likewise. */
  readKeys(since: Version | null): Promise<KeyChanges>
}

/** A copy that is written. Each change of it is a transaction. */
export interface Copy<Changes> {
  /** Its version; `null` when there is none that is intact. */
  version(): Version | null
  /** Applies changes; does nothing when the copy is at another version than they start from. */
  apply(changes: Changes): Awaitable<void>
}

/** The copies of a node; `dir` is where they are, for sentences. */
export type Copies = { dir: string; list: Copy<ListChanges>; keys: Copy<KeyChanges> }
