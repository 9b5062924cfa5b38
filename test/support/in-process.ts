/** The service in process, on the stores that `serve` uses, its clock moved by hand. */
import { type App, type AppStores, createApp } from '../../src/app.ts'
import { readOrigins, readRanges } from '../../src/config/parsers.ts'
import { createMetricsText } from '../../src/metrics/text.ts'
import { observeNode, openNode } from '../../src/node/node.ts'
import { observeData } from '../../src/sqlite/metrics.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { answerOf } from './answer.ts'
import { T0 } from './fixtures.ts'
import type { ServeOptions, Service } from './service.ts'
import { sharedDatabaseOf } from './shared.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** A request in process has no peer, as on a unix socket; tests expect one of 127.0.0.1. */
const PEER = '127.0.0.1'

/** A service in process also shows its metrics, which the binary does on its admin listener. */
type InProcess = Service & Pick<App, 'traffic'> & { metrics(): Promise<string> }

/** Gives stores that take the place of those of a whole service. */
export type Exchange = (whole: AppStores) => Partial<AppStores>

type StoreParts = {
  dir: string
  options: ServeOptions
  providerService: string
  clock: () => number
  write: (text: string) => void
}

/** The stores of a data directory, or of a node whose database has what the directory has. */
async function openStores({ dir, options, providerService, clock, write }: StoreParts) {
  if (options.engine !== 'postgresql') {
    const registry = openServerRegistry(dir, write)
    const list = openServerList(dir, providerService, clock, write)
    const close = async (): Promise<void> => {
      list.close()
      registry.close()
    }
    const observed = observeData(dir, registry, list)
    return { registry, list, observed, close, setClock: () => null }
  }
  const database = await sharedDatabaseOf(dir)
  const copies = temporaryDirectory()
  const { url } = database
  let [atMs, elapsedMs] = [T0, 0]
  const node = openNode({
    ...{ dir: copies, url, timeoutMs: 20_000, provider: providerService, clock },
    log: { say: write, sayRepeated: write },
    elapsedMs: () => elapsedMs,
  })
  while (node.problem() !== null) await Bun.sleep(5)
  const { registry, list, close } = node
  /** A stopwatch does not step back: then the node forgets what it knows by it. */
  async function setClock(ms: number): Promise<void> {
    if (ms < atMs) registry.usage.forgetRefusals()
    elapsedMs += Math.max(0, ms - atMs)
    atMs = ms
    await database.setClock(ms)
  }
  return { registry, list, observed: observeNode(copies, node), close, setClock }
}

/** The settings of an app in tests, unless they say otherwise. */
export const APP_SETTINGS: Parameters<typeof createApp>[1] = {
  ...{ errors: 'json', providerService: 'the service', publicStats: 'full', page: 'on' },
  ...{ siteName: 'proxylist', contact: undefined, keyUrl: undefined, cors: undefined },
  ...{ cacheBytes: 2 ** 20, maxLag: 60_000, trustProxy: readRanges(PEER) },
}

export async function startInProcess(
  dir: string,
  options: ServeOptions,
  exchange: Exchange = () => ({}),
): Promise<InProcess> {
  const { engine: _, cors, onRepeated, ...given } = options
  const { providerService = APP_SETTINGS.providerService } = given
  let nowMs = T0
  const lines: string[] = []
  const write = (text: string): void => void lines.push(text)
  const clock = () => nowMs
  const opened = await openStores({ dir, options, providerService, clock, write })
  const { registry, list, observed } = opened
  const { keys, usage } = registry
  const { streamer, stats } = list
  const stores: AppStores = {
    ...{ keys, usage, proxies: list, streamer, stats },
    replication: observed.replication,
  }
  const app = createApp(
    { ...stores, ...exchange(stores) },
    { ...APP_SETTINGS, ...given, ...(cors !== undefined && { cors: readOrigins(cors) }) },
    clock,
    {
      ...{ hasLines: true, line: write, say: write, close: async () => {} },
      sayRepeated(sentence, topic) {
        onRepeated?.(sentence, topic)
        write(sentence)
      },
    },
  )
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => {
    const request = new Request(`http://${PEER}${path}`, init)
    const forwardedFor = request.headers.get('x-forwarded-for')
    request.headers.set('x-forwarded-for', forwardedFor ? `${forwardedFor}, ${PEER}` : PEER)
    return app.handle(request)
  }
  const { traffic } = app
  let elapsedMs = 0
  /** Each scrape comes a second after the one before, and waits for the list. */
  const timing = { elapsedMs: () => (elapsedMs += 1000), later: () => () => {} }
  const { counted } = app
  const attention = async () => []
  const metrics = createMetricsText({ counted, observed, attention, clock, timing })
  /** The clock of a database is set by a statement. */
  let clockSet: Promise<unknown> | null = null
  let isOpen = true
  const stop = async (): Promise<void> => {
    if (!isOpen) return
    isOpen = false
    await opened.close()
  }
  onCleanUp(stop)
  return {
    async request(path, init) {
      await clockSet
      return answerOf(await ask(path, init))
    },
    setClock(seconds) {
      nowMs = T0 + seconds * 1000
      clockSet = opened.setClock(nowMs)
    },
    output: () => lines.join('\n'),
    traffic,
    metrics,
    stop,
  }
}
