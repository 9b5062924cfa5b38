/**
 * Owns what `doctor` reads of a data directory: problems, counts, and what lies in the future. Nothing
 * here creates or changes a file.
 */
import type { Subject } from '../access/rate-limit.ts'
import { SECOND_MS } from '../lib/time.ts'
import { checkRegistry } from './integrity/check.ts'
import { checkInWorker } from './integrity/check-in-worker.ts'
import { checkOpenList, type Tally } from './proxies/store.ts'
import { openList, openRegistry } from './stores.ts'

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
    list.close() // last: it keeps the stamp
  }
}

/** The number of proxies in `dir`, and of those checked since `sinceMs`. */
export function tallyList(dir: string, sinceMs: number): Tally {
  const { proxies, close } = openList(dir, { isReader: true })
  try {
    return proxies.tally(sinceMs)
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

/** The number of proxies in `dir` that were checked after `sinceMs`. */
export function countAfter(dir: string, sinceMs: number): number {
  const { proxies, close } = openList(dir, { isReader: true })
  try {
    return proxies.tally(sinceMs + SECOND_MS).recent
  } finally {
    close()
  }
}
