/**
 * Owns what `doctor` reads of a data directory: problems, counts, and what lies in the future. Nothing
 * here creates or changes a file.
 */
import type { Subject } from '../access/rate-limit.ts'
import { checkInWorker, checkRegistry } from './check.ts'
import { freshStart, leftoversOf } from './database-files.ts'
import { RESTORE_PART } from './move/place.ts'
import { checkOpenList, type Tally } from './proxies/store.ts'
import { openList, openRegistry, PROXY_FILE } from './stores.ts'

/** The problems of keys, plans and usage in `dir`; none when they are intact. */
export function registryProblems(dir: string): string[] {
  const { db, close } = openRegistry(dir, { isReader: true })
  try {
    return checkRegistry(db)
  } finally {
    close()
  }
}

/** The problems of the list in `dir`; none when it is intact. Reads all of it, in a worker. */
export async function listProblems(dir: string, signal: AbortSignal): Promise<readonly string[]> {
  const list = openList(dir, { isReader: true })
  try {
    const isCopy = list.db.filename !== list.file
    return isCopy ? checkOpenList(list.db) : await checkInWorker(list.file, signal)
  } finally {
    list.close()
  }
}

/** The number of proxies in `dir`, and by when they were checked, see `Tally`. */
export function tallyList(dir: string, sinceMs: number, untilMs: number): Tally {
  const { proxies, close } = openList(dir, { isReader: true })
  try {
    return proxies.tally(sinceMs, untilMs)
  } finally {
    close()
  }
}

/**
 * Keys and client addresses in `dir` whose last admission lies after `nowMs`, because a clock was
 * ahead (contract B10).
 */
export function subjectsAhead(dir: string, nowMs: number): Subject[] {
  const { usage, close } = openRegistry(dir, { isReader: true })
  try {
    return usage.after(nowMs)
  } finally {
    close()
  }
}

/** The names of what killed commands left in `dir`: copies of the data, or parts of them. */
export const leftovers = (dir: string): string[] =>
  [RESTORE_PART, freshStart(PROXY_FILE)].flatMap(start => leftoversOf(dir, start))
