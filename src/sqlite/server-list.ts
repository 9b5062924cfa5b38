/** The list of a server: answers from it, streams by a worker, and its upkeep every second. */
import { join } from 'node:path'
import type { AnswerStreamer } from '../api/answer.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { startTask } from '../lib/worker.ts'
import type { ListChecks } from '../proxies/freshness.ts'
import type { ProxyReader, Removal, StatsSource } from '../proxies/store.ts'
import { PROXY_FILE } from './data-directory.ts'
import { removeDatabase, requireNotReplaced } from './database-files.ts'
import { isDamage, isDatabaseError } from './errors.ts'
import { createStatsReader, createStatsSource } from './proxies/stats.ts'
import type { RemoveTask } from './proxies/store.ts'
import { createStreamer, type StreamHooks } from './proxies/stream.ts'
import { forward, holdOpen } from './server.ts'
import { type List, openList } from './stores.ts'
import { createCheckpointer } from './wal.ts'

type Say = (sentence: string) => void

export type ServerList = ProxyReader & {
  /** Finds the answers that must be streamed; `null`: none must be. */
  streamer: AnswerStreamer | null
  checks(untilMs?: number): ListChecks
  importMark(): Awaitable<string>
  stats: StatsSource
  tick(): void
  close(): void
}

/** Opens the list in `dir`; call `tick` every second. A node's list is a copy, which it makes again when it is damaged. */
export function openServerList(
  dir: string,
  provider: string,
  clock: Clock,
  say: Say,
  { isCopy }: { isCopy: boolean } = { isCopy: false },
) {
  const file = join(dir, PROXY_FILE)
  const open = (mustExist = true): List => openList(dir, { clock, isServer: true, mustExist })
  function openFirst(): List | null {
    try {
      return open(isCopy)
    } catch (failure) {
      if (!isDatabaseError(failure)) throw failure
      return null // the first tick reports it
    }
  }
  const held = holdOpen(openFirst(), {
    ...{ file, open, say },
    ...(isCopy && { onDamage: () => removeDatabase(file) }),
  })
  const { use, generation, health, fail } = held
  const checkpointer = createCheckpointer(file, 'proxies')

  /** The hooks of work in a worker; `what` begins the sentence about a failure of the program. */
  const hooksFor = (what: string): StreamHooks => ({
    verify: () => use(({ db }) => requireNotReplaced(db, file)),
    onFailure(failure) {
      if (isDatabaseError(failure)) fail(failure)
      else say(`${what}: ${messageOf(failure)}`)
    },
  })
  const streamer = createStreamer({ file, provider }, hooksFor('a long answer was interrupted'))
  const stats = createStatsSource(file, hooksFor('the statistics could not be made'))

  return {
    streamer,
    stats,
    health,
    version: oncePerTurn(() => use(({ proxies }) => `${generation()}.${proxies.version()}`)),
    find: (filter, options) =>
      use(({ proxies }) => proxies.findQuickly(filter, options) ?? 'must-stream'),
    ...forward(use, ({ proxies }: List) => proxies, [
      'findByIds',
      'explainEmpty',
      'isEmpty',
      'importMark',
      'checks',
      'count',
    ]),
    /** Removes a slice of stale rows, see `ProxyWriter`, in a worker: it takes some 100 ms. */
    async removeStale(...stale: RemoveTask['stale']): Promise<Removal> {
      use(({ db }) => requireNotReplaced(db, file))
      const task = { kind: 'remove', file, database: 'proxies', stale } as const
      try {
        return await startTask<RemoveTask, Removal>('sqlite/database.worker.ts', task).result
      } catch (failure) {
        if (isDamage(failure)) fail(failure) // else an import has locked it, or the disk is full
        return { removed: 0, mayRemain: false }
      }
    },
    tick() {
      held.tick()
      try {
        use(({ db }) => checkpointer.tick(db))
      } catch {
        // The list is not open.
      }
    },
    close() {
      stats.close()
      streamer.close()
      checkpointer.close()
      held.close()
    },
  } satisfies ServerList & { [member: string]: unknown }
}

/** A list in memory, which only this process can change. It streams no answer. */
export function openMemoryList() {
  const list: List = openList(null)
  const { proxies } = list
  const answer = createStatsReader(list.db)
  return {
    list,
    streamer: null,
    stats: {
      answer: async request => answer(request),
      count: async nowMs => list.breakdown(nowMs),
    },
    version: () => String(proxies.version()),
    find: proxies.findAll,
    findByIds: proxies.findByIds,
    explainEmpty: proxies.explainEmpty,
    isEmpty: proxies.isEmpty,
    importMark: proxies.importMark,
    checks: proxies.checks,
    tick() {},
    close: list.close,
  } satisfies ServerList & { list: List }
}
