/**
 * The routes of feeds: what they brought, fetching one now, a preview, and those that the console itself keeps,
 * as the lines of a feeds file. Those of options and of the feeds file are changed there.
 */
import type { Preview } from '../feeds/attempt.ts'
import { type Feed, type FeedOptions, lineOf, optionsOf, refuseConflicts } from '../feeds/feed.ts'
import { type CurrentFeeds, checkFeeds, parseFeedLines, withLine } from '../feeds/feeds-file.ts'
import { describeState, type FeedLines, newState, type StoredFeed } from '../feeds/store.ts'
import { CommandError } from '../lib/errors.ts'
import { formatInstant, SECOND_MS } from '../lib/time.ts'
import type { Observed } from '../metrics/observed.ts'
import { addressText, type IncomingProxy } from '../proxies/proxy.ts'
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
import type { FeedPreview, Feed as Shown } from './wire.ts'

/** Most feeds of the console, and the longest line of one, in characters. */
const FEEDS_MAX = 1000
const LINE_MAX = 8192
/** Most previews at once, each of which takes as much memory as a fetch. */
const PREVIEWS_MAX = 2
/** How often a change is tried while others change the feeds, too. */
const TRIES = 3

export type FeedParts = {
  feeds: CurrentFeeds
  lines: FeedLines
  states: Observed['feeds']
  isRunning(id: string): boolean
  /** Begins to fetch a feed; never throws. */
  fetchNow(feed: Feed): void
  preview(feed: Feed, signal: AbortSignal): Promise<Preview>
}

const TOO_LONG = `the line of a feed may have at most ${LINE_MAX} characters`
const NO_HEADERS =
  'headers= is for the feeds file: the console sends no file of the server anywhere'

/** What `work` returns. @throws AdminError for a CommandError, without the name and line of the text. */
function checked<T>(error: (message: string, field?: string) => AdminError, work: () => T): T {
  try {
    return work()
  } catch (thrown) {
    if (!(thrown instanceof CommandError)) throw thrown
    const message = thrown.message.replace(/^console-feeds:\d+: /, '')
    const named = /\b(?:source|type|format|every|ping-unit|map)\b(?= must|=|:)/.exec(message)
    throw error(message, named?.[0])
  }
}

const describeRow = ({ type, anon, country, city, cityEn, works, ...row }: IncomingProxy) => ({
  ...{ address: addressText(row), type, anon, country, city: cityEn || city, works },
  ...{ ping_ms: row.pingMs, checked: formatInstant(row.checkedAt * SECOND_MS) },
})

function describePreview(found: Preview, { isForChecker, type }: Feed): FeedPreview {
  if (found.kind === 'failed') return { ...NOTHING, error: found.error }
  const { rows, rejected, messages } = found
  const isOpen = isForChecker && type === undefined // the checker finds it out
  const first = found.first.map(row => ({
    ...describeRow(row),
    ...(isOpen && row.isTypeAssumed && { type: '' as const }),
  }))
  return { ...NOTHING, rows, rejected, messages, first }
}

const NOTHING: FeedPreview = { rows: 0, rejected: 0, first: [], messages: [], error: null }

/** A feed as the console shows it; one that this server does not fetch has no place where it is set up. */
const describeFeed = (feed: Feed | null, state: StoredFeed, isRunning: boolean): Shown => ({
  id: state.id,
  ...describeState(state, feed?.isPaused ?? false),
  from: feed?.from ?? null,
  paused: feed?.isPaused ?? false,
  running: isRunning,
  options: feed && optionsOf(feed),
  history: state.history.map(({ at, ...fetched }) => ({ at: formatInstant(at), ...fetched })),
})

/** The sentence for who would change a feed that is not the console's. */
const ELSEWHERE = {
  option: 'this feed is set up by --feed; change it there',
  file: 'this feed is set up in the feeds file; change it there',
} as const

const FOR_CHECKER = 'this feed is marked check: proxylist check fetches it, and adds what is alive'

export function createFeedRoutes(parts: FeedParts): AdminRoutes {
  const { feeds, lines, states, isRunning, fetchNow } = parts
  const { feedEvery, providerService } = feeds.settings
  let previews = 0

  /** All feeds as they are now, also where another server has changed them. */
  async function current(): Promise<readonly Feed[]> {
    await feeds.useLines(await lines.readLines())
    return feeds.current()
  }

  async function find(id: string): Promise<Feed> {
    const found = (await current()).find(feed => feed.id === id)
    if (found === undefined) throw new AdminError('NOT_FOUND', 'there is no such feed here')
    return found
  }

  /** A feed of the console. */
  async function findOwn(id: string): Promise<Feed> {
    const feed = await find(id)
    if (feed.from !== 'console') throw conflict(ELSEWHERE[feed.from])
    return feed
  }

  /**
   * The feed that members describe, and its line. It keeps its file of headers and gets no other: what the server
   * reads and sends to any host is for the operator of its files to say.
   */
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
      const [feed, ...others] = line.length > LINE_MAX ? [] : parseFeedLines(line, feedEvery)
      if (feed === undefined || others.length > 0) throw invalid(TOO_LONG)
      checkFeeds([feed], providerService)
      if (feed.headersFile !== null && feed.headersFile !== headersFile) throw invalid(NO_HEADERS)
      return { feed, line }
    })
  }

  /** `check` throws unless a line may be stored beside all feeds as they are before. */
  async function write(id: string, line: string | null, check = (_: readonly Feed[]) => {}) {
    for (let n = 0; n < TRIES; n += 1) {
      const before = await lines.readLines()
      await feeds.useLines(before)
      check(feeds.current())
      const after = withLine(before, id, line)
      if (!(await lines.replaceLines(before, after))) continue
      return feeds.useLines(after)
    }
    throw conflict('others have changed the feeds meanwhile; try again')
  }

  async function describe(all: readonly Feed[], nowMs: number) {
    const found = new Map((await states()).map(state => [state.id, state]))
    const known = all.map(feed => {
      const { id, shown } = feed
      const state = found.get(id) ?? { id, ...newState(shown, nowMs) }
      found.delete(id)
      return describeFeed(feed, state, isRunning(id))
    })
    const others = [...found.values()].map(state => describeFeed(null, state, false))
    return [...known, ...others].sort((a, b) => (a.source < b.source ? -1 : 1))
  }

  /** Stores a feed beside the others, and returns what is shown of it. */
  async function save({ feed, line }: ReturnType<typeof feedOf>, isNew: boolean, nowMs: number) {
    await write(feed.id, line, all => {
      const others = all.filter(({ id }) => id !== feed.id)
      if (isNew && others.length < all.length) throw conflict('this feed is there already')
      if (isNew && all.length >= FEEDS_MAX) throw conflict(`there are ${FEEDS_MAX} feeds already`)
      checked(conflict, () => refuseConflicts([...others, feed]))
    })
    return (await describe([feed], nowMs)).find(({ id }) => id === feed.id)
  }

  async function add({ request, nowMs }: Asked) {
    const { source, ...members } = await readObject(request)
    return created(await save(feedOf(source, members), true, nowMs))
  }

  async function preview({ request }: Asked) {
    const { id, source, ...members } = await readObject(request)
    const known = typeof id === 'string' ? await find(id) : null
    const { feed } = feedOf(known?.source ?? source, members, known?.headersFile)
    if (previews >= PREVIEWS_MAX) throw conflict('other previews are under way; try again')
    previews += 1
    try {
      return ok(describePreview(await parts.preview(feed, request.signal), feed))
    } catch (error) {
      if (request.signal.aborted) throw conflict('the client has left') // nobody reads it, and nothing failed
      throw error
    } finally {
      previews -= 1
    }
  }

  return {
    '/console/feeds': {
      GET: async ({ nowMs }) =>
        ok({ feeds: await describe(await current(), nowMs), problem: feeds.problem() }),
      POST: add,
    },
    '/console/feeds/preview': { POST: preview },
    '/console/feeds/*': {
      async PUT({ request, name, nowMs }) {
        const { source, headersFile } = await findOwn(name)
        return ok(await save(feedOf(source, await readObject(request), headersFile), false, nowMs))
      },
      async DELETE({ name }) {
        await write((await findOwn(name)).id, null)
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

/** The routes of a server with the sample list, which no feed changes. */
const refuse = (): never => {
  throw conflict('the sample list is built in: it has no feeds')
}
export const SAMPLE_ROUTES: AdminRoutes = {
  '/console/feeds': { GET: () => ok({ feeds: [], problem: null }), POST: refuse },
  '/console/feeds/preview': { POST: refuse },
}
