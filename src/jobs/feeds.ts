/**
 * Owns when a server fetches its feeds, and what it says of them. Each attempt runs elsewhere
 * (`run`), so that requests do not notice; its result is read from the store of feeds.
 */
import { type Later, timerLater } from '../access/auth-throttle.ts'
import type { Feed } from '../import/feeds/feed.ts'
import { delayMs, isDue } from '../import/feeds/schedule.ts'
import type { FeedState, FeedStore } from '../import/feeds/store.ts'
import type { Clock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { HOUR_MS, SECOND_MS } from '../lib/time.ts'
import type { Job } from './runner.ts'

/** Most attempts at once: some that hang must not keep the others waiting; each takes 50 MB. */
const RUNNING_MAX = 8

/** An attempt that is running. `ended` resolves to why it ended without a result, or to `''`. */
export type Attempt = { ended: Promise<string>; kill(): void }

export type FeedsOptions = {
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

/** Runs up to `RUNNING_MAX` attempts at once; the others wait in order. */
function createSlots() {
  const running = new Set<Attempt>()
  const waiting: (() => Attempt)[] = []
  let isStopped = false

  function startNext(): void {
    while (!isStopped && running.size < RUNNING_MAX) {
      const start = waiting.shift()
      if (start === undefined) return
      const attempt = start()
      running.add(attempt)
      void attempt.ended.then(() => {
        running.delete(attempt)
        startNext()
      })
    }
  }

  return {
    /** Starts an attempt when there is a place; resolves to what `ended` resolves to. */
    run(start: () => Attempt): Promise<string> {
      const { promise, resolve } = Promise.withResolvers<string>()
      waiting.push(() => {
        const attempt = start()
        void attempt.ended.then(resolve)
        return attempt
      })
      startNext()
      return promise
    },
    stop(): void {
      isStopped = true
      for (const { kill } of running) kill()
    },
  }
}
type Slots = ReturnType<typeof createSlots>

/** Fetches one feed now, then at its interval, until it is stopped. */
function keepFeed(feed: Feed, slots: Slots, options: FeedsOptions): Job {
  const { store, run, clock, say, later = timerLater } = options
  /** The state that the operator knows of. */
  let reported: FeedState | null = null
  let crashes = 0
  let isFirst = true
  let isStopped = false
  let cancel = (): void => {}

  /** Wakes up after `ms`; a clock that steps is noticed after an hour at most. */
  function wakeAfter(ms: number): void {
    cancel = later(wake, Math.min(Math.max(ms, 1), HOUR_MS))
  }

  function wake(): void {
    const nowMs = clock()
    const state = find()
    if (state === null || isDue(state.nextTryAt, feed.everyMs, nowMs)) return void attempt()
    report(state) // another server on this data directory has fetched it
    wakeAfter(state.nextTryAt - nowMs)
  }

  function find(): FeedState | null {
    try {
      return store.find(feed.id)
    } catch (error) {
      say(`feed ${feed.shown}: its state cannot be read: ${messageOf(error)}`)
      return null
    }
  }

  function report(state: FeedState): void {
    const sentence = reportOf(feed, reported, state, clock())
    if (sentence !== null) say(sentence)
    reported = state
  }

  async function attempt(): Promise<void> {
    const attempts = find()?.attempts ?? 0
    const failure = await slots.run(() => run(feed, isFirst))
    isFirst = false
    if (!isStopped) settle(attempts, failure)
  }

  /** Decides when to try again after an attempt that began with this many before it. */
  function settle(attempts: number, failure: string): void {
    const state = find()
    if (state !== null && state.attempts > attempts) {
      crashes = 0
      report(state)
      return wakeAfter(state.nextTryAt - clock())
    }
    if (failure !== '') say(`feed ${feed.shown} could not be fetched: ${failure}`)
    crashes = failure === '' ? 0 : crashes + 1
    wakeAfter(delayMs({ everyMs: feed.everyMs, failures: crashes, retryAfterMs: null }, 0))
  }

  void attempt()
  return {
    stop() {
      isStopped = true
      cancel()
    },
  }
}

/** Fetches each feed now, then at its interval, until the job is stopped. */
export function keepFeeds(options: FeedsOptions): Job {
  const slots = createSlots()
  const jobs = options.feeds.map(feed => keepFeed(feed, slots, options))
  return {
    stop() {
      for (const job of jobs) job.stop()
      slots.stop()
    },
  }
}
