/**
 * The list as the server holds it: supervised, used only while its file is in place, and checked in a
 * worker.
 */
import { join } from 'node:path'
import type { AnswerStreamer } from '../api/answer.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import { startTask } from '../lib/worker.ts'
import type { ListChecks } from '../proxies/freshness.ts'
import type { ProxyReader, Removal, StatsSource } from '../proxies/store.ts'
import { PROXY_FILE } from './data-directory.ts'
import { requireHeader } from './database.ts'
import { closeSafely, filesOf, removeDatabase, requireSameFile } from './database-files.ts'
import { isDamage, isStoreFailure } from './errors.ts'
import { createStatsReader, createStatsSource } from './proxies/stats.ts'
import { LIST_SCRIPTS, type RemoveTask } from './proxies/store.ts'
import { createStreamer, type StreamHooks } from './proxies/stream.ts'
import { type List, openList } from './stores.ts'
import { superviseChecked } from './supervise-checked.ts'
import { createCheckpointer, hasLongWal, requireLength, trimWal } from './wal.ts'

type Say = (sentence: string) => void

/** A list as the server uses it: the reader's port, streaming, and supervision. */
export type ServerList = ProxyReader & {
  /** Streams answers that the reader finds too large; `null` if it finds none too large. */
  streamer: AnswerStreamer | null
  checks(untilMs?: number): ListChecks
  stats: StatsSource
  tick(): void
  close(): void
}

/** The list in `dir`; `tick` is to be called every second. A copy is made by what follows the database. */
export function openServerList(
  dir: string,
  provider: string,
  clock: Clock,
  say: Say,
  { isCopy }: { isCopy: boolean } = { isCopy: false },
) {
  const file = join(dir, PROXY_FILE)
  let isEnding = false

  function open(mustExist = true) {
    const list = openList(dir, { clock, isServer: true, mustExist })
    const fingerprint = filesOf(list.db, file)
    let bytes = fingerprint?.size ?? 0
    /** @throws StoreError when the file is not in its place, or was cut. */
    function requirePlace(): void {
      const { size } = requireSameFile(file, fingerprint)
      if (size < bytes) requireLength(list.db, file) // `shrink` makes it shorter, too
      bytes = size
    }
    return { ...list, fingerprint, requirePlace }
  }
  function openFirst(): ReturnType<typeof open> | null {
    try {
      return open(isCopy)
    } catch (failure) {
      if (!isStoreFailure(failure)) throw failure
      return null // the first tick reports it
    }
  }
  const supervised = superviseChecked(openFirst(), {
    ...{ file, holds: 'proxies', scripts: LIST_SCRIPTS, say },
    reopen: open,
    close({ db, fingerprint }) {
      // Closing would copy a long WAL first. As after a kill it stays, and the next server empties it.
      if (!isEnding || !hasLongWal(db)) closeSafely(db, file, fingerprint)
    },
    verify({ requirePlace }) {
      requirePlace()
      requireHeader(file, 'proxies')
    },
    probe: ({ proxies }) => void proxies.isEmpty(),
    // What follows the database makes a copy again.
    ...(isCopy && { onDamage: () => removeDatabase(file) }),
  })
  const { use, generation, health, fail, report } = supervised
  const checkpointer = createCheckpointer(file, 'proxies')

  /** The hooks of work in a worker; `what` begins the sentence about a failure that is our own. */
  const hooksFor = (what: string): StreamHooks => ({
    verify: () => use(({ requirePlace }) => requirePlace()),
    onFailure(failure) {
      if (isDamage(failure)) fail(failure)
      else if (isStoreFailure(failure)) report(failure)
      else say(`${what}: ${messageOf(failure)}`)
    },
  })
  const streamer = createStreamer({ file, provider }, hooksFor('a long answer was interrupted'))
  const stats = createStatsSource(file, hooksFor('the statistics could not be made'))

  return {
    streamer,
    stats,
    health,
    version: oncePerTurn(() =>
      use(({ requirePlace, proxies }) => {
        requirePlace()
        return `${generation()}.${proxies.version()}`
      }),
    ),
    find: (filter, options) =>
      use(({ proxies }) => proxies.findQuickly(filter, options) ?? 'too-large'),
    findEndpoints: (filter, options) =>
      use(({ proxies }) => proxies.endpoints.findQuickly(filter, options) ?? 'too-large'),
    findByIds: (filter, options, ids) =>
      use(({ proxies }) => proxies.findByIds(filter, options, ids)),
    lacks: filter => use(({ proxies }) => proxies.lacks(filter)),
    isEmpty: () => use(({ proxies }) => proxies.isEmpty()),
    /** Removes a slice of stale rows, see `ProxyWriter`, in a worker: it takes some 100 ms. */
    async removeStale(...stale: RemoveTask['stale']): Promise<Removal> {
      use(({ requirePlace }) => requirePlace())
      const task = { kind: 'remove', file, holds: 'proxies', stale } as const
      try {
        return await startTask<RemoveTask, Removal>('sqlite/database.worker.ts', task).result
      } catch (failure) {
        if (isDamage(failure)) fail(failure) // else an import has locked it, or the disk is full
        return { removed: 0, mayRemain: false }
      }
    },
    checks: untilMs => use(({ proxies }) => proxies.checks(untilMs)),
    count: (): number => use(({ proxies }) => proxies.count()),
    tick() {
      supervised.tick()
      try {
        use(({ db }) => {
          checkpointer.tick(db)
          trimWal(db, file)
        })
      } catch {
        // There is no list at the moment.
      }
    },
    close() {
      stats.close()
      streamer.close()
      checkpointer.close()
      isEnding = true
      supervised.close()
    },
  } satisfies ServerList & { [member: string]: unknown }
}

/** A list in memory. Only this process can change it, and it finds no answer too large. */
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
    ...list.finder,
    findByIds: proxies.findByIds,
    lacks: proxies.lacks,
    isEmpty: proxies.isEmpty,
    checks: proxies.checks,
    tick() {},
    close: list.close,
  } satisfies ServerList & { list: List }
}
