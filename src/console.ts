/** The wiring of the admin listener: console and metrics. */
import type { Registry } from './access/ports.ts'
import { createAttention } from './admin/attention.ts'
import { createFeedRoutes, type FeedParts, SAMPLE_ROUTES } from './admin/feeds.ts'
import { createImports, type ImportParts, UPLOAD_BYTES_MAX } from './admin/import.ts'
import { keyRoutes, planRoutes } from './admin/keys.ts'
import { createLogTap, type LogTap } from './admin/live-log.ts'
import { createLogReader } from './admin/log-entry.ts'
import { createHistory, createOverview } from './admin/overview.ts'
import { ok, readQuery } from './admin/route.ts'
import { createAdmin } from './admin/server.ts'
import { newToken } from './admin/token.ts'
import type { App } from './app.ts'
import type { Listen } from './config/parsers.ts'
import type { Settings } from './config/settings.ts'
import { listen, type Service } from './http/listen.ts'
import { PAGE_FIELDS, servePage } from './http/pages.ts'
import { type Clock, stopwatch, timerLater } from './lib/clock.ts'
import { CommandError } from './lib/errors.ts'
import type { Log } from './lib/log.ts'
import { SECOND_MS } from './lib/time.ts'
import type { Attention } from './metrics/attention.ts'
import { METRICS_TYPE, type Observed } from './metrics/observed.ts'
import { residentBytes } from './metrics/process.ts'
import { createMetricsText } from './metrics/text.ts'
import { hasDirectory, missingDirectory, ORIGINS, PROXY_FILE } from './sqlite/data-directory.ts'
import { giveToOwner } from './sqlite/database-files.ts'
import { rewriteFile } from './sqlite/feeds.ts'

export { createLogTap }

/** The parts that the console shows and changes. */
export type ConsoleParts = {
  app: App
  registry: Registry
  observed: Observed
  attention: () => Promise<Attention[]>
  tap: LogTap
  settings: Settings<'data' | 'metricsOpen' | 'providerService'>
  /** Imports an upload; `null` when the list is read-only. */
  runImport: ImportParts['run']
  /** `null` for the sample list, which has none; `file` is the feeds file if the console edits it. */
  feeds: (Omit<FeedParts, 'states' | 'rewrite'> & { file: string | null }) | null
  clock: Clock
  log: Log
}

/** What needs attention, for the console, the metrics and alerts. Call `tick` every second. */
export const watchAttention = (
  parts: Pick<ConsoleParts, 'observed' | 'registry' | 'clock' | 'app'>,
) => createAttention({ ...parts, traffic: parts.app.traffic, origin: ORIGINS[PROXY_FILE] })

export type Console = ReturnType<typeof createConsole>

/** Creates the admin listener. Call `listen` to start it, and `tick` every second. */
export function createConsole(parts: ConsoleParts) {
  const { app, registry, observed, attention, tap, settings, clock, log } = parts
  const { data: dir, metricsOpen, providerService } = settings
  const history = createHistory()
  const overview = createOverview({
    attention,
    history,
    observed,
    clock,
    elapsedMs: stopwatch(),
    traffic: app.traffic,
    problem: app.problem,
    keys: registry.keys.count,
    rssBytes: residentBytes,
  })
  const describeLog = createLogReader(registry.keys, providerService, clock)
  const imports = createImports({ dir, run: parts.runImport })
  const feedsFile = parts.feeds?.file ?? null
  const rewrite: FeedParts['rewrite'] =
    feedsFile === null ? null : change => rewriteFile(feedsFile, change)
  const metricsParts = {
    ...{ counted: app.counted, observed, attention, clock },
    timing: { elapsedMs: stopwatch(), later: timerLater },
  }
  let writeMetrics: ReturnType<typeof createMetricsText> | null = null // from the first scrape on
  const { handle } = createAdmin({
    dir,
    metricsOpen,
    clock,
    log,
    fields: PAGE_FIELDS,
    pages: servePage(async () => (await import('./web/files.ts')).CONSOLE),
    async metrics() {
      writeMetrics ??= createMetricsText(metricsParts)
      return { text: await writeMetrics(), type: METRICS_TYPE }
    },
    routes: {
      '/console/state': { GET: async () => ok(await overview.state()) },
      '/console/overview': {
        GET: async ({ request }) =>
          ok(await overview.read(readQuery(request.url, ['range']).range ?? '')),
      },
      ...keyRoutes(registry),
      ...planRoutes(registry),
      ...(parts.feeds === null
        ? SAMPLE_ROUTES
        : createFeedRoutes({ ...parts.feeds, rewrite, states: observed.feeds })),
      '/console/log': {
        async GET({ request }) {
          const found = tap.after(readQuery(request.url, ['after']).after ?? '')
          return ok({ next: found.next, lines: await describeLog(found.lines) })
        },
      },
      ...imports.routes,
    },
  })
  return {
    handle,
    tick: overview.tick,
    /** Starts listening. A unix socket is open to its owner only. */
    async listen(address: Listen, takesOver: boolean) {
      let where = address
      const service: Service = {
        server: null,
        fetch: request => handle(request, where),
      }
      const place = { listen: address, socketMode: '600' as const }
      const listening = await listen(service, place, { bodyBytesMax: UPLOAD_BYTES_MAX, takesOver })
      where = listening.at
      return listening
    },
    /** Ends imports. */
    close: imports.close,
  }
}

/**
 * Creates a token for the console of `dir`. The previous token ends; `hadOne` says whether there was one.
 * @throws CommandError when the directory is missing.
 */
export function makeToken(dir: string): { token: string; hadOne: boolean } {
  if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
  return newToken(dir, giveToOwner)
}

/** The status of a request with this token to the listener at `origin`; `null` when nothing answers. */
export async function presentToken(
  token: string,
  origin: string,
  socket: { unix?: string },
): Promise<number | null> {
  const response = await fetch(`${origin}/console/plans`, {
    ...socket,
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(SECOND_MS),
    redirect: 'manual',
  }).catch(() => null)
  return response?.status ?? null
}
