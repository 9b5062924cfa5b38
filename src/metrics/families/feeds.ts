/** Owns the metrics of feeds. */

import type { FeedState } from '../../feeds/store.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { type Family, one, type Reading, type Sample } from '../family.ts'

/** A sample of each feed that has a value. */
const perFeed = ({ feeds }: Reading, valueOf: (state: FeedState) => number | null): Sample[] =>
  feeds.flatMap(({ source, state }) =>
    one(valueOf(state)).map(({ value }) => ({ labels: { source }, value })),
  )

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
