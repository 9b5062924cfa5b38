/**
 * How a node follows the database: when it asks, what it copies first, how old its copies are, and when it
 * must not answer any more because it cannot know what was revoked (contract I3). Knows neither PostgreSQL
 * nor SQLite.
 */
import type { SetTimer } from '../lib/clock.ts'
import { messageOf, StoreError } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type ChangeSource, type Copies, isSameVersion, type Version } from './ports.ts'

/** How often a node asks, whether or not something was announced. */
export const ASK_EVERY_MS = SECOND_MS
/** How often while the database is away. */
export const ASK_AGAIN_MS = SECOND_MS / 4
/**
 * The pause after a copy of the list that failed; it doubles with each failure: on a full disk, each
 * attempt reads the whole list from the database.
 */
const COPY_AGAIN_MS = SECOND_MS
const COPY_AGAIN_MS_MAX = 30 * SECOND_MS
/** So many changed rows are copied by the follower itself, which takes 0.3 s; more, elsewhere. */
export const FEW_ROWS_MAX = 20_000

/** What a node knows after it has asked, or copied: ages are milliseconds. */
export type Followed =
  | {
      kind: 'known'
      /** How long ago the keys were the newest; `null`: nothing new is known of them. */
      keysAgeMs: number | null
      /** How long ago the list was the newest; `null`: nothing new is known of it. */
      listAgeMs: number | null
      /** That of the copy; `null`: there is none of this database. */
      listVersion: number | null
    }
  /** Either the database cannot be asked, or keys not followed, or the list alone not be copied. */
  | { kind: 'failed'; what: 'keys' | 'list'; message: string }

const failed = (what: 'keys' | 'list', error: unknown): Followed => ({
  kind: 'failed',
  what,
  message: messageOf(error),
})

type FollowParts = {
  source: ChangeSource
  copies: Copies
  /** Copies the list elsewhere, which takes long; rejects when that failed. */
  copyMuch: () => Promise<void>
  onFollowed: (followed: Followed) => void
  elapsedMs: () => number
  later: SetTimer
}

/**
 * Follows the database from now on. Keys are asked for every second also while the list is copied:
 * what is revoked must not wait for a million rows.
 */
export function createFollower(parts: FollowParts) {
  const { source, copies, copyMuch, onFollowed, elapsedMs, later } = parts
  let isStopped = false
  const ended = Promise.withResolvers<void>()
  let isAsking = false
  /** Whether something was announced while the database was being asked. */
  let isAnnounced = false
  let cancel = (): void => {}
  let copying: Promise<void> | null = null
  let [pauseMs, pausedFromMs] = [0, 0]

  const listVersionIn = (database: string): number | null => {
    const own = copies.list.version()
    return own?.database === database ? own.version : null
  }

  /** Copies what has changed of the list, which may have changed again meanwhile. */
  async function copyList(): Promise<void> {
    const isDone = await source.readList(copies.list.version(), async changes => {
      if (changes.size > FEW_ROWS_MAX) return false
      await copies.list.apply(changes)
      return true
    })
    if (!isDone && !isStopped) await copyMuch()
  }

  /** Copies the list, unless that is under way; it is then as new as it was at `askedMs`. */
  function startCopying({ database }: Version, askedMs: number): void {
    copying ??= copyList()
      .then(
        (): Followed => ({
          kind: 'known',
          keysAgeMs: null,
          listAgeMs: elapsedMs() - askedMs,
          listVersion: listVersionIn(database),
        }),
        error => failed('list', error),
      )
      .then(followed => {
        copying = null
        pauseMs =
          followed.kind === 'known' ? 0 : Math.min(COPY_AGAIN_MS_MAX, pauseMs * 2 || COPY_AGAIN_MS)
        pausedFromMs = elapsedMs()
        onFollowed(followed)
        if (followed.kind === 'known') wake()
      })
  }

  /** @throws StoreError when there is a copy of another database: it may be all that is left of that. */
  function requireSameDatabase(database: string): void {
    const { dir, list, keys } = copies
    const isOther = [list, keys].some(copy => (copy.version()?.database ?? database) !== database)
    if (!isOther) return
    throw new StoreError(
      `it is another database than the copies in ${dir} are of: name the right one or restore its ` +
        `schema; if this one is meant, as after a restore, stop the node, remove ${dir} and start it`,
    )
  }

  /** Asks once; copies the keys if they have changed, and begins to copy the list if that has. */
  async function ask(): Promise<Followed> {
    const askedMs = elapsedMs()
    const newest = await source.versions()
    requireSameDatabase(newest.keys.database)
    const keys = copies.keys.version()
    if (!isSameVersion(keys, newest.keys)) await copies.keys.apply(await source.readKeys(keys))
    const isNewest = copying === null && isSameVersion(copies.list.version(), newest.list)
    const isPaused = elapsedMs() - pausedFromMs < pauseMs
    if (!isNewest && !isPaused && !isStopped) startCopying(newest.list, askedMs)
    const ageMs = elapsedMs() - askedMs
    return {
      kind: 'known',
      keysAgeMs: ageMs,
      listAgeMs: isNewest ? ageMs : null,
      listVersion: listVersionIn(newest.list.database),
    }
  }

  async function turn(): Promise<void> {
    isAsking = true
    isAnnounced = false
    cancel()
    const followed = await ask().catch(error => failed('keys', error))
    isAsking = false
    onFollowed(followed)
    if (isStopped) return ended.resolve()
    const isAway = followed.kind === 'failed'
    if (isAnnounced && !isAway) return turn()
    cancel = later(() => void turn(), isAway ? ASK_AGAIN_MS : ASK_EVERY_MS)
  }

  function wake(): void {
    isAnnounced = true
    if (!isAsking && !isStopped) void turn()
  }

  wake()
  return {
    wake,
    /** Ends following; resolves when nothing is asked or copied any more. Begins to copy nothing. */
    async stop(): Promise<void> {
      isStopped = true
      cancel()
      if (isAsking) await ended.promise
      await copying
    },
  }
}

/** A node whose keys are not known to be the newest for so long answers nobody. */
export const UNKNOWN_MS_MAX = 5 * SECOND_MS

/** The state of copies; `elapsedMs` is a clock that never steps. */
export function createFreshness(elapsedMs: () => number) {
  const startMs = elapsedMs()
  /** When a copy was last known to be the newest; `null`: not since the start. */
  let keysMs: number | null = null
  let listMs: number | null = null
  let listVersion: number | null = null

  return {
    take(followed: Followed): void {
      if (followed.kind === 'failed') return
      const { keysAgeMs, listAgeMs } = followed
      const nowMs = elapsedMs()
      if (keysAgeMs !== null) keysMs = nowMs - keysAgeMs
      if (listAgeMs !== null) listMs = nowMs - listAgeMs
      listVersion = followed.listVersion ?? listVersion
    },
    problem(): string | null {
      if (keysMs === null) return 'the database was not reached yet'
      if (elapsedMs() - keysMs > UNKNOWN_MS_MAX) {
        return `the database was not reached for ${UNKNOWN_MS_MAX / SECOND_MS} s`
      }
      return listVersion === null ? 'the list was not copied yet' : null
    },
    /** Seconds since both copies were last known to be the newest, or since the start. */
    lagSeconds: (): number =>
      (elapsedMs() - Math.min(keysMs ?? startMs, listMs ?? startMs)) / SECOND_MS,
    listVersion: (): number | null => listVersion,
    hasKeys: (): boolean => keysMs !== null,
  }
}
