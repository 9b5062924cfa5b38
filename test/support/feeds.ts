/** Owns attempts at feeds in tests: a data directory, a clock and timers moved by hand. */

import { importFeed } from '../../src/cli/commands/feed-import.ts'
import { type FetchContext, fetchFeed } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import type { FeedState } from '../../src/feeds/store.ts'
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
  error: 'x',
  failures: 2,
  nextTryAt: T0 + 1,
  attempts: 4,
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
  /** The timers that are running, and what they would do. */
  const timers = new Map<() => void, number>()
  const stores = storesOf({ data: dir, database: undefined, databaseTimeout: 0 }, clock)
  const settings = { bytesMax, stores, geoip: [], providerService: 'the service' }
  const context: FetchContext = {
    ...{ store, dir, bytesMax, clock, signal: controller.signal },
    userAgent: 'proxylist/test',
    random: () => 0,
    later(run, ms) {
      timers.set(run, ms)
      return () => void timers.delete(run)
    },
    importOptions: '',
    isListEmpty: () => Promise.resolve(rowCount() === 0),
    importInto: (feed, sources, signal) => importFeed(feed, sources, settings, clock, signal),
  }

  function rowCount(): number {
    const list = openList(dir)
    try {
      return list.proxies.extent().rows
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
    pass: (ms: number): void => {
      nowMs += ms
    },
    /** One attempt at the feed of a line. */
    async fetch(line: string, more: Partial<FetchContext> = {}): Promise<FeedState> {
      const [feed] = parseFeeds(line, 60_000, '--feed')
      const state = await fetchFeed(feed as Feed, { ...context, ...more })
      if (state === null) throw new Error('another process fetches it')
      return state
    },
  }
}

/** Lines of TXT, `count` proxies from a number on. */
export const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => {
    const n = from + i
    return `http://198.51.${(n >> 8) & 255}.${n & 255}:80\n`
  }).join('')
