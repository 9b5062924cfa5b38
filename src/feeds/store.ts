/** The port of feeds: what fetching them requires of a store. */

import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstantOrNull } from '../lib/time.ts'

/** What is known of the content that was imported last; `''` what is not known. */
export type Validators = { etag: string; lastModified: string; digest: string }

/** What is known of a feed. Instants are Unix milliseconds. */
export type FeedState = {
  /** The source as it may be shown. */
  source: string
  /** The last time that it was fetched and read, changed or not. */
  lastSuccessAt: number | null
  /** Usable rows, and rejected ones, at the last import; with `replace`, the rows of the list after it. */
  rows: number | null
  rejected: number
  /** The first of these, and why; `''` without any. */
  rejection: string
  /** Why the last attempt failed, `''` when it did not. */
  error: string
  /** Failures in a row. */
  failures: number
  nextTryAt: number
  /** Counts the attempts, for metrics. */
  attempts: number
  validators: Validators
  /** A fingerprint of all else that the last import depended on, stored under this name; `''` unknown. */
  options: string
}

/** With these, the next attempt imports what it finds. */
export const NOTHING_KNOWN: Validators = { etag: '', lastModified: '', digest: '' }

/** The state of a feed that was never fetched. */
export const newState = (source: string, nextTryAt: number): FeedState => ({
  source,
  lastSuccessAt: null,
  rows: null,
  rejected: 0,
  rejection: '',
  error: '',
  failures: 0,
  nextTryAt,
  attempts: 0,
  validators: NOTHING_KNOWN,
  options: '',
})

export type FeedKey = { id: string; shown: string }

/** The states of the feeds of a data directory, or of a database that machines share. */
export interface FeedStore {
  find(id: string): Awaitable<FeedState | null>
  /** In the order of their sources. */
  list(): Awaitable<FeedState[]>
  /** Leases a feed to this process, also again; false while another one that is alive has the lease. */
  lease(feed: FeedKey, nowMs: number): Awaitable<boolean>
  release(id: string): Awaitable<void>
  save(id: string, state: FeedState): Awaitable<void>
  /** Adds what is new, due now, and removes feeds that are not among these. */
  keepOnly(feeds: readonly FeedKey[], nowMs: number): Awaitable<void>
}

/** A state as operators see it, with times as ISO 8601 (contract G1). */
export const describeState = (state: FeedState) => ({
  source: state.source,
  last_success: formatInstantOrNull(state.lastSuccessAt),
  rows: state.rows,
  error: state.error === '' ? null : state.error,
  next_try: formatInstantOrNull(state.nextTryAt),
})
