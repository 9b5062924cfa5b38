/** `serve`, from its settings to the exit after the last request. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { isatty } from 'node:tty'
import { type App, createApp } from '../../app.ts'
import { processEnvironment, serviceManager } from '../../config/environment.ts'
import { type Listen, showListen } from '../../config/parsers.ts'
import { environmentProblems, type Settings } from '../../config/settings.ts'
import { forProcesses, spawnSuccessor } from '../../config/subprocess.ts'
import { COMMIT, VERSION } from '../../config/version.ts'
import { type ConsoleParts, createConsole, createLogTap, watchAttention } from '../../console.ts'
import { type Attempts, createAttempts } from '../../feeds/attempt.ts'
import { type CurrentFeeds, feedsFileOf, loadCurrentFeeds } from '../../feeds/feeds-file.ts'
import { fetchFeeds } from '../../feeds/schedule.ts'
import { openGeoip } from '../../import/geoip.ts'
import { createAlerts } from '../../jobs/alerts.ts'
import { whileLeader } from '../../jobs/leader.ts'
import { pruneUsage, retainProxies } from '../../jobs/retention.ts'
import { isTrue, type Job, repeat, repeatInSlices, reportTo } from '../../jobs/runner.ts'
import { keepSampleFresh } from '../../jobs/sample.ts'
import { type Clock, timerLater } from '../../lib/clock.ts'
import { CommandError, messageOf, reasonOf, untilAborted } from '../../lib/errors.ts'
import { createLog, type Log } from '../../lib/log.ts'
import { several } from '../../lib/plural.ts'
import { createNotifier } from '../../lib/systemd.ts'
import {
  findPredecessor,
  offerTakeOver,
  type Predecessor,
  type Running,
} from '../../lib/take-over.ts'
import { MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import type { ProxyWriter } from '../../proxies/store.ts'
import { type Served, withServed } from '../../stores.ts'
import { command, DATA_SETTINGS, quoted } from '../command.ts'
import { shutDown } from '../shutdown.ts'
import { attemptsWith } from './feeds.ts'
import { spawnImport } from './import.ts'

const SERVE_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['listen', 'socketMode', 'sample', 'retain', 'feed', 'feeds', 'feedEvery', 'geoip'] as const),
  ...(['trustProxy', 'cors', 'errors', 'log', 'grace', 'cacheBytes', 'providerService'] as const),
  ...(['page', 'publicStats', 'siteName', 'contact', 'keyUrl'] as const),
  ...(['maxLag', 'adminListen', 'metricsOpen', 'alertUrl'] as const),
] as const
type ServeSettings = Settings<(typeof SERVE_SETTINGS)[number]>

const nameOf = (where: Listen): string =>
  where.kind === 'unix' ? resolve(where.path) : `${where.hostname}:${where.port}`

/** @throws CommandError (usage) for settings of the admin listener that cannot work. */
function checkConsole({ listen, adminListen, metricsOpen }: ServeSettings): void {
  if (adminListen === undefined) {
    if (!metricsOpen) return
    throw new CommandError('--metrics-open is for the admin listener: give --admin-listen, too', 2)
  }
  const isFree = adminListen.kind === 'tcp' && adminListen.port === 0
  if (isFree || nameOf(adminListen) !== nameOf(listen)) return
  throw new CommandError('--admin-listen must be another address than --listen', 2)
}

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
  const { settings, clock, log, registry, list, node, signal } = serving
  const { keys, usage } = registry
  const { data, listen: address } = settings
  const manager = await createNotifier(serviceManager(), log.say)
  const attempts = createAttempts({
    ...attemptsWith(forProcesses(settings), clock),
    openStore: serving.openFeedStore,
    readList: async () => ({ isEmpty: list.isEmpty(), mark: await list.importMark() }),
  })
  const jobs = await startJobs({ ...serving, attempts })
  using ending = new DisposableStack()
  let isTaken = false
  let admin: Awaited<ReturnType<typeof startConsole>> | null = null
  try {
    const { streamer, stats } = list
    const stores = {
      ...{ keys, usage, proxies: list, streamer, stats },
      replication: serving.observed.replication,
    }
    const tap = settings.adminListen === undefined ? null : createLogTap(log)
    const app = createApp(stores, settings, clock, tap?.log ?? log)
    const attention = watchAttention({ ...serving, app })
    jobs.push(repeat(attention.tick, SECOND_MS), ...startAlerts(serving, attention.read))
    const predecessor = await findPredecessor(data, nameOf(address))
    ending.defer(() => predecessor?.close())
    const service = await app.listen(settings, {
      takesOver: predecessor !== null,
      endsConnections: () => isTaken,
    })
    admin =
      tap &&
      (await startConsole(
        { ...serving, attempts, attention: attention.read },
        app,
        tap,
        predecessor,
      ))
    node?.listening({ node: hostname(), address: service.shown.replace(/^http:\/\//, '') })
    const me = (): Running => ({
      ...{ pid: process.pid, version: VERSION, commit: COMMIT, admin: admin?.shown ?? null },
    })
    const offer = await offerTakeOver({
      ...{ dir: data, address: nameOf(service.at), me, say: log.say },
      share(isShared) {
        if (predecessor?.isGone() === false)
          throw new Error('its own predecessor has not ended yet')
        service.share(isShared)
        admin?.share(isShared)
      },
    })
    ending.defer(offer.close)
    log.say(`listening on ${service.shown}`) // now that another one can take over
    if (admin !== null) sayWhere(admin, log)
    const upgrade = createUpgrade(log)
    process.on('SIGUSR2', upgrade.start)
    ending.defer(() => process.off('SIGUSR2', upgrade.start))
    predecessor?.ready(me())
    await sayWhatIsMissing(serving)
    manager.ready(`listening on ${service.shown}`)
    const successor = await Promise.race([offer.taken, untilAborted(signal)])
    admin?.close()
    if (successor) {
      log.say(`the server of process ${successor.pid} takes over; finishing requests in flight`)
      await upgrade.leave('SIGKILL')
      manager.isNow(successor.pid)
      isTaken = true
      await Bun.sleep(Math.min(settings.grace, LAST_REQUESTS_MS))
    } else {
      log.say('stopping')
      void upgrade.leave('SIGTERM')
      manager.stopping('finishing requests in flight')
    }
    await shutDown(app, [service, admin ?? undefined], settings.grace, {
      refusesWaiting: !successor,
      stopped: offer.close,
    })
  } finally {
    admin?.close()
    for (const job of jobs) void job.stop()
    await log.close()
    manager.close()
  }
}

/**
 * After another server has taken over, clients that ask every few seconds on a connection of theirs get an answer
 * that ends it: one that is ended while it is silent may lose a request that is just being sent.
 */
const LAST_REQUESTS_MS = 5 * SECOND_MS

const ALERTS_EVERY_MS = 10 * SECOND_MS

/** How long a server may take until it takes over. */
const SUCCESSOR_MS_MAX = MINUTE_MS

/** Starts the program that stands under this one’s name by now, one at a time; it takes over once it is ready. */
function createUpgrade(log: Log) {
  let child: ReturnType<typeof spawnSuccessor> | null = null
  return {
    start(): void {
      if (child !== null) return log.say('a server that takes over is being started')
      try {
        const started = spawnSuccessor()
        child = started
        started.unref()
        log.say('starting the server that takes over')
        const cancel = timerLater(() => started.kill('SIGTERM'), SUCCESSOR_MS_MAX)
        void started.exited.then(status => {
          cancel()
          if (child === null) return
          child = null
          log.say(
            `the server that was to take over has ended with status ${status}; this one goes on`,
          )
        })
      } catch (error) {
        log.say(
          `the server that takes over cannot be started (${reasonOf(error)}); this one goes on`,
        )
      }
    },
    /** Lets go of a server that has taken over, with `SIGKILL` to its guard; with `SIGTERM`, the guard ends it. */
    async leave(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
      const shell = child
      child = null
      shell?.kill(signal)
      await shell?.exited
    },
  }
}

/** Says what is missing on a machine that has its own data. */
async function sayWhatIsMissing({ settings: { data }, feeds, log, node, registry, list }: Serving) {
  if (node !== null) return
  const onFailure = reportTo(log)
  if (feeds.current().length === 0 && (await isTrue(() => list.isEmpty(), onFailure))) {
    log.say(`the list is empty; fill it with: proxylist import FILE --data ${quoted(data)}`)
  }
  if (await isTrue(() => !registry.hasKeys(), onFailure)) {
    log.say(`there is no key but demo; create one with: proxylist keys add --data ${quoted(data)}`)
  }
}

export type Working = Serving & { attempts: Attempts }

/** Starts the jobs that run beside requests. */
export async function startJobs(serving: Working): Promise<Job[]> {
  const { clock, log, node, feeds, isLeader } = serving
  const onFailure = reportTo(log)
  const sharedJobs = (list: Parameters<typeof startSharedJobs>[1]): Job[] => [
    whileLeader(isLeader, () => startSharedJobs(serving, list), onFailure),
    repeat(() => void feeds.reload().catch(onFailure), SECOND_MS),
  ]
  if (node !== null) {
    void node.tick() // not awaited: a database that does not answer must not delay the first 503
    return [repeat(() => void node.tick(), SECOND_MS), ...sharedJobs(node.list)]
  }
  const { registry, list } = serving
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
  // Each server prunes the usage that it has in memory.
  const jobs = [repeat(tick, SECOND_MS), pruneUsage(registry.usage, clock, onFailure)]
  if (list.kind !== 'sample') return [...jobs, ...sharedJobs(list)]
  return [...jobs, await keepSampleFresh(list.list, clock)]
}

/** Starts the jobs that one server runs for all servers on the same data. */
async function startSharedJobs(
  serving: Working,
  list: Pick<ProxyWriter, 'removeStale' | 'count'>,
): Promise<Job[]> {
  const { settings, clock, log, registry, node } = serving
  const onFailure = reportTo(log)
  const feeds = await startFeeds(serving)
  const shared = [retainProxies(list, settings.retain, clock, onFailure), feeds]
  if (node === null) return shared
  const prune = async (): Promise<boolean> => {
    await node.prune()
    return false
  }
  const pruneAll = pruneUsage(registry.usage, clock, onFailure)
  return [...shared, pruneAll, repeatInSlices(prune, MINUTE_MS, onFailure)]
}

async function startFeeds({ feeds, attempts, openFeedStore, clock, log }: Working): Promise<Job> {
  const others = feeds.current().filter(({ isForChecker }) => isForChecker)
  if (others.length > 0) {
    log.say(`left to proxylist check: ${several(others.length, 'feed')} marked check`)
  }
  return fetchFeeds({
    ...{ feeds, attempts, clock, say: log.say },
    isOurs: ({ isForChecker }) => !isForChecker,
    keep: async all => (await openFeedStore()).keepOnly(all, clock()),
  })
}

/** The alerts, which one of the servers on the same data sends. */
function startAlerts(
  { settings: { alertUrl: url, siteName: site }, isLeader, clock, log }: Serving,
  attention: ConsoleParts['attention'],
): Job[] {
  if (url === undefined) return []
  const onFailure = reportTo(log)
  const start = async (): Promise<Job[]> => {
    const alerts = createAlerts({ url, site, attention, clock, pause: Bun.sleep, say: log.say })
    return [repeat(() => void alerts.tick().catch(onFailure), ALERTS_EVERY_MS)]
  }
  return [whileLeader(isLeader, start, onFailure)]
}

function sayWhere({ at, shown }: { at: Listen; shown: string }, log: Pick<Log, 'say'>): void {
  log.say(`admin listening on ${shown}`)
  if (at.kind === 'unix' || /^(?:localhost|127\.[\d.]+|::1)$/.test(at.hostname)) return
  log.say('the admin listener is open to other machines, and without TLS: put it behind a tunnel')
}

/** Starts the admin listener; `close` ends its streams and imports, and what it does by itself. */
async function startConsole(
  {
    settings,
    registry,
    list,
    node,
    observed,
    feeds,
    attempts,
    attention,
    clock,
    log,
  }: Working & Pick<ConsoleParts, 'attention'>,
  app: App,
  tap: ReturnType<typeof createLogTap>,
  predecessor: Predecessor | null,
) {
  const { adminListen } = settings
  if (adminListen === undefined) return null
  const ended = new AbortController()
  const isSample = node === null && list.kind === 'sample'
  const admin = createConsole({
    ...{ app, registry, observed, attention, tap, settings, clock, log },
    feeds: isSample
      ? null
      : {
          ...{ feeds, isRunning: attempts.isRunning },
          file: node === null ? feedsFileOf(settings) : null,
          fetchNow(feed) {
            const say = (error: unknown): void => {
              if (!ended.signal.aborted) log.say(`feed ${feed.shown}: ${messageOf(error)}`)
            }
            void attempts.run(feed, ended.signal).catch(say)
          },
        },
    runImport: isSample
      ? null
      : (upload, fd) => spawnImport({ ...upload, settings: forProcesses(settings) }, fd),
  })
  const takesOver = predecessor?.running.admin === showListen(adminListen)
  const listening = await admin.listen(adminListen, takesOver).catch(error => {
    admin.close()
    throw error
  })
  const ticks = repeat(() => void admin.tick().catch(reportTo(log)), SECOND_MS)
  return {
    ...listening,
    close(): void {
      ended.abort()
      ticks.stop()
      admin.close()
    },
  }
}
