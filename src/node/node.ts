/** A node: a server on a shared database, with keys and plans in memory and a copy of the list. */
import { mkdirSync } from 'node:fs'
import { FLUSH_SECONDS } from '../access/history.ts'
import type { KeyReader } from '../access/ports.ts'
import { type Clock, stopwatch, timerLater } from '../lib/clock.ts'
import { CommandError, messageOf, reasonOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { NodeReport } from '../metrics/attention.ts'
import type { Observed, ReplicationState } from '../metrics/observed.ts'
import { createStatusStore } from '../postgres/checker.ts'
import { openConnection, shownDatabase } from '../postgres/connection.ts'
import { readDistance } from '../postgres/doctor.ts'
import { createFeedStore } from '../postgres/feeds.ts'
import { createSharedList } from '../postgres/imports.ts'
import { prune } from '../postgres/log.ts'
import { migrate } from '../postgres/migrate.ts'
import { createLeaderLock, createListener, createNodes, type NodeName } from '../postgres/nodes.ts'
import { createRegistry, PATIENT } from '../postgres/registry.ts'
import { createUsageStore } from '../postgres/usage/usage.ts'
import { requireCopy } from '../sqlite/copy.ts'
import { observeData } from '../sqlite/metrics.ts'
import { openServerList } from '../sqlite/server-list.ts'
import { startFollower } from './follower.ts'
import { followKeys } from './keys.ts'

/** Timeouts of reading the version of keys, and of reading keys. */
const ASK_MS_MAX = SECOND_MS
const READ_MS_MAX = 30 * SECOND_MS

type NodeOptions = {
  dir: string
  url: string
  timeoutMs: number
  provider: string
  clock: Clock
  /** The log of failures. Failures of requests may be many: `sayRepeated` counts them. */
  log: Pick<Log, 'say' | 'sayRepeated'>
  /** The stopwatch of the refusal cache; tests set it. */
  elapsedMs?: () => number
}

function createReport(say: (sentence: string) => void, begun: string, over: string) {
  let failing = ''
  return (failure: string | null): void => {
    if (failure === failing || (failure === null && failing === '')) return
    failing = failure ?? ''
    say(failure === null ? over : `${failure}; ${begun}`)
  }
}

export type Node = ReturnType<typeof openNode>

/**
 * Opens a node and starts to follow its database. The node answers 503 while the database is away, or has the schema of
 * a newer program. @throws CommandError when the data directory is not usable.
 */
export function openNode(given: NodeOptions) {
  const { dir, url, timeoutMs, provider, clock, log, elapsedMs = stopwatch() } = given
  requireCopy(dir)
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new CommandError(`cannot use the data directory ${dir}: ${reasonOf(error)}`)
  }
  const shown = shownDatabase(url)
  const options = { url, timeoutMs, name: 'proxylist' }
  let failures = 0
  /** The database seems to be away: new requests are refused until it returns the version of keys. */
  function doubt(): void {
    isSilent = true
    keys.wake()
  }
  const usage = createUsageStore(
    options,
    elapsedMs,
    failure => {
      failures += 1
      if (keys.problem() === null) log.sayRepeated(`requests get 503: ${messageOf(failure)}`)
    },
    doubt,
  )
  const connection = openConnection(options)
  const asking = openConnection({ ...options, timeoutMs: Math.min(timeoutMs, ASK_MS_MAX) })
  const reading = openConnection({ ...options, timeoutMs: READ_MS_MAX })
  const patient = openConnection({ ...options, ...PATIENT })
  const lock = createLeaderLock('jobs', options)
  const registry = createRegistry(connection, usage, patient)
  const sharedList = createSharedList(patient)
  const feeds = createFeedStore(connection)
  const nodes = createNodes(connection)
  const sayOfKeys = createReport(
    log.say,
    'answering 503 until that is over',
    `the database ${shown} works again`,
  )
  const sayOfList = createReport(
    log.say,
    'the list stays as it was',
    `the list of ${shown} is followed again`,
  )
  let isMigrated = false
  const makeSchema = async (): Promise<void> => {
    if (!isMigrated) await migrate(connection)
    isMigrated = true
  }

  const list = openServerList(dir, provider, clock, log.say, { isCopy: true })
  const watch = stopwatch()
  /** The version of the copy, and the last time when it was the newest. */
  let copied: { version: number; atMs: number } | null = null
  let isListFailing = false
  let follower: ReturnType<typeof startFollower> | null = null
  const startList = () =>
    startFollower(
      { dir, url, timeoutMs },
      {
        onNewest(version, ageMs) {
          if (version !== copied?.version) list.tick() // a snapshot may have replaced the file
          copied = { version, atMs: watch() - ageMs }
          isListFailing = false
          sayOfList(null)
        },
        onFailed(message) {
          failures += 1
          isListFailing = true
          sayOfList(`the list cannot be copied: ${message}`)
        },
      },
    )
  let isReached = false
  /** Whether a request got no answer from the database in half its time, and nothing has got one since. */
  let isSilent = false
  const keys = followKeys({
    ...{ quick: asking, patient: reading, elapsedMs: watch, later: timerLater },
    prepare: makeSchema,
    onReached() {
      isSilent = false
    },
    onAsked(failure) {
      isReached = failure === null
      if (failure !== null) {
        failures += 1
        sayOfKeys(messageOf(failure))
        // These connections may be lost, too, and would notice it late.
        listener.end()
        for (const { renew } of [reading, patient]) renew()
        return
      }
      sayOfKeys(null)
      listener.ensure()
      if (follower !== null) return
      follower = startList()
      reportSelf() // before the schema was made, no import could find this node
    },
  })
  const listener = createListener(connection.host, message => {
    if (message === null || message === 'usage') usage.forgetRefusals()
    keys.wake()
    follower?.wake()
  })

  const problem = (): string | null =>
    keys.problem() ?? (copied === null ? 'the list was not copied yet' : null)
  /**
   * @throws StoreError while the keys or the list may not be used. Also while the database does not answer: a request
   * would wait here, and again at each node to which nginx passes it on.
   */
  function requireFresh(): void {
    const found = problem() ?? (isSilent ? 'the database does not answer' : null)
    if (found !== null) throw new StoreError(found)
  }
  const find: KeyReader['find'] = key => {
    requireFresh()
    return keys.find(key)
  }
  const lagSeconds = (): number => Math.max(keys.ageMs(), watch() - (copied?.atMs ?? 0)) / SECOND_MS
  const version = (): number | null => copied?.version ?? null
  let name: NodeName | null = null
  const sayAlive = async (): Promise<void> => {
    if (name !== null) await nodes.report(name, version() ?? 0, lagSeconds())
  }
  const reportSelf = (): void => void sayAlive().catch(() => {})
  let ticks = 0
  async function close(): Promise<void> {
    await keys.stop()
    listener.end()
    await follower?.stop()
    list.close()
    await Promise.allSettled([usage.flush(), name && nodes.remove(name)])
    await lock.close()
    for (const store of [usage, connection, asking, reading, patient]) {
      await store.close().catch(() => {})
    }
  }
  return {
    registry: { ...registry, keys: { ...registry.keys, find } },
    list: {
      ...list,
      version() {
        requireFresh()
        return list.version()
      },
      removeStale: sharedList.removeStale,
    },
    feeds,
    prune: (): Promise<void> => prune(patient),
    isLeader: lock.isHeld,
    checker: createStatusStore(connection).read,
    clockDistanceMs: () => readDistance(connection.query, clock),
    nodes: (): Promise<NodeReport[]> => nodes.list().catch(() => []),
    replication: (): ReplicationState => ({
      listVersion: version(),
      lagSeconds: lagSeconds(),
      runsJobs: lock.isHeld(),
    }),
    problem,
    health: () => ({ works: isReached, failures }),
    listening(given: NodeName): void {
      name = given
      reportSelf()
    },
    async tick(): Promise<void> {
      if (copied !== null) list.tick()
      ticks += 1
      const isFlush = ticks % FLUSH_SECONDS === 0
      await Promise.allSettled([
        // A node that cannot follow the list leaves the lock to another one.
        isListFailing ? lock.release() : lock.tick(),
        sayAlive(),
        isFlush ? usage.flush() : null,
      ])
      follower?.lead(lock.isHeld())
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

export function observeNode(dir: string, node: Node): Observed {
  const { list, health, feeds, checker, replication, clockDistanceMs, nodes } = node
  const observed = observeData(dir, {}, list)
  return {
    ...observed,
    databases: () => [
      ...observed.databases(),
      { name: 'postgresql', ...health(), bytes: null, walBytes: null },
    ],
    feeds: feeds.list,
    ...{ checker, replication, clockDistanceMs, nodes },
  }
}
