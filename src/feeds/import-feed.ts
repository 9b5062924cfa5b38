/** Imports a fetched feed into the list, in one step. A failure leaves the list unchanged (contract G1). */
import { type ProcessSettings, spawnTask } from '../config/subprocess.ts'
import type { Placing } from '../import/geoip.ts'
import { importSources, type Source, shrinkProblem, sourceOfFile } from '../import/import.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError } from '../lib/errors.ts'
import { bytesOf } from '../lib/files.ts'
import { several } from '../lib/plural.ts'
import type { ImportTx } from '../proxies/store.ts'
import { type Feed, inFeedLine } from './feed.ts'
import { BYTES_MAX, type Fetched, filesOf } from './fetch.ts'

export type FeedTask = {
  feed: Feed
  sent: Fetched['sent']
  /** The rows of the last import. A feed that replaces the list must not shrink to under half of them. */
  rowsBefore: number | null
}

export type Imported = {
  /** Usable rows; with `replace`, the rows of the list after the import. */
  rows: number
  rejected: number
  missing: string
}

export type ImportContext = {
  place: Placing
  provider: string
  clock: Clock
  signal: AbortSignal
  /** Smaller in tests. */
  bytesMax?: number
}

/** The sources of a feed: its body in `fd`, or the files of its path. `skipped` says why other files are not read. */
async function sourcesOf({ feed, sent }: FeedTask, fd: number | null) {
  if (fd !== null)
    return { sources: [{ name: feed.shown, bytes: bytesOf(fd), ...sent }], skipped: [] }
  const { files, skipped } = await filesOf(feed.source)
  const isOptional = files[0]?.file !== feed.source // in a directory
  const sources = files.map(
    ({ file, found }): Source => ({ ...sourceOfFile(file, found), isOptional }),
  )
  return { sources, skipped: skipped.map(file => `${file} is not a regular file, and is skipped`) }
}

/** Imports a feed in this process. @throws CommandError saying why the list is unchanged. */
export async function importFeed(
  task: FeedTask,
  fd: number | null,
  importTx: ImportTx,
  { place, provider, clock, signal, bytesMax = BYTES_MAX }: ImportContext,
): Promise<Imported> {
  const { feed, rowsBefore } = task
  try {
    const { sources, skipped } = await sourcesOf(task, fd)
    await importTx.lock(signal)
    const totals = await importSources(
      sources,
      {
        format: feed.format,
        mapping: new Map(feed.mapping),
        strict: false,
        bytesMax,
        signal,
        defaults: {
          ...{ type: feed.type, nowMs: clock(), provider, pingUnit: feed.pingUnit },
          isTypeOptional: feed.isForChecker,
        },
        drained: importTx.drained,
      },
      proxy => importTx.add(place(proxy)),
      {
        refused(file, reason) {
          skipped.push(`${file} is skipped: it ${reason}`)
        },
      },
    )
    const rejected = totals.rejected + totals.skipped
    const [firstSkipped, ...others] = skipped
    if (totals.read === rejected) throw new CommandError(firstSkipped ?? 'holds no proxy')
    const more = others.length > 0 ? ` (and ${several(others.length, 'other file')})` : ''
    const missing = [firstSkipped && firstSkipped + more, totals.missing, totals.notes[0]]
    let rows = totals.read - rejected
    await importTx.commit(sizes => {
      // Rows that others have added in the meantime do not count.
      const before = Math.min(sizes.before, rowsBefore ?? Number.POSITIVE_INFINITY)
      const problem = shrinkProblem({ ...sizes, before })
      if (problem !== null) throw new CommandError(problem)
      rows = sizes.after
    })
    return {
      rows,
      rejected: rejected + skipped.length,
      missing: inFeedLine(missing.filter(Boolean).join('; ')),
    }
  } catch (error) {
    await importTx.rollback()
    throw error
  }
}

/** The command of the child process. It has no help, reads its task from stdin, and prints `Imported` as JSON. */
export const IMPORT_PROCESS = 'import-feed'

export type ProcessTask = FeedTask & { settings: ProcessSettings }

type ProcessOptions = {
  program?: readonly string[] | undefined
  /** Is called with each line of candidates, see `candidates.ts`. */
  onLine?: (line: string) => Promise<void>
}

/** Imports a feed in a child process, which an aborted `signal` kills. @throws CommandError */
export async function importFeedInChild(
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
