/** One attempt at a feed: fetch it, import it if it has changed, save its state (contract G1). */
import { closeSync } from 'node:fs'
import type { Awaitable } from '../lib/awaitable.ts'
import { type SetTimer, timerLater } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { type Feed, importOptionsOf, inFeedLine } from './feed.ts'
import { type FetchContext, FetchFailure, fetchFeed } from './fetch.ts'
import type { FeedTask, Imported } from './import-feed.ts'
import { type FeedState, type FeedStore, newState } from './store.ts'

export const FETCH_MS_MAX = MINUTE_MS
/** The longest time for an import, including its wait for the lock of the list. */
export const IMPORT_MS_MAX = 5 * MINUTE_MS

const RETRY_MS = 30 * SECOND_MS
const RETRY_MS_MAX = 10 * MINUTE_MS
const RETRY_AFTER_MS_MAX = HOUR_MS
/** Adds up to 10 % at random, so that machines do not retry together. */
const JITTER = 0.1

/** The delay after this many failures in a row. Only `Retry-After` makes it longer than the interval of the feed. */
export function delayAfterFailure(
  everyMs: number,
  failures: number,
  retryAfterMs: number | null,
  random: number,
): number {
  const backoff = Math.min(RETRY_MS * 2 ** Math.min(failures - 1, 30), RETRY_MS_MAX)
  const delay = Math.min(Math.round(backoff * (1 + JITTER * random)), everyMs)
  return Math.max(delay, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MS_MAX))
}

export type AttemptContext = FetchContext & {
  openStore: () => Awaitable<Pick<FeedStore, 'find' | 'save'>>
  readList: () => Awaitable<{
    isEmpty: boolean
    /** A new mark is a reason to import again, see `ProxyWriter`. */
    mark: string
  }>
  /** @throws CommandError when the import fails; the list is unchanged. */
  importFeed(task: FeedTask, fd: number | null, signal: AbortSignal): Promise<Imported>
  /** The settings that an import depends on. */
  settings: { geoip: readonly string[]; providerService: string }
  random?: () => number
  later?: SetTimer
}

export type Attempts = ReturnType<typeof createAttempts>

/** The attempts of a process. Attempts at the same feed run one after another. One import runs at a time. */
export function createAttempts(context: AttemptContext) {
  const { openStore, importFeed, settings, clock } = context
  const { random = Math.random, later = timerLater } = context
  const running = new Map<string, Promise<FeedState>>()
  let lastImport: Promise<unknown> = Promise.resolve()

  function afterOtherImports<T>(work: () => Promise<T>): Promise<T> {
    const result = lastImport.then(work)
    lastImport = result.catch(() => {})
    return result
  }

  /** Calls `work` with a signal that is aborted with `signal`, and after `ms`. */
  async function within<T>(
    ms: number,
    what: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const deadline = new AbortController()
    const cancel = later(() => deadline.abort(new FetchFailure(`takes longer than ${what}`)), ms)
    return work(AbortSignal.any([signal, deadline.signal])).finally(cancel)
  }

  /** Fetches and imports a feed. Returns what changes in its state. @throws CommandError */
  async function fetchAndImport(
    feed: Feed,
    before: FeedState,
    signal: AbortSignal,
  ): Promise<Partial<FeedState>> {
    // If the list cannot be read, the import reports the error, or replaces the list.
    const readList = () => Promise.try(context.readList).catch(() => ({ isEmpty: true, mark: '' }))
    const { geoip, providerService } = settings
    const optionsWith = (mark: string): string =>
      `${importOptionsOf(feed)} ${providerService} ${geoip.join(' ')} ${mark}`
    const { isEmpty, mark } = await readList()
    const known = !isEmpty && before.options === optionsWith(mark) ? before.validators : null
    const fetched = await within(FETCH_MS_MAX, '60 s', signal, each =>
      fetchFeed(feed, known, context, each),
    )
    if (fetched === null) return {} // unchanged
    const { fd, sent, validators } = fetched
    try {
      // The same content may come with another ETag: a proxylist sends the first one with its second answer.
      if (validators.digest === known?.digest) return { validators }
      // Content that is imported again, because the list or an option changed, was not checked again meanwhile.
      const earlier = validators.digest === before.validators.digest ? before.importedAt : null
      const importedAt = earlier ?? clock()
      const task = { feed, sent: { ...sent, atMs: earlier ?? sent.atMs }, rowsBefore: before.rows }
      const imported = await afterOtherImports(() =>
        within(IMPORT_MS_MAX, '5 minutes to import', signal, each => importFeed(task, fd, each)),
      )
      // Replacing the list changes its mark. With the old mark, this feed would be imported again.
      const options = optionsWith(feed.replaces ? (await readList()).mark : mark)
      return { ...imported, validators, options, importedAt }
    } finally {
      if (fd !== null) closeSync(fd)
    }
  }

  async function attempt(feed: Feed, signal: AbortSignal): Promise<FeedState> {
    const store = await openStore()
    const before = (await store.find(feed.id)) ?? newState(feed.shown, clock())
    const state = { ...before, source: feed.shown }
    let after: FeedState
    try {
      const changes = await fetchAndImport(feed, before, signal)
      const success = { lastSuccessAt: clock(), error: '', failures: 0 }
      after = { ...state, ...changes, ...success, nextTryAt: clock() + feed.everyMs }
    } catch (thrown) {
      signal.throwIfAborted()
      if (!(thrown instanceof CommandError)) throw thrown
      // Removes the name of the feed: readers see it beside the error.
      const error = inFeedLine(messageOf(thrown))
        .replaceAll(`${feed.shown}: `, '')
        .replaceAll(feed.source, feed.shown)
      const failures = before.failures + 1
      const retryAfterMs = thrown instanceof FetchFailure ? thrown.retryAfterMs : null
      const delay = delayAfterFailure(feed.everyMs, failures, retryAfterMs, random())
      after = { ...state, error, failures, nextTryAt: clock() + delay }
    }
    await store.save(feed.id, after)
    return after
  }

  return {
    isRunning: (id: string): boolean => running.has(id),

    /** Waits for the running attempt at this feed, then makes one. @throws the reason of `signal` if it is aborted. */
    async run(feed: Feed, signal: AbortSignal): Promise<FeedState> {
      while (running.has(feed.id)) await running.get(feed.id)?.catch(() => {})
      signal.throwIfAborted()
      const attempted = attempt(feed, signal)
      running.set(feed.id, attempted)
      return attempted.finally(() => running.delete(feed.id))
    },
  }
}
