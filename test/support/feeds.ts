/** Attempts at feeds in tests: a data directory, with a clock and timers that the test moves. */
import { type AttemptContext, createAttempts } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { type ImportContext, importFeed } from '../../src/feeds/import-feed.ts'
import type { FeedState } from '../../src/feeds/store.ts'
import { openGeoip } from '../../src/import/geoip.ts'
import { importSources } from '../../src/import/import.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import type { ImportMode, ImportTx } from '../../src/proxies/store.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { storesOf } from '../../src/stores.ts'
import { T0 } from './fixtures.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** A feed, and a state of it. */
export const FEED = { id: 'a', shown: 'http://h/a' }
export const FEED_STATE: FeedState = {
  source: FEED.shown,
  lastSuccessAt: T0,
  importedAt: T0,
  rows: 3,
  rejected: 1,
  missing: 'r',
  error: 'x',
  failures: 2,
  nextTryAt: T0 + 1,
  validators: { etag: '"e"', lastModified: 'l', digest: 'd' },
  options: 'o',
}

type Changes = Partial<AttemptContext> & {
  geoip?: readonly string[]
  /** Changes an import before it is used. */
  wrap?: (importTx: ImportTx) => ImportTx
}

/** A data directory, and attempts at feeds in it, which import in this process. */
export function createFetcher({ dir = temporaryDirectory(), bytesMax = 2 ** 20 } = {}) {
  const store = openFeeds(dir)
  onCleanUp(store.close)
  const controller = new AbortController()
  let nowMs = T0
  const clock = (): number => nowMs
  /** The addresses of host names. */
  const names = new Map([['localhost', ['127.0.0.1']]])
  /** The timers that are running, and what they would do. */
  const timers = new Map<() => void, number>()
  const stores = storesOf({ data: dir, database: undefined, databaseTimeout: 0 }, clock)

  /** Creates attempts as the server has them, except for the process of the import. */
  function attemptsWith({ geoip = [], wrap = tx => tx, ...more }: Changes = {}) {
    const settings = { geoip, providerService: 'the service' }
    const context: AttemptContext = {
      ...{ dir, bytesMax, clock, settings, random: () => 0 },
      openStore: () => store,
      userAgent: 'proxylist/test',
      resolve: async name => names.get(name) ?? [],
      later(run, ms) {
        timers.set(run, ms)
        return () => void timers.delete(run)
      },
      readList: () =>
        stores.withList(async it => ({ isEmpty: await it.isEmpty(), mark: await it.importMark() })),
      async importFeed(task, fd, signal) {
        const place = await openGeoip(geoip)
        const how: ImportContext = { place, provider: '', clock, signal, bytesMax }
        const { replaces } = task.feed
        return stores.withList(
          ({ begin }) => importFeed(task, fd, wrap(begin(replaces ? 'replace' : 'feed')), how),
          replaces ? { onDamage() {} } : undefined,
        )
      },
      ...more,
    }
    return createAttempts(context)
  }

  function rowCount(): number {
    const list = openList(dir)
    try {
      return list.proxies.count()
    } finally {
      list.close()
    }
  }

  return {
    dir,
    store,
    timers,
    controller,
    rowCount,
    names,
    attemptsWith,
    readList: () =>
      stores.withList(async it => ({ isEmpty: await it.isEmpty(), mark: await it.importMark() })),
    /** An import that no feed makes. */
    importLines: (text: string, mode: ImportMode = 'merge'): Promise<void> =>
      stores.withList(async written => {
        const importTx = written.begin(mode)
        const add = (proxy: IncomingProxy): void => importTx.add(proxy)
        const sources = [{ name: 'x', bytes: new Response(text).body as AsyncIterable<Uint8Array> }] // of a text
        const defaults = { type: undefined, nowMs, provider: '', pingUnit: undefined }
        const options = { format: 'auto', strict: true, defaults } as const
        await importSources(sources, options, add, {})
        await importTx.commit()
      }),
    /** Fails if something is imported. */
    notImported: { importFeed: () => Promise.reject(new Error('imported again')) },
    pass: (ms: number): void => {
      nowMs += ms
    },
    /** One attempt at the feed of a line. */
    async fetch(line: string, changes: Changes = {}): Promise<FeedState> {
      const [feed] = parseFeeds(line, 60_000, '--feed')
      return attemptsWith(changes).run(feed as Feed, controller.signal)
    },
  }
}

/** Lines of TXT, `count` proxies from a number on. */
export const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => {
    const n = from + i
    return `http://198.51.${100 + (n >> 8)}.${n & 255}:80\n`
  }).join('')
