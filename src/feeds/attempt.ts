/**
 * One attempt at a feed: fetch and import, and what became of both. It runs in a process of its own
 * (`config/subprocess.ts`) or in the command `fetch`. A failure keeps the list as it was (contract G1).
 */

import { stat } from 'node:fs/promises'
import { type ProcessSettings, spawnTask } from '../config/subprocess.ts'
import { openGeoip } from '../import/geoip.ts'
import { type ImportObserver, importSources, shrinkProblem } from '../import/import.ts'
import { IN_FUTURE } from '../import/row.ts'
import { type Clock, type Later, timerLater } from '../lib/clock.ts'
import { CommandError, messageOf, orAborted } from '../lib/errors.ts'
import { counted, several } from '../lib/plural.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import type { ImportCounts, ImportTx, ProxyWriter } from '../proxies/store.ts'
import { type Feed, importOptionsOf, inFeedLine } from './feed.ts'
import { FetchFailure, notRegular, type OpenContext, type Opened, openFeed } from './fetch.ts'
import { type FeedState, NOTHING_KNOWN, newState } from './store.ts'

/** Longest time until the last byte of a source. */
export const FETCH_MS_MAX = 60 * SECOND_MS
/** Longest time for an import, its wait for another one included: it locks the list for all others. */
export const IMPORT_MS_MAX = 5 * MINUTE_MS
/** Most rows of a feed: a small file may be unpacked into many, which lock the list, too. */
export const ROWS_MAX = 10_000_000

type Imported = Pick<FeedState, 'rejected' | 'missing' | 'validators'> & {
  rows: number
  /** What the import did to the list. */
  changes: Pick<ImportCounts, 'added' | 'updated'>
}

/** What became of an attempt; `options` is the fingerprint of `FeedState`. */
export type AttemptResult =
  | { kind: 'unchanged' }
  | ({ kind: 'imported'; options: string } & Imported)
  | { kind: 'failed'; error: string; retryAfterMs: number | null }

type FeedWriter = Pick<ProxyWriter, 'begin' | 'importMark'>

/** The list, opened for one piece of work and closed after it. */
type FeedList = {
  /** Whether it is empty, and its mark, see `ProxyWriter`. */
  state(): Promise<{ isEmpty: boolean; mark: string }>
  change<T>(feed: Feed, work: (list: FeedWriter) => Promise<T>, signal: AbortSignal): Promise<T>
}

export type AttemptContext = Pick<
  OpenContext,
  'dir' | 'userAgent' | 'bytesMax' | 'signal' | 'resolve'
> & {
  list: FeedList
  rowsMax: number
  clock: Clock
  later: Later
  /** Files of `--geoip`, and the name of the provider's service. */
  geoip: readonly string[]
  provider: string
  /** Is called with a sentence for each row that is rejected and each entry of a directory that is skipped. */
  onRejected?: (sentence: string) => void
}

/** A text that changes when a database of `--geoip` does. */
async function geoipStamp(files: readonly string[]): Promise<string> {
  const changed = files.map(file =>
    stat(file).then(
      ({ mtimeMs }) => mtimeMs,
      () => 'missing',
    ),
  )
  return (await Promise.all(changed)).map((at, i) => `${files[i]} ${at}`).join(' ')
}

/** Works with a signal that is aborted after `ms`, with this sentence, or with the attempt. */
async function within<T>(
  { signal, later }: AttemptContext,
  ms: number,
  sentence: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController()
  const cancel = later(() => deadline.abort(new FetchFailure(sentence)), ms)
  return work(AbortSignal.any([signal, deadline.signal])).finally(cancel)
}

/**
 * Imports the sources in one step; a feed that replaces the list is compared with the rows that it had brought
 * before. @throws CommandError when the list stays as it was, and why.
 */
async function importFeed(
  feed: Feed,
  rowsBefore: number,
  { sources, skipped, validators }: Extract<Opened, { kind: 'changed' }>,
  { list, geoip, provider, bytesMax, rowsMax, clock, onRejected = () => {} }: AttemptContext,
  signal: AbortSignal,
): Promise<Imported & { ownMark: string | null }> {
  const place = await orAborted(openGeoip(geoip), signal)
  let hasRowsAhead = false
  /** Files of a directory that were skipped, and why. */
  const notLists = skipped.map(notRegular)
  notLists.forEach(onRejected)
  const work = async ({ begin, importMark }: FeedWriter) => {
    const importTx = begin(feed.replaces ? 'replace' : 'feed')
    const options = {
      format: feed.format,
      mapping: new Map(feed.mapping),
      strict: false,
      bytesMax,
      signal,
      defaults: { type: feed.type, nowMs: clock(), provider, pingUnit: feed.pingUnit },
      fallbackType: feed.isForChecker ? ('http' as const) : undefined, // it is tried first
      beforeRows: () => importTx.lock(signal),
      drained: importTx.drained,
    }
    let found = 0
    const count = (): void => {
      found += 1
      if (found > rowsMax) throw new CommandError(`has more than ${counted(rowsMax)} rows`)
    }
    const observer: ImportObserver = {
      progress: count,
      ignored() {},
      rejected(file, line, field, reason) {
        count()
        hasRowsAhead ||= reason === IN_FUTURE
        onRejected(`${file}:${line}: ${field} ${inFeedLine(reason)}`)
      },
      refused(file, reason) {
        const sentence = `${file} is skipped: it ${reason}`
        notLists.push(sentence)
        onRejected(sentence)
      },
    }
    try {
      const add: typeof importTx.add = proxy => importTx.add(place(proxy))
      const totals = await importSources(sources, options, add, observer)
      const rejected = totals.rejected + totals.skipped
      if (totals.read === rejected) throw new CommandError(notLists[0] ?? 'holds no proxy')
      const others =
        notLists.length > 1 ? ` (and ${several(notLists.length - 1, 'other file')})` : ''
      const first = notLists.slice(0, 1).map(sentence => sentence + others)
      const missing = [...first, totals.missing, totals.notes[0]].filter(Boolean)
      let rows = totals.read - rejected
      const { added, updated } = await importTx.commit(sizes => {
        // What others have added meanwhile goes, and is not counted.
        const problem = shrinkProblem({ ...sizes, before: Math.min(sizes.before, rowsBefore) })
        if (problem !== null) throw new CommandError(problem)
        rows = sizes.after
      })
      const known = hasRowsAhead ? NOTHING_KNOWN : validators // these rows will be right
      // One that replaces the list makes the mark new, so that others import again.
      const ownMark = feed.replaces ? await importMark() : null
      const brought = { rows, rejected: rejected + notLists.length, ownMark }
      return {
        ...brought,
        missing: inFeedLine(missing.join('; ')),
        validators: known,
        changes: { added, updated },
      }
    } catch (error) {
      await importTx.rollback()
      throw error
    }
  }
  return list.change(feed, work, signal)
}

/**
 * Fetches a feed now, and imports it if it has changed since the state `before`.
 * @throws the reason of `signal` once that is aborted.
 */
export async function attemptFeed(
  feed: Feed,
  before: FeedState,
  context: AttemptContext,
): Promise<AttemptResult> {
  const { provider, geoip, list, clock, signal } = context
  const slow = `takes longer than ${FETCH_MS_MAX / SECOND_MS} s`
  try {
    const stamp = await within(context, FETCH_MS_MAX, slow, each =>
      orAborted(geoipStamp(geoip), each),
    )
    const { isEmpty, mark } = await list.state()
    const optionsAt = (at: string): string => `${importOptionsOf(feed)} ${provider} ${stamp} ${at}`
    // A clock that was ahead has stamped rows that name no time.
    const isSame = before.options === optionsAt(mark) && (before.lastSuccessAt ?? 0) <= clock()
    const known = !isEmpty && isSame ? before.validators : null
    const opened = await within(context, FETCH_MS_MAX, slow, each =>
      openFeed(feed, known, { ...context, nowMs: clock(), signal: each }),
    )
    if (opened.kind === 'unchanged') return opened
    const long = `takes longer than ${IMPORT_MS_MAX / MINUTE_MS} minutes to import, with its wait for others`
    const imported = await within(context, IMPORT_MS_MAX, long, each =>
      importFeed(feed, before.rows ?? Number.POSITIVE_INFINITY, opened, context, each),
    ).finally(opened.close)
    const { ownMark, ...rest } = imported
    return { kind: 'imported', ...rest, options: optionsAt(ownMark ?? mark) }
  } catch (thrown) {
    signal.throwIfAborted() // this says nothing of the feed
    if (!(thrown instanceof FetchFailure || thrown instanceof CommandError)) throw thrown
    // A sentence without the name of the feed, which is shown beside it.
    const error = inFeedLine(messageOf(thrown))
      .replaceAll(`${feed.shown}: `, '')
      .replaceAll(feed.source, feed.shown)
    const retryAfterMs = thrown instanceof FetchFailure ? thrown.retryAfterMs : null
    return { kind: 'failed', error, retryAfterMs }
  }
}

const PREVIEW_ROWS = 10
const PREVIEW_MESSAGES = 5

/** What a fetch would import: the first rows, and what is said of those that are rejected. */
export type Preview =
  | { kind: 'read'; rows: number; rejected: number; first: IncomingProxy[]; messages: string[] }
  | Extract<AttemptResult, { kind: 'failed' }>

/** An attempt whose rows are stored nowhere: all else is as it would be. */
export async function previewFeed(
  feed: Feed,
  context: Omit<AttemptContext, 'list'>,
): Promise<Preview> {
  const first: IncomingProxy[] = []
  const messages: string[] = []
  const importTx: ImportTx = {
    async lock() {},
    add(proxy) {
      if (first.length < PREVIEW_ROWS) first.push(proxy)
    },
    lower() {},
    commit: () => ({ added: 0, updated: 0, unchanged: 0, removed: 0 }),
    rollback() {},
  }
  const result = await attemptFeed(feed, newState(feed.shown, 0), {
    ...context,
    list: {
      state: async () => ({ isEmpty: true, mark: '' }),
      change: (_, work) => work({ begin: () => importTx, importMark: () => '' }),
    },
    onRejected: sentence => messages.length < PREVIEW_MESSAGES && messages.push(sentence),
  })
  if (result.kind === 'failed') return result
  const { rows, rejected } = result.kind === 'imported' ? result : { rows: 0, rejected: 0 }
  return { kind: 'read', rows, rejected, first, messages }
}

/**
 * Longest time for an attempt in a process, which should have ended itself by then: what blocks its event
 * loop blocks its timers, too.
 */
const PROCESS_MS_MAX = 2 * FETCH_MS_MAX + IMPORT_MS_MAX + 10 * SECOND_MS

/** The command of a process that makes one attempt, and prints the outcome as JSON. It has no help. */
export const FEED_PROCESS = 'attempt-feed'

/** `before`: its state; `null` for a preview. */
export type FeedTask<B = FeedState | null> = { feed: Feed; before: B; settings: ProcessSettings }

type ProcessOptions = {
  msMax?: number
  program?: readonly string[] | undefined
  /** Is called with each line of candidates. */
  onLine?: (line: string) => Promise<void>
}

/**
 * Attempts a feed in a process, which is killed when `signal` is aborted, or after `msMax`.
 * @throws the reason of `signal` then.
 */
export async function attemptInProcess<B extends FeedState | null>(
  task: FeedTask<B>,
  signal: AbortSignal,
  { msMax = PROCESS_MS_MAX, program, onLine }: ProcessOptions = {},
): Promise<B extends null ? Preview : AttemptResult> {
  type Result = B extends null ? Preview : AttemptResult
  const { ended, kill } = spawnTask(FEED_PROCESS, task, 'ignore', program, onLine)
  let isLate = false
  const cancel = timerLater(() => {
    isLate = true
    kill()
  }, msMax)
  signal.addEventListener('abort', kill)
  if (signal.aborted) kill()
  try {
    const { isDone, stdout, stderr } = await ended
    signal.throwIfAborted()
    if (isDone) return JSON.parse(stdout) as Result // of this program
    const lastLine = stderr.trim().split('\n').at(-1) ?? ''
    const error = isLate
      ? `took longer than ${msMax / SECOND_MS} s, and was ended`
      : lastLine.replace(/^proxylist: /, '')
    return { kind: 'failed', error, retryAfterMs: null } as Result // which both may be
  } finally {
    signal.removeEventListener('abort', kill)
    cancel()
  }
}
