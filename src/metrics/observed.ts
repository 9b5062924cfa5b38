/**
 * What is read when metrics are scraped, besides counters: the port of stores, feeds and files.
 * Everything here takes microseconds, or happens off the main thread.
 */
import type { StoredFeed } from '../feeds/store.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Breakdown } from '../proxies/stats.ts'

/** The content type of the text of the metrics. */
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
  /** Free bytes on the disk of the data directory; `null` where that is not known. */
  freeBytes: () => number | null
  /** The number of rows, and the newest check in milliseconds. @throws StoreError. */
  extent: () => { rows: number; newestMs: number | null }
  /** The list as it was up to 15 s before `nowMs`, or a minute if it is unchanged. @throws StoreError. */
  breakdown: (nowMs: number) => Awaitable<Breakdown>
  /** Their sources are masked. @throws when they cannot be read. */
  feeds: () => Awaitable<readonly StoredFeed[]>
  /** `null`: the data are this machine's own. */
  replication: () => ReplicationState | null
}
