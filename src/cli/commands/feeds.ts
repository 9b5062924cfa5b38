/** Owns `feeds` and `fetch`: the state of the feeds, and one attempt at each of them. */
import { readFileSync } from 'node:fs'
import type { Settings } from '../../config/settings.ts'
import { VERSION } from '../../config/version.ts'
import { type FetchContext, fetchFeed } from '../../feeds/attempt.ts'
import { type Feed, parseFeeds, parseFeedsFile, refuseConflicts } from '../../feeds/feed.ts'
import { isDue } from '../../feeds/schedule.ts'
import { BYTES_MAX } from '../../feeds/source.ts'
import { describeState, type FeedState, type FeedStore } from '../../feeds/store.ts'
import { checkMapping } from '../../import/fields/columns.ts'
import { type Clock, timerLater } from '../../lib/clock.ts'
import { CommandError, unreadable } from '../../lib/errors.ts'
import { type Stores, storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, printJson, say, table, yieldToServer } from '../command.ts'
import { importFeed } from './feed-import.ts'
import { geoipStamp } from './geoip.ts'

function readFeedsFile(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw unreadable(`the feeds file ${file}`, error, 2)
  }
}

/** The feeds that the settings name. @throws CommandError (usage) saying what is wrong with them. */
export function feedsOf({
  feed,
  feeds: file,
  feedEvery,
  providerService: provider,
}: Settings<'feed' | 'feeds' | 'feedEvery' | 'providerService'>): Feed[] {
  const feeds = [
    ...(feed === undefined ? [] : parseFeeds(feed, feedEvery, '--feed')),
    ...(file === undefined ? [] : parseFeedsFile(readFeedsFile(file), feedEvery, file)),
  ]
  refuseConflicts(feeds)
  for (const { shown, mapping } of feeds) checkMapping(mapping, provider, `feed ${shown}: map`)
  return feeds
}

/** Prints states as a table or as JSON. */
async function printStates(states: readonly FeedState[], json: boolean): Promise<void> {
  const shown = states.map(describeState)
  if (json) return printJson(shown)
  const rows = shown.map(({ source, last_success, rows: count, next_try, error }) => [
    source,
    last_success ?? 'never',
    count === null ? '' : count.toLocaleString('en-US'),
    next_try ?? '',
    error ?? '',
  ])
  await print(table(['SOURCE', 'LAST SUCCESS', 'ROWS', 'NEXT TRY', 'ERROR'], rows))
}

const showFeeds = command({
  name: 'feeds',
  summary: 'show each feed with its last success, rows, next try and error',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist feeds --json',
  async run({ settings, clock }) {
    const { listFeeds, place } = storesOf(settings, clock)
    const states = await listFeeds()
    if (states.length === 0 && !settings.json) return say(`no feed was fetched into ${place} yet`)
    await printStates(states, settings.json)
  },
})

type FetchSettings = Settings<'data' | 'geoip' | 'providerService'>

/** What an attempt of this process needs. */
const contextOf = (
  settings: FetchSettings,
  stores: Stores,
  store: FeedStore,
  clock: Clock,
  signal: AbortSignal,
): FetchContext => ({
  store,
  clock,
  signal,
  dir: stores.scratch,
  bytesMax: BYTES_MAX,
  userAgent: `proxylist/${VERSION}`,
  random: Math.random,
  later: timerLater,
  importOptions: `${settings.providerService} ${geoipStamp(settings.geoip)}`,
  // One that cannot be used is imported in full, or that import says what is wrong.
  isListEmpty: () => stores.withList(list => list.isEmpty()).catch(() => true),
  importInto: (feed, sources, importSignal) =>
    importFeed(feed, sources, { ...settings, stores, bytesMax: BYTES_MAX }, clock, importSignal),
})

const fetchCommand = command({
  name: 'fetch',
  summary: 'fetch feeds once, now, as a server does at its intervals; 1 when one fails',
  settings: [
    ...DATA_SETTINGS,
    'feed',
    'feeds',
    'feedEvery',
    'due',
    'geoip',
    'providerService',
    'json',
  ],
  example: 'proxylist fetch --feed https://example.com/list.csv',
  endsAtSignal: 'by itself',
  kept: 'feeds that were not imported yet left the list as it was',
  async run({ settings, clock, signal }) {
    const feeds = feedsOf(settings)
    if (feeds.length === 0) throw new CommandError('name a feed with --feed or --feeds', 2)
    yieldToServer()
    const stores = storesOf(settings, clock)
    const states = await stores.withFeeds(async store => {
      const context = contextOf(settings, stores, store, clock, signal)
      const fetched: FeedState[] = []
      for (const feed of feeds) {
        const before = await store.find(feed.id)
        const isLate = before === null || isDue(before.nextTryAt, feed.everyMs, clock())
        const after = settings.due && !isLate ? before : await fetchFeed(feed, context)
        if (after === null) say(`feed ${feed.shown} is being fetched by another process`)
        else fetched.push(after)
      }
      return fetched
    })
    await printStates(states, settings.json)
    const failed = states.filter(({ error }) => error !== '').length
    if (failed > 0) throw new CommandError(`${failed} of ${feeds.length} feeds failed`)
  },
})

export const FEED_COMMANDS = [showFeeds, fetchCommand]
