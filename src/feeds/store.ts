/** The state of a feed after its last attempt, and the port of the store that keeps it. */

import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstantOrNull, HOUR_MS } from '../lib/time.ts'

/** Identify the content that was imported last; `''` is unknown. */
export type Validators = { etag: string; lastModified: string; digest: string }

/** The state of a feed. Instants are Unix milliseconds. */
export type FeedState = {
  /** The source with its secrets masked. */
  source: string
  /** When it was last fetched without an error, changed or not. */
  lastSuccessAt: number | null
  /** Usable rows at the last import; with `replace`, the rows of the list after it. */
  rows: number | null
  /** Rows that were rejected or skipped at the last import. */
  rejected: number
  /** Why rows are missing, in one sentence; `''` when none is. */
  missing: string
  /** Why the last attempt failed, `''` when it did not. */
  error: string
  /** Failures in a row. */
  failures: number
  nextTryAt: number
  /** The number of attempts, for metrics. */
  attempts: number
  validators: Validators
  /** Everything else that the last import depended on, as a text; `''` is unknown. */
  options: string
}

/** With these, the next attempt imports the source even if it is unchanged. */
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
  validators: NOTHING_KNOWN,
  options: '',
})

/** A state from its JSON; missing members are as in a new state. */
export const readState = (json: string): FeedState => ({ ...newState('', 0), ...JSON.parse(json) })

/** Why the last attempt at a feed failed. */
export const describeFailure = ({ source, error }: Pick<FeedState, 'source' | 'error'>): string =>
  `feed ${source}: ${error}`

/** Whether the feed has been overdue for an hour: no server fetches it any more. */
export const isForgotten = ({ nextTryAt }: Pick<FeedState, 'nextTryAt'>, nowMs: number): boolean =>
  nowMs - nextTryAt > HOUR_MS

export type FeedKey = { id: string; shown: string }

export type StoredFeed = FeedState & { id: string }

/** The states of the feeds of a data directory, or of a database that machines share. */
export interface FeedStore {
  find(id: string): Awaitable<FeedState | null>
  /** In the order of their sources. */
  list(): Awaitable<StoredFeed[]>
  save(id: string, state: FeedState): Awaitable<void>
  /** Adds states of new feeds, due now, and removes the states of all feeds that are not given. */
  keepOnly(feeds: readonly FeedKey[], nowMs: number): Awaitable<void>
}

/** A state in the form of `feeds --json` (contract G1). */
export const describeState = (state: FeedState) => ({
  source: state.source,
  last_success: formatInstantOrNull(state.lastSuccessAt),
  rows: state.rows,
  error: state.error === '' ? null : state.error,
  next_try: formatInstantOrNull(state.nextTryAt),
})
