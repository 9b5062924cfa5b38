/** Attempts at feeds in tests: a data directory, a clock and timers moved by hand. */
import { type AttemptContext, attemptFeed } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { runUnderLease } from '../../src/feeds/schedule.ts'
import type { FeedState } from '../../src/feeds/store.ts'
import { importSources } from '../../src/import/import.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import type { ImportMode } from '../../src/proxies/store.ts'
import { openFeeds } from '../../src/sqlite/feeds.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { storesOf } from '../../src/stores.ts'
import { T0 } from './fixtures.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** A feed, and all that a store keeps of its attempts. */
export const FEED = { id: 'a', shown: 'http://h/a' }
export const FEED_STATE: FeedState = {
  source: FEED.shown,
  lastSuccessAt: T0,
  rows: 3,
  rejected: 1,
  missing: 'r',
  error: 'x',
  failures: 2,
  nextTryAt: T0 + 1,
  attempts: 4,
  history: [
    { at: T0, times: 1, rows: null, error: 'x' },
    { at: T0 - 1, times: 1, rows: { usable: 3, added: 2, updated: 1, rejected: 1 }, error: '' },
  ],
  validators: { etag: '"e"', lastModified: 'l', digest: 'd' },
  options: 'o',
}

/** A data directory and attempts at feeds in it. */
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
  const list: AttemptContext['list'] = {
    state: () =>
      stores.withList(async it => ({ isEmpty: await it.isEmpty(), mark: await it.importMark() })),
    change: (feed, work) => stores.withList(work, feed.replaces ? { onDamage() {} } : undefined),
  }
  const context: AttemptContext = {
    ...{ dir, bytesMax, rowsMax: 10_000, clock, list, signal: controller.signal },
    userAgent: 'proxylist/test',
    resolve: async name => names.get(name) ?? [],
    later(run, ms) {
      timers.set(run, ms)
      return () => void timers.delete(run)
    },
    ...{ geoip: [], provider: 'the service' },
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
    context,
    store,
    timers,
    controller,
    rowCount,
    list,
    names,
    /** An import that no feed makes. */
    importLines: (text: string, mode: ImportMode = 'merge'): Promise<void> =>
      stores.withList(async written => {
        const importTx = written.begin(mode)
        const add = (proxy: IncomingProxy): void => importTx.add(proxy)
        const sources = [{ name: 'x', bytes: new Response(text).body as AsyncIterable<Uint8Array> }] // of a text
        const defaults = { type: undefined, nowMs, provider: '', pingUnit: undefined }
        const options = { format: 'auto', strict: true, defaults } as const
        await importSources(sources, options, add, { progress() {}, rejected() {}, ignored() {} })
        await importTx.commit()
      }),
    /** What fails when something is imported. */
    notImported: {
      list: {
        state: list.state,
        change: () => Promise.reject(new Error('imported again')),
      },
    },
    pass: (ms: number): void => {
      nowMs += ms
    },
    /** One attempt at the feed of a line. */
    async fetch(line: string, more: Partial<AttemptContext> = {}): Promise<FeedState> {
      const [feed] = parseFeeds(line, 60_000, '--feed')
      const attempt = (asked: Feed, before: FeedState) =>
        attemptFeed(asked, before, { ...context, ...more })
      const parts = { store, attempt, clock, random: () => 0 }
      const state = await runUnderLease(feed as Feed, 'now', parts, controller.signal)
      if (state === null) throw new Error('another process fetches it')
      return state
    },
  }
}

/** Lines of TXT, `count` proxies from a number on. */
export const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => {
    const n = from + i
    return `http://198.51.${100 + (n >> 8)}.${n & 255}:80\n`
  }).join('')
