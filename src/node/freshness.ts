/**
 * How old the copies of a node are, as far as its follower has said, and when the node must not
 * answer any more because it cannot know what was revoked (contract I3).
 */
import { SECOND_MS } from '../lib/time.ts'
import type { Followed } from './follow.ts'

/** A node whose keys are not known to be the newest for so long answers nobody. */
export const UNKNOWN_MS_MAX = 5 * SECOND_MS

/** The state of copies; `elapsedMs` is a clock that never steps. */
export function createFreshness(elapsedMs: () => number) {
  const startMs = elapsedMs()
  /** When a copy was last known to be the newest; `null`: not since the start. */
  let keysMs: number | null = null
  let listMs: number | null = null
  let listVersion: number | null = null
  let failures = 0
  let works = false

  return {
    /** Takes what the follower says. */
    take(followed: Followed): void {
      if (followed.kind === 'failed') {
        failures += 1
        works &&= followed.what === 'list'
        return
      }
      works = true
      const { keysAgeMs, listAgeMs } = followed
      const nowMs = elapsedMs()
      if (keysAgeMs !== null) keysMs = nowMs - keysAgeMs
      if (listAgeMs !== null) listMs = nowMs - listAgeMs
      listVersion = followed.listVersion ?? listVersion
    },
    /** Why requests cannot be answered; `null`: they can. */
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
    /** The version of the copy of the list; `null`: there is none of this database. */
    listVersion: (): number | null => listVersion,
    /** Whether there is a copy of the keys that was the newest since the start. */
    hasKeys: (): boolean => keysMs !== null,
    health: () => ({ works, failures }),
  }
}
