/** `serve`, from its settings to the exit after the last request. */
import { hostname } from 'node:os'
import { isatty } from 'node:tty'
import { createApp } from '../../app.ts'
import { processEnvironment, serviceManager } from '../../config/environment.ts'
import { environmentProblems, type Settings } from '../../config/settings.ts'
import { forProcesses } from '../../config/subprocess.ts'
import { COMMIT, VERSION } from '../../config/version.ts'
import { createLogTap, watchAttention } from '../../console.ts'
import { type Attempts, createAttempts } from '../../feeds/attempt.ts'
import { type CurrentFeeds, loadCurrentFeeds } from '../../feeds/feeds-file.ts'
import { openGeoip } from '../../import/geoip.ts'
import { isTrue, type Job, repeat, reportTo } from '../../jobs/runner.ts'
import type { Clock } from '../../lib/clock.ts'
import { CommandError, untilAborted } from '../../lib/errors.ts'
import { createLog, type Log } from '../../lib/log.ts'
import { createNotifier } from '../../lib/systemd.ts'
import { findPredecessor, offerTakeOver, type Running } from '../../lib/take-over.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { startAlerts, startJobs } from '../../server-jobs.ts'
import { type Served, withServed } from '../../stores.ts'
import { checkConsole, nameOf, sayWhere, startConsole } from '../admin-listener.ts'
import { command, DATA_SETTINGS, quoted } from '../command.ts'
import { shutDown } from '../shutdown.ts'
import { createUpgrade } from '../upgrade.ts'
import { attemptsWith } from './feeds.ts'

const SERVE_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['listen', 'socketMode', 'sample', 'retain', 'feed', 'feeds', 'feedEvery', 'geoip'] as const),
  ...(['trustProxy', 'cors', 'errors', 'log', 'grace', 'cacheBytes', 'providerService'] as const),
  ...(['page', 'publicStats', 'siteName', 'contact', 'keyUrl'] as const),
  ...(['maxLag', 'adminListen', 'metricsOpen', 'alertUrl'] as const),
] as const
type ServeSettings = Settings<(typeof SERVE_SETTINGS)[number]>

export const serveCommand = command({
  name: 'serve',
  summary: 'run the service; SIGHUP reads the feeds file again',
  settings: SERVE_SETTINGS,
  usesCopies: true,
  example: 'proxylist serve --listen 127.0.0.1:8080 --data /var/lib/proxylist',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    let reload = (): void => {}
    // From now on, because each would end the process.
    process.on('SIGHUP', () => reload())
    for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {})
    const hasTerminal = isatty(0) // also once that was closed, which stops the server, see `shutdown.ts`
    if (settings.sample && (settings.feed ?? settings.feeds) !== undefined) {
      throw new CommandError('--sample serves the built-in list, which has no feeds', 2)
    }
    if (settings.sample && settings.database !== undefined) {
      throw new CommandError('--sample serves the built-in list, not one of --database', 2)
    }
    checkConsole(settings)
    await openGeoip(settings.geoip) // one that cannot be used is noticed now
    const log = createLog({ hasLines: settings.log === 'json' })
    for (const problem of environmentProblems(processEnvironment())) log.say(problem)
    const feeds = loadCurrentFeeds(settings, log.say)
    if (!hasTerminal) reload = () => void feeds.reload(true).catch(reportTo(log))
    await withServed(settings, clock, log, served =>
      serve({ ...served, settings, feeds, clock, log, signal }),
    )
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

/** Serves until a signal comes, or another server takes over. */
async function serve(serving: Serving): Promise<void> {
  const { settings, clock, log, list, signal } = serving
  const manager = await createNotifier(serviceManager(), log.say)
  const attempts = createAttempts({
    ...attemptsWith(forProcesses(settings), clock),
    openStore: serving.openFeedStore,
    readList: async () => ({ isEmpty: list.isEmpty(), mark: await list.importMark() }),
  })
  const jobs = await startJobs({ ...serving, attempts })
  await using ending = new AsyncDisposableStack()
  ending.defer(async () => {
    for (const job of jobs) void job.stop()
    await log.close()
    manager.close()
  })
  const listening = await listen({ ...serving, attempts }, jobs, ending)
  const { service, admin, offer, upgrade } = listening
  await sayWhatIsMissing(serving)
  manager.ready(`listening on ${service.shown}`)
  const successor = await Promise.race([offer.taken, untilAborted(signal)])
  admin?.close()
  if (successor) {
    log.say(`the server of process ${successor.pid} takes over; finishing requests in flight`)
    await upgrade.leave('SIGKILL')
    manager.isNow(successor.pid)
    listening.endConnections()
    await Bun.sleep(Math.min(settings.grace, LAST_REQUESTS_MS))
  } else {
    log.say('stopping')
    void upgrade.leave('SIGTERM')
    manager.stopping('finishing requests in flight')
  }
  await shutDown(listening.app, [service, admin ?? undefined], settings.grace, {
    refusesWaiting: !successor,
    stopped: offer.close,
  })
}

/**
 * After another server has taken over, clients that ask every few seconds on a connection of theirs get an answer
 * that ends it: one that is ended while it is silent may lose a request that is just being sent.
 */
const LAST_REQUESTS_MS = 5 * SECOND_MS

type Working = Serving & { attempts: Attempts }

/** Starts both listeners, at the addresses of a server that runs there already: this one then takes over. */
async function listen(serving: Working, jobs: Job[], ending: AsyncDisposableStack) {
  const { settings, clock, log, registry, list, node } = serving
  const { data, listen: address } = settings
  const { keys, usage } = registry
  const { streamer, stats } = list
  const stores = {
    ...{ keys, usage, proxies: list, streamer, stats },
    replication: serving.observed.replication,
  }
  const tap = settings.adminListen === undefined ? null : createLogTap(log)
  const app = createApp(stores, settings, clock, tap?.log ?? log)
  const { read: attention, tick } = watchAttention({ ...serving, app })
  jobs.push(repeat(tick, SECOND_MS), ...startAlerts(serving, attention))
  const predecessor = await findPredecessor(data, nameOf(address))
  ending.defer(() => predecessor?.close())
  let endsConnections = false
  const service = await app.listen(settings, {
    takesOver: predecessor !== null,
    endsConnections: () => endsConnections,
  })
  const admin = tap && (await startConsole(serving, { app, attention, tap }, predecessor))
  ending.defer(() => admin?.close())
  node?.listening({ node: hostname(), address: service.shown.replace(/^http:\/\//, '') })
  const me = (): Running => ({
    ...{ pid: process.pid, version: VERSION, commit: COMMIT, admin: admin?.shown ?? null },
  })
  const offer = await offerTakeOver({
    ...{ dir: data, address: nameOf(service.at), me, say: log.say },
    share(isShared) {
      if (predecessor?.isGone() === false) throw new Error('its own predecessor has not ended yet')
      service.share(isShared)
      admin?.share(isShared)
    },
  })
  ending.defer(offer.close)
  log.say(`listening on ${service.shown}`) // now that another one can take over
  if (admin !== null) sayWhere(admin, log)
  const upgrade = createUpgrade(log)
  process.on('SIGUSR2', upgrade.start)
  ending.defer(() => void process.off('SIGUSR2', upgrade.start))
  predecessor?.ready(me())
  const endConnections = (): void => {
    endsConnections = true
  }
  return { app, service, admin, offer, upgrade, endConnections }
}

/** Says how to add proxies and keys where there are none. A node gets both from its database. */
async function sayWhatIsMissing({ settings, feeds, log, node, registry, list }: Serving) {
  const { data } = settings
  if (node !== null || settings.sample) return
  const onFailure = reportTo(log)
  if (feeds.current().length === 0 && (await isTrue(() => list.isEmpty(), onFailure))) {
    log.say(`the list is empty; fill it with: proxylist import FILE --data ${quoted(data)}`)
  }
  if (await isTrue(() => !registry.hasKeys(), onFailure)) {
    log.say(`there is no key but demo; create one with: proxylist keys add --data ${quoted(data)}`)
  }
}
