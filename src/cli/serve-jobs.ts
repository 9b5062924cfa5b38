/** Owns what `serve` runs in the background; of a node, what one node runs for all of its database. */

import type { Settings } from '../config/settings.ts'
import type { CurrentFeeds } from '../feeds/feeds-file.ts'
import { attemptInProcess } from '../feeds/process.ts'
import { keepFeeds } from '../feeds/schedule.ts'
import type { FeedStore } from '../feeds/store.ts'
import { whileHeld } from '../jobs/held.ts'
import { pruneUsage, retainProxies } from '../jobs/retention.ts'
import { isTrue, type Job, type OnFailure, repeat, repeatInSlices } from '../jobs/runner.ts'
import { keepSampleFresh } from '../jobs/sample.ts'
import { type Clock, timerLater } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { openServerFeeds } from '../sqlite/feeds.ts'
import { withFeeds } from '../sqlite/stores.ts'
import type { Served, ServerSettings } from '../stores.ts'

/** How often the supervisors of the databases verify them. */
const TICK_EVERY_MS = SECOND_MS

export type JobParts = Served & {
  settings: ServerSettings & Settings<'retain' | 'feed' | 'feeds' | 'feedEvery' | 'geoip'>
  feeds: CurrentFeeds
  clock: Clock
  log: Log
}

/** Reports failures of background work to the operator. */
export const reportTo =
  (log: Log): OnFailure =>
  failure => {
    const sentence = `background work failed: ${messageOf(failure)}`
    log.sayRepeated(sentence, sentence)
  }

/** Starts what runs in the background. */
export async function startJobs(parts: JobParts): Promise<Job[]> {
  const { clock, log, node } = parts
  const onFailure = reportTo(log)
  if (node !== null) {
    void node.tick() // not awaited: a database that does not answer must not delay the first 503
    return [
      repeat(() => void node.tick(), TICK_EVERY_MS),
      whileHeld(node.isJobHolder, () => startSharedJobs(parts, node.list), onFailure),
    ]
  }
  const { registry, list } = parts
  const tick = (): void => {
    registry.tick()
    list.tick()
  }
  tick()
  // Reads the usage, which the first request would wait for.
  await isTrue(async () => {
    await registry.usage.peek([], clock())
    return true
  }, onFailure)
  const jobs = [repeat(tick, TICK_EVERY_MS)]
  if (list.kind !== 'sample') return [...jobs, ...(await startSharedJobs(parts, list))]
  const fresh = await keepSampleFresh(list.list, clock)
  return [...jobs, pruneUsage(registry.usage, clock, onFailure), fresh]
}

/** Starts what one server does for all that share its data. */
async function startSharedJobs(
  parts: JobParts,
  list: Pick<ProxyWriter, 'removeStale' | 'count'>,
): Promise<Job[]> {
  const { settings, clock, log, registry, node } = parts
  const onFailure = reportTo(log)
  const feeds = await startFeeds(parts)
  const shared = [
    pruneUsage(registry.usage, clock, onFailure),
    retainProxies(list, settings.retain, clock, { say: log.say, onFailure }),
    ...feeds,
  ]
  if (node === null) return shared
  const prune = async (): Promise<boolean> => {
    await node.prune()
    return false
  }
  return [...shared, repeatInSlices(prune, MINUTE_MS, onFailure)]
}

/** The states of the feeds, of which only those that there are now are kept; `stop` closes them. */
async function openFeedStore({ node, clock, feeds, settings: { data } }: JobParts) {
  const keep = (store: FeedStore) => store.keepOnly(feeds.current(), clock())
  if (node !== null) {
    await keep(node.feeds)
    return { store: node.feeds, stop() {} }
  }
  await withFeeds(data, keep)
  const store = openServerFeeds(data)
  return { store, stop: store.close }
}

/** Starts fetching the feeds, each attempt in a process of its own. */
async function startFeeds(parts: JobParts): Promise<Job[]> {
  const { settings, feeds, clock, log } = parts
  if (feeds.current().length === 0 && settings.feeds === undefined) return []
  const { store, stop } = await openFeedStore(parts)
  const { data, database, databaseTimeout, geoip, providerService } = settings
  const task = { settings: { data, database, databaseTimeout, geoip, providerService } }
  const job = keepFeeds({
    ...{ store, clock, say: log.say, random: Math.random, later: timerLater },
    feeds: feeds.current(),
    attempt: (feed, before, signal) => attemptInProcess({ ...task, feed, before }, signal),
  })
  feeds.onChange(async found => {
    const changes = job.change(found)
    await store.keepOnly(found, clock())
    return changes
  })
  return [{ stop: () => feeds.onChange(null) }, job, { stop }]
}
