/**
 * Owns how a command uses a database that machines share: connecting, making or requiring the schema,
 * and reading the list from the copy that a node has on this machine, where there is one.
 */
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Registry } from '../access/ports.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { createRegistry, PATIENT_MS } from '../postgres/access/registry.ts'
import { type Connection, openConnection, shownDatabase } from '../postgres/connection.ts'
import { createFeedStore } from '../postgres/feeds.ts'
import { readListChanges } from '../postgres/proxies/read.ts'
import { createListStore } from '../postgres/proxies/store.ts'
import { installationOf, migrate, schemaState } from '../postgres/schema.ts'
import { createUsageStore } from '../postgres/usage/usage.ts'
import { listCopyOf } from '../sqlite/copy/copy-of.ts'
import { openListInMemory } from '../sqlite/copy/memory.ts'
import { ACCESS_FILE, ORIGINS, PROXY_FILE } from '../sqlite/data-directory.ts'
import { readList as readCopy } from '../sqlite/stores.ts'
import type { ReadableList, Say, Stores, WritableList } from './command-stores.ts'

const NO_KEYS = ORIGINS[ACCESS_FILE]
const NO_LIST = ORIGINS[PROXY_FILE]

/** What the server shows of connections of commands. */
const NAME = 'proxylist command'

/** What a command does: makes what is missing, changes what is there, or reads it. */
type Need = 'make' | 'change' | 'read'

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

/** What an import writes; `patient` waits as long as that takes. */
function writableList(patient: Connection, clock: Clock): WritableList {
  const { begin, extent } = createListStore(patient, clock)
  return { begin, isEmpty: async () => (await extent()).rows === 0 }
}

/** Works with the whole list, in memory: it is read by the code that reads one of a data directory. */
async function withFilled<T>(
  patient: Connection,
  work: (list: ReadableList) => Awaitable<T>,
): Promise<T> {
  const list = await readListChanges(patient, null, openListInMemory)
  try {
    return await work(list)
  } finally {
    list.close()
  }
}

/**
 * Returns a function that requires the schema, works and closes; its connections are opened when they are
 * first used, and `patient` waits longer. It throws a `StoreError` when the database fails.
 */
const createConnected =
  (url: string, timeoutMs: number) =>
  async <T>(
    need: Need,
    origin: string,
    work: (quick: Connection, patient: Connection) => Promise<T>,
  ): Promise<T> => {
    const quick = openConnection({ url, timeoutMs, name: NAME })
    const patient = openConnection({ url, timeoutMs: PATIENT_MS, name: NAME })
    try {
      await requireSchema(quick, need, origin)
      return await work(quick, patient)
    } finally {
      await Promise.all([quick.close(), patient.close()])
    }
  }

/** The stores in a database; `dir` may hold the copies of a node. */
export function databaseStores(
  { url, timeoutMs }: { url: string; timeoutMs: number },
  dir: string,
  clock: Clock,
): Stores {
  const place = shownDatabase(url)
  const connected = createConnected(url, timeoutMs)

  /** The same for what nothing but the database has. */
  const within: typeof connected = (...how) =>
    connected(...how).catch(error => {
      throw error instanceof StoreError ? new CommandError(error.message) : error
    })

  const withKeys = <T>(need: Need, work: (registry: Registry) => Awaitable<T>): Promise<T> =>
    within(need, NO_KEYS, async (quick, patient) => {
      const usage = createUsageStore({ url, timeoutMs, name: NAME })
      try {
        return await work(createRegistry(quick, usage, patient))
      } finally {
        await usage.close()
      }
    })

  const withList = <T>(work: (list: WritableList) => Awaitable<T>): Promise<T> =>
    within('make', NO_LIST, async (_, patient) => work(writableList(patient, clock)))

  /**
   * Whether `dir` has the copy that a node of this database reads. While the database is away, nobody can
   * tell that from one of another database, so `say` is called with what it is.
   */
  async function hasCopy(say: Say): Promise<boolean> {
    const copy = listCopyOf(dir)
    if (copy === null) return false
    try {
      return copy.database === (await connected('read', NO_LIST, installationOf))
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      say(`${error.message}; this is version ${copy.version} of the list, from the copy in ${dir}`)
      return true
    }
  }

  return {
    withRegistry: work => withKeys('make', work),
    readRegistry: work => withKeys('read', work),
    changeRegistry: work => withKeys('change', work),
    withList,
    withListToReplace: withList, // this list is never damaged
    async readList(work, say) {
      if (await hasCopy(say)) return readCopy(dir, clock, work)
      return within('read', NO_LIST, (_, patient) => withFilled(patient, work))
    },
    async readBreakdown(nowMs, say) {
      if (await hasCopy(say)) return readCopy(dir, clock, list => list.breakdown(nowMs))
      return within('read', NO_LIST, (_, patient) =>
        createListStore(patient, clock).breakdown(nowMs),
      )
    },
    changeList: work =>
      within('change', NO_LIST, (_, patient) =>
        withFilled(patient, list => work({ ...list, ...writableList(patient, clock) })),
      ),
    withFeeds: work => within('make', NO_LIST, async quick => work(createFeedStore(quick))),
    listFeeds: () => within('read', NO_LIST, async quick => createFeedStore(quick).list()),
    has: () => ({ registry: true, list: true }),
    place,
    scratch: existsSync(dir) ? dir : tmpdir(),
  }
}
