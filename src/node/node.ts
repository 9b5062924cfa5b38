/**
 * A node: a server whose keys and list are copies of a database that machines share, and whose usage is in
 * that database. Requests are answered only while the copies are known to be fresh. They are the files of a
 * data directory, read by the code of one machine: selects, caches, streams and checks have no second form.
 */
import { mkdirSync } from 'node:fs'
import { FLUSH_SECONDS } from '../access/history.ts'
import type { KeyReader } from '../access/ports.ts'
import { type Clock, stopwatch, withTimeout } from '../lib/clock.ts'
import { CommandError, messageOf, reasonOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { startTask, startWorker, type Task } from '../lib/worker.ts'
import type { NodeReport } from '../metrics/attention.ts'
import type { Observed, ReplicationState } from '../metrics/observed.ts'
import { pruneKeysVersions } from '../postgres/change-numbers.ts'
import { createStatusStore } from '../postgres/checker.ts'
import { openConnection, shownDatabase } from '../postgres/connection.ts'
import { readDistance } from '../postgres/doctor.ts'
import { createFeedStore } from '../postgres/feeds.ts'
import { createListStore } from '../postgres/list.ts'
import { migrate, requireCopied } from '../postgres/migrate.ts'
import { createLeaderLock, createNodes, type NodeName } from '../postgres/nodes.ts'
import { createRegistry, PATIENT } from '../postgres/registry.ts'
import { createUsageStore, type FailedRequests } from '../postgres/usage/usage.ts'
import { lostSchema, openCopiedKeys, requireCopies } from '../sqlite/copy.ts'
import { observeData } from '../sqlite/metrics.ts'
import { openServerList } from '../sqlite/server-list.ts'
import { createFreshness, type Followed } from './follow.ts'
import type { CopyTask, FollowReply, FollowTask, NodeData } from './follow.worker.ts'

/** The pause before a worker that has ended by an error of its own is started again. */
const RESTART_MS = 250

/** How long `close` waits for the follower. */
const STOP_MS_MAX = 2_000

type FollowerHooks = {
  onFollowed: (followed: Followed) => void
  /** Usage was reset, see `FollowReply`. */
  onUsage: (subject: string | null) => void
  onCopy: () => void
}

const WORKER = 'node/follow.worker.ts'

/**
 * Starts following a database. The worker does not keep the process alive, and is started again when it
 * ends by an error of its own; what copies much goes on then.
 */
export function startFollower(data: NodeData, { onFollowed, onUsage, onCopy }: FollowerHooks) {
  let worker: Worker | null = null
  let copier: Task<void> | null = null
  let named: NodeName | null = null
  let isClosing = false
  let restart: ReturnType<typeof setTimeout> | undefined
  const stopped = Promise.withResolvers<void>()
  const send = (task: FollowTask): void => worker?.postMessage(task)

  function copyMuch(): void {
    if (copier !== null || isClosing) return
    onCopy()
    copier = startTask<CopyTask, void>(WORKER, { kind: 'copy', ...data })
    void copier.result
      .then(() => null, messageOf)
      .then(message => {
        copier = null
        send({ kind: 'copied', message })
      })
  }

  function startLater(message: string): void {
    onFollowed({ kind: 'failed', what: 'keys', message })
    const again = (): void => {
      try {
        start()
      } catch (error) {
        startLater(messageOf(error))
      }
    }
    restart = setTimeout(again, RESTART_MS)
    restart.unref()
  }

  function start(): void {
    const started = startWorker(WORKER)
    worker = started
    started.onmessage = ({ data: reply }: MessageEvent<FollowReply>) => {
      if (reply.kind === 'usage') onUsage(reply.subject)
      else if (reply.kind === 'stopped') stopped.resolve()
      else if (reply.kind === 'copy-much') copyMuch()
      else onFollowed(reply)
    }
    started.onerror = ({ message }) => {
      if (worker !== started) return
      worker = null
      started.terminate()
      if (isClosing) return stopped.resolve()
      startLater(message)
    }
    started.unref()
    send({ kind: 'follow', ...data })
    if (named !== null) send({ kind: 'listening', ...named })
  }

  start()
  return {
    listening(name: NodeName): void {
      named = name
      send({ kind: 'listening', ...name })
    },
    doubtKeys: (): void => send({ kind: 'doubt-keys' }),
    /** Ends following, and says in the database that the node is gone. */
    async close(): Promise<void> {
      isClosing = true
      copier?.end()
      clearTimeout(restart)
      if (worker === null) return
      send({ kind: 'stop' })
      await withTimeout(stopped.promise, STOP_MS_MAX)
      worker?.terminate()
    },
  }
}

type NodeOptions = {
  dir: string
  url: string
  timeoutMs: number
  provider: string
  clock: Clock
  /** Where failures are said to the operator; those of requests may come at every request. */
  log: Pick<Log, 'say' | 'sayRepeated'>
  /** The stopwatch of refusals without a round trip; tests move it by hand, as the database's clock. */
  elapsedMs?: () => number
}

/** Says once when the database fails, or copying its list, and when that is over. */
export function createReporter(shown: string, { say, sayRepeated }: NodeOptions['log']) {
  const wrong = { keys: '', list: '' }
  let failures = 0
  let isKnown = false
  let isUncounted = false
  /** Whether that was seen since the last second began. */
  let isSeen = false

  function works(what: 'keys' | 'list', sentence: string): void {
    if (wrong[what] !== '') say(sentence)
    wrong[what] = ''
  }

  return {
    take(followed: Followed): void {
      if (followed.kind === 'failed') {
        const { what, message } = followed
        failures += 1
        if (wrong[what] === message) return
        wrong[what] = message
        if (what === 'keys') say(`${message}; answering 503 until that is over`)
        else say(`the list cannot be copied, and stays as it was: ${message}`)
        return
      }
      isKnown = true
      if (followed.keysAgeMs !== null) works('keys', `the database ${shown} works again`)
      if (followed.listAgeMs !== null) works('list', `the list of ${shown} is copied again`)
    },
    copying(): void {
      if (wrong.list === '') say(`copying the list of the database ${shown}`)
    },
    /** Says why requests cannot be counted, also where copies can be followed: commits may fail alone. */
    uncounted(failure: unknown, whose: FailedRequests): void {
      const isOfAll = whose === 'of all'
      failures += Number(isOfAll)
      if (wrong.keys !== '') return
      const requests = isOfAll ? 'cannot be counted and get' : 'of some keys or addresses get'
      sayRepeated(`requests ${requests} 503: ${messageOf(failure)}`)
      isUncounted ||= isOfAll
      isSeen ||= isOfAll
    },
    health: () => ({ works: isKnown && wrong.keys === '' && !isUncounted, failures }),
    /** Finds out by `probe` whether requests can be counted again; to be called every second. */
    async tick(probe: () => Promise<void>): Promise<void> {
      if (!isUncounted) return
      // What fails while the database is away is not seen: the probe itself has to succeed.
      const works = (): boolean => !isSeen
      const isOver = works() && (await probe().then(works, () => false))
      if (isOver) say('requests are counted again')
      isUncounted = !isOver
      isSeen = false
    },
  }
}

export type Node = Awaited<ReturnType<typeof openNode>>

/**
 * Opens a node and starts to follow its database, which may be away: it then waits for it.
 * @throws CommandError when the data directory has data of its own or cannot be made, or the database
 *   cannot be used by this program.
 */
export async function openNode(given: NodeOptions) {
  const { dir, url, timeoutMs, provider, clock, log, elapsedMs = stopwatch() } = given
  requireCopies(dir)
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new CommandError(`cannot use the data directory ${dir}: ${reasonOf(error)}`)
  }
  const report = createReporter(shownDatabase(url), log)
  const options = { url, timeoutMs, name: 'proxylist' }
  const usage = createUsageStore(options, elapsedMs, report.uncounted)
  const connection = openConnection(options)
  const patient = openConnection({ ...options, ...PATIENT })
  const lock = createLeaderLock('jobs', options)
  const registry = createRegistry(connection, usage, patient)
  const sharedList = createListStore(patient, clock)
  const feeds = createFeedStore(connection)
  async function closeStores(): Promise<void> {
    await lock.close()
    for (const { close } of [usage, connection, patient]) await close().catch(() => {})
  }

  try {
    await requireCopied(connection, lostSchema(dir))
    await migrate(connection)
  } catch (error) {
    if (!(error instanceof StoreError)) {
      await closeStores()
      throw error
    }
    report.take({ kind: 'failed', what: 'keys', message: error.message })
  }

  const freshness = createFreshness(stopwatch())
  const keys = openCopiedKeys(dir, log.say, () => follower.doubtKeys())
  const list = openServerList(dir, provider, clock, log.say, { isCopy: true })

  function verify(): void {
    if (freshness.hasKeys()) keys.tick()
    if (freshness.listVersion() !== null) list.tick()
  }
  /** @throws StoreError while the copies may not be used. */
  function requireFresh(): void {
    const problem = freshness.problem()
    if (problem !== null) throw new StoreError(problem)
  }
  let ticks = 0
  const follower = startFollower(
    { dir, url, timeoutMs },
    {
      onFollowed(followed) {
        const wasReady = freshness.problem() === null
        freshness.take(followed)
        report.take(followed)
        if (followed.kind === 'failed' && followed.what === 'keys') patient.renew()
        if (!wasReady && freshness.problem() === null) verify()
      },
      onUsage(subject) {
        const [kind, id = ''] = subject?.split(' ') ?? []
        for (const each of ['key', 'demo', 'temp'] as const) {
          if ((kind ?? each) === each) usage.forget({ kind: each, id: id || null })
        }
      },
      onCopy: report.copying,
    },
  )
  const find: KeyReader['find'] = key => {
    requireFresh()
    return keys.find(key)
  }
  async function close(): Promise<void> {
    await follower.close()
    list.close()
    keys.close()
    await Promise.allSettled([usage.flush()])
    await closeStores()
  }
  return {
    registry: { ...registry, keys: { ...registry.keys, find }, health: keys.health },
    list: {
      ...list,
      version() {
        requireFresh()
        return list.version()
      },
      removeStale: sharedList.removeStale,
      count: sharedList.count,
      importMark: sharedList.importMark,
    },
    feeds,
    async prune(): Promise<void> {
      await createNodes(connection).prune()
      await pruneKeysVersions(connection)
    },
    isLeader: lock.isHeld,
    checker: createStatusStore(connection).read,
    clockDistanceMs: () => readDistance(connection.query, clock),
    /** While the database is away, nobody knows of the others. */
    nodes: () =>
      createNodes(connection)
        .list()
        .catch((): NodeReport[] => [
          {
            ...{ node: 'this node', address: 'its database does not answer' },
            ...{ lagSeconds: freshness.lagSeconds(), silentSeconds: 0 },
          },
        ]),
    replication: (): ReplicationState => ({
      listVersion: freshness.listVersion(),
      lagSeconds: freshness.lagSeconds(),
      runsJobs: lock.isHeld(),
    }),
    problem: freshness.problem,
    health: report.health,
    listening: follower.listening,
    /** To be called every second. */
    async tick(): Promise<void> {
      verify()
      ticks += 1
      const isFlush = ticks % FLUSH_SECONDS === 0
      await Promise.allSettled([
        lock.tick(),
        isFlush ? usage.flush() : null,
        report.tick(usage.probe),
      ])
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

export function observeNode(dir: string, node: Node): Observed {
  const { registry, list, health, feeds, checker, replication, clockDistanceMs, nodes } = node
  const observed = observeData(dir, registry, list)
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
