/** `import`: reads files into the list, and reports bad rows on stderr; a server starts it, too. */
import { accessSync, constants, statSync } from 'node:fs'
import { processEnvironment } from '../../config/environment.ts'
import { environmentNameOf, type SettingName, type Settings } from '../../config/settings.ts'
import { spawnProgram } from '../../config/subprocess.ts'
import { checkMapping, isShowable } from '../../import/columns.ts'
import { openGeoip } from '../../import/geoip.ts'
import {
  type ImportObserver,
  importSources,
  type Source,
  shrinkProblem,
  sourceOfFile,
} from '../../import/import.ts'
import { stopwatch } from '../../lib/clock.ts'
import { CommandError, messageOf, unreadable } from '../../lib/errors.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { IncomingProxy } from '../../proxies/proxy.ts'
import type { ListSizes, ProxyWriter } from '../../proxies/store.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, print, say, yieldToServer } from '../command.ts'
import { createProgress } from '../progress.ts'

/** Rejected rows, and ignored fields, that are reported one by one; the rest is counted. */
const NAMED_MAX = 20
/** Rows between two updates of the progress bar. */
const PROGRESS_STEP = 4096
/** Stands for stdin. */
export const STDIN = '-'

/** A file of the command line, or stdin, and its size in bytes as far as it is known. @throws CommandError */
export function toSource(file: string): Source & { size: number } {
  if (file === STDIN) return { name: '(stdin)', bytes: Bun.stdin.stream(), size: 0 }
  try {
    const found = statSync(file)
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    accessSync(file, constants.R_OK)
    return { ...sourceOfFile(file, found), size: found.size }
  } catch (error) {
    throw unreadable(file, error)
  }
}

/** Reports to the operator; `close` reports how many rejections were not named. */
function createObserver(totalBytes: number, hasLines: boolean) {
  const count = totalBytes > 0 ? '[{bar}] {percentage}% | {rows} rows' : '{rows} rows'
  const elapsedMs = stopwatch()
  let saidMs = 0
  const progress = createProgress(`importing ${count}`, totalBytes)
  const tell = (sentence: string): void => {
    progress.clear()
    say(sentence)
  }
  let rejected = 0
  let ignored = 0
  const observer: ImportObserver & { say: typeof tell; close(): void } = {
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
    ignored(file, line, member) {
      ignored += 1
      if (ignored > NAMED_MAX) return
      const field = isShowable(member) ? `unknown field '${member}'` : 'an unknown field'
      tell(`${file}:${line}: note: ${field} is ignored everywhere`)
    },
    empty: file => tell(`${file}: note: no row was found`),
    close() {
      progress.clear()
      if (ignored > NAMED_MAX) say(`… and ${ignored - NAMED_MAX} more ignored fields`)
      if (rejected > NAMED_MAX) say(`… and ${rejected - NAMED_MAX} more rejected rows`)
    },
  }
  return observer
}

/** Refuses to replace the list by one that is much smaller, or empty, unless that is meant. */
function approveSizes(
  sizes: ListSizes,
  { allowEmpty, allowShrink }: Settings<'allowEmpty' | 'allowShrink'>,
): void {
  const problem = shrinkProblem(sizes)
  if (problem === null || allowShrink || (allowEmpty && sizes.after === 0)) return
  throw new CommandError(`this ${problem}; nothing was imported (--allow-shrink if that is meant)`)
}

export const importCommand = command({
  name: 'import',
  summary: 'add or update proxies from files (- is stdin), in one step',
  arguments: '<file...>',
  settings: [
    ...DATA_SETTINGS,
    ...(['format', 'type', 'map', 'pingUnit', 'replace', 'allowEmpty', 'allowShrink'] as const),
    ...(['strict', 'geoip', 'progress', 'json', 'providerService'] as const),
  ],
  example: 'proxylist import proxies.csv --type http',
  endsAtSignal: 'by itself',
  kept: 'nothing was imported, the list is as it was',
  async run({ settings, args: files, clock, signal }) {
    const { format, type, replace, strict, json, providerService: provider } = settings
    const { withList } = storesOf(settings, clock)
    checkMapping(settings.map, provider)
    const place = openGeoip(settings.geoip)
    yieldToServer()
    const sources = files.map(toSource)
    const totalBytes = sources.reduce((sum, { size }) => sum + size, 0)
    const observer = createObserver(totalBytes, settings.progress)
    const onWait = (): void =>
      observer.say('another import has locked the list; waiting for its end')
    const importInto = async (list: Pick<ProxyWriter, 'begin'>) => {
      const importTx = list.begin(replace ? 'replace' : 'merge', onWait)
      const options = {
        ...{ format, strict, signal, mapping: settings.map },
        defaults: { type, nowMs: clock(), provider, pingUnit: settings.pingUnit },
        beforeRows: () => importTx.lock(signal),
        drained: importTx.drained,
        refuseEmpty: replace && !settings.allowEmpty,
      }
      const add = (proxy: IncomingProxy): void => importTx.add(place(proxy))
      try {
        const { read, rejected } = await importSources(sources, options, add, observer)
        const approve = (sizes: ListSizes): void => approveSizes(sizes, settings)
        const { added, updated, unchanged, removed } = await importTx.commit(approve)
        return { read, added, updated, unchanged, rejected, removed }
      } catch (error) {
        await importTx.rollback()
        throw error
      } finally {
        observer.close()
      }
    }
    const summary = await withList(
      importInto,
      replace ? { onDamage: observer.say, onWait, signal } : undefined,
    )
    if (json) return print(`${JSON.stringify(summary)}\n`)
    say(
      Object.entries(summary)
        .map(([what, n]) => `${what} ${n}`)
        .join(', '),
    )
  },
})

/** What `--progress` says. */
const PROGRESS = /^read (\d+) bytes\n/gm

/** Collects what a process says, and takes its progress out of it. */
async function collect(stream: ReadableStream<Uint8Array>, onProgress: (bytes: number) => void) {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    text = text.replace(PROGRESS, (_, bytes) => {
      onProgress(Number(bytes))
      return ''
    })
  }
  return text
}

/**
 * Starts the process in which a server imports what its console was sent: this very program. It reads the
 * file of a descriptor itself: from a pipe that a killed server leaves, it would take a part of the list
 * for the whole. The settings travel as variables of the environment, which other users cannot read: the
 * URL of a database holds a password.
 */
export function startImport(
  settings: { readonly [name in SettingName]?: string | undefined },
  fd: number,
  program?: readonly string[],
) {
  let read = 0
  const bytesRead = (): number => read
  try {
    const names = Object.keys(settings) as SettingName[] // of the object's own type
    const variables = names.map(name => [environmentNameOf(name), settings[name]])
    const env = { ...processEnvironment(), ...Object.fromEntries(variables) }
    const child = spawnProgram(['import', STDIN, '--json', '--progress'], fd, env, program)
    const said = collect(child.stderr, bytes => {
      read = bytes
    })
    const printed = new Response(child.stdout).text()
    const ended = Promise.all([printed, said, child.exited]).then(([stdout, stderr, exitCode]) => ({
      ...{ isDone: exitCode === 0, stdout, stderr },
    }))
    return { ended, bytesRead, kill: () => child.kill('SIGKILL') }
  } catch (error) {
    const stderr = `its process could not be started (${messageOf(error)})`
    const ended = Promise.resolve({ isDone: false, stdout: '', stderr })
    return { ended, bytesRead, kill() {} }
  }
}
