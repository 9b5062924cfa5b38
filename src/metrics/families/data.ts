/** Owns the metrics of the list and of the databases. */
import { toSeconds } from '../../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../../proxies/filter.ts'
import { freshRows } from '../../proxies/stats.ts'
import { type Family, one, type Reading } from '../family.ts'

/** Seconds since an instant in Unix seconds, at least 0: a check may lie in the future. */
const ageOf = ({ nowMs }: Reading, seconds: number | null | undefined): number | null =>
  seconds === null || seconds === undefined ? null : Math.max(0, toSeconds(nowMs) - seconds)

export const listFamilies: readonly Family[] = [
  {
    name: 'proxylist_list_rows',
    type: 'gauge',
    labels: [],
    help: 'Proxies in the list.',
    read: ({ extent }) => one(extent?.rows ?? null),
  },
  {
    name: 'proxylist_list_rows_by_type',
    type: 'gauge',
    labels: ['type'],
    help: 'Proxies in the list by type, counted every 15 s at most.',
    read: ({ breakdown }) =>
      (breakdown?.types ?? []).map(({ type, count }) => ({ labels: { type }, value: count })),
  },
  {
    name: 'proxylist_list_fresh_rows',
    type: 'gauge',
    labels: [],
    help: `Proxies checked within ${DEFAULT_AGE_MAX_SECONDS} s, the default of time; counted likewise.`,
    read: ({ breakdown }) => one(breakdown && freshRows(breakdown)),
  },
  {
    name: 'proxylist_list_newest_check_age_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the newest check; missing while the list is empty.',
    read: reading => {
      const { extent } = reading
      const newestMs = extent?.newestMs ?? null
      return one(ageOf(reading, newestMs && toSeconds(newestMs)))
    },
  },
  {
    name: 'proxylist_list_median_check_age_seconds',
    type: 'gauge',
    labels: [],
    help: 'Half of the proxies were checked more recently than this; missing while the list is empty.',
    read: reading => one(ageOf(reading, reading.breakdown?.median)),
  },
]

export const databaseFamilies: readonly Family[] = [
  {
    name: 'proxylist_database_up',
    type: 'gauge',
    labels: ['database'],
    help: 'Whether the database works, as far as is known; while it does not, requests get 503.',
    read: ({ databases }) =>
      databases.map(({ name, works }) => ({ labels: { database: name }, value: works ? 1 : 0 })),
  },
  {
    name: 'proxylist_database_failures_total',
    type: 'counter',
    labels: ['database'],
    help: 'Failures of the database, in requests and in the check every second.',
    read: ({ databases }) =>
      databases.map(({ name, failures }) => ({ labels: { database: name }, value: failures })),
  },
  {
    name: 'proxylist_database_size_bytes',
    type: 'gauge',
    labels: ['database', 'file'],
    help: 'Sizes of the files of a database: main, and its write-ahead log, wal.',
    read: ({ databases }) =>
      databases.flatMap(({ name, bytes, walBytes }) =>
        Object.entries({ main: bytes, wal: walBytes }).flatMap(([file, size]) =>
          one(size).map(({ value }) => ({ labels: { database: name, file }, value })),
        ),
      ),
  },
  {
    name: 'proxylist_data_free_bytes',
    type: 'gauge',
    labels: [],
    help: 'Free bytes on the disk of the data directory.',
    read: ({ freeBytes }) => one(freeBytes),
  },
]

/** Of a node: a server on a database that machines share. */
export const replicationFamilies: readonly Family[] = [
  {
    name: 'proxylist_replication_lag_seconds',
    type: 'gauge',
    labels: [],
    help: 'Seconds since the copies of list, keys and plans were last known to be the newest.',
    read: ({ replication }) => one(replication?.lagSeconds ?? null),
  },
  {
    name: 'proxylist_replication_list_version',
    type: 'gauge',
    labels: [],
    help: 'Version of the copy of the list; missing until the first one is made.',
    read: ({ replication }) => one(replication?.listVersion ?? null),
  },
  {
    name: 'proxylist_replication_runs_jobs',
    type: 'gauge',
    labels: [],
    help: 'Whether this node runs retention and feeds, which one node runs for all.',
    read: ({ replication }) => one(replication && Number(replication.runsJobs)),
  },
]
