/**
 * What the main thread of a node and its workers say to each other, and what the workers share:
 * the database as the source of copies.
 */
import { createChangeSource } from '../postgres/changes.ts'
import { openConnection } from '../postgres/connection.ts'
import type { NodeName } from '../postgres/nodes.ts'
import { migrate } from '../postgres/schema.ts'
import type { Followed } from './follow.ts'
import type { ChangeSource } from './ports.ts'

/** The database and the data directory of a node. */
export type NodeData = {
  dir: string
  url: string
  /** The longest that asking where the database stands may take. */
  timeoutMs: number
}

/** What the follower's worker is sent. */
export type FollowTask =
  | ({ kind: 'follow' } & NodeData)
  /** The node listens, under this name. */
  | ({ kind: 'listening' } & NodeName)
  /** Copying much has ended; `message`: why it failed. */
  | { kind: 'copied'; message: string | null }
  /** Keys could not be read: their copy is to be made again. */
  | { kind: 'doubt-keys' }
  | { kind: 'stop' }

/** What it replies. `failed` may be said again and again. */
export type FollowReply =
  | Followed
  /** Much of the list is to be copied. */
  | { kind: 'copy-much' }
  /** Usage was reset: of a subject, of all of a kind, or of any that is known (`null`). */
  | { kind: 'usage'; subject: string | null }
  | { kind: 'stopped' }

/** Copying much. */
export type CopyTask = NodeData
export type Copied = { kind: 'done' } | { kind: 'failed'; message: string }

/** How long reading all keys, or few changes of the list, may take. */
const READ_MS_MAX = 30_000

/** The database as the source of copies; the schema is made or migrated first. */
export function openSource({ url, timeoutMs }: NodeData, readMsMax: number | null = READ_MS_MAX) {
  const quick = openConnection({ url, timeoutMs, name: 'proxylist' })
  const slow = openConnection({ url, timeoutMs: readMsMax, name: 'proxylist' })
  const read = createChangeSource(quick, slow)
  let isMigrated = false
  const source: ChangeSource = {
    ...read,
    async versions() {
      if (!isMigrated) await migrate(quick)
      isMigrated = true
      return read.versions()
    },
  }
  return {
    source,
    connection: quick,
    close: async (): Promise<void> => {
      await Promise.allSettled([quick.close(), slow.close()])
    },
  }
}
