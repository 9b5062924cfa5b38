/** Owns the table of nodes: what each machine that serves says of itself, by the database's clock. */
import { DAY_MS, SECOND_MS } from '../lib/time.ts'
import type { Connection } from './connection.ts'

/** The name of a host, and where the service listens there: together they distinguish nodes. */
export type NodeName = { node: string; address: string }

export type NodeState = NodeName & {
  /** The version of its copy of the list; 0: it has none. */
  version: number
  /** Seconds since its copies were last known to be the newest. */
  lagSeconds: number
  /** When it last said so, in Unix milliseconds of the database's clock. */
  seenMs: number
  /** How many seconds ago that was, by the same clock. */
  silentSeconds: number
}

/** Nodes that have not been seen for so long are forgotten. */
const KEPT_MS = DAY_MS

export const createNodes = ({ query }: Connection) => ({
  /** Says that a node is there, and how old its copies are. */
  async report({ node, address }: NodeName, version: number, lagSeconds: number): Promise<void> {
    await query(
      `insert into proxylist.nodes (node, address, list_version, lag_seconds, seen)
       values ($1, $2, $3::float8, $4::float8, proxylist.now_ms())
       on conflict (node, address) do update set list_version = excluded.list_version,
         lag_seconds = excluded.lag_seconds, seen = excluded.seen`,
      [node, address, version, lagSeconds],
    )
  },
  /** Removes a node that stops. */
  async remove({ node, address }: NodeName): Promise<void> {
    await query('delete from proxylist.nodes where node = $1 and address = $2', [node, address])
  },
  /** Removes the nodes that have not been seen for a day. */
  async prune(): Promise<void> {
    await query('delete from proxylist.nodes where seen < proxylist.now_ms() - $1::float8', [
      KEPT_MS,
    ])
  },
  /** All nodes, by name; the lag of one grows while it is not seen. */
  async list(): Promise<NodeState[]> {
    const rows = await query<NodeState>(
      `select node, address, list_version::float8 as version, lag_seconds as "lagSeconds",
         seen::float8 as "seenMs",
         greatest(0, proxylist.now_ms() - seen)::float8 / ${SECOND_MS} as "silentSeconds"
       from proxylist.nodes order by node, address`,
    )
    return rows.map(row => ({ ...row, lagSeconds: row.lagSeconds + row.silentSeconds }))
  },
})
