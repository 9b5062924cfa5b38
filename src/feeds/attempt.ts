/**
 * An attempt at a feed: fetch the source, import it if it has changed, and save the new state. A failure leaves the
 * list as it was (contract G1). `serve`, `fetch` and `check` all make their attempts here.
 */
import { closeSync } from 'node:fs'
import type { Awaitable } from '../lib/awaitable.ts'
import { type SetTimer, timerLater } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { type Feed, importOptionsOf, inFeedLine } from './feed.ts'
import { type FetchContext, FetchFailure, fetchFeed } from './fetch.ts'
import type { Imported, ImportTask } from './import-feed.ts'
import { type FeedState, type FeedStore, NOTHING_KNOWN, newState } from './store.ts'

/** The longest time until the last byte of a source. */
export const FETCH_MS_MAX = MINUTE_MS
/** The longest time for an import, including its wait for the lock of the list. */
export const IMPORT_MS_MAX = 5 * MINUTE_MS
/** How many fetches run at once. Slow servers delay other feeds only if there are as many of them. */
const FETCHES_MAX = 16

const RETRY_MS = 30 * SECOND_MS
const RETRY_MS_MAX = 10 * MINUTE_MS
const RETRY_AFTER_MS_MAX = HOUR_MS
/** A delay after a failure grows by up to this share, so that servers do not retry at the same time. */
const JITTER = 0.1

/**
 * The delay until the next try, after so many failures in a row: never longer than the interval, unless
 * `Retry-After` asks for it. `random` is from 0 up to 1.
 */
export function delayAfterFailure(
  everyMs: number,
  failures: number,
  retryAfterMs: number | null,
  random: number,
): number {
  const backoff = Math.min(RETRY_MS * 2 ** Math.min(failures - 1, 30), RETRY_MS_MAX, everyMs)
  const delay = Math.round(backoff * (1 + JITTER * random))
  return Math.max(delay, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MS_MAX))
}

type Outcome =
  | { kind: 'unchanged' }
  | { kind: 'imported'; options: string; validators: FeedState['validators']; imported: Imported }
  | { kind: 'failed'; error: string; retryAfterMs: number | null }

function stateAfter(
  before: FeedState,
  outcome: Outcome,
  { shown, everyMs }: Feed,
  nowMs: number,
  random: number,
): FeedState {
  const state = { ...before, source: shown, attempts: before.attempts + 1 }
  if (outcome.kind === 'failed') {
    const { error, retryAfterMs } = outcome
    const failures = before.failures + 1
    const nextTryAt = nowMs + delayAfterFailure(everyMs, failures, retryAfterMs, random)
    return { ...state, error, failures, nextTryAt }
  }
  const success = { lastSuccessAt: nowMs, error: '', failures: 0, nextTryAt: nowMs + everyMs }
  if (outcome.kind === 'unchanged') return { ...state, ...success }
  const { options, validators, imported } = outcome
  const { rows, rejected, missing } = imported
  return { ...state, ...success, rows, rejected, missing, options, validators }
}

/** Runs at most `most` pieces of work at once; the others wait in order. */
function createTurns(most: number) {
  const waiting: (() => void)[] = []
  let running = 0
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running < most) running += 1
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running -= 1
      else next()
    }
  }
}

export type AttemptContext = FetchContext & {
  openStore: () => Awaitable<Pick<FeedStore, 'find' | 'save'>>
  /** Whether the list is empty, and its mark, see `ProxyWriter`. */
  readList: () => Awaitable<{ isEmpty: boolean; mark: string }>
  /** @throws CommandError saying why the list is as it was. */
  runImport(task: ImportTask, fd: number | null, signal: AbortSignal): Promise<Imported>
  /** The settings that an import depends on. */
  settings: { geoip: readonly string[]; providerService: string }
  random?: () => number
  later?: SetTimer
}

export type Attempts = ReturnType<typeof createAttempts>

/** The attempts of one process: one at a time for each feed, and one import at a time. */
export function createAttempts(context: AttemptContext) {
  const { openStore, readList, runImport, settings, clock } = context
  const { random = Math.random, later = timerLater } = context
  const running = new Map<string, Promise<FeedState>>()
  const fetchTurn = createTurns(FETCHES_MAX)
  const importTurn = createTurns(1)

  /** Does work with a signal that is aborted after `ms`, too. */
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

  async function fetchAndImport(
    feed: Feed,
    before: FeedState,
    signal: AbortSignal,
    onMessages: (messages: readonly string[]) => void,
  ): Promise<Outcome> {
    try {
      // If the list cannot be read, the import says why, or replaces it.
      const { isEmpty, mark } = await Promise.try(readList).catch(() => ({
        isEmpty: true,
        mark: '',
      }))
      const { geoip, providerService } = settings
      const optionsAt = (at: string): string =>
        `${importOptionsOf(feed)} ${providerService} ${geoip.join(' ')} ${at}`
      // If the clock was ahead at the last import, rows without a time have a wrong one.
      const isSame = before.options === optionsAt(mark) && (before.lastSuccessAt ?? 0) <= clock()
      const known = !isEmpty && isSame ? before.validators : null
      const fetched = await fetchTurn(() =>
        within(FETCH_MS_MAX, '60 s', signal, each => fetchFeed(feed, known, context, each)),
      )
      if (fetched === null) return { kind: 'unchanged' }
      const { fd, sent } = fetched
      const task = { feed, sent, rowsBefore: before.rows }
      const imported = await importTurn(() =>
        within(IMPORT_MS_MAX, '5 minutes to import', signal, each => runImport(task, fd, each)),
      ).finally(() => fd !== null && closeSync(fd))
      onMessages(imported.messages)
      const validators = imported.hasRowsAhead ? NOTHING_KNOWN : fetched.validators
      const options = optionsAt(imported.ownMark ?? mark)
      return { kind: 'imported', options, validators, imported }
    } catch (thrown) {
      signal.throwIfAborted()
      if (!(thrown instanceof FetchFailure || thrown instanceof CommandError)) throw thrown
      // The name of the feed is shown beside the error.
      const error = inFeedLine(messageOf(thrown))
        .replaceAll(`${feed.shown}: `, '')
        .replaceAll(feed.source, feed.shown)
      const retryAfterMs = thrown instanceof FetchFailure ? thrown.retryAfterMs : null
      return { kind: 'failed', error, retryAfterMs }
    }
  }

  async function attempt(
    feed: Feed,
    signal: AbortSignal,
    onMessages: (messages: readonly string[]) => void,
  ): Promise<FeedState> {
    const store = await openStore()
    const before = (await store.find(feed.id)) ?? newState(feed.shown, clock())
    const outcome = await fetchAndImport(feed, before, signal, onMessages)
    const after = stateAfter(before, outcome, feed, clock(), random())
    await store.save(feed.id, after)
    return after
  }

  return {
    isRunning: (id: string): boolean => running.has(id),

    /** Makes an attempt, after one at the same feed has ended. @throws the reason of `signal` once that is aborted. */
    async run(
      feed: Feed,
      signal: AbortSignal,
      onMessages: (messages: readonly string[]) => void = () => {},
    ): Promise<FeedState> {
      while (running.has(feed.id)) await running.get(feed.id)?.catch(() => {})
      signal.throwIfAborted()
      const attempted = attempt(feed, signal, onMessages)
      running.set(feed.id, attempted)
      return attempted.finally(() => running.delete(feed.id))
    },
  }
}
