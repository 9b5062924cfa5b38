/**
 * Owns one attempt at a feed, from its claim to its new state: fetch, import, and what became of
 * both. A failure keeps the list as it was (contract G1).
 */

import type { Source } from '../import/import.ts'
import type { Clock, Later } from '../lib/clock.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { FetchFailure, type Validators } from './download.ts'
import { type Feed, importOptionsOf, inFeedLine } from './feed.ts'
import { delayMs } from './schedule.ts'
import { type OpenContext, openFeed } from './source.ts'
import type { FeedState, FeedStore } from './store.ts'

/** Longest time until the last byte of a source. */
export const FETCH_MS_MAX = 60 * SECOND_MS
/** Longest time for an import, its wait for another one included. */
const IMPORT_MS_MAX = 10 * MINUTE_MS

/** Usable and rejected rows of an import. */
export type Imported = { rows: number; rejected: number }

export type FetchContext = Pick<OpenContext, 'dir' | 'userAgent' | 'bytesMax'> & {
  store: FeedStore
  clock: Clock
  /** From 0 up to 1. */
  random: () => number
  later: Later
  /** Ends the attempt. */
  signal: AbortSignal
  /** What else decides what a row becomes; when it changes, the feed is imported again. */
  importOptions: string
  /** Whether there is nothing in the list that an unchanged feed could leave as it is. */
  isListEmpty(): Promise<boolean>
  /** Imports the sources in one step. @throws CommandError when the list stays as it was. */
  importInto(feed: Feed, sources: readonly Source[], signal: AbortSignal): Promise<Imported>
}

const NO_VALIDATORS: Validators = { etag: '', lastModified: '', digest: '' }

type Result =
  | { kind: 'unchanged' }
  | { kind: 'imported'; imported: Imported; validators: Validators }
  | { kind: 'failed'; error: string; retryAfterMs: number | null }

/** Works with a signal that is aborted after `ms`, with this sentence, or when the program ends. */
async function within<T>(
  { signal, later }: FetchContext,
  ms: number,
  sentence: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController()
  const cancel = later(() => deadline.abort(new FetchFailure(sentence)), ms)
  return work(AbortSignal.any([signal, deadline.signal])).finally(cancel)
}

async function importOpened(
  feed: Feed,
  known: Validators | null,
  context: FetchContext,
): Promise<Result> {
  const { dir, userAgent, bytesMax, clock } = context
  const slow = `takes longer than ${FETCH_MS_MAX / SECOND_MS} s`
  const opened = await within(context, FETCH_MS_MAX, slow, signal =>
    openFeed(feed, known, { dir, userAgent, bytesMax, nowMs: clock(), signal }),
  )
  if (opened.kind === 'unchanged') return opened
  const long = `takes longer than ${IMPORT_MS_MAX / MINUTE_MS} minutes to import`
  try {
    const imported = await within(context, IMPORT_MS_MAX, long, signal =>
      context.importInto(feed, opened.sources, signal),
    )
    return { kind: 'imported', imported, validators: opened.validators }
  } finally {
    opened.close()
  }
}

/** A failure as a sentence without the name of the feed, which is shown beside it. */
function toFailed(feed: Feed, thrown: unknown): Result {
  if (!(thrown instanceof FetchFailure || thrown instanceof CommandError)) throw thrown
  const error = inFeedLine(messageOf(thrown))
    .replaceAll(`${feed.shown}: `, '')
    .replaceAll(feed.source, feed.shown)
  const retryAfterMs = thrown instanceof FetchFailure ? thrown.retryAfterMs : null
  return { kind: 'failed', error, retryAfterMs }
}

/** What was imported last, if importing it again would change nothing. */
async function knownOf(
  { options, validators, rows }: FeedState,
  asked: string,
  context: FetchContext,
): Promise<Validators | null> {
  if (rows === null || options !== asked || validators.digest === '') return null
  return (await context.isListEmpty()) ? null : validators
}

/** The state after an attempt. */
function stateAfter(before: FeedState, result: Result, feed: Feed, context: FetchContext) {
  const nowMs = context.clock()
  const isFailed = result.kind === 'failed'
  const failures = isFailed ? before.failures + 1 : 0
  const retryAfterMs = isFailed ? result.retryAfterMs : null
  const wait = delayMs({ everyMs: feed.everyMs, failures, retryAfterMs }, context.random())
  return {
    ...before,
    source: feed.shown,
    ...(result.kind === 'imported' && { ...result.imported, validators: result.validators }),
    lastSuccessAt: isFailed ? before.lastSuccessAt : nowMs,
    error: isFailed ? result.error : '',
    failures,
    nextTryAt: nowMs + wait,
    attempts: before.attempts + 1,
  }
}

const NEW: Omit<FeedState, 'source'> = {
  lastSuccessAt: null,
  rows: null,
  rejected: 0,
  error: '',
  failures: 0,
  nextTryAt: 0,
  attempts: 0,
  validators: NO_VALIDATORS,
  options: '',
}

/**
 * Fetches a feed now, and imports it if it has changed. Returns its new state, or `null` while
 * another process fetches it. @throws the reason of `signal` once that is aborted.
 */
export async function fetchFeed(feed: Feed, context: FetchContext): Promise<FeedState | null> {
  const { store, clock } = context
  if (!(await store.claim(feed, clock()))) return null
  const before = (await store.find(feed.id)) ?? { ...NEW, source: feed.shown }
  const options = `${importOptionsOf(feed)} ${context.importOptions}`
  let result: Result
  try {
    result = await importOpened(feed, await knownOf(before, options, context), context)
  } catch (thrown) {
    context.signal.throwIfAborted() // this says nothing of the feed
    result = toFailed(feed, thrown)
  }
  const after = stateAfter(before, result, feed, context)
  const state = result.kind === 'imported' ? { ...after, options } : after
  await store.save(feed.id, state)
  return state
}
