/**
 * Owns how a command uses a database that machines share: connecting, making or requiring the schema,
 * and reading the list from the copy that a node has on this machine, where there is one.
 */
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import { MINUTE_MS } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { type Connection, openConnection, shownDatabase } from '../postgres/connection.ts'
import { createFeedStore } from '../postgres/feeds.ts'
import { createListStore } from '../postgres/proxies/store.ts'
import { readList as readStoredList } from '../postgres/proxies/read.ts'
import { openRegistry } from '../postgres/registry.ts'
import { migrate, schemaState } from '../postgres/schema.ts'
import { listCopyOf } from '../sqlite/copy/copy-of.ts'
import { openFilledList } from '../sqlite/copy/memory.ts'
import { ORIGINS, PROXY_FILE, ACCESS_FILE } from '../sqlite/data-directory.ts'
import { readList as readListFile } from '../sqlite/stores.ts'
import type { ReadableList, Stores, WritableList } from './stores.ts'

/** The most that is waited for work on a whole list or many keys, in milliseconds. */
const LONG_MS = 30 * MINUTE_MS

/** What a command does: makes what is missing, changes what is there, or reads it. */
type Need = 'make' | 'change' | 'read'

type Origin = (typeof ORIGINS)[keyof typeof ORIGINS]

type Connections = {
  /** For statements that take no time. */
  quick: Connection
  /** For those that take as long as there is data. */
  patient: Connection
}

/** @throws CommandError unless the database has a schema that fits; makes or migrates it where needed. */
async function requireSchema(quick: Connection, { patient }: Connections, need: Need, origin: Origin) {
  const state = await schemaState(quick)
  if (state === 'none' && need !== 'make') {
    throw new CommandError(`the database ${quick.shown} holds nothing of proxylist yet; ${origin}`)
  }
  if (state === 'older' && need === 'read') {
    throw new CommandError(
      `the database ${quick.shown} was written by an earlier proxylist: serve, or a command that ` +
        'changes something, upgrades it for all machines',
    )
  }
  if (state !== 'newest') await migrate(patient)
}

/** The stores in a database; `dir` may hold the copies of a node. */
export function databaseStores(
  { url, timeoutMs }: { url: string; timeoutMs: number },
  dir: string,
  clock: Clock,
): Stores {
  async function within<T>(
    need: Need,
    origin: Origin,
    work: (connections: Connections) => Awaitable<T>,
  ): Promise<T> {
    const connect = (waitMs: number): Connection =>
      openConnection({ url, timeoutMs: waitMs, name: 'proxylist' })
    const connections = { quick: connect(timeoutMs), patient: connect(LONG_MS) }
    try {
      await requireSchema(connections.quick, connections, need, origin)
      return await work(connections)
    } catch (error) {
      throw error instanceof StoreError ? new CommandError(error.message) : error
    } finally {
      await Promise.all([connections.quick.close(), connections.patient.close()])
    }
  }

  const registry = <T>(need: Need, work: (registry: Registry) => Awaitable<T>): Promise<T> =>
    within(need, ORIGINS[ACCESS_FILE], async ({ quick, patient }) => {
      const { close, ...opened } = openRegistry(quick, patient)
      try {
        return await work(opened)
      } finally {
        await close()
      }
    })

  const list = <T>(need: Need, work: (list: WritableList) => Awaitable<T>): Promise<T> =>
    within(need, ORIGINS[PROXY_FILE], ({ patient }) => work(writableList(patient, clock)))

  /** Works with the copy of the list that a node of this database has in `dir`; `null`: there is none. */
  async function withCopy<T>(
    quick: Connection,
    work: (list: ReadableList) => Awaitable<T>,
  ): Promise<{ result: T } | null> {
    const copy = listCopyOf(dir)
    if (copy === null || copy.database !== (await installationOf(quick))) return null
    let hasBegun = false
    try {
      const result = await readListFile(dir, clock, opened => {
        hasBegun = true
        return work(opened)
      })
      return { result }
    } catch (error) {
      if (hasBegun) throw error
      return null // its node makes it again
    }
  }

  const readable = <T>(work: (list: ReadableList, connections: Connections) => Awaitable<T>)=>1

  return {
    withRegistry: work => registry('make', work),
    readRegistry: work => registry('read', work),
    changeRegistry: work => registry('change', work),
    withList: work => list('make', work),
    withListToReplace: work => list('make', work), // no list there is damaged
  }
}
