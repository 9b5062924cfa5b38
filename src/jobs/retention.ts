/** Retention: removes proxies that were not checked recently, and usage that no limit needs. */

import type { UsageStore } from '../access/ports.ts'
import type { Clock } from '../lib/clock.ts'
import { counted } from '../lib/counted.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, type OnFailure, repeatInSlices } from './runner.ts'

/** Delay of the first prune of usage: a starting server answers requests first. */
const FIRST_PRUNE_MS = 10 * SECOND_MS

/** A round that removes this many rows is reported, or this share of the list if it is at least `FEW_ROWS`. */
const MANY_ROWS = 1_000
const MANY_SHARE = 1 / 10
const FEW_ROWS = 100

/**
 * Removes proxies that were last checked longer than `retainMs` ago, see `ProxyWriter`. Reports how many if
 * there are many: the clock may be wrong, or a feed has stopped.
 */
export function retainProxies(
  list: Pick<ProxyWriter, 'removeStale' | 'count'>,
  retainMs: number,
  clock: Clock,
  { say, onFailure }: { say: (sentence: string) => void; onFailure: OnFailure },
): Job {
  let removed = 0
  async function report(): Promise<void> {
    if (removed < FEW_ROWS) return
    const rowsBefore = removed + (await list.count())
    if (removed < MANY_ROWS && removed < rowsBefore * MANY_SHARE) return
    const proxies = `${counted(removed)} of ${counted(rowsBefore)} proxies`
    say(`removed ${proxies}, last checked longer ago than --retain`)
  }
  const removeSlice = async (): Promise<boolean> => {
    const slice = await list.removeStale(retainMs, clock())
    removed += slice.removed
    if (slice.mayRemain) return true
    await report()
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
