/**
 * The shapes that the admin listener answers with, which its page reads: types alone, so that nothing of
 * the server is in a page. Times are ISO 8601 UTC, durations seconds.
 */
import type { Plan as StoredPlan } from '../access/plan.ts'

/** One value per point of time; `null` where the server was down or nothing was measured. */
export type Values = readonly (number | null)[]

/** What is kept of the last 24 hours, oldest first. Requests are per second, by outcome. */
export type History = {
  every_seconds: number
  /** Unix seconds. */
  at: readonly number[]
  ok: Values
  not_found: Values
  rejected: Values
  refused: Values
  failed: Values
  p50_ms: Values
  p99_ms: Values
  rows: Values
  fresh: Values
  keys: Values
  rss_bytes: Values
}

export type Overview = {
  version: string
  now: string
  uptime_seconds: number
  ready: boolean
  problem: string | null
  list: {
    rows: number
    fresh: number
    newest_seconds: number | null
    types: readonly { type: string; count: number }[]
  }
  requests: {
    per_second: number
    refused_share: number
    p50_ms: number | null
    p99_ms: number | null
  }
  keys: { total: number; used_today: number }
  process: { rss_bytes: number; data_bytes: number }
  history: History
}

export type KeyState = 'active' | 'expired' | 'revoked' | 'off'

export type Key = {
  id: string
  prefix: string
  label: string
  /** `null`: a temporary key. */
  plan: string | null
  state: KeyState
  created: string
  expires: string | null
  requests_today: number
  daily_limit: number | null
  last_seen: string | null
}

export type Limit = { name: string; quota: number; window: number; left: number; reset: number }
export type Day = { day: string; requests: number; records: number; refused: number }

/** Everything known of one key. */
export type KeyReport = {
  id: string
  prefix: string
  label: string
  plan: string
  state: KeyState
  created: string
  expires: string | null
  old_secret_until: string | null
  last_seen: string | null
  limits: readonly Limit[]
  /** `hours` are the 24 of the UTC day. */
  today: { requests: number; records: number; refused: number; hours: readonly number[] }
  days: readonly Day[]
}

/** A key that was just made: the only answer that holds its secret. */
export type MadeKey = Key & { key: string }

/** A key that has a new secret; `overlap_until`: when the old one ends, `null` at once. */
export type RotatedKey = {
  id: string
  key: string
  overlap_until: string | null
  report: KeyReport
}

/** A plan, and how many keys have it. */
export type Plan = StoredPlan & { keys: number }

export type Feed = {
  source: string
  last_success: string | null
  rows: number | null
  error: string | null
  next_try: string | null
}

export type ImportCounts = {
  read: number
  added: number
  updated: number
  unchanged: number
  rejected: number
  removed: number
}

/** A line of the answer to an import. */
export type ImportLine =
  | { kind: 'progress'; bytes: number }
  | ({ kind: 'done'; messages: readonly string[] } & ImportCounts)
  | { kind: 'failed'; message: string }

/** A request that is over, as the access log has it: never its query or key. */
export type LogEntry = {
  time: string
  id: string
  method: string
  path: string
  /** `null`: the connection was closed before there was a reply. */
  status: number | null
  /** The key's public id. */
  key: string | null
  records: number
  bytes: number
  ms: number
  client: string
}
