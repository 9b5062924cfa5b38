/**
 * Owns the list as the server holds it: supervised, used only while its file is in place and known
 * to be intact, and checked in a worker where that is not known.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { AnswerStreamer } from '../api/answer.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf, StoreError } from '../lib/errors.ts'
import { oncePerTurn } from '../lib/turn-batch.ts'
import type { ProxyReader, Removal, StatsSource } from '../proxies/store.ts'
import type { Checked } from './check.worker.ts'
import { startCheck } from './check-in-worker.ts'
import { createCheckpointer, hasLongWal } from './checkpoint.ts'
import type { OpenMode } from './database.ts'
import { isDamage, isStoreFailure } from './errors.ts'
import {
  closeSafely,
  type Fingerprint,
  fingerprintOf,
  isSameFile,
  isStamped,
  keepStamp,
  removeStamp,
  watchFile,
} from './integrity/file-stamp.ts'
import { makeStats } from './proxies/counts.ts'
import { createStatsSource } from './proxies/stats.ts'
import { createStreamer, type StreamHooks } from './proxies/stream.ts'
import { damagedList, type List, openList, PROXY_FILE } from './stores.ts'
import { WAL_BOUND } from './streaming/exchange.ts'
import { supervise } from './supervise.ts'
import { trimWal } from './wal.ts'

type Say = (sentence: string) => void

/** Calls of `tick` between two regular checks of the list. */
const CHECK_EVERY = 3600
/** Calls of `tick` before the first check, which would slow down the start of the server. */
const FIRST_CHECK = 10
/** Calls of `tick` for which another process may leave its change of the list unstamped. */
const UNSTAMPED_MAX = 10

/** Checks the list in `file` in a worker, one check at a time. */
function createChecker(file: string, onChecked: (checked: Checked) => void) {
  let stop: (() => void) | null = null
  return {
    start(): void {
      stop ??= startCheck(file, checked => {
        stop = null
        onChecked(checked)
      })
    },
    close: (): void => stop?.(),
  }
}

type Opened = { db: Database; fingerprint: Fingerprint | null }

/** Closes a list. At the end of the server, one with a long WAL is left open: see below. */
function closeList(list: Opened, file: string, nowMs: number, isEnding: boolean): void {
  const { db, fingerprint } = list
  // Closing it would copy the WAL first. As after a kill it stays, and the next server empties it.
  if (isEnding && hasLongWal(db)) return
  keepStamp(db, file, nowMs)
  closeSafely(db, file, fingerprint)
}

/** The list in `dir`, supervised, and the check that decides whether it may be used. */
function superviseList(dir: string, clock: Clock, say: Say, isCopy: boolean) {
  const file = join(dir, PROXY_FILE)
  /** Why the list may not be used until its file changes, or a check finds it intact. */
  let damage: { failure: StoreError; fingerprint: Fingerprint | null } | null = null
  let doubt: StoreError | null = null
  /** The file as a check has found it intact: not every file system keeps a stamp. */
  let intact: Fingerprint | null = null
  /** Whether the server ends. */
  let isEnding = false

  const checker = createChecker(file, checked => {
    if (checked.kind === 'failed') return say(`${file} could not be checked: ${checked.message}`)
    doubt = null
    intact = checked.fingerprint
    if (checked.problems.length > 0) {
      const failure = damagedList(file, checked.problems)
      damage = { failure, fingerprint: fingerprintOf(file) }
      supervisor.fail(failure)
    }
    supervisor.tick()
  })

  function open(mode: OpenMode = { mustExist: isCopy }) {
    if (damage && isSameFile(damage.fingerprint, fingerprintOf(file))) throw damage.failure
    const list = openList(dir, { clock, isServer: true, ...mode })
    const opened = { ...list, fingerprint: fingerprintOf(file), watch: watchFile(list.db, file) }
    const isIntact = isStamped(list.db, file) || (intact && isSameFile(intact, opened.fingerprint))
    if (isIntact) return { ...opened, verify: oncePerTurn(opened.watch.verify) }
    list.close()
    doubt ??= new StoreError(`${file} was not closed properly and is being checked`)
    checker.start()
    throw doubt
  }
  function openFirst(): ReturnType<typeof open> | null {
    try {
      return open()
    } catch (failure) {
      if (!isStoreFailure(failure)) throw failure
      return null // the first tick reports it
    }
  }
  const supervisor = supervise(openFirst(), {
    file,
    reopen: () => open({ mustExist: true }),
    close: list => closeList(list, file, clock(), isEnding),
    verify: ({ watch }) => watch.verify(),
    probe: ({ proxies }) => void proxies.isEmpty(),
    onFailure(failure) {
      if (failure instanceof StoreError) doubt ??= failure
      if (isDamage(failure)) removeStamp(file)
    },
    say,
  })
  return {
    ...supervisor,
    check: checker.start,
    close(): void {
      isEnding = true
      checker.close()
      supervisor.close()
    },
  }
}

/** A list as the server uses it: the reader's port, streaming, and supervision. */
export type ServerList = ProxyReader & {
  /** Streams answers that the reader finds too large; `null` if it finds none too large. */
  streamer: AnswerStreamer | null
  /** The number of rows according to the checksum, and the newest check in milliseconds. */
  extent(): { rows: number; newestMs: number | null }
  stats: StatsSource
  tick(): void
  close(): void
}

/** What finds proxies in a supervised list, without making other requests wait. */
function createFinder(
  use: ReturnType<typeof superviseList>['use'],
): Omit<ProxyReader, 'version'> & Pick<ServerList, 'extent'> {
  return {
    find: (filter, options) =>
      use(({ proxies }) => proxies.findQuickly(filter, options, proxies.version()) ?? 'too-large'),
    findEndpoints: (filter, options) =>
      use(
        ({ proxies }) =>
          proxies.endpoints.findQuickly(filter, options, proxies.version()) ?? 'too-large',
      ),
    findByIds: (filter, options, ids) =>
      use(({ proxies }) => proxies.findByIds(filter, options, ids)),
    lacks: filter => use(({ proxies }) => proxies.lacks(filter)),
    hasType: types => use(({ proxies }) => proxies.hasType(types)),
    isEmpty: () => use(({ proxies }) => proxies.isEmpty()),
    extent: () => use(({ proxies }) => proxies.extent()),
  }
}

/** Returns the hooks of work in a worker; `what` begins the sentence about a failure that is our own. */
const createHooks =
  ({ use, fail, report }: ReturnType<typeof superviseList>, say: Say) =>
  (what: string): StreamHooks => ({
    /** Throws unless the list is intact, as far as that is known without a check. */
    verify: () => use(({ verify }) => verify()),
    onFailure(failure) {
      if (isDamage(failure)) fail(failure)
      else if (isStoreFailure(failure)) report(failure)
      else say(`${what}: ${messageOf(failure)}`)
    },
  })

/**
 * The list in `dir`; `tick` is to be called every second. A copy is not created here: what follows the
 * database does that.
 */
export function openServerList(
  dir: string,
  provider: string,
  clock: Clock,
  say: Say,
  { isCopy }: { isCopy: boolean } = { isCopy: false },
) {
  const supervised = superviseList(dir, clock, say, isCopy)
  const { use, generation, check, health } = supervised
  const versionText = createVersionText()
  const file = join(dir, PROXY_FILE)
  const checkpointer = createCheckpointer(file, 'proxies')
  let ticks = 0
  let unstampedTicks = 0
  let isSwept = true

  const hooksFor = createHooks(supervised, say)
  const streamer = createStreamer(
    { file, provider, walBound: WAL_BOUND },
    hooksFor('a long answer was interrupted'),
  )
  const stats = createStatsSource(file, hooksFor('the statistics could not be made'))

  const list: ServerList = {
    streamer,
    stats,
    version: () =>
      use(({ verify, proxies }) => {
        verify()
        return versionText(generation(), proxies.version())
      }),
    ...createFinder(use),
    tick() {
      supervised.tick()
      if (ticks++ % CHECK_EVERY === FIRST_CHECK) check()
      try {
        use(({ db, file }) => {
          checkpointer.tick(db)
          trimWal(db, file)
        })
        unstampedTicks = use(({ watch }) => watch.isUnstamped()) ? unstampedTicks + 1 : 0
      } catch {
        unstampedTicks = 0 // there is no list at the moment
      }
      if (unstampedTicks > UNSTAMPED_MAX) check()
    },
    close() {
      stats.close()
      streamer.close()
      checkpointer.close()
      supervised.close()
    },
  }
  return {
    ...list,
    health,
    /** Removes a slice of stale rows, see `ProxyWriter`. */
    removeStale: (retainMs: number, nowMs: number): Removal =>
      use(({ proxies, settle }) => {
        const { rows: rowsBefore, newestMs } = proxies.extent()
        let removed = 0
        try {
          const found = proxies.removeOlderThan(Math.min(nowMs, newestMs ?? nowMs) - retainMs)
          removed = found.removed
          isSwept &&= removed === 0
          if (found.mayRemain) return { removed, rowsBefore, mayRemain: true }
          if (!isSwept) settle()
          isSwept = true
        } catch (failure) {
          if (isDamage(failure)) throw failure // else an import has locked it, or the disk is full
        }
        return { removed, rowsBefore, mayRemain: false }
      }),
  }
}

/** Returns a function that writes a version as a string, the same one until it changes. */
export function createVersionText() {
  let known = { generation: -1, changes: -1, text: '' }
  return (generation: number, changes: number): string => {
    if (known.generation !== generation || known.changes !== changes) {
      known = { generation, changes, text: `${generation}.${changes}` }
    }
    return known.text
  }
}

/** A list in memory. Only this process can change it, and it finds no answer too large. */
export function openMemoryList() {
  const list: List = openList(null)
  const { proxies } = list
  return {
    list,
    streamer: null,
    /** In process: the sample is small. */
    stats: {
      make: async request => makeStats(list.db, request),
      count: async nowMs => list.breakdown(nowMs),
    },
    version: () => String(proxies.version()),
    ...list.finder,
    findByIds: proxies.findByIds,
    lacks: proxies.lacks,
    hasType: types => proxies.hasType(types, true),
    isEmpty: proxies.isEmpty,
    extent: proxies.extent,
    tick() {},
    close: list.close,
  } satisfies ServerList & { list: List }
}
