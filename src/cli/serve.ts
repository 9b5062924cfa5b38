/** Owns `serve`: starts the service and its jobs, and ends it cleanly. */
import { join } from 'node:path'
import {
  ACCESS_FILE,
  createApp,
  createLogTap,
  openMemoryList,
  openServerFeeds,
  openServerList,
  openServerRegistry,
  PROXY_FILE,
  withFeeds,
  withResource,
} from '../app.ts'
import { serviceManager } from '../config/environment.ts'
import type { Settings } from '../config/settings.ts'
import type { Feed } from '../import/feeds/feed.ts'
import { keepFeeds } from '../jobs/feeds.ts'
import { watchFeedsFile } from '../jobs/feeds-file.ts'
import { pruneUsage, retainProxies } from '../jobs/retention.ts'
import { isTrue, type Job, repeat } from '../jobs/runner.ts'
import { keepSampleFresh } from '../jobs/sample-refresh.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { createLog, type Log } from '../lib/log.ts'
import { createNotifier } from '../lib/systemd.ts'
import { SECOND_MS } from '../lib/time.ts'
import { command, DATA_SETTINGS } from './command.ts'
import { linesOf, startFetch, storeTexts } from './feed-process.ts'
import { feedsOf } from './feeds.ts'
import { openGeoip } from './geoip.ts'
import { compressed } from './sample-file.ts' with { type: 'macro' }
import { decompress } from './sample-file.ts'
import { checkConsole, startConsole } from './serve-console.ts'
import { untilAborted } from './signals.ts'

/** How often the supervisors of the databases verify them. */
const TICK_EVERY_MS = SECOND_MS

const SERVE_SETTINGS = [
  ...DATA_SETTINGS,
  'listen',
  'socketMode',
  'sample',
  'retain',
  'feed',
  'feeds',
  'feedEvery',
  'geoip',
  'trustProxy',
  'cors',
  'errors',
  'log',
  'grace',
  'cacheBytes',
  'providerService',
  'page',
  'publicStats',
  'adminListen',
  'metricsOpen',
] as const
type ServeSettings = Settings<(typeof SERVE_SETTINGS)[number]>

export const serveCommand = command({
  name: 'serve',
  summary: 'run the service until SIGTERM or SIGINT',
  settings: SERVE_SETTINGS,
  usesCopies: true,
  example: 'proxylist serve --listen 127.0.0.1:8080 --data /var/lib/proxylist',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    const feeds = feedsOf(settings)
    if (settings.sample && (settings.feed ?? settings.feeds) !== undefined) {
      throw new CommandError('--sample serves the built-in list, which has no feeds', 2)
    }
    checkConsole(settings)
    openGeoip(settings.geoip) // one that cannot be used is noticed now
    const log = createLog({ hasLines: settings.log === 'json' })
    await withResource(
      join(settings.data, ACCESS_FILE),
      () => openServerRegistry(settings.data, log.say),
      registry =>
        withResource(
          join(settings.data, PROXY_FILE),
          () => openListFor(settings, clock, log),
          list => serve({ settings, feeds, clock, log, registry, list, signal }),
        ),
    )
  },
})

type ServedList =
  | ({ kind: 'sample' } & ReturnType<typeof openMemoryList>)
  | ({ kind: 'file' } & ReturnType<typeof openServerList>)

const openListFor = (settings: ServeSettings, clock: Clock, log: Log): ServedList =>
  settings.sample
    ? { kind: 'sample', ...openMemoryList() }
    : { kind: 'file', ...openServerList(settings.data, settings.providerService, clock, log.say) }

type Serving = {
  settings: ServeSettings
  feeds: readonly Feed[]
  clock: Clock
  log: Log
  registry: ReturnType<typeof openServerRegistry>
  list: ServedList
  /** Aborted when the server is to stop. */
  signal: AbortSignal
}

/** Serves until a signal comes. */
async function serve(serving: Serving): Promise<void> {
  const { settings, feeds, clock, log, registry, list, signal } = serving
  const { keys, usage } = registry
  const onFailure = reportTo(log)
  const manager = await createNotifier(serviceManager(), log.say)
  const jobs = await startJobs(serving)
  let admin: Awaited<ReturnType<typeof startConsole>> | null = null
  try {
    const { streamer, stats } = list
    const stores = { keys, usage, proxies: list, streamer, stats }
    const tap = settings.adminListen === undefined ? null : createLogTap(log)
    const app = createApp(stores, settings, clock, tap?.log ?? log)
    const { server, shown } = await app.listen(settings)
    log.say(`listening on ${shown}`)
    admin = tap && (await startConsole(serving, app, tap))
    if (feeds.length === 0 && (await isTrue(() => list.isEmpty(), onFailure))) {
      log.say(`the list is empty; fill it with: proxylist import FILE --data ${settings.data}`)
    }
    if (await isTrue(() => !registry.hasKeys(), onFailure)) {
      log.say(
        `there is no key but demo; create one with: proxylist keys add --data ${settings.data}`,
      )
    }
    manager.ready(`listening on ${shown}`)
    await untilAborted(signal)
    log.say('stopping')
    app.releaseDelayed()
    app.refuseWaiting()
    admin?.close()
    manager.stopping('finishing requests in flight')
    await Promise.all([server, admin?.server].map(each => each && drain(each, settings.grace)))
    await app.logUnfinished()
  } finally {
    admin?.close()
    for (const job of jobs) job.stop()
    await log.close()
    manager.close()
  }
}

/** Reports failures of background work to the operator. */
const reportTo =
  (log: Log) =>
  (failure: unknown): void => {
    const sentence = `background work failed: ${messageOf(failure)}`
    log.sayRepeated(sentence, sentence)
  }

/** Starts what runs in the background. */
async function startJobs(serving: Serving): Promise<Job[]> {
  const { settings, clock, log, registry, list } = serving
  const onFailure = reportTo(log)
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
  return [
    repeat(tick, TICK_EVERY_MS),
    pruneUsage(registry.usage, clock, onFailure),
    list.kind === 'sample'
      ? await keepSampleFresh(list.list, decompress(compressed()), clock)
      : retainProxies(list, settings.retain, clock, { say: log.say, onFailure }),
    ...(await startFeeds(serving)),
  ]
}

/** Starts fetching the feeds, each attempt in a process of its own, and watching their file. */
async function startFeeds({ settings, feeds, clock, log }: Serving): Promise<Job[]> {
  const { data, geoip, providerService, feeds: file } = settings
  if (feeds.length === 0 && file === undefined) return []
  await withFeeds(data, store => store.keepOnly(feeds, clock()))
  const store = openServerFeeds(data)
  const texts = { ...storeTexts(settings), providerService, geoip: linesOf(geoip) }
  const job = keepFeeds({
    ...{ feeds, store, clock, say: log.say },
    run: (feed, isFirst) => startFetch(feed, { ...texts, due: isFirst ? '' : '1' }),
  })
  const jobs = [job, { stop: store.close }]
  if (file === undefined) return jobs
  const tick = watchFeedsFile({
    ...{ file, say: log.say, onFailure: reportTo(log) },
    read: () => feedsOf(settings),
    async change(found) {
      await store.keepOnly(found, clock())
      return job.change(found)
    },
  })
  return [repeat(tick, TICK_EVERY_MS), ...jobs]
}

/** The longest a timer can run; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

/** Waits for requests in flight, for at most `graceMs`; then closes their connections. */
async function drain(server: { stop(now?: boolean): Promise<void> }, graceMs: number) {
  const { promise: deadline, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(graceMs, TIMER_MS_MAX))
  await Promise.race([server.stop(), deadline])
  clearTimeout(timer)
  await server.stop(true)
}
