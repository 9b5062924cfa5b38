/** `import`: reads files into the list, and reports bad rows on stderr; a server starts it, too. */
import { accessSync, closeSync, constants, fstatSync, statSync, writeFileSync } from 'node:fs'
import { processEnvironment } from '../../config/environment.ts'
import { readSettings, type SettingName, type Settings } from '../../config/settings.ts'
import {
  FILE_DESCRIPTOR,
  type ProcessSettings,
  readTask,
  spawnTask,
} from '../../config/subprocess.ts'
import { openGeoip } from '../../import/geoip.ts'
import {
  type ImportObserver,
  importSources,
  type Source,
  shrinkProblem,
  sourceOfFile,
  type Totals,
} from '../../import/import.ts'
import { checkMapping, isShowable } from '../../import/names.ts'
import { type Clock, stopwatch } from '../../lib/clock.ts'
import { CommandError, chunksUntilAborted, reasonOf, unreadable } from '../../lib/errors.ts'
import { bytesOf, openUnnamed } from '../../lib/files.ts'
import { several, spanOf } from '../../lib/plural.ts'
import { SECOND_MS, toSeconds } from '../../lib/time.ts'
import type { IncomingProxy } from '../../proxies/proxy.ts'
import type { ProxyWriter } from '../../proxies/store.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say, yieldToServer } from '../command.ts'
import { createProgress } from '../progress.ts'

/** Rejected rows, and ignored fields, that are reported one by one; the rest is counted. */
const NAMED_MAX = 20
/** Rows between two updates of the progress bar. */
const PROGRESS_STEP = 4096
export const STDIN = '-'

const IMPORT_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['format', 'type', 'map', 'pingUnit', 'replace', 'allowEmpty', 'allowShrink'] as const),
  ...(['strict', 'geoip', 'progress', 'json', 'providerService'] as const),
] as const
type ImportSettings = Settings<(typeof IMPORT_SETTINGS)[number]>
/** What is said of the list when a signal ends an import. */
const KEPT = 'nothing was imported, the list is as it was'

type SizedSource = Source & { size: number; isFile: boolean }

/** A file of the command line, or stdin, and its size in bytes as far as it is known. @throws CommandError */
export function toSource(file: string): SizedSource {
  const isStdin = file === STDIN
  const name = isStdin ? '(stdin)' : file
  try {
    const found = isStdin ? fstatSync(0) : statSync(file)
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    if (!isStdin) accessSync(file, constants.R_OK)
    const source = isStdin ? { name, bytes: Bun.stdin.stream() } : sourceOfFile(file, found)
    return { ...source, size: found.size, isFile: found.isFile() }
  } catch (error) {
    throw unreadable(name, error)
  }
}

/** Most bytes of a source that is no file, as of a feed or an upload. */
const STORED_BYTES_MAX = 2 ** 30

/**
 * Reads a pipe or a device to its end, into an open file: what writes into it may pause for as long as it
 * likes, and the list is locked only while rows are written. @throws CommandError
 */
async function store(
  { name, bytes }: Source,
  dir: string,
  elapsedMs: () => number,
  signal: AbortSignal,
): Promise<number> {
  const progress = createProgress('reading {value} bytes', 0, elapsedMs)
  let fd: number | null = null
  let size = 0
  try {
    fd = openUnnamed(dir)
    for await (const chunk of chunksUntilAborted(bytes, signal)) {
      size += chunk.length
      if (size > STORED_BYTES_MAX) {
        const most = `${STORED_BYTES_MAX / 2 ** 20} MiB, the most that is read from a pipe`
        throw new CommandError(
          `${name} is larger than ${most}: store it in a file, and import that`,
        )
      }
      writeFileSync(fd, chunk)
      progress.update(size)
    }
    return fd
  } catch (error) {
    if (fd !== null) closeSync(fd)
    if (signal.aborted || error instanceof CommandError) throw error
    throw new CommandError(`${name}: cannot be read (${reasonOf(error)}); nothing was imported`)
  } finally {
    progress.clear()
  }
}

/** Names of fields in one line. */
function listed(fields: readonly string[]): string {
  const shown = fields.filter(isShowable).slice(0, NAMED_MAX)
  const rest = fields.length - shown.length
  return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join(', ')
}

/** Reports to the operator. `close` says what is missing, and what was not understood. */
export function createObserver(totalBytes: number, hasLines: boolean, elapsedMs = stopwatch()) {
  const count = totalBytes > 0 ? '[{bar}] {percentage}% | {rows} rows' : '{rows} rows'
  let saidMs = 0
  const progress = createProgress(`importing ${count}`, totalBytes, elapsedMs)
  const tell = (sentence: string): void => {
    progress.clear()
    say(sentence)
  }
  let rejected = 0
  const ignored: string[] = []
  return {
    say: tell,
    progress(rows, bytes) {
      if (rows % PROGRESS_STEP !== 0) return
      progress.update(bytes, { rows })
      if (!hasLines || elapsedMs() - saidMs < SECOND_MS) return
      saidMs = elapsedMs()
      say(`read ${bytes} bytes`)
    },
    rejected(file, line, field, reason) {
      rejected += 1
      if (rejected <= NAMED_MAX) tell(`${file}:${line}: ${field} ${reason}`)
    },
    ignored: (_file, _line, member) => ignored.push(member),
    empty: file => tell(`${file}: note: no row was found`),
    close(totals?: Totals) {
      progress.clear()
      if (rejected > NAMED_MAX) say(`… and ${rejected - NAMED_MAX} more rejected rows`)
      const notes = [...(totals?.notes ?? [])]
      if (ignored.length > 0) notes.push(`fields that are not read: ${listed(ignored)}`)
      for (const note of notes.slice(0, NAMED_MAX)) say(`note: ${note}`)
      if (notes.length > NAMED_MAX) say(`… and ${notes.length - NAMED_MAX} more notes`)
      const isNamed = rejected <= NAMED_MAX && (totals?.skipped ?? 0) === 0
      if (totals?.missing && !isNamed) say(totals.missing)
    },
  } satisfies ImportObserver & { [member: string]: unknown }
}

/** Imports all sources in one step, and says what was done. */
async function importInto(
  settings: ImportSettings,
  open: () => readonly SizedSource[],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  using opened = new DisposableStack()
  const elapsedMs = stopwatch()
  const { format, type, replace, allowEmpty, allowShrink, strict, json } = settings
  const { providerService: provider } = settings
  const { withList, scratch } = storesOf(settings, clock)
  checkMapping(settings.map, provider)
  const place = await openGeoip(settings.geoip)
  yieldToServer()
  const sources: SizedSource[] = []
  for (const source of open()) {
    if (source.isFile) sources.push(source)
    else {
      const fd = opened.adopt(await store(source, scratch, elapsedMs, signal), closeSync)
      sources.push({ ...source, bytes: bytesOf(fd), size: fstatSync(fd).size })
    }
  }
  const totalBytes = sources.reduce((sum, { size }) => sum + size, 0)
  const observer = createObserver(totalBytes, settings.progress, elapsedMs)
  const onWait = (): void => observer.say('another import has locked the list; waiting for its end')
  const importIn = async (list: Pick<ProxyWriter, 'begin'>) => {
    const importTx = list.begin(replace ? 'replace' : 'merge', onWait)
    const options = {
      ...{ format, strict, signal, mapping: settings.map },
      defaults: { type, nowMs: clock(), provider, pingUnit: settings.pingUnit },
      drained: importTx.drained,
      refuseEmpty: replace && !allowEmpty,
    }
    const { retain } = readSettings(['retain'], {}, processEnvironment())
    const oldest = toSeconds(clock() - retain)
    let expired = 0
    const add = (proxy: IncomingProxy): void => {
      if (proxy.checkedAt < oldest) expired += 1
      importTx.add(place(proxy))
    }
    let totals: Totals | undefined
    try {
      await importTx.lock(signal)
      totals = await importSources(sources, options, add, observer)
      const { read, rejected, skipped } = totals
      const { added, updated, unchanged, removed } = await importTx.commit(sizes => {
        const problem = shrinkProblem(sizes)
        if (problem === null || allowShrink || (allowEmpty && sizes.after === 0)) return
        const hint = '(--allow-shrink if that is meant)'
        throw new CommandError(`this ${problem}; nothing was imported ${hint}`)
      })
      return { read, added, updated, unchanged, rejected, removed, skipped }
    } catch (error) {
      await importTx.rollback()
      throw error
    } finally {
      observer.close(totals)
      if (expired > 0) {
        const rows = several(expired, 'row was', 'rows were')
        const age = spanOf(retain / SECOND_MS)
        observer.say(
          `note: ${rows} last checked over ${age} ago; serve deletes them (--retain) unless the whole list is so old`,
        )
      }
    }
  }
  const summary = await withList(importIn, replace ? { onDamage: observer.say } : undefined)
  if (json) return print(`${JSON.stringify(summary)}\n`)
  say(
    Object.entries(summary)
      .filter(([what, n]) => what !== 'skipped' || n > 0)
      .map(([what, n]) => `${what} ${n}`)
      .join(', '),
  )
}

export const importCommand = command({
  name: 'import',
  summary: 'add or update proxies from files (- is stdin), in one step',
  arguments: '<file...>',
  settings: IMPORT_SETTINGS,
  example: 'proxylist import proxies.csv --type http',
  endsAtSignal: 'by itself',
  kept: KEPT,
  run: ({ settings, args, clock, signal }) =>
    importInto(settings, () => args.map(toSource), clock, signal),
})

/** What `--progress` says. */
const PROGRESS = /^read (\d+) bytes\n/gm

/** The command of the process in which a server imports what its console was sent. It has no help. */
const IMPORT_PROCESS = 'import-upload'

/** What it is to do; `options` are settings as a query has them, `name` is that of the file. */
type ImportTask = {
  name: string
  options: { readonly [name in SettingName]?: string }
  settings: ProcessSettings
}

export const importProcess = command({
  name: IMPORT_PROCESS,
  summary: 'import a list for the console of a server',
  settings: [],
  example: `proxylist ${IMPORT_PROCESS}`,
  endsAtSignal: 'by itself',
  kept: KEPT,
  async run({ clock, signal: own }) {
    const { task, signal } = await readTask<ImportTask>(own)
    const flags = { ...task.options, json: true, progress: true }
    const settings = { ...readSettings(IMPORT_SETTINGS, flags, {}), ...task.settings }
    const bytes = Bun.file(FILE_DESCRIPTOR).stream()
    const source = { name: task.name, bytes, size: 0, isFile: true }
    await importInto(settings, () => [source], clock, signal)
  },
})

/**
 * Starts that process. It reads the file of a descriptor itself: from a pipe that a killed server leaves, it
 * would take a part of the list for the whole.
 */
export function spawnImport(task: ImportTask, fd: number, program?: readonly string[]) {
  const { ended, said, kill } = spawnTask(IMPORT_PROCESS, task, fd, program)
  return {
    ended: ended.then(end => ({ ...end, stderr: end.stderr.replace(PROGRESS, '') })),
    bytesRead: () => Number([...said().matchAll(PROGRESS)].at(-1)?.[1] ?? 0),
    kill,
  }
}
