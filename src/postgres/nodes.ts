/** Owns the machines that serve from a shared database, as each says of itself every second. */
import type { Query } from './connection.ts'

export type Node = {
  node: string
  address: string
  /** Of the list that its copy has. */
  listVersion: number
  /** Since its copies were last known to be the newest, when it was last seen. */
  lagSeconds: number
  seenMs: number
  /** Since it was last seen, by the database's clock. */
  silentMs: number
}

/** All nodes that were seen within a day, by name and address. */
export const readNodes = (query: Query): Promise<Node[]> =>
  query<Node>(
    `select node, address, list_version::float8 as "listVersion", lag_seconds as "lagSeconds",
       seen::float8 as "seenMs", (proxylist.now_ms() - seen)::float8 as "silentMs"
     from proxylist.nodes order by node, address`,
  )
