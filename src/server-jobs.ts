/** The jobs that a server runs beside requests. */
import type { Settings } from './config/settings.ts'
import type { Attempts } from './feeds/attempt.ts'
import type { CurrentFeeds } from './feeds/feeds-file.ts'
import { fetchFeeds } from './feeds/schedule.ts'
import { createAlerts } from './jobs/alerts.ts'
import { whileLeader } from './jobs/leader.ts'
import {
  isTrue,
  type Job,
  type OnFailure,
  repeat,
  repeatInSlices,
  reportTo,
} from './jobs/runner.ts'
import { keepSampleFresh } from './jobs/sample.ts'
import type { Clock } from './lib/clock.ts'
import type { Log } from './lib/log.ts'
import { several } from './lib/plural.ts'
import { MINUTE_MS, SECOND_MS } from './lib/time.ts'
import type { Attention } from './metrics/attention.ts'
import type { ProxyWriter } from './proxies/store.ts'
import type { Served } from './stores.ts'

const ALERTS_EVERY_MS = 10 * SECOND_MS
/** The first prune waits this long, so that a starting server handles requests first. */
const FIRST_PRUNE_MS = 10 * SECOND_MS

const pruneUsage = ({ registry, clock }: Serving, onFailure: OnFailure): Job =>
  repeatInSlices(() => registry.usage.prune(clock()), MINUTE_MS, onFailure, FIRST_PRUNE_MS)

/** The parts of a server that jobs use. */
type Serving = Served & {
  settings: Settings<'retain' | 'alertUrl' | 'siteName'>
  feeds: CurrentFeeds
  attempts: Attempts
  clock: Clock
  log: Log
}

/** Starts the jobs that run beside requests. */
export async function startJobs(serving: Serving): Promise<Job[]> {
  const { clock, log, node, feeds, isLeader } = serving
  const onFailure = reportTo(log)
  const sharedJobs = (list: Parameters<typeof startSharedJobs>[1]): Job[] => [
    whileLeader(isLeader, () => startSharedJobs(serving, list), onFailure),
    repeat(() => void feeds.reload().catch(onFailure), SECOND_MS),
  ]
  if (node !== null) {
    void node.tick() // not awaited: without the database, the server must start and answer 503
    return [repeat(() => void node.tick(), SECOND_MS), ...sharedJobs(node.list)]
  }
  const { registry, list } = serving
  const tick = (): void => {
    registry.tick()
    list.tick()
  }
  tick()
  // Reads the usage now, so that the first request does not wait for it.
  await isTrue(async () => {
    await registry.usage.peek([], clock())
    return true
  }, onFailure)
  // Every server prunes the usage in its own memory.
  const jobs = [repeat(tick, SECOND_MS), pruneUsage(serving, onFailure)]
  if (list.kind !== 'sample') return [...jobs, ...sharedJobs(list)]
  return [...jobs, await keepSampleFresh(list.list, clock)]
}

/** Starts the jobs that one server runs for all servers on the same data. */
async function startSharedJobs(
  serving: Serving,
  list: Pick<ProxyWriter, 'removeStale' | 'count'>,
): Promise<Job[]> {
  const { settings, clock, log, node } = serving
  const onFailure = reportTo(log)
  const feeds = await startFeeds(serving)
  const retain = async () => (await list.removeStale(settings.retain, clock())).mayRemain
  const shared = [repeatInSlices(retain, MINUTE_MS, onFailure), feeds]
  if (node === null) return shared
  const prune = async (): Promise<boolean> => {
    await node.prune()
    return false
  }
  return [...shared, pruneUsage(serving, onFailure), repeatInSlices(prune, MINUTE_MS, onFailure)]
}

async function startFeeds({ feeds, attempts, openFeedStore, clock, log }: Serving): Promise<Job> {
  const others = feeds.current().filter(({ isForChecker }) => isForChecker)
  if (others.length > 0) {
    log.say(`${several(others.length, 'feed')} marked check: proxylist check fetches them`)
  }
  return fetchFeeds({
    ...{ feeds, attempts, clock, say: log.say },
    isOurs: ({ isForChecker }) => !isForChecker,
    keep: async all => (await openFeedStore()).keepOnly(all, clock()),
  })
}

/** Starts the alerts. Only one of the servers on the same data sends them. */
export function startAlerts(
  { settings: { alertUrl: url, siteName: site }, isLeader, clock, log }: Omit<Serving, 'attempts'>,
  attention: () => Promise<Attention[]>,
): Job[] {
  if (url === undefined) return []
  const onFailure = reportTo(log)
  const start = async (): Promise<Job[]> => {
    const alerts = createAlerts({ url, site, attention, clock, pause: Bun.sleep, say: log.say })
    return [repeat(() => void alerts.tick().catch(onFailure), ALERTS_EVERY_MS)]
  }
  return [whileLeader(isLeader, start, onFailure)]
}
