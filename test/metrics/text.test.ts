/** A scrape: its cost, its waits, and its feeds. */
import { describe, expect, test } from 'bun:test'
import type { StoredFeed } from '../../src/feeds/store.ts'
import { StoreError } from '../../src/lib/errors.ts'
import type { Attention } from '../../src/metrics/attention.ts'
import type { Observed } from '../../src/metrics/observed.ts'
import { EVERY_MS } from '../../src/metrics/process.ts'
import { createMetricsText, WAIT_MS_MAX } from '../../src/metrics/text.ts'
import { createCounters } from '../../src/metrics/traffic.ts'
import type { Breakdown } from '../../src/proxies/stats.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { T0 } from '../support/fixtures.ts'
import { HAS_PROMTOOL, promtool, samplesOf, valueOf } from '../support/metrics.ts'

const CACHE = { hits: 0, misses: 0, evictions: 0, entries: 0, bytes: 0, bytesMax: 0 }

const BREAKDOWN: Breakdown = {
  ...{ rows: 3, newest: T0 / 1000, median: T0 / 1000 - 60 },
  ...{ types: [{ type: 'http', count: 3 }], countries: [], ages: [] },
}

/** A feed that was fetched once. */
const feedOf = (source: string, more: Partial<StoredFeed> = {}): StoredFeed => ({
  ...{
    id: source,
    source,
    lastSuccessAt: T0,
    importedAt: T0,
    rows: 10,
    rejected: 1,
    missing: 'x',
    error: '',
    failures: 0,
  },
  ...{ nextTryAt: T0, options: '', history: [] },
  validators: { etag: '', lastModified: '', digest: '' },
  ...more,
})

/** A scraped service of which nothing happens by itself; `passMs` lets time pass. */
function scraped(
  more: Partial<Observed> = {},
  attention: () => Promise<readonly Attention[]> = async () => [],
) {
  let elapsedMs = 0
  const timers = new Map<() => void, number>()
  const observed: Observed = {
    databases: () => [],
    space: () => null,
    checks: () => ({ rows: 3, newest: T0 / 1000, ahead: 0 }),
    clockDistanceMs: () => 0,
    nodes: () => [],
    breakdown: () => BREAKDOWN,
    feeds: () => [],
    checker: () => null,
    replication: () => null,
    ...more,
  }
  const scrape = createMetricsText({
    counted: {
      traffic: createCounters().all,
      admissions: { regular: 0, temp: 0, demo: 0, refunded: 0 },
      cacheCounts: () => CACHE,
    },
    ...{ attention, observed, clock: () => T0 + elapsedMs, sqliteVersion: '3' },
    timing: {
      elapsedMs: () => elapsedMs,
      later(run, ms) {
        timers.set(run, elapsedMs + ms)
        return () => void timers.delete(run)
      },
    },
  })
  return {
    scrape,
    /** Lets time pass, in which timers that are due fire, `lateMs` late. */
    passMs(ms: number, lateMs = 0): void {
      elapsedMs += ms + lateMs
      for (const [run, atMs] of timers) {
        if (atMs > elapsedMs) continue
        timers.delete(run)
        run()
      }
    },
  }
}

describe('scrapes', () => {
  test('wait a second at most for counts of the list, and show late ones at the next scrape', async () => {
    const { promise, resolve } = Promise.withResolvers<Breakdown>()
    const { scrape, passMs } = scraped({ breakdown: () => promise })
    const first = scrape()
    passMs(WAIT_MS_MAX)
    const text = await first
    expect(valueOf(text, 'proxylist_list_rows')).toBe(3)
    expect(valueOf(text, 'proxylist_list_newest_check_age_seconds')).toBe(0)
    expect(valueOf(text, 'proxylist_list_rows_by_type')).toBeNull()
    expect(valueOf(text, 'proxylist_list_median_check_age_seconds')).toBeNull()
    resolve(BREAKDOWN)
    const next = await scrape()
    expect(valueOf(next, 'proxylist_list_rows_by_type', { type: 'http' })).toBe(3)
    expect(valueOf(next, 'proxylist_list_median_check_age_seconds')).toBe(61)
  })

  test('leave out metrics that cannot be read', async () => {
    const fail = (): never => {
      throw new StoreError('/secret/proxies.db is locked: select * from proxies')
    }
    const { scrape } = scraped({
      ...{ checks: fail, feeds: fail },
      breakdown: async () => fail(),
    })
    const text = await scrape()
    expect(valueOf(text, 'proxylist_list_rows')).toBeNull()
    expect(valueOf(text, 'proxylist_cache_entries')).toBe(0)
    expect(text).not.toMatch(/secret|select \*/)
  })
})

test('the lag of the event loop is measured from the first scrape on, once in a while', async () => {
  const { scrape, passMs } = scraped()
  passMs(EVERY_MS)
  passMs(EVERY_MS, 300)
  passMs(WAIT_MS_MAX - 3 * EVERY_MS)
  const text = await scrape()
  const name = 'proxylist_event_loop_lag_seconds'
  expect(valueOf(text, `${name}_count`)).toBe(3)
  expect(valueOf(text, `${name}_bucket`, { le: '0.0005' })).toBe(1)
  expect(valueOf(text, `${name}_bucket`, { le: '1' })).toBe(3)
  expect(valueOf(text, `${name}_sum`)).toBeCloseTo(0.3 + 0.6)
})

describe('feeds', () => {
  const NAME = 'proxylist_feed_rows'

  test('show when they last succeeded, their rows and failures', async () => {
    const never = {
      lastSuccessAt: null,
      importedAt: null,
      rows: null,
      rejected: 0,
      failures: 3,
    }
    const feeds = [feedOf('https://a.example/list'), feedOf('https://b.example/list', never)]
    const { scrape } = scraped({ feeds: () => feeds })
    const text = await scrape()
    const [a, b] = feeds.map(({ source }) => ({ source }))
    const of = (name: string) =>
      [a, b].map(labels => valueOf(text, `proxylist_feed_${name}`, labels))
    expect(of('last_success_timestamp_seconds')).toEqual([T0 / 1000, null])
    expect(of('rows')).toEqual([10, null])
    expect(of('consecutive_failures')).toEqual([0, 3])
  })

  test('with equal masked sources get numbers', async () => {
    const feeds = [1, 2, 3].map(rows => feedOf('https://a.example/list?key=***', { rows }))
    const { scrape } = scraped({ feeds: () => feeds })
    const shown = samplesOf(await scrape()).filter(({ name }) => name === NAME)
    expect(shown.map(({ labels, value }) => [labels.source, value])).toEqual([
      ['https://a.example/list?key=***', 1],
      ['https://a.example/list?key=*** #2', 2],
      ['https://a.example/list?key=*** #3', 3],
    ])
  })
})

describe('the checker', () => {
  test('has the metrics of its last status', async () => {
    const judgeProblem = { sentence: 'it is away', sinceMs: T0 }
    const text = await scraped({ checker: () => ({ ...CHECKER_STATUS, judgeProblem }) }).scrape()
    const shown = samplesOf(text).filter(({ name }) => name.startsWith('proxylist_checker_'))
    const values = shown.map(({ name, labels: { queue, result }, value }) => [
      [name.slice('proxylist_checker_'.length), queue, result].filter(Boolean).join(' '),
      value,
    ])
    expect(Object.fromEntries(values)).toMatchObject({
      ...{ written_timestamp_seconds: T0 / 1000, judge_up: 0, coverage_ratio: 0.97 },
      ...{ 'candidates living': 5_120, 'candidates down': 700, 'candidates raw': 94_000 },
      ...{ 'checks_total alive': 900_000, 'checks_total deferred': 12 },
      ...{ 'checks_total forged': 3, 'checks_total replayed': 0 },
      ...{ lag_seconds: 0.4, bytes_total: 1_234_567 },
    })
    if (HAS_PROMTOOL) expect(await promtool(['check', 'metrics'], text)).toBe('')
  })

  test.each([
    ['never ran', () => null],
    [
      'cannot be read',
      () => {
        throw new StoreError('away')
      },
    ],
  ])('has no metrics when it %s', async (_, checker) => {
    const text = await scraped({ checker }).scrape()
    const shown = samplesOf(text).filter(({ name }) => name.startsWith('proxylist_checker_'))
    expect(shown).toEqual([])
  })
})
