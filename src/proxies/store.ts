/**
 * The ports of a store of proxies. Failures of a store are `StoreError`s.
 */

import type { Awaitable } from '../lib/awaitable.ts'
import type { EncodedBodies } from '../lib/encoding.ts'
import type { Filter } from './filter.ts'
import type { Address, IncomingProxy } from './proxy.ts'
import type { Found } from './row.ts'
import type { Breakdown, StatsRequest } from './stats.ts'

export type FindOptions = {
  nowMs: number
  /**
   * How much of an address counts. With 16, the first two octets and the port: the `ip` filter
   * compares these, and of proxies that agree in them only the first is found.
   */
  addressBits: 32 | 16
}

/** A parameter whose values no proxy of a list has, however old. */
export type Lacking = 'type' | 'country' | 'city' | 'port'

/** Why a filter matches nothing; `newestSeconds` is the newest check of the list, `null` if it is empty. */
export type EmptyReason = { newestSeconds: number | null; lacking: readonly Lacking[] }

export interface ProxyReader {
  /** A string that changes whenever the list does. */
  version(): string
  /**
   * The proxies that match, at most `filter.count`, in any order but a random one; `too-large` when finding them
   * would make other requests wait.
   */
  find(filter: Filter, options: FindOptions): Found | 'too-large'
  /** At most a thousand proxies with these ids, in this order; `null` if any does not exist or match any more. */
  findByIds(filter: Filter, options: FindOptions, ids: readonly number[]): Found | null
  /** Why a filter matches nothing. */
  explainEmpty(filter: Filter): EmptyReason
  isEmpty(): boolean
}

/** Counts the list without making requests wait. Rejects with a `StoreError`. */
export interface StatsSource {
  /** The document of the answer, see `StatsDocument`. */
  answer(request: StatsRequest): Promise<EncodedBodies>
  /** The list by type, country and age. */
  count(nowMs: number): Promise<Breakdown>
}

/** Rows of the list before an import and after it. */
export type ListSizes = { before: number; after: number }

export type ImportCounts = { added: number; updated: number; unchanged: number; removed: number }

/** An import in progress. Nothing is visible before `commit`; `rollback` changes nothing. */
export interface ImportTx {
  /**
   * Locks the list. Without it, the first `add` locks, and blocks the event loop while another import holds the
   * lock. A store that locks in `commit` only connects here. Rejects with the reason of `signal` when it is aborted.
   */
  lock(signal?: AbortSignal): Promise<void>
  add(proxy: IncomingProxy): void
  /** Sets `works` of a stored row, after all rows that were added; its check stays. */
  lower(address: Address, works: number | null): void
  /** Resolves when few rows wait to be stored. Await it when you add many. Missing in stores that store at once. */
  drained?(): Promise<void>
  /** Calls `approve` before it replaces a list; when that throws, the list stays. */
  commit(approve?: (sizes: ListSizes) => void): Awaitable<ImportCounts>
  rollback(): Awaitable<void>
}

/**
 * `merge`: adds and updates; keeps stored values that a row lacks; feeds import again.
 * `feed`: the same, but feeds don't import again.
 * `set`: for measurements; unknown values overwrite, except place and services; feeds don't import again.
 * `replace`: swaps the whole list.
 */
export type ImportMode = 'merge' | 'feed' | 'set' | 'replace'

/** A slice of rows that was removed: how many, and whether more may remain. */
export type Removal = { removed: number; mayRemain: boolean }

export interface ProxyWriter {
  /** Begins an import; `onWait` is called when another import has to end first. */
  begin(mode: ImportMode, onWait?: () => void): ImportTx
  /** A random mark; a new one is a reason for feeds to import again, see `ImportMode`. */
  importMark(): Awaitable<string>
  /**
   * Removes a slice of the rows that were checked more than `retainMs` before `nowMs`, or before the
   * newest check of the list if that is earlier: a clock that runs ahead removes nothing.
   */
  removeStale(retainMs: number, nowMs: number): Awaitable<Removal>
  /** The number of rows. Counting them may take a moment. */
  count(): Awaitable<number>
}
