/**
 * When feeds are fetched (contract G1): one attempt under a lease, from which a new state follows, and a
 * server that makes attempts again and again and says what is worth a sentence. How a feed is fetched
 * is in `attempt.ts`; a server gives that to another process, so that requests do not notice.
 */
import type { Awaitable } from '../lib/awaitable.ts'
import { type Clock, type Later, orAfter } from '../lib/clock.ts'
import { messageOf, untilAborted } from '../lib/errors.ts'
import { createLines } from '../lib/fair-queue.ts'
import { several } from '../lib/plural.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { AttemptResult } from './attempt.ts'
import type { Feed } from './feed.ts'
import { type FeedFetch, type FeedState, type FeedStore, newState, withFetch } from './store.ts'

const RETRY_AFTER_MS_MAX = HOUR_MS
const BACKOFF_MS_MAX = 10 * MINUTE_MS
/** A delay after a failure grows by up to this share of itself, so that servers do not meet. */
const JITTER = 0.1

/**
 * The delay until the next try, in milliseconds, after so many failures in a row, the last of which took
 * `tookMs`. `retryAfterMs` is what a `Retry-After` asked for; `random` is from 0 up to 1.
 */
export function delayAfterFailure(
  everyMs: number,
  tookMs: number,
  failures: number,
  retryAfterMs: number | null,
  random: number,
): number {
  const shortest = Math.max(everyMs, tookMs)
  const longest = Math.max(shortest, BACKOFF_MS_MAX)
  const backoff = Math.min(shortest * 2 ** Math.min(failures - 1, 30), longest)
  const delay = Math.round(backoff * (1 + JITTER * random))
  return Math.max(delay, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MS_MAX))
}

/**
 * Whether a feed is due. A time further ahead than its delay, by more than clocks of machines differ, was
 * written by a clock that was wrong: the feed is due then.
 */
export function isDue({ failures, nextTryAt }: FeedState, everyMs: number, nowMs: number): boolean {
  const longestMs = failures > 0 ? Math.max(everyMs, BACKOFF_MS_MAX, RETRY_AFTER_MS_MAX) : everyMs
  return nextTryAt <= nowMs || nextTryAt > nowMs + longestMs * (1 + JITTER) + MINUTE_MS
}

function stateAfter(
  before: FeedState,
  outcome: AttemptResult,
  { shown, everyMs }: Feed,
  { tookMs, nowMs, random }: { tookMs: number; nowMs: number; random: number },
): FeedState {
  const fetched = (rows: FeedFetch['rows'], error = '') =>
    withFetch(before.history, { at: nowMs, times: 1, rows, error })
  const state = { ...before, source: shown, attempts: before.attempts + 1 }
  if (outcome.kind === 'failed') {
    const { error, retryAfterMs } = outcome
    const failures = before.failures + 1
    const history = fetched(null, error)
    const nextTryAt = nowMs + delayAfterFailure(everyMs, tookMs, failures, retryAfterMs, random)
    return { ...state, error, failures, nextTryAt, history }
  }
  const success = { lastSuccessAt: nowMs, error: '', failures: 0, nextTryAt: nowMs + everyMs }
  if (outcome.kind === 'unchanged') return { ...state, ...success, history: fetched(null) }
  const { kind, changes, ...imported } = outcome
  const rows = { ...changes, usable: imported.rows, rejected: imported.rejected }
  return { ...state, ...imported, ...success, history: fetched(rows) }
}

type FetchContext = {
  store: FeedStore
  /** Fetches a feed now. @throws the reason of `signal` once that is aborted. */
  attempt: (feed: Feed, before: FeedState, signal: AbortSignal) => Promise<AttemptResult>
  clock: Clock
  random: () => number
}

/**
 * Attempts a feed under its lease, now or if it is due: fetches it, and imports what has changed. Returns its
 * state after that; `null` while another process has the lease. @throws the reason of `signal` once that is aborted.
 */
export async function runUnderLease(
  feed: Feed,
  when: 'now' | 'if due',
  { store, attempt, clock, random }: FetchContext,
  signal: AbortSignal,
): Promise<FeedState | null> {
  if (!(await store.lease(feed, clock()))) return null
  try {
    const before = (await store.find(feed.id)) ?? newState(feed.shown, clock())
    if (when === 'if due' && !isDue(before, feed.everyMs, clock())) return before
    const startedMs = clock()
    const outcome = await attempt(feed, before, signal)
    const nowMs = clock()
    const times = { tookMs: nowMs - startedMs, nowMs, random: random() }
    const after = stateAfter(before, outcome, feed, times)
    const isRemoved = (await store.find(feed.id)) === null // while it was fetched: it stays removed
    if (!isRemoved) await store.save(feed.id, after)
    return after
  } finally {
    await store.release(feed.id)
  }
}

/** What is worth a sentence: the first result, a new failure, the end of failures, missing rows. */
function reportOf(
  { shown }: Feed,
  before: FeedState | null,
  after: FeedState,
  nowMs: number,
): string | null {
  if (after.error !== '') {
    if (after.error === before?.error) return null
    const seconds = Math.max(0, Math.round((after.nextTryAt - nowMs) / SECOND_MS))
    return `feed ${shown}: ${after.error}; the list stays as it was, next try in ${seconds} s`
  }
  const missing = after.missing === '' ? '' : `; ${after.missing}`
  const rows = `${several(after.rows ?? 0, 'row')}${missing}`
  if (before !== null && before.error !== '') return `feed ${shown} works again: ${rows}`
  const isNew = before === null || (before.rejected === 0 && after.rejected > 0)
  return isNew ? `feed ${shown}: ${rows}` : null
}

export type Attempts = ReturnType<typeof createAttempts>

/**
 * The attempts of one process, one at a time for each feed: a lease is one of the process. The store is
 * opened for the first of them.
 */
export function createAttempts({
  openStore,
  ...context
}: Omit<FetchContext, 'store'> & { openStore: () => Awaitable<FeedStore> }) {
  const ofFeed = createLines(1)
  /** An attempt takes 50 MB. Servers that hang keep other ones waiting when they are as many, but never a file. */
  const ofKind = { url: createLines(8), path: createLines(2) }
  return {
    /** Whether an attempt at a feed is under way here, or waits for its place. */
    isRunning: (id: string): boolean => ofFeed.lengthOf(id) > 0,
    /** `runUnderLease`, after the attempt at the feed that is under way here. */
    run(feed: Feed, when: 'now' | 'if due', signal: AbortSignal): Promise<FeedState | null> {
      const work = async (): Promise<FeedState | null> =>
        runUnderLease(feed, when, { ...context, store: await openStore() }, signal)
      const attempt = () => ofKind[feed.kind].inLine('', work, signal)
      return ofFeed.inLine(feed.id, attempt, signal)
    },
  }
}

type ScheduleOptions = {
  feeds: readonly Feed[]
  attempts: Pick<Attempts, 'run'>
  clock: Clock
  say: (sentence: string) => void
  later: Later
}

/**
 * Fetches one feed now, then at its interval, until it is stopped. `previous` are the attempts at the
 * same source with other options: the first one waits for their end.
 */
function scheduleFeed(
  feed: Feed,
  { attempts, clock, say, later }: ScheduleOptions,
  previous: Promise<void> | undefined,
) {
  const controller = new AbortController()
  const { signal } = controller
  const stopped = untilAborted(signal)
  let reported: FeedState | null = null
  let failures = 0
  /** Why its state cannot be read or written; said once, and once that it can be again. */
  let obstacle: string | null = null
  let when: 'now' | 'if due' = 'now'

  /** Returns the milliseconds until the next attempt. */
  async function attempt(): Promise<number> {
    try {
      const state = await attempts.run(feed, when, signal)
      failures = 0
      if (obstacle !== null) say(`feed ${feed.shown}: its state can be read and written again`)
      obstacle = null
      when = 'if due'
      if (state === null) return feed.everyMs
      const sentence = reportOf(feed, reported, state, clock())
      if (sentence !== null) say(sentence)
      reported = state
      return state.nextTryAt - clock()
    } catch (error) {
      if (signal.aborted) return 0
      const reason = messageOf(error)
      if (reason !== obstacle) {
        say(`feed ${feed.shown}: its state cannot be read or written: ${reason}`)
      }
      obstacle = reason
      failures += 1
      return delayAfterFailure(feed.everyMs, 0, failures, null, 0)
    }
  }

  const ended = (async () => {
    await previous
    while (!signal.aborted) {
      const waitMs = await attempt()
      if (signal.aborted) return
      // A clock that steps is noticed after an hour at most.
      await orAfter(stopped, Math.min(Math.max(waitMs, 1), HOUR_MS), later)
    }
  })()
  return {
    feed,
    /** Resolves once no attempt is running. */
    stop(): Promise<void> {
      controller.abort()
      return ended
    },
  }
}

/** How many feeds were added, given other options, and removed. */
export type FeedChanges = { added: number; changed: number; removed: number }

/** Fetches each feed now, then at its interval, until `stop`. */
export function scheduleFeeds(options: ScheduleOptions) {
  const jobs = new Map<string, ReturnType<typeof scheduleFeed>>()

  /** Removes the feeds that are not among these, or paused; fetches those that are new or changed now. */
  function change(all: readonly Feed[]): FeedChanges {
    const changes: FeedChanges = { added: 0, changed: 0, removed: 0 }
    const feeds = all.filter(({ isPaused }) => !isPaused)
    const ids = new Set(feeds.map(({ id }) => id))
    for (const [id, { stop }] of jobs) {
      if (ids.has(id)) continue
      void stop()
      jobs.delete(id)
      changes.removed += 1
    }
    for (const feed of feeds) {
      const job = jobs.get(feed.id)
      if (job !== undefined && Bun.deepEquals(job.feed, feed)) continue
      jobs.set(feed.id, scheduleFeed(feed, options, job?.stop()))
      changes[job === undefined ? 'added' : 'changed'] += 1
    }
    return changes
  }

  change(options.feeds)
  return {
    change,
    async stop(): Promise<void> {
      await Promise.all([...jobs.values()].map(({ stop }) => stop()))
    },
  }
}
