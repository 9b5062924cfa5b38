/**
 * Owns the wiring of the service, which `serve` and every test that sends requests share. The only
 * file that names implementations of stores: commands import them from here.
 */
import { join } from 'node:path'
import { createAccess } from './access/access.ts'
import { createAuthThrottle, type Later, timerLater } from './access/auth-throttle.ts'
import type { KeyReader, Registry, UsageStore } from './access/store.ts'
import { HISTORY_FILE, openHistory } from './admin/history.ts'
import { createImports, type ImportParts, UPLOAD_BYTES_MAX } from './admin/import.ts'
import { keyRoutes } from './admin/keys.ts'
import type { LogTap } from './admin/log-tap.ts'
import { createOverview } from './admin/overview.ts'
import { planRoutes } from './admin/plans.ts'
import { ok } from './admin/route.ts'
import { createAdmin } from './admin/server.ts'
import { newToken, storeToken } from './admin/token.ts'
import { createAdmissions, createHandler } from './api/handler.ts'
import { createQueryReader } from './api/query.ts'
import { createResponseCache } from './api/response-cache.ts'
import type { AnswerStreamer } from './api/streaming.ts'
import type { Listen } from './config/parsers.ts'
import type { Settings } from './config/settings.ts'
import { VERSION } from './config/version.ts'
import { createHttpApp } from './http/app.ts'
import { createClientIp } from './http/client-ip.ts'
import { type Listening, listen } from './http/listen.ts'
import { PAGE_FIELDS, servePage } from './http/routes/pages.ts'
import { describeState } from './import/feeds/store.ts'
import { type Clock, stopwatch } from './lib/clock.ts'
import type { Log } from './lib/log.ts'
import type { Awaitable } from './lib/turn-batch.ts'
import { METRICS_TYPE } from './metrics/family.ts'
import type { Observed } from './metrics/observed.ts'
import { createTiming, type Timing } from './metrics/process.ts'
import { createCounters, type Traffic } from './metrics/traffic.ts'
import type { Lang } from './proxies/proxy.ts'
import { createStatsCache } from './proxies/stats/cache.ts'
import type { ProxyReader, StatsSource } from './proxies/store.ts'
import { sqliteVersion } from './sqlite/database.ts'
import { giveToOwner } from './sqlite/database-files.ts'
import { lockPlace } from './sqlite/file-lock.ts'

/** What the service reads and writes. */
export type AppStores = {
  keys: KeyReader
  usage: UsageStore
  proxies: ProxyReader
  /** Streams answers that `proxies` finds too large; `null` if it finds none too large. */
  streamer: AnswerStreamer | null
  stats: StatsSource
}

export type AppSettings = Settings<
  'cacheBytes' | 'cors' | 'errors' | 'page' | 'providerService' | 'publicStats' | 'trustProxy'
>

export type App = ReturnType<typeof createApp>

/** What makes the reference, and the files of all pages; nothing of it is loaded before it is asked for. */
function documentsOf({ errors, page, providerService: provider, publicStats: stats }: AppSettings) {
  const document = async (lang: Lang) => {
    const { createDocument } = await import('./api/openapi/document.ts')
    return createDocument({ version: VERSION, provider, errors, stats, lang })
  }
  const openapi = async (): Promise<string> => JSON.stringify(await document('en'))
  if (page === 'off') return { openapi, docs: null, pages: null }
  const load = () => import('./web/files.ts')
  return {
    openapi,
    docs: async (lang: Lang): Promise<string> => {
      const { docsPage } = await import('./web/docs/page.ts')
      return docsPage(await document(lang), lang, (await load()).DOCS)
    },
    pages: async () => {
      const { PAGE, DOCS } = await load()
      return [...PAGE, ...DOCS.filter(({ name }) => !name.endsWith('.html'))]
    },
  }
}

/** Creates the service on open stores, not listening yet. `later` ends delays of refusals. */
export function createApp(
  stores: AppStores,
  settings: AppSettings,
  clock: Clock,
  log: Log,
  later: Later = timerLater,
) {
  const { keys, usage, proxies, streamer } = stores
  const { cacheBytes, cors, errors, providerService: provider, trustProxy } = settings
  const cache = createResponseCache({ reader: proxies, streamer, provider, bytesMax: cacheBytes })
  const access = createAccess(keys, usage)
  const throttle = createAuthThrottle(later)
  const counters = createCounters()
  const admissions = createAdmissions()
  const probes: readonly (readonly [problem: string, probe: () => Awaitable<void>])[] = [
    ['the list cannot be read', () => void [proxies.version(), proxies.isEmpty()]],
    ['requests cannot be counted', () => usage.probe()],
  ]
  const http = createHttpApp({
    handle: createHandler({
      access,
      readQuery: createQueryReader(provider),
      cache,
      clock,
      admissions,
    }),
    access,
    usage,
    cache,
    async probe() {
      for (const [, probe] of probes) await probe()
    },
    clock,
    log,
    errors,
    clientIp: createClientIp(trustProxy),
    throttle,
    counters,
    note: usage.note,
    cors,
    stats: readerOfStats(stores, settings),
    ...documentsOf(settings),
  })
  return {
    /** Answers a request in process, without a network. */
    handle: (request: Request): Promise<Response> => Promise.resolve(http.service.handle(request)),
    /** Starts listening; returns the address to show and the running server, see `listen`. */
    listen: (settings: Settings<'listen' | 'socketMode'>) => listen(http.service, settings),
    /** Sends every delayed refusal now, and stops delaying them. */
    releaseDelayed: throttle.release,
    /** Refuses the answers that wait for their turn, and those that would from now on. */
    refuseWaiting: (): void => streamer?.refuseWaiting(),
    /** What is counted of requests, for the metrics. */
    counted: { traffic: counters.all, admissions, cacheCounts: cache.counts },
    /** The requests of the list since the start. */
    traffic: (): Traffic => counters.traffic('/api'),
    /** Why requests cannot be answered, as a sentence without names of files; `null`: they can. */
    async problem(): Promise<string | null> {
      for (const [problem, probe] of probes) {
        const failure = await Promise.resolve()
          .then(probe)
          .then(
            () => null,
            () => problem,
          )
        if (failure !== null) return failure
      }
      return null
    },
    /** Writes the log lines of requests whose connections were closed before they were done. */
    logUnfinished: http.logUnfinished,
  }
}

/** What writes the metrics of a service, as `METRICS_TYPE`; it is loaded at the first scrape. */
export function createMetrics(
  { counted }: App,
  observed: Observed,
  clock: Clock,
  timing: Timing | null = null,
) {
  const load = async (): Promise<() => Promise<string>> => {
    const { createMetricsText } = await import('./metrics/text.ts')
    return createMetricsText({
      ...{ counted, observed, clock, sqliteVersion: sqliteVersion() },
      timing: timing ?? createTiming(),
    })
  }
  let loaded: ReturnType<typeof load> | null = null
  return async (): Promise<string> => {
    loaded ??= load()
    return (await loaded)()
  }
}

/** What the console shows and changes, besides the service. */
export type ConsoleParts = {
  app: App
  registry: Registry
  observed: Observed
  tap: LogTap
  settings: Settings<'data' | 'metricsOpen'>
  /** Imports what was uploaded; `null` where the list cannot be changed. */
  runImport: ImportParts['run']
  clock: Clock
  log: Log
  later?: Later
}

export type Console = ReturnType<typeof createConsole>

/** Creates the admin listener, not listening yet; `tick` is to be called every second. */
export function createConsole(parts: ConsoleParts) {
  const { app, registry, observed, tap, settings, clock, log, later = timerLater } = parts
  const { data: dir, metricsOpen } = settings
  const file = join(dir, HISTORY_FILE)
  const history = openHistory({
    ...{ file, adopt: giveToOwner, say: log.say },
    lock: () => lockPlace(file, 0),
  })
  const overview = createOverview({
    ...{ history, observed, clock, elapsedMs: stopwatch() },
    ...{ traffic: app.traffic, problem: app.problem, keys: registry.keys.count },
    rssBytes: () => process.memoryUsage.rss(),
  })
  const imports = createImports({ dir, run: parts.runImport })
  const throttle = createAuthThrottle(later)
  const writeMetrics = createMetrics(app, observed, clock)
  const { handle } = createAdmin({
    ...{ dir, metricsOpen, throttle, clock, log, fields: PAGE_FIELDS },
    pages: servePage(async () => (await import('./web/files.ts')).CONSOLE),
    metrics: async () => ({ text: await writeMetrics(), type: METRICS_TYPE }),
    routes: {
      '/console/overview': { GET: async () => ok(await overview.read()) },
      ...keyRoutes(registry),
      ...planRoutes(registry),
      '/console/feeds': { GET: () => ok({ feeds: observed.feeds().map(describeState) }) },
      '/console/log': {
        GET: ({ request }) => ({ kind: 'lines', lines: tap.open(request.signal) }),
      },
      ...imports.routes,
    },
  })
  return {
    handle,
    tick: overview.tick,
    /** Starts listening at an address, which on a unix socket is for its owner only. */
    async listen(address: Listen) {
      let where = address
      const service: Listening = {
        server: null,
        fetch: request => handle(request, where, service.server?.requestIP(request)?.address ?? ''),
      }
      const { server, at, shown } = await listen(
        ...([service, { listen: address, socketMode: 0o600 }, UPLOAD_BYTES_MAX] as const),
      )
      where = at
      return { server, shown }
    },
    /** Ends streams, imports and delays, and what is kept of the last hours. */
    close(): void {
      throttle.release()
      tap.close()
      imports.close()
      history.close()
    },
  }
}

/** What `/stats` says of the list, `null` for nothing. */
function readerOfStats({ stats, proxies }: AppStores, settings: AppSettings) {
  const { publicStats: part, providerService: provider } = settings
  if (part === 'off') return null
  return createStatsCache(
    nowMs => stats.make({ nowMs, version: VERSION, part, provider }),
    proxies.version,
  )
}

/** Makes a token for the console of `dir`, and says whether there was one, which ends. */
export function makeToken(dir: string): { token: string; hadOne: boolean } {
  const token = newToken()
  return { token, hadOne: storeToken(dir, token, giveToOwner) }
}

export { HISTORY_FILE } from './admin/history.ts'
export type { RunningImport } from './admin/import.ts'
export { createLogTap } from './admin/log-tap.ts'
export { TOKEN_FILE } from './admin/token.ts'
export { show } from './http/listen.ts'
export { type Backup, type BackupTarget, backUp } from './sqlite/backup/backup.ts'
export { completeRestore, type Restored, restore } from './sqlite/backup/restore.ts'
export { hasDirectory, missingDirectory, ORIGINS } from './sqlite/data-directory.ts'
export { openServerFeeds } from './sqlite/feeds/store.ts'
export {
  leftovers,
  listProblems,
  registryProblems,
  subjectsAhead,
  tallyList,
} from './sqlite/findings.ts'
export { observeData } from './sqlite/observe.ts'
export { openMemoryList, openServerList } from './sqlite/server-list.ts'
export { openServerRegistry } from './sqlite/server-registry.ts'
export {
  ACCESS_FILE,
  changeList,
  changeRegistry,
  FEEDS_FILE,
  listFeeds,
  PROXY_FILE,
  readList,
  readRegistry,
  withFeeds,
  withList,
  withListToReplace,
  withRegistry,
  withResource,
} from './sqlite/stores.ts'
export { sqliteVersion }
