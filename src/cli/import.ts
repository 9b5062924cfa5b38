/** Owns `import`: reads files into the list, and reports bad rows on stderr. */
import { statSync } from 'node:fs'
import { withList, withListToReplace } from '../app.ts'
import { type ImportObserver, importSources, type Source } from '../import/import.ts'
import { CommandError, reasonOf } from '../lib/errors.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { command, print, say, yieldToServer } from './command.ts'
import { createProgress } from './progress.ts'

/** Rejected rows that are reported one by one; the rest is counted. */
const NAMED_REJECTIONS = 20
/** Rows between two updates of the progress bar. */
const PROGRESS_STEP = 4096
const STDIN = '-'
/** A misspelled field is named; what may be a key or a row is not repeated. */
const IS_NAME = /^(?!.*(?:pl_|temp_))[\p{L}\d_. -]{1,24}$/u

/** The size of a file in bytes. @throws CommandError naming the file when it cannot be read. */
export function sizeOf(file: string): number {
  if (file === STDIN) return 0
  try {
    const found = statSync(file)
    if (found.isDirectory()) throw new Error('it is a directory')
    return found.size
  } catch (error) {
    throw new CommandError(`cannot read ${file}: ${reasonOf(error)}`)
  }
}

const toSource = (file: string): Source =>
  file === STDIN
    ? { name: '(stdin)', bytes: Bun.stdin.stream() }
    : { name: file, bytes: Bun.file(file).stream() }

/** Reports to the operator; `close` reports how many rejections were not named. */
function createObserver(totalBytes: number) {
  const count = totalBytes > 0 ? '[{bar}] {percentage}% | {rows} rows' : '{rows} rows'
  const progress = createProgress(`importing ${count}`, totalBytes)
  const tell = (sentence: string): void => {
    progress.clear()
    say(sentence)
  }
  let rejected = 0
  const observer: ImportObserver & { say: typeof tell; close(): void } = {
    say: tell,
    progress(rows, bytes) {
      if (rows % PROGRESS_STEP === 0) progress.update(bytes, { rows })
    },
    rejected(file, line, field, reason) {
      rejected += 1
      if (rejected <= NAMED_REJECTIONS) tell(`${file}:${line}: ${field} ${reason}`)
    },
    ignored(file, line, member) {
      const field = IS_NAME.test(member) ? `unknown field '${member}'` : 'an unknown field'
      tell(`${file}:${line}: note: ${field} is ignored everywhere`)
    },
    close() {
      progress.clear()
      const unnamed = rejected - NAMED_REJECTIONS
      if (unnamed > 0) say(`… and ${unnamed} more rejected rows`)
    },
  }
  return observer
}

export const importCommand = command({
  name: 'import',
  summary: 'add or update proxies from files (- is stdin), in one step',
  arguments: '<file...>',
  settings: ['data', 'format', 'type', 'replace', 'strict', 'json', 'providerService'],
  example: 'proxylist import proxies.csv --type http',
  async run({ settings, args: files, clock }) {
    const { data, format, type, replace, strict, json, providerService: provider } = settings
    yieldToServer()
    const totalBytes = files.map(sizeOf).reduce((sum, size) => sum + size, 0)
    const observer = createObserver(totalBytes)
    const importInto = async (list: Pick<ProxyWriter, 'begin'>) => {
      const importTx = list.begin(replace ? 'replace' : 'merge', () =>
        observer.say('another import has locked the list; waiting for its end'),
      )
      const defaults = { type, nowMs: clock(), provider }
      const options = { format, defaults, strict, refuseEmpty: replace }
      try {
        const { read, rejected } = await importSources(
          files.map(toSource),
          options,
          importTx.add,
          observer,
        )
        const { added, updated, unchanged, removed } = await importTx.commit()
        return { read, added, updated, unchanged, rejected, removed }
      } catch (error) {
        await importTx.rollback()
        throw error
      } finally {
        observer.close()
      }
    }
    const summary = await (replace
      ? withListToReplace(data, clock, importInto, observer.say)
      : withList(data, clock, importInto))
    if (json) return print(`${JSON.stringify(summary)}\n`)
    say(
      Object.entries(summary)
        .map(([what, n]) => `${what} ${n}`)
        .join(', '),
    )
  },
})
