/** `serve`: starts the service and its jobs, and ends it cleanly. */
import { hostname } from 'node:os'
import { createLogTap } from '../../admin/live-log.ts'
import { createApp } from '../../app.ts'
import { serviceManager } from '../../config/environment.ts'
import type { Settings } from '../../config/settings.ts'
import { type CurrentFeeds, openFeeds } from '../../feeds/feeds-file.ts'
import { openGeoip } from '../../import/geoip.ts'
import { isTrue } from '../../jobs/runner.ts'
import type { Clock } from '../../lib/clock.ts'
import { CommandError } from '../../lib/errors.ts'
import { createLog, type Log } from '../../lib/log.ts'
import { createNotifier } from '../../lib/systemd.ts'
import { type Served, withServed } from '../../stores.ts'
import { command, DATA_SETTINGS } from '../command.ts'
import { checkConsole, startConsole } from '../serve-console.ts'
import { reportTo, startJobs } from '../serve-jobs.ts'
import { onHangup, untilAborted } from '../signals.ts'

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
    let reload = (): void => {}
    const off = onHangup(() => reload())
    if (settings.sample && (settings.feed ?? settings.feeds) !== undefined) {
      throw new CommandError('--sample serves the built-in list, which has no feeds', 2)
    }
    if (settings.sample && settings.database !== undefined) {
      throw new CommandError('--sample serves the built-in list, not one of --database', 2)
    }
    checkConsole(settings)
    openGeoip(settings.geoip) // one that cannot be used is noticed now
    const log = createLog({ hasLines: settings.log === 'json' })
    const feeds = await openFeeds(settings, log.say)
    reload = () => void feeds.reload().catch(reportTo(log))
    await withServed(settings, clock, log, served =>
      serve({ ...served, settings, feeds, clock, log, signal }),
    )
    off()
  },
})

type Serving = Served & {
  settings: ServeSettings
  feeds: CurrentFeeds
  clock: Clock
  log: Log
  /** Aborted when the server is to stop. */
  signal: AbortSignal
}

/** Says what is missing on a machine that has its own data. */
async function sayWhatIsMissing({ settings, feeds, log, node, registry, list }: Serving) {
  if (node !== null) return
  const { data } = settings
  const onFailure = reportTo(log)
  if (feeds.current().length === 0 && (await isTrue(() => list.isEmpty(), onFailure))) {
    log.say(`the list is empty; fill it with: proxylist import FILE --data ${data}`)
  }
  if (await isTrue(() => !registry.hasKeys(), onFailure)) {
    log.say(`there is no key but demo; create one with: proxylist keys add --data ${data}`)
  }
}

/** Serves until a signal comes. */
async function serve(serving: Serving): Promise<void> {
  const { settings, clock, log, registry, list, node, signal } = serving
  const { keys, usage } = registry
  const manager = await createNotifier(serviceManager(), log.say)
  const jobs = await startJobs(serving)
  let admin: Awaited<ReturnType<typeof startConsole>> | null = null
  try {
    const { streamer, stats } = list
    const stores = {
      ...{ keys, usage, proxies: list, streamer, stats },
      replication: serving.observed.replication,
    }
    const tap = settings.adminListen === undefined ? null : createLogTap(log)
    const app = createApp(stores, settings, clock, tap?.log ?? log)
    const { server, shown } = await app.listen(settings)
    log.say(`listening on ${shown}`)
    admin = tap && (await startConsole(serving, app, tap))
    node?.listening({ node: hostname(), address: shown.replace(/^http:\/\//, '') })
    await sayWhatIsMissing(serving)
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
