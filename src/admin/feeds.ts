/** The routes of feeds: states, fetching one now, and editing the feeds file. */
import {
  checkFeeds,
  type Feed,
  type FeedOptions,
  lineOf,
  optionsOf,
  parseFeedsFile,
} from '../feeds/feed.ts'
import { type CurrentFeeds, parseAllFeeds, withLine } from '../feeds/feeds-file.ts'
import { describeState, newState, type StoredFeed } from '../feeds/store.ts'
import { CommandError } from '../lib/errors.ts'
import type { Observed } from '../metrics/observed.ts'
import type { Feed as Shown } from './api-types.ts'
import { AdminError } from './errors.ts'
import {
  type AdminRoutes,
  type Asked,
  conflict,
  created,
  invalid,
  ok,
  readMembers,
  readObject,
} from './route.ts'

export type FeedParts = {
  feeds: CurrentFeeds
  /** Replaces the text of the feeds file; `null` if the console does not edit it. @throws CommandError. */
  rewrite: ((change: (text: string) => string) => void) | null
  states: Observed['feeds']
  isRunning(id: string): boolean
  /** Starts to fetch a feed; never throws. */
  fetchNow(feed: Feed): void
}

const NO_HEADERS =
  'headers= is for the feeds file: the console sends no file of the server anywhere'

/** Calls `work`. @throws AdminError for a CommandError, without the line number */
function checked<T>(error: (message: string) => AdminError, work: () => T): T {
  try {
    return work()
  } catch (thrown) {
    if (!(thrown instanceof CommandError)) throw thrown
    throw error(thrown.message.replace(/^:1: /, ''))
  }
}

/** A feed as the console shows it; `feed` is `null` if this server does not know it. */
const describeFeed = (
  feed: Feed | null,
  state: StoredFeed,
  isRunning: boolean,
  nowMs: number,
): Shown => ({
  id: state.id,
  ...describeState(state, nowMs),
  from: feed?.from ?? null,
  ...(feed?.isPaused && { next_try: null }),
  paused: feed?.isPaused ?? false,
  running: isRunning,
  options: feed && optionsOf(feed),
})

const BY_OPTION = 'this feed is set up by --feed; change it there'
const SHARED = 'with a shared database, change the feeds file of every machine instead'
const FOR_CHECKER = 'this feed is marked check: proxylist check fetches it, and adds what is alive'

export function createFeedRoutes(parts: FeedParts): AdminRoutes {
  const { feeds, rewrite, states, isRunning, fetchNow } = parts
  const { feedEvery, providerService } = feeds.settings

  /** Reads the feeds file again: an operator may have changed it. */
  async function current(): Promise<readonly Feed[]> {
    await feeds.reload()
    return feeds.current()
  }

  async function find(id: string): Promise<Feed> {
    const found = (await current()).find(feed => feed.id === id)
    if (found === undefined) throw new AdminError('NOT_FOUND', 'there is no such feed here')
    return found
  }

  /** A feed of the feeds file. */
  async function findInFile(id: string): Promise<Feed> {
    const feed = await find(id)
    if (feed.from === 'option') throw conflict(BY_OPTION)
    return feed
  }

  /** The feed and the line of a request. It cannot set a header file, so that the console sends no file of the server. */
  function feedOf(
    source: unknown,
    members: { readonly [member: string]: unknown },
    headersFile: string | null = null,
  ) {
    if (typeof source !== 'string') throw invalid('source must be a URL or a path')
    const options = Object.entries(members).map(([member, value]) => {
      const isFlag = ['replace', 'check', 'paused'].includes(member)
      if (typeof value === (isFlag ? 'boolean' : 'string')) return [member.replace('_', '-'), value]
      throw invalid(`${member} must be ${isFlag ? 'true or false' : 'a string'}`)
    })
    return checked(invalid, () => {
      const line = lineOf(source.trim(), Object.fromEntries(options) as FeedOptions) // as checked
      const [feed] = parseFeedsFile(line, feedEvery, '')
      if (feed === undefined) throw invalid('source must be a URL or a path')
      checkFeeds([feed], providerService)
      if (feed.headersFile !== null && feed.headersFile !== headersFile) throw invalid(NO_HEADERS)
      return { feed, line }
    })
  }

  /** Replaces, adds or removes (`null`) the line of a feed, unless the file would become invalid. */
  async function write(id: string, line: string | null, isNew = false): Promise<void> {
    if (rewrite === null) throw conflict(SHARED)
    checked(conflict, () =>
      rewrite(text => {
        const all = parseAllFeeds(feeds.settings, text)
        if (isNew && all.some(feed => feed.id === id)) throw conflict('this feed is there already')
        const after = withLine(text, id, line)
        parseAllFeeds(feeds.settings, after)
        return after
      }),
    )
    await feeds.reload()
  }

  async function describe(all: readonly Feed[], nowMs: number) {
    const found = new Map((await states()).map(state => [state.id, state]))
    const known = all.map(feed => {
      const { id, shown } = feed
      const state = found.get(id) ?? { id, ...newState(shown, nowMs) }
      found.delete(id)
      return describeFeed(feed, state, isRunning(id), nowMs)
    })
    const others = [...found.values()].map(state => describeFeed(null, state, false, nowMs))
    return [...known, ...others].sort((a, b) => (a.source < b.source ? -1 : 1))
  }

  /** Writes the line of a feed, and describes the feed. */
  async function save({ feed, line }: ReturnType<typeof feedOf>, isNew: boolean, nowMs: number) {
    await write(feed.id, line, isNew)
    return (await describe([feed], nowMs)).find(({ id }) => id === feed.id)
  }

  async function add({ request, nowMs }: Asked) {
    const { source, ...members } = await readObject(request)
    return created(await save(feedOf(source, members), true, nowMs))
  }

  return {
    '/console/feeds': {
      GET: async ({ nowMs }) =>
        ok({ feeds: await describe(await current(), nowMs), problem: feeds.problem() }),
      POST: add,
    },
    '/console/feeds/*': {
      async PUT({ request, name, nowMs }) {
        const { source, headersFile } = await findInFile(name)
        return ok(await save(feedOf(source, await readObject(request), headersFile), false, nowMs))
      },
      async DELETE({ name }) {
        await write((await findInFile(name)).id, null)
        return ok({})
      },
    },
    '/console/feeds/*/fetch': {
      async POST({ request, name }) {
        readMembers(await readObject(request), [])
        const feed = await find(name)
        if (feed.isForChecker) throw conflict(FOR_CHECKER)
        if (isRunning(feed.id)) throw conflict('this feed is being fetched already')
        fetchNow(feed)
        return ok({})
      },
    },
  }
}

/** The routes of a server with the sample list, which has no feeds. */
const refuse = (): never => {
  throw conflict('the sample list is built in: it has no feeds')
}
export const SAMPLE_ROUTES: AdminRoutes = {
  '/console/feeds': { GET: () => ok({ feeds: [], problem: null }), POST: refuse },
}
