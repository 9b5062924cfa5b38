/** The stores that the settings choose: of a data directory, or of a database that machines share. */
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Registry } from './access/ports.ts'
import type {
  CandidateStore,
  CheckerList,
  CheckerStatus,
  CheckerStatusStore,
} from './checker/ports.ts'
import type { Settings } from './config/settings.ts'
import type { FeedStore, StoredFeed } from './feeds/store.ts'
import { repeat } from './jobs/runner.ts'
import type { Awaitable } from './lib/awaitable.ts'
import type { Clock } from './lib/clock.ts'
import { CommandError, StoreError, UnknownOutcome } from './lib/errors.ts'
import type { Log } from './lib/log.ts'
import { SECOND_MS } from './lib/time.ts'
import type { Observed } from './metrics/observed.ts'
import { createList } from './node/list.ts'
import { type Node, observeNode, openNode } from './node/node.ts'
import { createCheckerList, createStatusStore } from './postgres/checker.ts'
import { type Connection, openConnection, shownDatabase } from './postgres/connection.ts'
import { createFeedStore } from './postgres/feeds.ts'
import { createSharedList } from './postgres/imports.ts'
import { migrate, schemaState } from './postgres/migrate.ts'
import { createLeaderLock, createNodes } from './postgres/nodes.ts'
import { createRegistry, PATIENT } from './postgres/registry.ts'
import { createUsageStore } from './postgres/usage/usage.ts'
import type { ProxyWriter } from './proxies/store.ts'
import { checkerStatusIn, openCandidates, readCandidates } from './sqlite/candidates.ts'
import { openCheckerList } from './sqlite/checker-list.ts'
import { listCopyOf, openListCopy, requireCopy, requireOwnData } from './sqlite/copy.ts'
import {
  ACCESS_FILE,
  CHECKS_FILE,
  hasDirectory,
  missingDirectory,
  ORIGINS,
  PROXY_FILE,
} from './sqlite/data-directory.ts'
import { lockPath } from './sqlite/database-files.ts'
import { openFeeds } from './sqlite/feeds.ts'
import { observeData } from './sqlite/metrics.ts'
import { openMemoryList, openServerList } from './sqlite/server-list.ts'
import { openServerRegistry } from './sqlite/server-registry.ts'
import {
  type List,
  listFeeds,
  type Need,
  type Replacing,
  withFeeds,
  withList,
  withListToReplace,
  withRegistry,
  withResource,
} from './sqlite/stores.ts'

type WritableList = Pick<ProxyWriter, 'begin' | 'importMark'> & { isEmpty(): Awaitable<boolean> }

/** A list that is read, as of one moment. */
export type ReadableList = Pick<List, 'pages' | 'endpointPages' | 'cityNames' | 'breakdown'>

type With<S> = <T>(work: (store: S) => Awaitable<T>) => Promise<T>

/**
 * The stores of a command: each is opened, worked with and closed. They throw a `CommandError` where a
 * store fails, and where there is nothing to read or change.
 */
export type Stores = {
  registry<T>(need: Need, work: (registry: Registry) => Awaitable<T>): Promise<T>
  /** The list; with a database, the copy that a node has of it in the data directory. */
  readList: With<ReadableList>
  /** With `replacing`, all rows are to be replaced, also where the list is damaged. */
  withList<T>(work: (list: WritableList) => Awaitable<T>, replacing?: Replacing): Promise<T>
  withFeeds: With<FeedStore>
  /** The states of the feeds; none when no feed was ever fetched. */
  listFeeds(): Promise<StoredFeed[]>
  checkerStatus(): Promise<CheckerStatus | null>
  /** Which of both exist; a database has both. */
  has(): { registry: boolean; list: boolean }
  /** Where it is, as it may be shown: a directory, or host, port and name of a database. */
  shown: string
  /** A directory for files that last as long as the command. */
  scratch: string
}

/** The data directory, else the system's directory for temporary files: a reading command makes no directory. */
const scratchOf = (dir: string): string => (existsSync(dir) ? dir : tmpdir())

type StoreSettings = Settings<'data' | 'database' | 'databaseTimeout'>

export const storesOf = (settings: StoreSettings, clock: Clock): Stores => {
  const { data, database, databaseTimeout } = settings
  return database === undefined
    ? directoryStores(data, clock)
    : databaseStores({ url: database, timeoutMs: databaseTimeout }, data, clock)
}

/** @throws CommandError when a data directory is there and cannot be used. */
export const checkDirectory = (dir: string): void => void hasDirectory(dir)

function directoryStores(dir: string, clock: Clock): Stores {
  const own = (): string => {
    requireOwnData(dir)
    return dir
  }
  return {
    registry: async (need, work) => withRegistry(own(), need, work),
    readList: async work => withList(own(), clock, 'read', work),
    withList: async (work, replacing) =>
      replacing === undefined
        ? withList(own(), clock, 'make', work)
        : withListToReplace(own(), clock, work, replacing),
    withFeeds: async work => withFeeds(own(), work),
    async listFeeds() {
      if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
      return listFeeds(own())
    },
    checkerStatus: async () => checkerStatusIn(dir).read(),
    has: () => ({
      registry: existsSync(join(dir, ACCESS_FILE)),
      list: existsSync(join(dir, PROXY_FILE)),
    }),
    shown: dir,
    scratch: scratchOf(dir),
  }
}

/** The nodes that have served from a database in the last day. @throws CommandError where it has no schema. */
export async function nodesOf(url: string, timeoutMs: number) {
  await using connection = openConnection({ url, timeoutMs, name: NAME })
  await requireSchema(connection, 'read', 'serve, restore, import or keys add makes its schema')
  return { shown: connection.shown, nodes: await createNodes(connection).list() }
}

const NO_LIST = ORIGINS[PROXY_FILE]

/** The name that the database shows for connections of commands. */
const NAME = 'proxylist command'

/** What became of a change of keys and plans that failed: each is one transaction, the last that its command sends. */
const outcomeOf = (failure: StoreError): string =>
  failure instanceof UnknownOutcome
    ? 'the change may be made, or be once the database answers: run it again then'
    : 'the change was not made'

/** @throws CommandError unless the schema is there, and newest where it is only read. */
async function requireSchema(connection: Connection, need: Need, origin: string): Promise<void> {
  const { shown } = connection
  const state = await schemaState(connection)
  if (state === 'none' && need !== 'make') {
    throw new CommandError(`the database ${shown} holds nothing of proxylist yet; ${origin}`)
  }
  if (state === 'older' && need === 'read') {
    throw new CommandError(
      `the database ${shown} was written by an earlier proxylist; serve, or a command that changes ` +
        'something, upgrades it for all machines',
    )
  }
  if (state !== 'newest') await migrate(connection)
}

/** The stores in a database; the list is read from the copy of a node in `dir`. */
function databaseStores(
  { url, timeoutMs }: { url: string; timeoutMs: number },
  dir: string,
  clock: Clock,
): Stores {
  /** Requires the schema, works and closes; `patient` waits longer. @throws CommandError */
  async function connected<T>(
    need: Need,
    origin: string,
    work: (quick: Connection, patient: Connection) => Promise<T>,
  ): Promise<T> {
    try {
      await using quick = openConnection({ url, timeoutMs, name: NAME })
      await using patient = openConnection({ url, ...PATIENT, name: NAME })
      await requireSchema(quick, need, origin)
      return await work(quick, patient)
    } catch (error) {
      throw error instanceof StoreError ? new CommandError(error.message) : error
    }
  }

  const sharedList = (patient: Connection): WritableList => {
    const { begin, importMark, count } = createSharedList(patient)
    return { begin, importMark, isEmpty: async () => (await count()) === 0 }
  }
  function copyDirectory(): string {
    if (listCopyOf(dir) !== null) return dir
    throw new CommandError(
      `there is no copy of the list in ${dir}: run this on a node, with its --data`,
    )
  }

  return {
    registry: (need, work) =>
      connected(need, ORIGINS[ACCESS_FILE], async (quick, patient) => {
        await using usage = createUsageStore({ url, timeoutMs, name: NAME })
        try {
          return await work(createRegistry(quick, usage, patient))
        } catch (error) {
          if (need === 'read' || !(error instanceof StoreError)) throw error
          throw new CommandError(`${error.message}; ${outcomeOf(error)}`)
        }
      }),
    readList: work => withList(copyDirectory(), clock, 'read', work),
    // This list is never damaged.
    withList: work =>
      connected('make', NO_LIST, async (_, patient) => await work(sharedList(patient))),
    withFeeds: work => connected('make', NO_LIST, async quick => work(createFeedStore(quick))),
    listFeeds: () => connected('read', NO_LIST, async quick => createFeedStore(quick).list()),
    checkerStatus: () => connected('read', NO_LIST, quick => createStatusStore(quick).read()),
    has: () => ({ registry: true, list: true }),
    shown: shownDatabase(url),
    scratch: scratchOf(dir),
  }
}

/** Opens the states of the feeds in `dir` when they are first used, until `opened` is disposed of. */
function feedStoreIn(dir: string, opened: DisposableStack): () => FeedStore {
  let store: FeedStore | null = null
  return () => {
    store ??= opened.use(openFeeds(dir, { isServer: true }))
    return store
  }
}

/** The first server on a data directory gets the lock of jobs, and has it until it ends. */
function jobLockIn(dir: string, opened: DisposableStack): () => boolean {
  let release: (() => void) | null = null
  opened.defer(() => release?.())
  return () => {
    release ??= lockPath(join(dir, 'jobs'), 0)
    return release !== null
  }
}

/** The stores of a checker; failures are `StoreError`s. */
export type Checking = {
  list: CheckerList
  store: CandidateStore
  status: CheckerStatusStore
  /** The states of the feeds; they are opened when they are first used. */
  openFeedStore(): Awaitable<FeedStore>
}

/** Works with the stores of the only checker of its data. @throws CommandError, also when it is not the only one. */
export async function withChecker<T>(
  { data: dir, database: url, databaseTimeout: timeoutMs }: StoreSettings,
  clock: Clock,
  work: (checking: Checking) => Promise<T>,
): Promise<T> {
  const withStore = (more: (store: ReturnType<typeof openCandidates>) => Promise<T>): Promise<T> =>
    withResource(join(dir, CHECKS_FILE), () => openCandidates(dir), more)
  if (url !== undefined) {
    return await withStore(store =>
      withCheckedDatabase(dir, { url, timeoutMs, name: NAME }, clock, parts =>
        work({ ...parts, store }),
      ),
    )
  }
  requireOwnData(dir)
  using opened = new DisposableStack()
  const openFeedStore = feedStoreIn(dir, opened)
  return await withStore(store =>
    withResource(
      join(dir, PROXY_FILE),
      () => openCheckerList(dir, clock),
      list => work({ list, store, status: store.status, openFeedStore }),
    ),
  )
}

/** As `withChecker` for a checker that leaves no file: its memory and its list are in SQLite databases in memory. */
export const withMemoryChecker = <T>(
  clock: Clock,
  work: (
    parts: Pick<Checking, 'store' | 'status'> & { list: ReturnType<typeof openCheckerList> },
  ) => Promise<T>,
): Promise<T> =>
  withResource(
    ':memory:',
    () => openCandidates(null),
    store =>
      withResource(
        ':memory:',
        () => openCheckerList(null, clock),
        list => work({ list, store, status: store.status }),
      ),
  )

export function findCandidate(dir: string, id: number) {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  return readCandidates(dir, ({ find }) => find(id))
}

/** The list of a database as a checker reads it: a copy in its data directory, up to date after `follow`. */
function openCheckerCopy(dir: string, quick: Connection, patient: Connection, clock: Clock) {
  requireCopy(dir)
  const copy = openListCopy(dir, clock)
  const { follow } = createList(quick, patient, copy)
  let opened: ReturnType<typeof openCheckerList> | null = null
  function close(): void {
    opened?.close()
    opened = null
  }
  return {
    follow,
    page(afterId: number) {
      if (opened?.isReplaced()) close() // by a snapshot
      opened ??= openCheckerList(dir, clock)
      return opened.page(afterId)
    },
    [Symbol.dispose](): void {
      close()
      copy.close()
    },
  }
}

/** Works with the stores of a checker in a database, while it holds the lock of the only checker. */
async function withCheckedDatabase<T>(
  dir: string,
  options: { url: string; timeoutMs: number; name: string },
  clock: Clock,
  work: (parts: Omit<Checking, 'store'>) => Promise<T>,
): Promise<T> {
  await using quick = openConnection(options)
  await using patient = openConnection({ ...options, ...PATIENT })
  await requireSchema(quick, 'make', NO_LIST)
  const lock = createLeaderLock('checker', options)
  const ticks = repeat(() => void lock.tick(), SECOND_MS)
  try {
    await lock.tick()
    if (!lock.isHeld()) {
      const { shown } = quick
      throw new CommandError(
        `another checker is at work on ${shown}: there is one for all machines`,
      )
    }
    using copy = openCheckerCopy(dir, quick, patient, clock)
    await copy.follow()
    const { read, write } = createStatusStore(quick)
    return await work({
      list: createCheckerList(patient, copy, lock.isHeld),
      status: { read, write: status => (lock.isHeld() ? write(status) : undefined) },
      openFeedStore: () => createFeedStore(quick),
    })
  } finally {
    ticks.stop()
    await lock.close()
  }
}

type ServerSettings = Settings<
  'data' | 'database' | 'databaseTimeout' | 'sample' | 'providerService'
>

type SampleList = { kind: 'sample' } & ReturnType<typeof openMemoryList>
type FileList = { kind: 'file' } & ReturnType<typeof openServerList>

/** What `serve` reads and writes; `node` is `null` where the data are this machine's own. */
export type Served = {
  observed: Observed
  /** Whether this server runs the jobs for all servers that share its data. */
  isLeader: () => boolean
  /** The states of the feeds; they are opened when they are first used. */
  openFeedStore(): Awaitable<FeedStore>
} & (
  | { node: null; registry: ReturnType<typeof openServerRegistry>; list: SampleList | FileList }
  | { node: Node; registry: Node['registry']; list: Node['list'] }
)

/** Opens the stores of a server that the settings choose, works with them, and closes them. */
export async function withServed(
  settings: ServerSettings,
  clock: Clock,
  log: Log,
  work: (served: Served) => Promise<void>,
): Promise<void> {
  const { data: dir, database: url, databaseTimeout: timeoutMs } = settings
  const provider = settings.providerService
  if (url !== undefined) {
    await using node = openNode({ dir, url, timeoutMs, provider, clock, log })
    const { registry, list, feeds } = node
    const observed = observeNode(dir, node)
    const { isLeader } = node
    return await work({ node, registry, list, observed, isLeader, openFeedStore: () => feeds })
  }
  requireOwnData(dir)
  const openList = (): SampleList | FileList =>
    settings.sample
      ? { kind: 'sample', ...openMemoryList() }
      : { kind: 'file', ...openServerList(dir, provider, clock, log.say) }
  using opened = new DisposableStack()
  const openFeedStore = feedStoreIn(dir, opened)
  return await withResource(
    join(dir, ACCESS_FILE),
    () => openServerRegistry(dir, log.say),
    registry =>
      withResource(join(dir, PROXY_FILE), openList, list =>
        work({
          node: null,
          registry,
          list,
          observed: observeData(dir, registry, list),
          isLeader: jobLockIn(dir, opened),
          openFeedStore,
        }),
      ),
  )
}
