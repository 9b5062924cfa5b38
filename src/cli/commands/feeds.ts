/**
 * `feeds` and `fetch`, the state of the feeds and one attempt at each of them, and the process in which a
 * server makes an attempt.
 */
import { type ProcessSettings, readTask } from '../../config/subprocess.ts'
import { VERSION } from '../../config/version.ts'
import {
  type AttemptContext,
  attemptFeed,
  FEED_PROCESS,
  type FeedTask,
  previewFeed,
  ROWS_MAX,
} from '../../feeds/attempt.ts'
import {
  type CandidateRow,
  candidateList,
  createCandidateAttempts,
} from '../../feeds/candidates.ts'
import type { Feed } from '../../feeds/feed.ts'
import { type CurrentFeeds, parseFeedLines, readFeeds } from '../../feeds/feeds-file.ts'
import { BYTES_MAX, resolveBySystem } from '../../feeds/fetch.ts'
import {
  type Attempts,
  createAttempts,
  runUnderLease,
  scheduleFeeds,
} from '../../feeds/schedule.ts'
import { describeState, type FeedLines, type FeedState, type FeedStore } from '../../feeds/store.ts'
import { type Job, type OnFailure, repeat } from '../../jobs/runner.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { type Clock, timerLater } from '../../lib/clock.ts'
import { CommandError } from '../../lib/errors.ts'
import { counted } from '../../lib/plural.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, printJson, say, table, yieldToServer } from '../command.ts'

/** Rejected rows that are reported one by one. */
const NAMED_REJECTIONS = 20

async function printStates<S extends FeedState>(
  states: readonly S[],
  json: boolean,
  isPaused: (state: S) => boolean = () => false,
): Promise<void> {
  const shown = states.map(state => describeState(state, isPaused(state)))
  if (json) return printJson(shown)
  const rows = shown.map(({ source, last_success, rows: count, next_try, error }) => [
    source,
    last_success ?? 'never',
    count === null ? '' : counted(count),
    next_try ?? 'paused',
    error ?? '',
  ])
  await print(table(['SOURCE', 'LAST SUCCESS', 'ROWS', 'NEXT TRY', 'ERROR'], rows))
}

const showFeeds = command({
  name: 'feeds',
  summary: 'show feeds with last success, rows, next try and error',
  settings: [...DATA_SETTINGS, 'json'],
  example: 'proxylist feeds --json',
  async run({ settings, clock }) {
    const { listFeeds, readFeedLines, shown } = storesOf(settings, clock)
    const states = await listFeeds()
    const lines = parseFeedLines(await readFeedLines(), 0)
    const paused = lines.filter(({ isPaused }) => isPaused).map(({ id }) => id)
    if (states.length === 0 && !settings.json) return say(`no feed was fetched into ${shown} yet`)
    await printStates(states, settings.json, state => paused.includes(state.id))
    for (const { source, missing } of states) if (missing !== '') say(`${source}: ${missing}`)
  },
})

/** What an attempt at a feed of the list needs, on the stores of these settings. */
function contextOf(settings: ProcessSettings, clock: Clock, signal: AbortSignal): AttemptContext {
  const stores = storesOf(settings, clock)
  return {
    dir: stores.scratch,
    ...{ bytesMax: BYTES_MAX, rowsMax: ROWS_MAX },
    resolve: resolveBySystem,
    userAgent: `proxylist/${VERSION}`,
    list: {
      // One that cannot be used is imported in full, or that import says what is wrong.
      state: () =>
        stores
          .withList(async list => ({
            isEmpty: await list.isEmpty(),
            mark: await list.importMark(),
          }))
          .catch(() => ({ isEmpty: true, mark: '' })),
      change: ({ replaces }, work) =>
        stores.withList(work, replaces ? { onDamage: say } : undefined),
    },
    ...{ clock, signal, later: timerLater },
    ...{ geoip: settings.geoip, provider: settings.providerService },
  }
}

const fetchCommand = command({
  name: 'fetch',
  summary: 'fetch feeds once, now; status 1 when one fails',
  settings: [
    ...DATA_SETTINGS,
    ...(['feed', 'feeds', 'feedEvery', 'due', 'geoip', 'providerService', 'json'] as const),
  ],
  example: 'proxylist fetch --feed https://example.com/list.csv',
  endsAtSignal: 'by itself',
  kept: 'feeds that were not imported yet left the list as it was',
  async run({ settings, clock, signal }) {
    const named = await readFeeds(settings)
    if (named.length === 0) throw new CommandError('name a feed with --feed or --feeds', 2)
    const feeds = named.filter(({ isForChecker }) => !isForChecker)
    for (const { shown, isForChecker } of named) {
      if (isForChecker) say(`feed ${shown} is marked check: proxylist check fetches it`)
    }
    yieldToServer()
    const context = contextOf(settings, clock, signal)
    const attempt = (feed: Feed, before: FeedState) => {
      let left = NAMED_REJECTIONS
      const onRejected = (sentence: string): void => {
        if (left-- > 0) say(sentence)
      }
      return attemptFeed(feed, before, { ...context, onRejected })
    }
    const states = await storesOf(settings, clock).withFeeds(async store => {
      const fetched: FeedState[] = []
      for (const feed of feeds) {
        const when = settings.due ? 'if due' : 'now'
        const parts = { store, attempt, clock, random: Math.random }
        const after = await runUnderLease(feed, when, parts, signal)
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

type FeedJobs = {
  feeds: CurrentFeeds
  feedLines: FeedLines
  attempts: Attempts
  isOurs: (feed: Feed) => boolean
  /** Is given all feeds, at first and whenever they change. */
  keep: (all: readonly Feed[]) => Awaitable<void>
  clock: Clock
  say: (sentence: string) => void
  onFailure: OnFailure
}

/** How often is looked whether a console, of another server too, has changed its feeds. */
const LINES_EVERY_MS = 5 * SECOND_MS

/** Fetches those of the feeds that are ours, again and again, as they are whenever they change. */
export async function fetchFeeds(parts: FeedJobs): Promise<Job[]> {
  const { feeds, feedLines, attempts, isOurs, keep, clock, say: tell, onFailure } = parts
  await keep(feeds.current())
  const ours = feeds.current().filter(isOurs)
  const job = scheduleFeeds({ feeds: ours, attempts, clock, say: tell, later: timerLater })
  feeds.onChange(async all => {
    const changes = job.change(all.filter(isOurs))
    await keep(all)
    return changes
  })
  const readLines = async (): Promise<void> => feeds.useLines(await feedLines.readLines())
  const look = repeat(() => void readLines().catch(onFailure), LINES_EVERY_MS)
  return [{ stop: () => feeds.onChange(null) }, job, look]
}

/**
 * Fetches the feeds that are marked `check`, of the settings and of the console, and gives their rows to `take`,
 * which returns how many of them were new. The states of the others stay as they are.
 */
export async function fetchCandidates(
  {
    take,
    settings,
    openStore,
    ...parts
  }: Pick<FeedJobs, 'feeds' | 'feedLines' | 'clock' | 'say' | 'onFailure'> & {
    take: (rows: readonly CandidateRow[]) => Awaitable<number>
    settings: ProcessSettings
    openStore: () => Awaitable<FeedStore>
  },
  program?: readonly string[],
): Promise<Job[]> {
  const { feeds, feedLines, clock } = parts
  await feeds.useLines(await feedLines.readLines())
  const attempt = createCandidateAttempts(take, settings, program)
  return fetchFeeds({
    ...parts,
    attempts: createAttempts({ openStore, attempt, clock, random: Math.random }),
    isOurs: ({ isForChecker }) => isForChecker,
    keep() {},
  })
}

/** What a server starts for an attempt. */
export const feedProcess = command({
  name: FEED_PROCESS,
  summary: 'make one attempt at a feed for a server',
  settings: [],
  example: `proxylist ${FEED_PROCESS}`,
  endsAtSignal: 'by itself',
  kept: 'the list is as it was',
  async run({ clock, signal: own }) {
    yieldToServer()
    const { task, signal } = await readTask<FeedTask>(own)
    const { feed, before, settings } = task
    const stored = contextOf(settings, clock, signal)
    const context = feed.isForChecker ? { ...stored, list: candidateList(print) } : stored
    const outcome =
      before === null ? await previewFeed(feed, context) : await attemptFeed(feed, before, context)
    await print(`${JSON.stringify(outcome)}\n`)
  },
})
