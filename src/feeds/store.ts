/** The port of feeds: what fetching them requires of a store. */

import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstantOrNull, HOUR_MS } from '../lib/time.ts'
import type { ImportCounts } from '../proxies/store.ts'

/** What is known of the content that was imported last; `''` what is not known. */
export type Validators = { etag: string; lastModified: string; digest: string }

/** What a fetch brought; fetches in a row that brought nothing, or failed for one reason, are one. */
export type FeedFetch = {
  /** The end of the last of them. */
  at: number
  times: number
  /** Rows by what became of them; `null` where the source was unchanged, or `error` says why it failed. */
  rows: (Pick<ImportCounts, 'added' | 'updated'> & { usable: number; rejected: number }) | null
  error: string
}

/** Fetches that are kept. */
const HISTORY_MAX = 10

/** A history, newest first, after one more fetch. */
export function withFetch(history: readonly FeedFetch[], fetched: FeedFetch): FeedFetch[] {
  const [last, ...rest] = history
  const isSame = last?.rows === null && fetched.rows === null && last.error === fetched.error
  if (isSame) return [{ ...fetched, times: last.times + 1 }, ...rest]
  return [fetched, ...history].slice(0, HISTORY_MAX)
}

/** What is known of a feed. Instants are Unix milliseconds. */
export type FeedState = {
  /** The source as it may be shown. */
  source: string
  /** The last time that it was fetched and read, changed or not. */
  lastSuccessAt: number | null
  /** Usable rows at the last import; with `replace`, the rows of the list after it. */
  rows: number | null
  /** Rows that were rejected or skipped at the last import. */
  rejected: number
  /** Why they are missing, in one sentence; `''` when none is. */
  missing: string
  /** Why the last attempt failed, `''` when it did not. */
  error: string
  /** Failures in a row. */
  failures: number
  nextTryAt: number
  /** Counts the attempts, for metrics. */
  attempts: number
  /** The last fetches, newest first. */
  history: readonly FeedFetch[]
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
  missing: '',
  error: '',
  failures: 0,
  nextTryAt,
  attempts: 0,
  history: [],
  validators: NOTHING_KNOWN,
  options: '',
})

/** A state from its JSON; what that does not have is as in a new one. */
export const readState = (json: string): FeedState => ({ ...newState('', 0), ...JSON.parse(json) })

/** Why the last attempt at a feed failed. */
export const describeFailure = ({ source, error }: Pick<FeedState, 'source' | 'error'>): string =>
  `feed ${source}: ${error}`

/** Whether nobody has tried a feed since it was due: a server may have had it once. */
export const isForgotten = ({ nextTryAt }: Pick<FeedState, 'nextTryAt'>, nowMs: number): boolean =>
  nowMs - nextTryAt > HOUR_MS

export type FeedKey = { id: string; shown: string }

export type StoredFeed = FeedState & { id: string }

/** The feeds of the console, as the text of a feeds file. */
export interface FeedLines {
  readLines(): Awaitable<string>
  /** Replaces the text; false when it is no longer `before`. */
  replaceLines(before: string, after: string): Awaitable<boolean>
}

/** The states of the feeds of a data directory, or of a database that machines share. */
export interface FeedStore {
  find(id: string): Awaitable<FeedState | null>
  /** In the order of their sources. */
  list(): Awaitable<StoredFeed[]>
  /** Leases a feed to this process, also again; false while another one that is alive has the lease. */
  lease(feed: FeedKey, nowMs: number): Awaitable<boolean>
  release(id: string): Awaitable<void>
  save(id: string, state: FeedState): Awaitable<void>
  /** Adds what is new, due now, and removes feeds that are not among these. */
  keepOnly(feeds: readonly FeedKey[], nowMs: number): Awaitable<void>
}

/** A state as operators see it, with times as ISO 8601 (contract G1); a paused feed has no next try. */
export const describeState = (state: FeedState, isPaused: boolean) => ({
  source: state.source,
  last_success: formatInstantOrNull(state.lastSuccessAt),
  rows: state.rows,
  error: state.error === '' ? null : state.error,
  next_try: isPaused ? null : formatInstantOrNull(state.nextTryAt),
})
