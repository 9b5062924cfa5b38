/**
 * Counting the long answers of a share over all servers on a data directory (contract B8, B9):
 * each holds the lock on one of as many files as the share may have. The operating system ends a
 * lock with its process, so nothing stays counted when a server is killed.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Share } from '../../access/entitlements.ts'
import { ApiError } from '../../api/errors.ts'
import { lockPlace } from '../file-lock.ts'

/** Ends a claim; calls after the first do nothing. */
export type Release = () => void
/** Counts a long answer of `share`; `null` if others have as many as it may have. */
export type Claim = (share: Share) => Release | null

/** Counts nothing, because there is no limit. */
const UNLIMITED: Release = () => {}

const LEFT_BEHIND = /^answer-[0-9a-z]+-\d+(?=\.lock$)/

/** Without the address or id, and without characters that a file name cannot have. */
const nameOf = ({ id, isTrial }: Share): string =>
  `answer-${Bun.hash.xxHash64(`${isTrial} ${id}`).toString(36)}`

/** Locks a place, in about 0.1 ms; `null` if another process has it. */
function lock(place: string): Release | null {
  try {
    return lockPlace(place, 0)
  } catch {
    throw new ApiError(
      'DB_EXECUTE_FAILED',
      'long answers cannot be counted, because the data directory cannot be written',
      { retryAfterSeconds: 1 },
    )
  }
}

/** Removes the files of killed servers. */
function removeLeftovers(dir: string): void {
  for (const name of readdirSync(dir)) {
    const place = LEFT_BEHIND.exec(name)?.[0]
    if (place === undefined) continue
    try {
      lockPlace(join(dir, place), 0)?.()
    } catch {
      // The directory cannot be written at the moment; the next start tries again.
    }
  }
}

/** Claims in a data directory. */
export function createClaims(dir: string) {
  /** The places that this server has locked. */
  const locked = new Map<string, Release>()
  removeLeftovers(dir)

  function take(place: string): Release | null {
    const unlock = locked.has(place) ? null : lock(place)
    if (unlock === null) return null
    locked.set(place, unlock)
    return () => {
      if (!locked.delete(place)) return
      try {
        unlock()
      } catch {
        // The lock has ended; only its file could not be removed.
      }
    }
  }

  const claim: Claim = share => {
    const { downloads } = share
    if (downloads === null) return UNLIMITED
    const name = nameOf(share)
    for (let n = 0; n < downloads; n += 1) {
      const release = take(join(dir, `${name}-${n}`))
      if (release !== null) return release
    }
    return null
  }
  return {
    /** @throws ApiError DB_EXECUTE_FAILED when the directory cannot be written. */
    claim,
    close(): void {
      for (const unlock of locked.values()) unlock()
      locked.clear()
    },
  }
}
