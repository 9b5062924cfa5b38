/**
 * The port through which metrics read stores, feeds and files. Reading takes microseconds, or happens off the main
 * thread.
 */
import type { CheckerStatus } from '../checker/ports.ts'
import type { StoredFeed } from '../feeds/store.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { ListChecks } from '../proxies/freshness.ts'
import type { Breakdown } from '../proxies/stats.ts'
import type { NodeReport, Space } from './attention.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** A database that a server uses. */
export type DatabaseState = {
  /** The name of its file, such as `access.db`; `postgresql` for one that machines share. */
  name: string
  works: boolean
  failures: number
  /** Sizes of its files; 0 for one that is not there. `null`: it is on another machine. */
  bytes: number | null
  walBytes: number | null
}

/** The copies of a node. */
export type ReplicationState = {
  /** The version of the copy of the list; `null`: there is none. */
  listVersion: number | null
  /** Seconds since the copies were last known to be the newest. */
  lagSeconds: number
  /** Whether this node runs the jobs that one node runs for all. */
  runsJobs: boolean
}

export type Observed = {
  databases: () => readonly DatabaseState[]
  /** The disk of the data directory; `null` where it cannot be read. */
  space: () => Space | null
  /** Checks of the list, all or up to an instant, and how many are ahead of that. @throws StoreError. */
  checks: (untilMs?: number) => ListChecks
  /** How far this clock is ahead of the shared database's. */
  clockDistanceMs: () => Awaitable<number>
  /** The nodes of a shared database. */
  nodes: () => Awaitable<readonly NodeReport[]>
  /** The list up to 15 s before `nowMs`, or up to 2 minutes while it is counted. @throws StoreError. */
  breakdown: (nowMs: number) => Awaitable<Breakdown>
  /** Their sources are masked. @throws when they cannot be read. */
  feeds: () => Awaitable<readonly StoredFeed[]>
  /** The last status of the checker; `null`: none ever ran. @throws when it cannot be read. */
  checker: () => Awaitable<CheckerStatus | null>
  /** `null`: the data are this machine's own. */
  replication: () => ReplicationState | null
}
