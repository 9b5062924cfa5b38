/**
 * Owns the wiring of the service, which `serve` and every test that sends requests share. The only
 * file that names implementations of stores: commands import them from here.
 */
import { createAccess } from './access/access.ts'
import { createAuthThrottle, type Later, timerLater } from './access/auth-throttle.ts'
import type { KeyReader, UsageStore } from './access/store.ts'
import { createHandler } from './api/handler.ts'
import { createQueryReader } from './api/query.ts'
import { createResponseCache } from './api/response-cache.ts'
import type { AnswerStreamer } from './api/streaming.ts'
import type { Settings } from './config/settings.ts'
import { VERSION } from './config/version.ts'
import { createHttpApp } from './http/app.ts'
import { createClientIp } from './http/client-ip.ts'
import { listen } from './http/listen.ts'
import type { Clock } from './lib/clock.ts'
import type { Log } from './lib/log.ts'
import type { Lang } from './proxies/proxy.ts'
import { createStatsCache } from './proxies/stats/cache.ts'
import type { ProxyReader, StatsSource } from './proxies/store.ts'

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
  const http = createHttpApp({
    handle: createHandler({ access, readQuery: createQueryReader(provider), cache, clock }),
    access,
    usage,
    cache,
    probe() {
      proxies.version()
      proxies.isEmpty()
      return usage.probe()
    },
    clock,
    log,
    errors,
    clientIp: createClientIp(trustProxy),
    throttle,
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
    /** Writes the log lines of requests whose connections were closed before they were done. */
    logUnfinished: http.logUnfinished,
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

export { type Backup, type BackupTarget, backUp } from './sqlite/backup/backup.ts'
export { completeRestore, type Restored, restore } from './sqlite/backup/restore.ts'
export { hasDirectory, missingDirectory, ORIGINS } from './sqlite/data-directory.ts'
export { sqliteVersion } from './sqlite/database.ts'
export { openServerFeeds } from './sqlite/feeds/store.ts'
export {
  leftovers,
  listProblems,
  registryProblems,
  subjectsAhead,
  tallyList,
} from './sqlite/findings.ts'
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
