/** Retention: removes proxies that were not checked recently, and usage that no limit needs. */

import type { UsageStore } from '../access/ports.ts'
import type { Clock } from '../lib/clock.ts'
import { formatCount } from '../lib/plural.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, type OnFailure, repeatInSlices } from './runner.ts'

/** Delay of the first prune of usage: a starting server answers requests first. */
const FIRST_PRUNE_MS = 10 * SECOND_MS

/** A round that removes this many rows is reported: the clock may be wrong, or a feed has stopped. */
const MANY_ROWS = 1_000

/** Removes proxies that were last checked longer than `retainMs` ago, see `ProxyWriter`. */
export function retainProxies(
  list: Pick<ProxyWriter, 'removeStale'>,
  retainMs: number,
  clock: Clock,
  { say, onFailure }: { say: (sentence: string) => void; onFailure: OnFailure },
): Job {
  let removed = 0
  const removeSlice = async (): Promise<boolean> => {
    const slice = await list.removeStale(retainMs, clock())
    removed += slice.removed
    if (slice.mayRemain) return true
    if (removed >= MANY_ROWS) {
      say(`removed ${formatCount(removed)} proxies, last checked longer ago than --retain`)
    }
    removed = 0
    return false
  }
  return repeatInSlices(removeSlice, MINUTE_MS, onFailure)
}

/** Removes usage that no limit needs. */
export const pruneUsage = (
  usage: Pick<UsageStore, 'prune'>,
  clock: Clock,
  onFailure: OnFailure,
): Job => repeatInSlices(() => usage.prune(clock()), MINUTE_MS, onFailure, FIRST_PRUNE_MS)
