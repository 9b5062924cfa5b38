/** Wires the service. `serve` uses it, and every test that sends requests. */
import { createAccess } from './access/access.ts'
import type { KeyReader, UsageStore } from './access/ports.ts'
import type { AnswerStreamer } from './api/answer.ts'
import { ApiError } from './api/errors.ts'
import { createQueryReader } from './api/query.ts'
import { createResponseCache } from './api/response-cache.ts'
import { createStatsReader } from './api/stats.ts'
import type { Settings } from './config/settings.ts'
import { VERSION } from './config/version.ts'
import { createClientIp } from './http/client-ip.ts'
import { type ListenOptions, listen } from './http/listen.ts'
import { createHttpApp } from './http/requests.ts'
import type { Awaitable } from './lib/awaitable.ts'
import type { Clock } from './lib/clock.ts'
import { StoreError } from './lib/errors.ts'
import type { Log } from './lib/log.ts'
import { SECOND_MS } from './lib/time.ts'
import type { ReplicationState } from './metrics/observed.ts'
import { type AdmissionCounts, createCounters, type Traffic } from './metrics/traffic.ts'
import type { Lang } from './proxies/proxy.ts'
import type { ProxyReader, StatsSource } from './proxies/store.ts'

/** The stores of the service. */
export type AppStores = {
  keys: KeyReader
  usage: UsageStore
  proxies: ProxyReader
  /** Finds the answers that must be streamed; `null`: none must be. */
  streamer: AnswerStreamer | null
  stats: StatsSource
  /** The copies of a node; `null`: the data are this machine's own. */
  replication?: () => ReplicationState | null
}

type AppSettings = Settings<
  | 'cacheBytes'
  | 'contact'
  | 'cors'
  | 'errors'
  | 'keyUrl'
  | 'maxLag'
  | 'page'
  | 'providerService'
  | 'publicStats'
  | 'siteName'
  | 'trustProxy'
>

export type App = ReturnType<typeof createApp>

/** What makes the reference, and the files of all pages; loaded at the first request. */
function documentsOf(settings: AppSettings) {
  const { errors, page, providerService: provider, publicStats: stats } = settings
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
      return docsPage(await document(lang), lang, (await load()).DOCS, settings)
    },
    pages: async () => {
      const { PAGE, DOCS } = await load()
      const { withBranding } = await import('./web/branding.ts')
      const page = PAGE.map(file => withBranding(file, settings))
      return [...page, ...DOCS.filter(({ name }) => !name.endsWith('.html'))]
    },
  }
}

/** Creates the service on open stores. It does not listen yet. */
export function createApp(stores: AppStores, settings: AppSettings, clock: Clock, log: Log) {
  const { keys, usage, proxies, streamer, stats } = stores
  const { cacheBytes, cors, errors, maxLag, publicStats, trustProxy } = settings
  const { providerService: provider } = settings
  const cache = createResponseCache({ reader: proxies, streamer, provider, bytesMax: cacheBytes })
  const access = createAccess(keys, usage)
  const counters = createCounters()
  const admissions: AdmissionCounts = { regular: 0, temp: 0, demo: 0, refunded: 0 }
  const probes: readonly (readonly [problem: string, probe: () => Awaitable<void>])[] = [
    ['the list cannot be read', () => void [proxies.version(), proxies.isEmpty()]],
    ['requests cannot be counted', () => usage.probe()],
  ]
  const http = createHttpApp({
    access,
    readQuery: createQueryReader(provider),
    admissions,
    usage,
    cache,
    /** What `/readyz` says of the copies of a node (contract I3). @throws ApiError when they are too old. */
    readiness() {
      const copies = stores.replication?.() ?? null
      if (copies === null) return ''
      const { listVersion, lagSeconds } = copies
      if (lagSeconds * SECOND_MS > maxLag) {
        const message = 'the copies of this node are older than --max-lag'
        throw new ApiError('DB_EXECUTE_FAILED', message, { retryAfterSeconds: 1 })
      }
      return ` list_version=${listVersion ?? 0} lag_seconds=${lagSeconds.toFixed(1)}`
    },
    async probe() {
      for (const [, probe] of probes) await probe()
    },
    clock,
    log,
    errors,
    clientIp: createClientIp(trustProxy),
    counters,
    note: usage.note,
    cors,
    stats:
      publicStats === 'off'
        ? null
        : createStatsReader({
            ...{ source: stats, version: proxies.version, provider, part: publicStats },
          }),
    ...documentsOf(settings),
  })
  return {
    /** Answers a request in process, without a network. */
    handle: (request: Request): Promise<Response> => Promise.resolve(http.fetch(request)),
    listen: (settings: Settings<'listen' | 'socketMode'>, options?: ListenOptions) =>
      listen(http, settings, options),
    /** Refuses the answers in the queue, and all later ones that would join it. */
    refuseWaiting: (): void => streamer?.refuseWaiting(),
    counted: { traffic: counters.all, admissions, cacheCounts: cache.counts },
    /** The requests of the list since the start. */
    traffic: (): Traffic => counters.traffic('/api'),
    /** Why requests cannot be answered, in the words of the store, for the operator; `null`: they can. */
    async problem(): Promise<string | null> {
      for (const [problem, probe] of probes) {
        try {
          await probe()
        } catch (failure) {
          return failure instanceof StoreError ? `${problem}: ${failure.message}` : problem
        }
      }
      return null
    },
  }
}
