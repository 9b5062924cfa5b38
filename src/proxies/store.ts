/** The ports of a store of proxies. Failures of a store are `StoreError`s. */
import type { Awaitable } from '../lib/awaitable.ts'
import type { EncodedBodies } from '../lib/compression.ts'
import type { Filter } from './filter.ts'
import type { Address, IncomingProxy } from './proxy.ts'
import type { Found } from './row.ts'
import type { Breakdown, StatsRequest } from './stats.ts'

export type FindOptions = {
  nowMs: number
  /** With 16, masked addresses count: of several proxies that share one, only the first is found. */
  addressBits: 32 | 16
}

/** A parameter with a value that no proxy of the list has, whatever its age. */
export type Lacking = 'type' | 'country' | 'city' | 'port'

/** Why a filter matches nothing. `newestSeconds`: the newest check, `null` if the list is empty. */
export type EmptyReason = { newestSeconds: number | null; lacking: readonly Lacking[] }

export interface ProxyReader {
  /** A string that changes whenever the list does. */
  version(): string
  /** At most `filter.count` matches, not in random order; `must-stream` if that delays other requests. */
  find(filter: Filter, options: FindOptions): Found | 'must-stream'
  /** The proxies with these ids (at most 1,000), in this order; `null` if one is gone or no longer matches. */
  findByIds(filter: Filter, options: FindOptions, ids: readonly number[]): Found | null
  /** Why a filter matches nothing. */
  explainEmpty(filter: Filter): EmptyReason
  isEmpty(): boolean
}

/** Counts the list without delaying requests. Rejects with a `StoreError`. */
export interface StatsSource {
  /** The encoded `StatsDocument`. */
  answer(request: StatsRequest): Promise<EncodedBodies>
  /** The list by type, country and age. */
  count(nowMs: number): Promise<Breakdown>
}

/** Rows of the list before an import and after it. */
export type ListSizes = { before: number; after: number }

export type ImportCounts = { added: number; updated: number; unchanged: number; removed: number }

/** An import in progress. Readers see nothing of it before `commit`. */
export interface ImportTx {
  /** Locks the list, or connects. Without this call, the first `add` locks, and blocks the event loop. */
  lock(signal?: AbortSignal): Promise<void>
  add(proxy: IncomingProxy): void
  /** Sets `works` of a stored row, after all added rows, and keeps the time of its check. */
  lower(address: Address, works: number | null): void
  /** Resolves when few rows wait to be stored. Await it while adding many. Stores that store at once lack it. */
  drained?(): Promise<void>
  /** Calls `approve` before it replaces the list; if `approve` throws, the list stays. */
  commit(approve?: (sizes: ListSizes) => void): Awaitable<ImportCounts>
  rollback(): Awaitable<void>
}

/**
 * `merge`: adds and updates; keeps stored values that a row lacks; feeds import again.
 * `feed`: the same, but feeds don't import again.
 * `set`: for measurements; also overwrites `types`, `anon` and `ipOut` when unknown; feeds don't import again.
 * `replace`: swaps the whole list.
 */
export type ImportMode = 'merge' | 'feed' | 'set' | 'replace'

/** How many rows were removed, and whether more stale rows may remain. */
export type Removal = { removed: number; mayRemain: boolean }

export interface ProxyWriter {
  /** Begins an import; calls `onWait` if it waits, with the reason unless it is another import. */
  begin(mode: ImportMode, onWait?: (reason?: string) => void): ImportTx
  /** A random mark. Feeds import again when it changes, see `ImportMode`. */
  importMark(): Awaitable<string>
  /** Removes a slice of rows checked `retainMs` before `nowMs` or the newest check, whichever is earlier. */
  removeStale(retainMs: number, nowMs: number): Awaitable<Removal>
  /** The number of rows. Counting them may take a moment. */
  count(): Awaitable<number>
}
