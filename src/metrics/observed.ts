/** The port through which metrics read stores, feeds and files. Reads take microseconds or run in a worker. */
import type { CheckerStatus } from '../checker/ports.ts'
import type { StoredFeed } from '../feeds/store.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { ListChecks } from '../proxies/freshness.ts'
import type { Breakdown } from '../proxies/stats.ts'
import type { NodeReport, Space } from './attention.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export type DatabaseState = {
  /** The name of the file, such as `access.db`; `postgresql` for a shared database. */
  name: string
  works: boolean
  failures: number
  /** Sizes of its files; 0 for a missing one. `null`: the database is on another machine. */
  bytes: number | null
  walBytes: number | null
}

export type ReplicationState = {
  listVersion: number | null
  lagSeconds: number
  /** Whether this node runs retention and feeds for all nodes. */
  runsJobs: boolean
}

export type Observed = {
  databases: () => readonly DatabaseState[]
  space: () => Space | null
  /** The checks of the list; those after `untilMs` are ahead. @throws StoreError. */
  checks: (untilMs?: number) => ListChecks
  /** How far this clock is ahead of the shared database's. */
  clockDistanceMs: () => Awaitable<number>
  nodes: () => Awaitable<readonly NodeReport[]>
  /** The list, counted at most 15 s before `nowMs`, or 2 minutes while a new count runs. @throws StoreError. */
  breakdown: (nowMs: number) => Awaitable<Breakdown>
  /** Feeds with masked sources. @throws when they cannot be read. */
  feeds: () => Awaitable<readonly StoredFeed[]>
  /** The last status of the checker; `null` if it never ran. @throws when it cannot be read. */
  checker: () => Awaitable<CheckerStatus | null>
  /** `null` without a shared database. */
  replication: () => ReplicationState | null
}
