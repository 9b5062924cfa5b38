/** The worker that counts the list by type, country and age while the server answers. */
import { systemClock } from '../../lib/clock.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Breakdown } from '../../proxies/breakdown.ts'
import { openListFile, readBreakdown } from './store.ts'

/** A list to be counted as it is at `nowSeconds`. */
export type CountTask = { file: string; nowSeconds: number }
export type Counted =
  | { kind: 'counted'; breakdown: Breakdown }
  | { kind: 'failed'; message: string }

/** The list is read once and in order: a large cache would only cost memory. */
const CACHE_KIB = 4 * 1024

declare const self: Worker

function count({ file, nowSeconds }: CountTask): Counted {
  try {
    const mode = { isServer: true, mustExist: true, cacheKib: CACHE_KIB }
    const db = openListFile(file, systemClock, mode)
    try {
      return { kind: 'counted', breakdown: readBreakdown(db, nowSeconds) }
    } finally {
      db.close(true)
    }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  }
}

self.onmessage = ({ data }: MessageEvent<CountTask>) => self.postMessage(count(data))
