/** Makes attempts at each feed, at once and then at its interval, and reports changes to the operator. */
import type { Awaitable } from '../lib/awaitable.ts'
import { type Clock, type SetTimer, timerLater, withTimeout } from '../lib/clock.ts'
import { messageOf, untilAborted } from '../lib/errors.ts'
import { several } from '../lib/plural.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Attempts } from './attempt.ts'
import type { Feed } from './feed.ts'
import type { CurrentFeeds } from './feeds-file.ts'
import type { FeedState } from './store.ts'

/** A sentence about a first result, a new failure, the end of failures, or the first rejected rows. */
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

type Schedule = {
  attempts: Pick<Attempts, 'run'>
  clock: Clock
  say: (sentence: string) => void
  later?: SetTimer
}

function scheduleFeed(feed: Feed, { attempts, clock, say, later = timerLater }: Schedule) {
  const controller = new AbortController()
  const { signal } = controller
  const stopped = untilAborted(signal)
  let reported: FeedState | null = null
  let storeProblem = ''

  async function run(): Promise<void> {
    while (!signal.aborted) {
      let waitMs = Math.min(feed.everyMs, MINUTE_MS)
      try {
        const state = await attempts.run(feed, signal)
        const sentence = reportOf(feed, reported, state, clock())
        if (sentence !== null) say(sentence)
        reported = state
        storeProblem = ''
        waitMs = state.nextTryAt - clock()
      } catch (error) {
        if (signal.aborted) return
        const problem = `feed ${feed.shown}: its state cannot be read or written: ${messageOf(error)}`
        if (problem !== storeProblem) say(problem)
        storeProblem = problem
      }
      await withTimeout(stopped, Math.max(waitMs, 1), later)
    }
  }
  void run()
  return { feed, stop: () => controller.abort() }
}

type FeedJob = Schedule & {
  feeds: Pick<CurrentFeeds, 'current' | 'onChange'>
  isOurs: (feed: Feed) => boolean
  /** Is called with all feeds that are not paused, now and after each change. */
  keep: (all: readonly Feed[]) => Awaitable<void>
}

/** Fetches the current feeds for which `isOurs` is true, also after changes of the feeds file. */
export async function fetchFeeds({ feeds, isOurs, keep, ...schedule }: FeedJob) {
  const jobs = new Map<string, ReturnType<typeof scheduleFeed>>()

  async function change(all: readonly Feed[]): Promise<void> {
    const active = all.filter(({ isPaused }) => !isPaused)
    const ours = new Map(active.filter(isOurs).map(feed => [feed.id, feed]))
    for (const [id, job] of jobs) {
      if (Bun.deepEquals(job.feed, ours.get(id))) continue
      job.stop() // before `keep`, because an attempt saves a state
      jobs.delete(id)
    }
    for (const [id, feed] of ours) if (!jobs.has(id)) jobs.set(id, scheduleFeed(feed, schedule))
    await keep(active)
  }

  function stop(): void {
    feeds.onChange(null)
    for (const job of jobs.values()) job.stop()
  }

  feeds.onChange(change)
  try {
    await change(feeds.current())
  } catch (failure) {
    stop() // the caller tries again
    throw failure
  }
  return { stop }
}
