/** Owns the metrics of feeds, and the label that names one. */

import type { FeedState } from '../../import/feeds/store.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { Family, Reading, Sample } from '../family.ts'

/** Feeds that are shown, in the order of their sources, and the longest label of one. */
export const FEEDS_MAX = 1000
export const LABEL_LENGTH_MAX = 200

/** One label for each feed. Sources are masked, so two feeds may show the same one. */
export function labelsOf(feeds: readonly FeedState[]): string[] {
  const seen = new Map<string, number>()
  return feeds.map(({ source }) => {
    const cut = source.slice(0, LABEL_LENGTH_MAX)
    const count = (seen.get(cut) ?? 0) + 1
    seen.set(cut, count)
    return count === 1 ? cut : `${cut} #${count}`
  })
}

/** A sample of each feed that has a value. */
function perFeed({ feeds }: Reading, valueOf: (feed: FeedState) => number | null): Sample[] {
  const shown = feeds.slice(0, FEEDS_MAX)
  const labels = labelsOf(shown)
  return shown.flatMap((feed, i) => {
    const value = valueOf(feed)
    return value === null ? [] : [{ labels: { source: labels[i] ?? '' }, value }]
  })
}

const secondsOf = (ms: number | null): number | null => (ms === null ? null : ms / SECOND_MS)

export const feedFamilies: readonly Family[] = [
  {
    name: 'proxylist_feed_last_success_timestamp_seconds',
    type: 'gauge',
    labels: ['source'],
    help: 'When the feed was last fetched and read, in Unix seconds; missing until then.',
    read: reading => perFeed(reading, ({ lastSuccessAt }) => secondsOf(lastSuccessAt)),
  },
  {
    name: 'proxylist_feed_rows',
    type: 'gauge',
    labels: ['source'],
    help: 'Usable rows of the feed at its last import.',
    read: reading => perFeed(reading, ({ rows }) => rows),
  },
  {
    name: 'proxylist_feed_rejected_rows',
    type: 'gauge',
    labels: ['source'],
    help: 'Rejected rows of the feed at its last import.',
    read: reading => perFeed(reading, ({ rejected }) => rejected),
  },
  {
    name: 'proxylist_feed_attempts_total',
    type: 'counter',
    labels: ['source'],
    help: 'Attempts at the feed, by all servers on the data directory.',
    read: reading => perFeed(reading, ({ attempts }) => attempts),
  },
  {
    name: 'proxylist_feed_consecutive_failures',
    type: 'gauge',
    labels: ['source'],
    help: 'Failures of the feed in a row; 0 after a success.',
    read: reading => perFeed(reading, ({ failures }) => failures),
  },
]
