/**
 * A node: a server whose keys and list are copies of a database that machines share, and whose usage is in
 * that database. Requests are answered only while the copies are known to be fresh. They are the files of a
 * data directory, read by the code of one machine: selects, caches, streams and checks have no second form.
 */
import { mkdirSync } from 'node:fs'
import type { KeyReader, Registry } from '../access/ports.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { CommandError, messageOf, reasonOf, StoreError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { startTask, startWorker } from '../lib/worker.ts'
import type { Observed, ReplicationState } from '../metrics/observed.ts'
import { openConnection, shownDatabase } from '../postgres/connection.ts'
import { createFeedStore } from '../postgres/feeds.ts'
import { createListStore } from '../postgres/list.ts'
import { createJobLock, createNodes, type NodeName } from '../postgres/nodes.ts'
import { createRegistry, PATIENT_MS } from '../postgres/registry.ts'
import { migrate } from '../postgres/schema.ts'
import { createUsageStore, type FailedRequests } from '../postgres/usage/usage.ts'
import { pruneKeyVersions } from '../postgres/versions.ts'
import { openCopiedKeys, requireCopies } from '../sqlite/copy.ts'
import { observeData } from '../sqlite/observe.ts'
import { openServerList } from '../sqlite/server-list.ts'
import { createFreshness, type Followed } from './follow.ts'
import type { Copied, CopyTask, FollowReply, FollowTask, NodeData } from './follow.worker.ts'

/** The pause before a worker that has ended by an error of its own is started again. */
const RESTART_MS = 250

/** How long `close` waits for the follower. */
const STOP_MS_MAX = 2_000

type FollowerHooks = {
  onFollowed: (followed: Followed) => void
  /** Usage was reset, see `FollowReply`. */
  onUsage: (subject: string | null) => void
  /** Much of the list begins to be copied. */
  onCopy: () => void
}

/** Copies much in a worker of its own, one copy at a time. */
function createMuchCopier(data: NodeData, onEnd: (message: string | null) => void) {
  let worker: Worker | null = null
  return {
    /** Copies, unless that is under way for a follower that has ended. */
    start(): void {
      if (worker !== null) return
      worker = startTask<CopyTask, Copied>(
        'node/follow.worker.ts',
        { kind: 'copy', ...data },
        copied => {
          worker = null
          onEnd(copied.kind === 'done' ? null : copied.message)
        },
      )
    },
    close(): void {
      worker?.terminate()
      worker = null
    },
  }
}

/**
 * Starts following a database; the worker does not keep the process alive, and is started again when it
 * ends by an error of its own.
 */
export function startFollower(data: NodeData, { onFollowed, onUsage, onCopy }: FollowerHooks) {
  let worker: Worker | null = null
  let named: NodeName | null = null
  let isClosing = false
  let restart: ReturnType<typeof setTimeout> | undefined
  const send = (task: FollowTask): void => worker?.postMessage(task)
  const copier = createMuchCopier(data, message => send({ kind: 'copied', message }))
  const stopped = Promise.withResolvers<void>()

  function take(reply: FollowReply): void {
    if (reply.kind === 'usage') onUsage(reply.subject)
    else if (reply.kind === 'stopped') stopped.resolve()
    else if (reply.kind !== 'copy-much') onFollowed(reply)
    else if (!isClosing) {
      onCopy()
      copier.start()
    }
  }

  function start(): void {
    const started = startWorker('node/follow.worker.ts')
    worker = started
    started.onmessage = ({ data: reply }: MessageEvent<FollowReply>) => take(reply)
    started.onerror = ({ message }) => {
      if (worker !== started) return
      worker = null
      started.terminate()
      if (isClosing) return stopped.resolve()
      onFollowed({ kind: 'failed', what: 'keys', message })
      restart = setTimeout(start, RESTART_MS)
      restart.unref()
    }
    started.unref()
    send({ kind: 'follow', ...data })
    if (named !== null) send({ kind: 'listening', ...named })
  }

  start()
  return {
    /** Says under which name the node listens. */
    listening(name: NodeName): void {
      named = name
      send({ kind: 'listening', ...name })
    },
    /** Has the copy of the keys made again. */
    doubtKeys: (): void => send({ kind: 'doubt-keys' }),
    /** Ends following, and says in the database that the node is gone. */
    async close(): Promise<void> {
      isClosing = true
      copier.close()
      clearTimeout(restart)
      if (worker === null) return
      send({ kind: 'stop' })
      const timer = setTimeout(stopped.resolve, STOP_MS_MAX)
      await stopped.promise
      clearTimeout(timer)
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

type Report = ReturnType<typeof createReporter>

/** Says when a failure begins, or is another one, and when it is over. */
function createEpisode(say: (sentence: string) => void) {
  let message = ''
  return {
    isOn: (): boolean => message !== '',
    begin(found: string, sentence: string): void {
      if (message !== found) say(sentence)
      message = found
    },
    end(sentence: string): void {
      if (message !== '') say(sentence)
      message = ''
    },
  }
}

/** Says once when the database fails, or copying its list, and when that is over. */
export function createReporter(shown: string, { say, sayRepeated }: NodeOptions['log']) {
  const away = createEpisode(say)
  const uncopied = createEpisode(say)
  let isUncounted = false
  /** Whether that was seen since the last second began. */
  let isSeen = false

  function failed({ what, message }: Extract<Followed, { kind: 'failed' }>): void {
    if (what === 'keys') away.begin(message, `${message}; answering 503 until that is over`)
    else uncopied.begin(message, `the list cannot be copied, and stays as it was: ${message}`)
  }

  return {
    /** Takes what the follower says. */
    take(followed: Followed): void {
      if (followed.kind === 'failed') return failed(followed)
      if (followed.keysAgeMs !== null) away.end(`the database ${shown} works again`)
      if (followed.listAgeMs !== null) uncopied.end(`the list of ${shown} is copied again`)
    },
    /** Much of the list begins to be copied. */
    copying(): void {
      if (!uncopied.isOn()) say(`copying the list of the database ${shown}`)
    },
    /** Says why requests cannot be counted, also where copies can be followed: commits may fail alone. */
    uncounted(failure: unknown, whose: FailedRequests): void {
      if (away.isOn()) return
      if (whose === 'of a subject') {
        const sentence = `requests of some keys or addresses get 503: ${messageOf(failure)}`
        return sayRepeated(sentence, sentence)
      }
      isUncounted = true
      isSeen = true
      const sentence = `requests cannot be counted and get 503: ${messageOf(failure)}`
      sayRepeated(sentence, sentence)
    },
    /** Finds out by `probe` whether requests can be counted again; to be called every second. */
    async tick(probe: () => Promise<void>): Promise<void> {
      if (!isUncounted) return
      // What fails while the database is away is not seen: the probe itself has to succeed.
      const isOver = async (): Promise<boolean> =>
        probe().then(
          () => !isSeen,
          () => false,
        )
      if (!isSeen && (await isOver())) {
        isUncounted = false
        say('requests are counted again')
      }
      isSeen = false
    },
  }
}

type Stores = ReturnType<typeof openStores>

/** Connections to the database, and the stores on them. They are opened when they are first used. */
function openStores(
  { url, timeoutMs, clock, elapsedMs = stopwatch() }: NodeOptions,
  { uncounted }: Report,
) {
  const options = { url, timeoutMs, name: 'proxylist' }
  const usage = createUsageStore(options, elapsedMs, uncounted)
  const connection = openConnection(options)
  const patient = openConnection({ ...options, timeoutMs: PATIENT_MS })
  const lock = createJobLock(options)
  return {
    connection,
    registry: createRegistry(connection, usage, patient),
    usage,
    lock,
    list: createListStore(patient, clock),
    feeds: createFeedStore(connection),
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

/** Forgets what a node knows of usage that was reset elsewhere; `null`: of any. */
function forgetUsage({ forget }: Pick<Stores['usage'], 'forget'>, subject: string | null): void {
  const [kind, id = ''] = subject?.split(' ') ?? []
  for (const each of KINDS) {
    if (kind === undefined || kind === each) forget({ kind: each, id: id === '' ? null : id })
  }
}

/**
 * Opens the copies in the data directory and starts to follow the database. `problem` is why they may
 * not be used; `tick` is to be called every second.
 */
function openCopies(
  { dir, url, timeoutMs, provider, clock, log: { say } }: NodeOptions,
  { usage }: Stores,
  report: Report,
) {
  const freshness = createFreshness(stopwatch())
  const keys = openCopiedKeys(dir, { say, onDamage: () => follower.doubtKeys() })
  const list = openServerList(dir, provider, clock, say, { isCopy: true })

  /** Verifies the copies; there is nothing to verify before they are made. */
  function tick(): void {
    if (freshness.hasKeys()) keys.tick()
    if (freshness.listVersion() !== null) list.tick()
  }
  const follower = startFollower(
    { dir, url, timeoutMs },
    {
      onFollowed(followed) {
        const wasReady = freshness.problem() === null
        freshness.take(followed)
        report.take(followed)
        if (!wasReady && freshness.problem() === null) tick()
      },
      onUsage: subject => forgetUsage(usage, subject),
      onCopy: report.copying,
    },
  )
  return {
    ...{ keys, list, freshness, tick },
    listening: follower.listening,
    /** @throws StoreError while the copies may not be used. */
    requireFresh(): void {
      const problem = freshness.problem()
      if (problem !== null) throw new StoreError(problem)
    },
    async close(): Promise<void> {
      await follower.close()
      list.close()
      keys.close()
    },
  }
}

/** @throws CommandError when the directory is not there and cannot be made. */
function makeDirectory(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new CommandError(`cannot use the data directory ${dir}: ${reasonOf(error)}`)
  }
}

export type Node = Awaited<ReturnType<typeof openNode>>

/**
 * Opens a node and starts to follow its database, which may be away: it then waits for it.
 * @throws CommandError when the data directory has data of its own, or the database cannot be used by
 *   this program.
 */
export async function openNode(options: NodeOptions) {
  requireCopies(options.dir)
  makeDirectory(options.dir)
  const report = createReporter(shownDatabase(options.url), options.log)
  const stores = openStores(options, report)
  const { connection, registry, usage, lock } = stores
  try {
    await migrate(connection)
  } catch (error) {
    if (!(error instanceof StoreError)) {
      await stores.close()
      throw error
    }
    report.take({ kind: 'failed', what: 'keys', message: error.message })
  }
  const copies = openCopies(options, stores, report)
  const { freshness, requireFresh } = copies
  const keys: KeyReader & Registry['keys'] = {
    ...registry.keys,
    find(key) {
      requireFresh()
      return copies.keys.find(key)
    },
  }
  return {
    registry: { ...registry, keys, health: copies.keys.health },
    list: {
      ...copies.list,
      version() {
        requireFresh()
        return copies.list.version()
      },
      removeStale: stores.list.removeStale,
      count: stores.list.count,
    },
    feeds: stores.feeds,
    prune: stores.prune,
    isJobHolder: lock.isHeld,
    replication: (): ReplicationState => ({
      listVersion: freshness.listVersion(),
      lagSeconds: freshness.lagSeconds(),
      runsJobs: lock.isHeld(),
    }),
    /** Why the copies may not be used; `null`: they may. */
    problem: freshness.problem,
    /** The database, as far as the follower knows. */
    health: freshness.health,
    /** Says under which name the node listens. */
    listening: copies.listening,
    /** To be called every second. */
    async tick(): Promise<void> {
      copies.tick()
      await Promise.allSettled([lock.tick(), usage.flush('some'), report.tick(usage.probe)])
    },
    async close(): Promise<void> {
      await copies.close()
      await Promise.allSettled([usage.flush('all')])
      await stores.close()
    },
  }
}

/** What metrics and console show of a node. */
export function observeNode(dir: string, node: Node): Observed {
  const { registry, list, health, feeds, replication } = node
  const observed = observeData(dir, registry, list)
  return {
    ...observed,
    databases: () => [
      ...observed.databases(),
      { name: 'postgresql', ...health(), bytes: null, walBytes: null },
    ],
    feeds: feeds.list,
    replication,
  }
}
