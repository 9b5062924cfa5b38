/** The log of the list (contract I3). The leader writes each change; nodes apply them, starting from a snapshot. */
import { DAY_MS } from '../lib/time.ts'
import type { Change, Position, Version } from '../node/ports.ts'
import { readFrames } from './body.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'

export type Entry = Version & {
  kind: 'delta' | 'snapshot'
  /** The mark of the version before. */
  after: string
  rows: number
}

const SELECT = `select version::float8 as version, mark, kind, after, changed::float8 as changed,
  rows::float8 as rows, imported from proxylist.list_log`

const readFirst = async (query: Query, rest: string, values: number[] = []) =>
  (await query<Entry>(`${SELECT} ${rest} limit 1`, values))[0] ?? null

/** The newest entry; `null`: the list was never changed. */
export const readHead = (query: Query) => readFirst(query, 'order by version desc')

export const readNext = (query: Query, version: number) =>
  readFirst(query, 'where version > $1 order by version', [version])

export const readSnapshot = (query: Query) =>
  readFirst(query, `where kind = 'snapshot' order by version desc`)

export const readBody = (query: Query, { version, mark }: Position): AsyncGenerator<Change> =>
  readFrames(query, 'list_log where version = $2 and mark = $3', [version, mark])

/** Adds an entry and announces it. @throws StoreError when another leader has written this version. */
export const append = (query: Query, entry: Entry, body: Uint8Array): Promise<unknown> =>
  query(
    `with added as (
       insert into proxylist.list_log (version, kind, after, mark, changed, rows, imported, body)
       values ($1, $2, $3, $4, $5, $6, $7, $8)
     )
     select pg_notify('proxylist', 'list')`,
    [
      ...[entry.version, entry.kind, entry.after, entry.mark],
      ...[entry.changed, entry.rows, entry.imported, body],
    ],
  )

/**
 * Whether the log lacks a list that only copies of nodes have, since the database was upgraded from schema 1. An import
 * of a whole list replaces it.
 */
export async function lacksOldList(query: Query): Promise<boolean> {
  const { lacks } = await onlyRow<{ lacks: boolean }>(
    query,
    `select has_old_list and not exists (select from proxylist.list_log)
       and not exists (select from proxylist.imports where mode = 'replace' and result is null) as lacks
     from proxylist.installation`,
  )
  return lacks
}

/** How long entries before a snapshot stay, so that a node slightly behind does not need the snapshot. */
const KEPT_MS = 60_000
const CHANGES_BYTES_MIN = 2 ** 22

/** Whether the changes since the newest snapshot have more bytes than the snapshot. */
export async function isSnapshotDue(query: Query, bytesMin = CHANGES_BYTES_MIN): Promise<boolean> {
  const { isDue } = await onlyRow<{ isDue: boolean }>(
    query,
    `with newest as (select max(version) as version from proxylist.list_log where kind = 'snapshot')
     select coalesce(sum(octet_length(body)) filter (where l.version > coalesce(n.version, 0)), 0)
       > greatest($1::bigint, sum(octet_length(body)) filter (where l.version = n.version)) as "isDue"
     from proxylist.list_log l cross join newest n`,
    [bytesMin],
  )
  return isDue
}

/** Removes entries before the newest snapshot, old results of imports, and nodes that were silent for a day. */
export async function prune({ query }: Connection): Promise<void> {
  await query(
    `delete from proxylist.list_log where at < proxylist.now_ms() - $1::bigint and version <
       (select max(version) from proxylist.list_log where kind = 'snapshot')`,
    [KEPT_MS],
  )
  await query(
    `delete from proxylist.imports where result is not null and at < proxylist.now_ms() - $1::bigint`,
    [10 * KEPT_MS],
  )
  await query('delete from proxylist.nodes where seen < proxylist.now_ms() - $1::bigint', [DAY_MS])
}
