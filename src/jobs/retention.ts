/** Removes old data: proxies that were not checked recently, and usage that no limit needs. */
import type { UsageStore } from '../access/ports.ts'
import type { Clock } from '../lib/clock.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, type OnFailure, repeatInSlices } from './runner.ts'

/** The delay of the first prune of usage: a starting server handles requests first. */
const FIRST_PRUNE_MS = 10 * SECOND_MS

/** Removes proxies whose last check is older than `retainMs`, see `ProxyWriter`. */
export const retainProxies = (
  list: Pick<ProxyWriter, 'removeStale'>,
  retainMs: number,
  clock: Clock,
  onFailure: OnFailure,
): Job =>
  repeatInSlices(
    async () => (await list.removeStale(retainMs, clock())).mayRemain,
    MINUTE_MS,
    onFailure,
  )

/** Removes usage that no limit needs. */
export const pruneUsage = (
  usage: Pick<UsageStore, 'prune'>,
  clock: Clock,
  onFailure: OnFailure,
): Job => repeatInSlices(() => usage.prune(clock()), MINUTE_MS, onFailure, FIRST_PRUNE_MS)
