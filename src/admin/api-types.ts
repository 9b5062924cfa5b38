/**
 * The shapes that the admin listener answers with, which its page reads: types alone, so that nothing of
 * the server is in a page. Times are ISO 8601 UTC, durations seconds.
 */
import type { KeyState } from '../access/key.ts'
import type { Plan as StoredPlan } from '../access/plan.ts'
import type { ErrorCode } from '../api/errors.ts'
import type { operatorReport } from '../api/key-report.ts'
import type { describeState } from '../feeds/store.ts'
import type { ImportCounts as Changes } from '../proxies/store.ts'
import type { KeySort } from './key-page.ts'
import type { describeKeys, listPage } from './keys.ts'
import type { createOverview, Range } from './overview.ts'
import type { setupOf } from './setup.ts'

export type { ErrorCode, KeySort, KeyState, Range }

/** One value per point of time; `null` where the server was down or nothing was measured. */
export type Values = readonly (number | null)[]

/** A range of the last time, oldest first, the same time between all points. Requests are per second, by outcome. */
export type History = {
  range: Range
  every_seconds: number
  /** Unix seconds. */
  at: readonly number[]
} & { [outcome in 'ok' | 'not_found' | 'rejected' | 'refused' | 'failed']: Values } & {
  [level in 'p50_ms' | 'p99_ms' | 'rows' | 'fresh' | 'keys' | 'rss_bytes']: Values
}

export type Overview = Omit<Read, 'history'> & { history: History }
type Made = ReturnType<typeof createOverview>
type Read = Awaited<ReturnType<Made['read']>>

/** What every view shows: whether the server is ready, and what needs attention. */
export type State = Awaited<ReturnType<Made['state']>>

export type Key = Awaited<ReturnType<typeof describeKeys>>[number]

/** A page of the list of keys: how many match and there are, and at most `page_keys` of them. */
export type KeyPage = Awaited<ReturnType<typeof listPage>>

/** Everything known of one key. */
export type KeyReport = ReturnType<typeof operatorReport>
export type Limit = KeyReport['limits'][number]
export type Day = KeyReport['days'][number]

/** A key that was just made: the only answer that holds its secret. */
export type MadeKey = Key & { key: string }

/** A key that has a new secret; `overlap_until`: when the old one ends, `null` at once. */
export type RotatedKey = MadeKey & { overlap_until: string | null }

/** A plan, how many keys have it, and whether it stays. */
export type Plan = StoredPlan & { keys: number; built_in: boolean }

/** A feed; `from` and `options` are `null` where this server does not fetch it. */
export type Feed = ReturnType<typeof describeState> & {
  id: string
  from: 'option' | 'file' | null
  paused: boolean
  running: boolean
  /** As a feed's line has them, see `optionsOf`. */
  options: { readonly [name: string]: string | boolean } | null
}

/** Which steps of the first day are done; those that this server does not have are missing. */
export type Setup = Partial<Awaited<ReturnType<typeof setupOf>>>

/** What an import has done, in rows. */
export type ImportCounts = Changes & { read: number; rejected: number; skipped: number }

export type ImportLine =
  | { kind: 'progress'; bytes: number }
  | ({ kind: 'done'; messages: readonly string[] } & ImportCounts)
  | { kind: 'failed'; message: string }

/** Requests that are over, oldest first, see `createLogTap`. */
export type LogPage = { lines: readonly LogEntry[]; missed: number | null; next: string }

/** A request that is over: the line of the access log, and what explains it. Never its key. */
export type LogEntry = {
  time: string
  id: string
  method: string
  path: string
  status: number
  key: string | null
  records: number
  bytes: number
  ms: number
  client: string
  /** The filters that it asked, `''` for none; what is wrong or may be a key is left out. */
  query: string
  /** Of a refusal. */
  code: ErrorCode | null
  message: string | null
  /** Of the key. */
  label: string
}
