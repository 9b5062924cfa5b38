/**
 * Owns a node: a server whose keys and list are copies of a database that machines share, and whose
 * usage is in that database. Requests are answered only while the copies are known to be fresh.
 */
import type { KeyReader, Registry } from '../../access/store.ts'
import type { FeedStore } from '../../import/feeds/store.ts'
import { type Clock, stopwatch } from '../../lib/clock.ts'
import { CommandError, messageOf, StoreError } from '../../lib/errors.ts'
import { createUsageStore } from '../../postgres/access/usage.ts'
import { pruneKeyVersions } from '../../postgres/changes.ts'
import { openConnection } from '../../postgres/connection.ts'
import { createFeedStore } from '../../postgres/feeds.ts'
import { createJobLock } from '../../postgres/job-lock.ts'
import { createNodes } from '../../postgres/nodes.ts'
import { createListStore } from '../../postgres/proxies/store.ts'
import { createRegistry } from '../../postgres/registry.ts'
import { migrate } from '../../postgres/schema.ts'
import type { ProxyWriter } from '../../proxies/store.ts'
import { createFreshness } from '../../replication/freshness.ts'
import { requireCopies } from '../../sqlite/copy/copy-of.ts'
import { openCopiedKeys } from '../../sqlite/copy/keys.ts'
import { openServerList } from '../../sqlite/server-list.ts'
import type { Health } from '../../sqlite/supervise.ts'
import { startFollower } from './follower.ts'
import type { FollowReply } from './workers.ts'

export type NodeOptions = {
  dir: string
  url: string
  timeoutMs: number
  provider: string
  clock: Clock
  say: (sentence: string) => void
}

/** What the metrics and `/readyz` say of a node. */
export type Replication = {
  listVersion: number | null
  lagSeconds: number
  /** Whether it runs the jobs that one node runs for all. */
  runsJobs: boolean
  /** The database, as far as the follower knows. */
  database: Health
}

/** Work on all keys may take so long. */
const PATIENT_MS = 600_000

/** Says when the database fails, and when that is over. */
function createReporter(shown: string, say: (sentence: string) => void) {
  let said = ''
  return (reply: Extract<FollowReply, { kind: 'known' | 'failed' }>): void => {
    if (reply.kind === 'failed') {
      if (said !== reply.message) say(`${reply.message}; answering 503 until that is over`)
      said = reply.message
    } else if (said !== '' && reply.keysAgeMs !== null) {
      said = ''
      say(`the database ${shown} works again`)
    }
  }
}

/** Connections to the database, and the stores on them. They are opened when they are first used. */
function openStores({ url, timeoutMs, clock }: NodeOptions, elapsedMs: () => number) {
  const options = { url, timeoutMs, name: 'proxylist' }
  const usage = createUsageStore(options, elapsedMs)
  const connection = openConnection(options)
  const patient = openConnection({ ...options, timeoutMs: PATIENT_MS })
  const lock = createJobLock(options)
  const list = createListStore(patient, clock)
  return {
    connection,
    registry: createRegistry(connection, usage, patient),
    usage,
    lock,
    list: list satisfies Pick<ProxyWriter, 'removeStale'>,
    feeds: createFeedStore(connection) satisfies FeedStore,
    async prune(): Promise<void> {
      await createNodes(connection).prune()
      await pruneKeyVersions(connection)
    },
    async close(): Promise<void> {
      await lock.close()
      for (const { close } of [usage, connection, patient]) await close().catch(() => {})
    },
  }
}

const KINDS = ['key', 'demo', 'temp'] as const

export type Node = Awaited<ReturnType<typeof openNode>>

/**
 * Opens a node and starts to follow its database, which may be away: it then waits for it.
 * @throws CommandError when the data directory has data of its own, or the database cannot be used by
 *   this program.
 */
export async function openNode(options: NodeOptions) {
  const { dir, url, timeoutMs, provider, clock, say } = options
  requireCopies(dir)
  const elapsedMs = stopwatch()
  const freshness = createFreshness(elapsedMs)
  const stores = openStores(options, elapsedMs)
  const { connection, registry, usage, lock } = stores
  const report = createReporter(connection.shown, say)
  try {
    await migrate(connection)
  } catch (error) {
    if (error instanceof CommandError) {
      await stores.close()
      throw error
    }
    report({ kind: 'failed', message: messageOf(error) })
  }

  const copiedKeys = openCopiedKeys(dir, { say, onDamage: () => follower.doubtKeys() })
  const copiedList = openServerList(dir, provider, clock, say, { isCopy: true })
  /** Verifies the copies; there is nothing to verify before they are made. */
  function tickCopies(): void {
    if (freshness.hasKeys()) copiedKeys.tick()
    if (freshness.listVersion() !== null) copiedList.tick()
  }
  const follower = startFollower(
    { dir, url, timeoutMs },
    {
      onReply(reply) {
        const hadAll = freshness.problem() === null
        freshness.take(reply)
        report(reply)
        if (!hadAll && freshness.problem() === null) tickCopies()
      },
      onUsage(subject) {
        const [kind, id] = subject?.split(' ') ?? []
        for (const each of KINDS) {
          if (kind === undefined || kind === each) usage.forget({ kind: each, id: id || null })
        }
      },
      onCopy: () => say(`copying the list of the database ${connection.shown}`),
    },
  )

  /** @throws StoreError while the copies may not be used. */
  function requireFresh(): void {
    const problem = freshness.problem()
    if (problem !== null) throw new StoreError(problem)
  }
  const keys: KeyReader & Registry['keys'] = {
    ...registry.keys,
    find(key) {
      requireFresh()
      return copiedKeys.find(key)
    },
  }

  return {
    registry: {
      ...{ keys, plans: registry.plans, usage },
      health: copiedKeys.health,
      hasKeys: async (): Promise<boolean> => (await registry.keys.count(clock())).total > 0,
    },
    list: {
      ...copiedList,
      version() {
        requireFresh()
        return copiedList.version()
      },
      removeStale: stores.list.removeStale,
    },
    feeds: stores.feeds,
    prune: stores.prune,
    isJobHolder: lock.isHeld,
    replication: (): Replication => ({
      listVersion: freshness.listVersion(),
      lagSeconds: freshness.lagSeconds(),
      runsJobs: lock.isHeld(),
      database: freshness.health(),
    }),
    listening: follower.listening,
    /** To be called every second. */
    async tick(): Promise<void> {
      tickCopies()
      await Promise.allSettled([lock.tick(), usage.flush('some')])
    },
    async close(): Promise<void> {
      await follower.close()
      await Promise.allSettled([usage.flush('all')])
      copiedList.close()
      copiedKeys.close()
      await stores.close()
    },
  }
}
