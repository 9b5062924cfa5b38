/**
 * Owns how a node follows the database: when it asks, what it copies first, and what it knows of the
 * age of its copies. Knows neither PostgreSQL nor SQLite.
 */
import type { Later } from '../access/auth-throttle.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type ChangeSource, type CopyWriter, isSameVersion, type Version } from './store.ts'

/** How often a node asks, whether or not something was announced. */
export const ASK_EVERY_MS = SECOND_MS
/** So many changed rows are copied at once, before the keys are asked for again; it takes 0.3 s. */
export const FEW_ROWS_MAX = 20_000

/** What a node knows of its copies after it has asked. */
export type Followed =
  /** `keys`, `list`: whether that copy was the newest when the database was asked. */
  | { kind: 'asked'; keys: boolean; list: boolean; listVersion: number | null; tookMs: number }
  | { kind: 'failed'; failure: unknown }

export type FollowParts = {
  source: ChangeSource
  writer: CopyWriter
  /** Copies what is too much to be copied here; resolves when that is over, and rejects when it failed. */
  copyMuch: () => Promise<void>
  /** Called after each time that the database was asked. */
  onFollowed: (followed: Followed) => void
  elapsedMs: () => number
  later: Later
}

/** Copies the keys if they have changed. */
async function followKeys({ source, writer }: FollowParts, newest: Version): Promise<void> {
  const own = writer.keysVersion()
  if (isSameVersion(own, newest)) return
  await writer.applyKeys(await source.readKeys(own))
}

/** Copies the list if it has changed, unless that is too much. */
async function followList(
  { source, writer }: FollowParts,
  newest: Version,
): Promise<'newest' | 'much'> {
  const own = writer.listVersion()
  if (isSameVersion(own, newest)) return 'newest'
  return source.readList(own, async changes => {
    if (changes.size > FEW_ROWS_MAX) return 'much'
    await writer.applyList(changes)
    return 'newest'
  })
}

/**
 * Follows the database from now on. Keys come first, and are asked for while much of the list is
 * copied elsewhere: what is revoked must not wait for a million rows.
 */
export function createFollower(parts: FollowParts) {
  const { source, writer, copyMuch, onFollowed, elapsedMs, later } = parts
  let isStopped = false
  let isAsking = false
  /** Whether something was announced while the database was being asked. */
  let isAnnounced = false
  let isCopying = false
  let cancel = (): void => {}

  function startCopying(): void {
    isCopying = true
    void copyMuch()
      .catch(failure => onFollowed({ kind: 'failed', failure }))
      .finally(() => {
        isCopying = false
        wake()
      })
  }

  /** Asks once, and copies what has changed. */
  async function follow(): Promise<Followed> {
    const beganMs = elapsedMs()
    const newest = await source.versions()
    await followKeys(parts, newest.keys)
    let list = false
    if (!isCopying) {
      list = (await followList(parts, newest.list)) === 'newest'
      if (!list && !isStopped) startCopying()
    }
    const own = writer.listVersion()
    const listVersion = own?.database === newest.list.database ? own.version : null
    return { kind: 'asked', keys: true, list, listVersion, tookMs: elapsedMs() - beganMs }
  }

  async function turn(): Promise<void> {
    isAsking = true
    isAnnounced = false
    cancel()
    const followed = await follow().catch((failure): Followed => ({ kind: 'failed', failure }))
    isAsking = false
    onFollowed(followed)
    if (isStopped) return ended.resolve()
    if (isAnnounced && followed.kind !== 'failed') return void turn()
    cancel = later(() => void turn(), ASK_EVERY_MS)
  }

  /** Asks now, or once more when it is asking. */
  function wake(): void {
    isAnnounced = true
    if (!isAsking && !isStopped) void turn()
  }

  const ended = Promise.withResolvers<void>()
  wake()
  return {
    wake,
    /** Ends following; resolves when nothing is being copied here. */
    stop(): Promise<void> {
      isStopped = true
      cancel()
      if (!isAsking) ended.resolve()
      return ended.promise
    },
  }
}
