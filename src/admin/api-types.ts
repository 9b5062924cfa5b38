/**
 * The responses of the admin listener, for the console. Only types, so that the page contains no code of the
 * server. Times are ISO 8601 UTC, durations seconds.
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

export type { ErrorCode, KeySort, KeyState, Range }

/** One value per point of time; `null` where the server was down or nothing was measured. */
export type Values = readonly (number | null)[]

/** Evenly spaced points, the oldest first. Requests are per second, by outcome. */
export type History = {
  range: Range
  every_seconds: number
  /** Unix seconds. */
  at: readonly number[]
} & { [outcome in 'ok' | 'not_found' | 'rejected' | 'refused' | 'failed']: Values } & {
  [level in 'p50_ms' | 'p99_ms' | 'rows' | 'fresh']: Values
}

export type Overview = Omit<Read, 'history'> & { history: History }
type Made = ReturnType<typeof createOverview>
type Read = Awaited<ReturnType<Made['read']>>

/** The status that every view shows. */
export type State = Awaited<ReturnType<Made['state']>>

export type Key = Awaited<ReturnType<typeof describeKeys>>[number]

/** A page of the list of keys: at most `page_keys` of them, and how many match. */
export type KeyPage = Awaited<ReturnType<typeof listPage>>

export type KeyReport = ReturnType<typeof operatorReport>
export type Limit = KeyReport['limits'][number]
export type Day = KeyReport['days'][number]

/** A new key, or a new secret of one. The old secret works until `overlap_until`; `null`: it has ended. */
export type NewSecret = { key: string; overlap_until?: string | null }

/** A plan, the number of its keys, and whether it cannot be removed. */
export type Plan = StoredPlan & { keys: number; built_in: boolean }

/** A feed. `from` and `options` are `null` if another server fetches it. */
export type Feed = ReturnType<typeof describeState> & {
  id: string
  from: 'option' | 'file' | null
  paused: boolean
  running: boolean
  /** See `optionsOf`. */
  options: { readonly [name: string]: string | boolean } | null
}

/** The result of an import, in rows. */
export type ImportCounts = Changes & { read: number; rejected: number; skipped: number }

export type ImportLine =
  | { kind: 'progress'; bytes: number }
  | ({ kind: 'done'; messages: readonly string[] } & ImportCounts)
  | { kind: 'failed'; message: string }

/** Finished requests, the oldest first, see `createLogTap`. */
export type LogPage = { lines: readonly LogEntry[]; next: string }

/** A finished request: its line of the access log, and an explanation. Never its key. */
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
  /** The filters, `''` for none. Values that look like a key are left out. */
  query: string
  /** Of a refusal. */
  code: ErrorCode | null
  message: string | null
  /** Of the key. */
  label: string
}
