/**
 * Imports a fetched feed into the list, in one step. The server does so in a process of its own, which costs the
 * requests no time and can be killed at any moment. A failure leaves the list as it was (contract G1).
 */
import { type ProcessSettings, spawnTask } from '../config/subprocess.ts'
import type { Placing } from '../import/geoip.ts'
import {
  type ImportObserver,
  importSources,
  type Source,
  shrinkProblem,
  sourceOfFile,
} from '../import/import.ts'
import { IN_FUTURE } from '../import/row.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import { bytesOf } from '../lib/files.ts'
import { formatCount, several } from '../lib/plural.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import type { ImportTx } from '../proxies/store.ts'
import { type Feed, inFeedLine } from './feed.ts'
import { BYTES_MAX, type Fetched, filesOf, notRegular } from './fetch.ts'

/** The most rows of a feed: a small file may be decompressed into many, and importing them locks the list. */
const ROWS_MAX = 10_000_000
const MESSAGES_MAX = 20

export type ImportTask = {
  feed: Feed
  sent: Fetched['sent']
  /** The usable rows of the last import, to which one that replaces the list is compared. */
  rowsBefore: number | null
}

export type Imported = {
  /** Usable rows; with `replace`, the rows of the list after the import. */
  rows: number
  rejected: number
  /** Why rows are missing, in one sentence. */
  missing: string
  /** Whether rows were rejected as checked in the future: they will be usable later. */
  hasRowsAhead: boolean
  /** The first messages about rejected rows and skipped files. */
  messages: string[]
  /** The new mark of the list after an import that replaced it, see `ProxyWriter`. */
  ownMark?: string
}

export type ImportContext = {
  place: Placing
  provider: string
  clock: Clock
  signal: AbortSignal
  /** Smaller in tests. */
  bytesMax?: number
  rowsMax?: number
}

async function sourcesOf({ feed, sent }: ImportTask, fd: number | null) {
  if (fd !== null)
    return { sources: [{ name: feed.shown, bytes: bytesOf(fd), ...sent }], skipped: [] }
  const { files, skipped } = await filesOf(feed.source)
  const isOptional = files[0]?.file !== feed.source // in a directory
  const sources: Source[] = files.map(({ file, found }) => ({
    ...sourceOfFile(file, found),
    isOptional,
  }))
  return { sources, skipped: skipped.map(notRegular) }
}

/** Imports the body in `fd`, or the files of a path. @throws CommandError saying why the list is as it was. */
export async function importFeed(
  task: ImportTask,
  fd: number | null,
  importTx: ImportTx,
  { place, provider, clock, signal, bytesMax = BYTES_MAX, rowsMax = ROWS_MAX }: ImportContext,
): Promise<Imported> {
  const { feed, rowsBefore } = task
  const messages: string[] = []
  const report = (message: string): void => {
    if (messages.length < MESSAGES_MAX) messages.push(message)
  }
  try {
    const { sources, skipped } = await sourcesOf(task, fd)
    /** Files of a directory that were skipped, and why. */
    const notLists: string[] = [...skipped]
    notLists.forEach(report)
    let hasRowsAhead = false
    let found = 0
    const count = (): void => {
      found += 1
      if (found > rowsMax) throw new CommandError(`has more than ${formatCount(rowsMax)} rows`)
    }
    const observer: ImportObserver = {
      progress: count,
      ignored() {},
      rejected(file, line, field, reason) {
        count()
        hasRowsAhead ||= reason === IN_FUTURE
        report(`${file}:${line}: ${field} ${inFeedLine(reason)}`)
      },
      refused(file, reason) {
        const sentence = `${file} is skipped: it ${reason}`
        notLists.push(sentence)
        report(sentence)
      },
    }
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
    const add = (proxy: IncomingProxy): void => importTx.add(place(proxy))
    const totals = await importSources(sources, options, add, observer)
    const rejected = totals.rejected + totals.skipped
    if (totals.read === rejected) throw new CommandError(notLists[0] ?? 'holds no proxy')
    const others = notLists.length > 1 ? ` (and ${several(notLists.length - 1, 'other file')})` : ''
    const missing = [notLists[0] && notLists[0] + others, totals.missing, totals.notes[0]]
    let rows = totals.read - rejected
    await importTx.commit(sizes => {
      // Rows that others have added meanwhile do not count.
      const before = Math.min(sizes.before, rowsBefore ?? Number.POSITIVE_INFINITY)
      const problem = shrinkProblem({ ...sizes, before })
      if (problem !== null) throw new CommandError(problem)
      rows = sizes.after
    })
    return {
      ...{ rows, rejected: rejected + notLists.length, hasRowsAhead, messages },
      missing: inFeedLine(missing.filter(Boolean).join('; ')),
    }
  } catch (error) {
    await importTx.rollback()
    throw error
  }
}

/** The command of the import process. It has no help, reads its task from stdin, and prints `Imported` as JSON. */
export const IMPORT_PROCESS = 'import-feed'

export type ProcessTask = ImportTask & { settings: ProcessSettings }

type ProcessOptions = {
  program?: readonly string[] | undefined
  /** Is called with each line of candidates, see `candidates.ts`. */
  onLine?: (line: string) => Promise<void>
}

/** Imports in a process, which is killed when `signal` is aborted. @throws CommandError, and the reason of `signal`. */
export async function importInProcess(
  task: ProcessTask,
  fd: number | null,
  signal: AbortSignal,
  { program, onLine }: ProcessOptions = {},
): Promise<Imported> {
  const { ended, kill } = spawnTask(IMPORT_PROCESS, task, fd ?? 'ignore', program, onLine)
  signal.addEventListener('abort', kill)
  if (signal.aborted) kill()
  try {
    const { isDone, stdout, stderr } = await ended
    signal.throwIfAborted()
    if (isDone) return JSON.parse(stdout)
    const lastLine = stderr.trim().split('\n').at(-1) ?? ''
    throw new CommandError(lastLine.replace(/^proxylist: /, ''))
  } finally {
    signal.removeEventListener('abort', kill)
  }
}
