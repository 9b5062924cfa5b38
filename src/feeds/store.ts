/** The state of a feed after its last attempt, and the port of its store. */
import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstantOrNull, HOUR_MS } from '../lib/time.ts'
import { RECENT_MS } from '../proxies/freshness.ts'

/** Identify the content of the last import. `''` is unknown. */
export type Validators = { etag: string; lastModified: string; digest: string }

/** Instants are Unix milliseconds. */
export type FeedState = {
  /** The source with its secrets masked. */
  source: string
  /** The last attempt without an error, whether the source had changed or not. */
  lastSuccessAt: number | null
  /** The first import of its present content. */
  importedAt: number | null
  /** Usable rows of the last import; with `replace`, the rows of the list after it. */
  rows: number | null
  /** Rejected and skipped rows of the last import. */
  rejected: number
  /** Why rows are missing, in one sentence; `''` if none are. */
  missing: string
  /** Why the last attempt failed; `''` if it succeeded. */
  error: string
  failures: number
  nextTryAt: number
  validators: Validators
  /** Options, settings and the mark of the list at the last import. Another text is a reason to import again. */
  options: string
}

/** The state of a new feed. */
export const newState = (source: string, nextTryAt: number): FeedState => ({
  source,
  lastSuccessAt: null,
  importedAt: null,
  rows: null,
  rejected: 0,
  missing: '',
  error: '',
  failures: 0,
  nextTryAt,
  validators: { etag: '', lastModified: '', digest: '' },
  options: '',
})

/** Parses the JSON of a state. Missing members are as in a new state. */
export const readState = (json: string): FeedState => ({ ...newState('', 0), ...JSON.parse(json) })

/** A sentence on the failure of the last attempt. */
export const describeFailure = ({ source, error }: Pick<FeedState, 'source' | 'error'>): string =>
  `feed ${source}: ${error}`

/** The first import of the present content, if that is too old for a query without `time`. */
const staleSince = ({ importedAt }: FeedState, nowMs: number): string | null =>
  formatInstantOrNull(importedAt !== null && nowMs - importedAt > RECENT_MS ? importedAt : null)

/** The sentences on feeds that succeed, but have brought nothing new for too long. */
export const describeStale = (states: readonly FeedState[], nowMs: number): string[] =>
  states.flatMap(state => {
    const since = staleSince(state, nowMs)
    if (since === null || state.error !== '') return []
    return [`feed ${state.source} is unchanged since ${since}; its rows are no longer fresh`]
  })

/** Whether the feed has been overdue for an hour: then no server fetches it. */
export const isForgotten = ({ nextTryAt }: Pick<FeedState, 'nextTryAt'>, nowMs: number): boolean =>
  nowMs - nextTryAt > HOUR_MS

export type FeedKey = { id: string; shown: string }

export type StoredFeed = FeedState & { id: string }

/** The states of the feeds of a data directory or a shared database. */
export interface FeedStore {
  find(id: string): Awaitable<FeedState | null>
  list(): Awaitable<StoredFeed[]>
  save(id: string, state: FeedState): Awaitable<void>
  /** Adds states for new feeds, due now, and removes the states of all other feeds. */
  keepOnly(feeds: readonly FeedKey[], nowMs: number): Awaitable<void>
}

/** A state in the form of `feeds --json` (contract G1). */
export const describeState = (state: FeedState, nowMs: number) => ({
  source: state.source,
  last_success: formatInstantOrNull(state.lastSuccessAt),
  rows: state.rows,
  error: state.error === '' ? null : state.error,
  next_try: formatInstantOrNull(state.nextTryAt),
  stale_since: staleSince(state, nowMs),
})
