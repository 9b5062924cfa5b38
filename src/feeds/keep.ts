/**
 * Owns when a server fetches its feeds, and what it says of them. Each attempt runs elsewhere
 * (`run`), so that requests do not notice; its result is read from the store of feeds.
 */

import { type Clock, type Later, timerLater } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { HOUR_MS, SECOND_MS } from '../lib/time.ts'
import { type Feed, feedLine } from './feed.ts'
import { delayMs, isDue } from './schedule.ts'
import type { FeedState, FeedStore } from './store.ts'

/** Most attempts at once: some that hang must not keep the others waiting; each takes 50 MB. */
const RUNNING_MAX = 8

/** An attempt that is running. `ended` resolves to why it ended without a result, or to `''`. */
export type Attempt = { ended: Promise<string>; kill(): void }

type FeedsOptions = {
  feeds: readonly Feed[]
  store: Pick<FeedStore, 'find'>
  /** Starts an attempt at a feed; one that is not the first may be skipped if it is not due. */
  run: (feed: Feed, isFirst: boolean) => Attempt
  clock: Clock
  say: (sentence: string) => void
  later?: Later
}

const counted = (n: number): string => n.toLocaleString('en-US')
const rowsOf = ({ rows, rejected }: FeedState): string =>
  `${counted(rows ?? 0)} rows${rejected > 0 ? `, ${counted(rejected)} rejected` : ''}`

/** What is worth a sentence: the first result, a new failure, the end of failures, rejections. */
export function reportOf(
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
  if (before === null) return `feed ${shown}: ${rowsOf(after)}`
  if (before.error !== '') return `feed ${shown} works again: ${rowsOf(after)}`
  return before.rejected === 0 && after.rejected > 0 ? `feed ${shown}: ${rowsOf(after)}` : null
}

/** Returns a function that starts attempts, up to `RUNNING_MAX` at once; the others wait in order. */
function createSlots() {
  const waiting: (() => void)[] = []
  let running = 0

  function startNext(): void {
    while (running < RUNNING_MAX) {
      const start = waiting.shift()
      if (start === undefined) return
      running += 1
      start()
    }
  }

  /** An attempt that is started when there is a place; one that is killed before is not started. */
  return function runInSlot(run: () => Attempt): Attempt {
    const { promise, resolve } = Promise.withResolvers<string>()
    let attempt: Attempt | null = null
    const start = (): void => {
      attempt = run()
      void attempt.ended.then(failure => {
        running -= 1
        resolve(failure)
        startNext()
      })
    }
    waiting.push(start)
    startNext()
    return {
      ended: promise,
      kill() {
        if (attempt !== null) return attempt.kill()
        waiting.splice(waiting.indexOf(start), 1)
        resolve('')
      },
    }
  }
}
type RunInSlot = ReturnType<typeof createSlots>

/** A feed that is fetched at its interval; `stop` resolves once no attempt is running. */
type FeedJob = { feed: Feed; stop(): Promise<unknown> }

/** The state of a feed in the store, and saying what the operator does not know of it yet. */
function createReport(feed: Feed, { store, clock, say }: FeedsOptions) {
  let reported: FeedState | null = null
  return {
    async find(): Promise<FeedState | null> {
      try {
        return await store.find(feed.id)
      } catch (error) {
        say(`feed ${feed.shown}: its state cannot be read: ${messageOf(error)}`)
        return null
      }
    },
    report(state: FeedState): void {
      const sentence = reportOf(feed, reported, state, clock())
      if (sentence !== null) say(sentence)
      reported = state
    },
  }
}

/**
 * Fetches one feed now, then at its interval, until it is stopped. `previous` are the attempts at the
 * same source with other options: the first one waits for their end.
 */
function keepFeed(
  feed: Feed,
  runInSlot: RunInSlot,
  options: FeedsOptions,
  previous: Promise<unknown> | undefined,
): FeedJob {
  const { run, clock, say, later = timerLater } = options
  const { find, report } = createReport(feed, options)
  /** The attempt that is running or waits for a place. */
  let current: Attempt | null = null
  let crashes = 0
  let isFirst = true
  let isStopped = false
  let cancel = (): void => {}

  /** Wakes up after `ms`; a clock that steps is noticed after an hour at most. */
  function wakeAfter(ms: number): void {
    cancel = later(() => void wake(), Math.min(Math.max(ms, 1), HOUR_MS))
  }

  async function wake(): Promise<void> {
    const state = await find()
    if (isStopped) return
    const nowMs = clock()
    if (state === null || isDue(state.nextTryAt, feed.everyMs, nowMs)) return void attempt()
    report(state) // another server on this data directory has fetched it
    wakeAfter(state.nextTryAt - nowMs)
  }

  async function attempt(): Promise<void> {
    const attempts = (await find())?.attempts ?? 0
    if (isStopped) return
    current = runInSlot(() => run(feed, isFirst))
    const failure = await current.ended
    current = null
    isFirst = false
    if (!isStopped) await settle(attempts, failure)
  }

  /** Decides when to try again after an attempt that began with this many before it. */
  async function settle(attempts: number, failure: string): Promise<void> {
    const state = await find()
    if (isStopped) return
    if (state !== null && state.attempts > attempts) {
      crashes = 0
      report(state)
      return wakeAfter(state.nextTryAt - clock())
    }
    if (failure !== '') say(`feed ${feed.shown} could not be fetched: ${failure}`)
    crashes = failure === '' ? 0 : crashes + 1
    wakeAfter(delayMs({ everyMs: feed.everyMs, failures: crashes, retryAfterMs: null }, 0))
  }

  if (previous === undefined) void attempt()
  else void previous.then(attempt)
  return {
    feed,
    async stop() {
      isStopped = true
      cancel()
      current?.kill()
      await (current?.ended ?? previous)
    },
  }
}

/** How many feeds were added, given other options, and removed. */
export type FeedChanges = { added: number; changed: number; removed: number }

/** Fetches each feed now, then at its interval, until the job is stopped. */
export function keepFeeds(options: FeedsOptions): {
  change(feeds: readonly Feed[]): FeedChanges
  stop(): void
} {
  const runInSlot = createSlots()
  const jobs = new Map<string, FeedJob>()

  /** Removes the feeds that are not among these; fetches those that are new or changed now. */
  function change(feeds: readonly Feed[]): FeedChanges {
    const changes: FeedChanges = { added: 0, changed: 0, removed: 0 }
    const ids = new Set(feeds.map(({ id }) => id))
    for (const [id, { stop }] of jobs) {
      if (ids.has(id)) continue
      void stop()
      jobs.delete(id)
      changes.removed += 1
    }
    for (const feed of feeds) {
      const job = jobs.get(feed.id)
      if (job !== undefined && feedLine(job.feed) === feedLine(feed)) continue
      jobs.set(feed.id, keepFeed(feed, runInSlot, options, job?.stop()))
      changes[job === undefined ? 'added' : 'changed'] += 1
    }
    return changes
  }

  change(options.feeds)
  return {
    change,
    stop() {
      for (const { stop } of jobs.values()) void stop()
    },
  }
}
