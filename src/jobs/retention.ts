/** Owns retention: removing proxies not checked recently, and usage that no limit counts. */
import type { UsageStore } from '../access/store.ts'
import type { Clock } from '../lib/clock.ts'
import { MINUTE_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, type OnFailure, repeatInSlices } from './runner.ts'

const EVERY_MS = MINUTE_MS

/** Removes proxies last checked longer than `retainMs` ago. */
export const retainProxies = (
  list: Pick<ProxyWriter, 'removeOlderThan'>,
  retainMs: number,
  clock: Clock,
  onFailure: OnFailure,
): Job => repeatInSlices(() => list.removeOlderThan(clock() - retainMs), EVERY_MS, onFailure)

/** Removes usage that no limit counts any more. */
export const pruneUsage = (
  usage: Pick<UsageStore, 'prune'>,
  clock: Clock,
  onFailure: OnFailure,
): Job => repeatInSlices(() => usage.prune(clock()), EVERY_MS, onFailure)
