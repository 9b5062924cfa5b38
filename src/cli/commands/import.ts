/** `import`: reads files into the list, and reports bad rows on stderr; a server starts it, too. */
import { closeSync, fstatSync } from 'node:fs'
import { processEnvironment } from '../../config/environment.ts'
import { readSettings, type SettingName, type Settings } from '../../config/settings.ts'
import {
  FILE_DESCRIPTOR,
  type ProcessSettings,
  readTask,
  spawnTask,
} from '../../config/subprocess.ts'
import { openGeoip } from '../../import/geoip.ts'
import { importSources, shrinkProblem, type Totals } from '../../import/import.ts'
import { checkMapping } from '../../import/names.ts'
import { type Clock, stopwatch } from '../../lib/clock.ts'
import { CommandError } from '../../lib/errors.ts'
import { bytesOf } from '../../lib/files.ts'
import { several, spanOf } from '../../lib/plural.ts'
import { SECOND_MS, toSeconds } from '../../lib/time.ts'
import type { IncomingProxy } from '../../proxies/proxy.ts'
import type { ProxyWriter } from '../../proxies/store.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say, yieldToServer } from '../command.ts'
import { createObserver } from '../import-report.ts'
import { type SizedSource, store, toSource } from '../sources.ts'

const IMPORT_SETTINGS = [
  ...DATA_SETTINGS,
  ...(['format', 'type', 'map', 'pingUnit', 'replace', 'allowEmpty', 'allowShrink'] as const),
  ...(['strict', 'geoip', 'progress', 'json', 'providerService'] as const),
] as const
type ImportSettings = Settings<(typeof IMPORT_SETTINGS)[number]>
/** The message on the list when a signal ends an import. */
const KEPT = 'nothing was imported, the list is as it was'

/** Imports all sources in one step, and reports the counts. */
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
  const onWait = (reason = 'another import has locked the list; waiting for its end'): void =>
    observer.say(reason)
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

/** The task of that process: the name of the file, and the options of the query as settings. */
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
