/** `feeds` shows the state of the feeds, and `fetch` makes one attempt at each; also the import process of a server. */
import {
  FILE_DESCRIPTOR,
  forProcesses,
  type ProcessSettings,
  readTask,
} from '../../config/subprocess.ts'
import { VERSION } from '../../config/version.ts'
import { type AttemptContext, createAttempts } from '../../feeds/attempt.ts'
import { candidateImport } from '../../feeds/candidates.ts'
import { parseAllFeeds, readFeedsFile } from '../../feeds/feeds-file.ts'
import { BYTES_MAX, resolveBySystem } from '../../feeds/fetch.ts'
import {
  IMPORT_PROCESS,
  importFeed,
  importFeedInChild,
  type ProcessTask,
} from '../../feeds/import-feed.ts'
import { describeStale, describeState, type FeedState } from '../../feeds/store.ts'
import { openGeoip } from '../../import/geoip.ts'
import type { Clock } from '../../lib/clock.ts'
import { CommandError, orAborted } from '../../lib/errors.ts'
import { formatCount } from '../../lib/plural.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say, show, yieldToServer } from '../command.ts'

async function printStates(
  states: readonly FeedState[],
  nowMs: number,
  json: boolean,
): Promise<void> {
  const shown = states.map(state => describeState(state, nowMs))
  await show(json, shown, {
    SOURCE: ({ source }) => source,
    'LAST SUCCESS': ({ last_success }) => last_success ?? 'never',
    ROWS: ({ rows }) => (rows === null ? '' : formatCount(rows)),
    'NEXT TRY': ({ next_try }) => next_try ?? '',
    ERROR: ({ error }) => error ?? '',
  })
  if (json) return
  for (const { source, missing } of states) if (missing !== '') say(`${source}: ${missing}`)
  for (const sentence of describeStale(states, nowMs)) say(sentence)
}

const showFeeds = command({
  name: 'feeds',
  summary: 'show feeds with last success, rows, next try and error',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist feeds --json',
  async run({ settings, clock }) {
    const { listFeeds, shown } = storesOf(settings, clock)
    const states = await listFeeds()
    if (states.length === 0 && !settings.json) return say(`no feed was fetched into ${shown} yet`)
    await printStates(states, clock(), settings.json)
  },
})

/** The parts of attempts that all commands share: how a source is fetched, and imported in a process. */
export const attemptsWith = (
  settings: ProcessSettings,
  clock: Clock,
): Omit<AttemptContext, 'openStore' | 'readList'> => ({
  ...{ settings, clock, bytesMax: BYTES_MAX, resolve: resolveBySystem },
  dir: storesOf(settings, clock).scratch,
  userAgent: `proxylist/${VERSION}`,
  importFeed: (task, fd, signal) => importFeedInChild({ ...task, settings }, fd, signal),
})

const fetchCommand = command({
  name: 'fetch',
  summary: 'fetch feeds once, now; status 1 when one fails',
  settings: [
    ...DATA_SETTINGS,
    ...(['feed', 'feeds', 'feedEvery', 'geoip', 'providerService', 'json'] as const),
  ],
  example: 'proxylist fetch --feed https://example.com/list.csv',
  endsAtSignal: 'by itself',
  kept: 'feeds that were not imported yet left the list as it was',
  async run({ settings, clock, signal }) {
    const isFileRead = settings.feed === undefined || settings.feeds !== undefined
    const named = parseAllFeeds(settings, isFileRead ? readFeedsFile(settings) : '')
    if (named.length === 0)
      throw new CommandError('there is no feed: name one with --feed, or in the feeds file', 2)
    const feeds = named.filter(({ isForChecker }) => !isForChecker)
    for (const { shown, isForChecker } of named) {
      if (isForChecker) say(`feed ${shown} is marked check: proxylist check fetches it`)
    }
    yieldToServer()
    const { withFeeds, withList } = storesOf(settings, clock)
    const states = await withFeeds(async store => {
      const attempts = createAttempts({
        ...attemptsWith(forProcesses(settings), clock),
        openStore: () => store,
        readList: () =>
          withList(async list => ({
            isEmpty: await list.isEmpty(),
            mark: await list.importMark(),
          })),
      })
      const fetched: FeedState[] = []
      for (const feed of feeds) fetched.push(await attempts.run(feed, signal))
      return fetched
    })
    await printStates(states, clock(), settings.json)
    const failed = states.filter(({ error }) => error !== '').length
    if (failed > 0) throw new CommandError(`${failed} of ${feeds.length} feeds failed`)
  },
})

export const FEED_COMMANDS = [showFeeds, fetchCommand]

/** The process that imports a feed for a server, a checker, or `fetch`. */
export const feedImportProcess = command({
  name: IMPORT_PROCESS,
  summary: 'import a fetched feed for a server',
  settings: [],
  example: `proxylist ${IMPORT_PROCESS}`,
  endsAtSignal: 'by itself',
  kept: 'the list is as it was',
  async run({ clock, signal: own }) {
    yieldToServer()
    const { task, signal } = await readTask<ProcessTask>(own)
    const { feed, settings } = task
    const place = await orAborted(openGeoip(settings.geoip), signal)
    const fd = feed.kind === 'url' ? FILE_DESCRIPTOR : null
    const context = { place, provider: settings.providerService, clock, signal }
    const replacing = feed.replaces ? { onDamage: say } : undefined
    const imported = feed.isForChecker
      ? await importFeed(task, fd, candidateImport(print), context)
      : await storesOf(settings, clock).withList(
          ({ begin }) => importFeed(task, fd, begin(feed.replaces ? 'replace' : 'feed'), context),
          replacing,
        )
    await print(`${JSON.stringify(imported)}\n`)
  },
})
