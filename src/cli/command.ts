/**
 * A command is one table entry. Dispatch, `--help` and completions derive from it. Data goes to stdout, everything else to stderr.
 */
import { constants, setPriority } from 'node:os'
import { isatty } from 'node:tty'
import type { SettingName, Settings } from '../config/settings.ts'
import type { Clock } from '../lib/clock.ts'
import { CommandError, codeOf, orAborted, reasonOf } from '../lib/errors.ts'
import { say } from '../lib/log.ts'
import { printable, printableLines } from '../lib/redact.ts'

export { say }

export type Context<N extends SettingName> = {
  settings: Settings<N>
  /** Whether a setting comes from a flag or the environment, not from its default. */
  isGiven(name: N): boolean
  /** Positional arguments, in order. */
  args: readonly string[]
  clock: Clock
  /** Aborted by the first signal that ends commands; the reason is the error to end with. */
  signal: AbortSignal
}

export type Command<N extends SettingName = SettingName> = {
  /** One word, or a group and a word: `keys add`. */
  name: string
  summary: string
  /** Positional arguments in usage form: `<file...>`, `[query]`. */
  arguments?: string
  /** The accepted arguments, if only these are. */
  choices?: () => readonly string[]
  settings: readonly N[]
  example: string
  /** Whether it needs the data directory with a shared database too: a node has its copies there. */
  usesCopies?: boolean
  /**
   * How the command ends at SIGINT or SIGTERM: at once (the default), which is right for one whose
   * changes are one step; or by itself, after it has cleaned up.
   */
  endsAtSignal?: 'at once' | 'by itself'
  /** The message when a signal ends the command; by default, that nothing changed. */
  kept?: string
  /** @throws CommandError for anything the operator should know; resolves when done. */
  run(context: Context<N>): Promise<void> | void
}

/** Where keys, plans, usage and the list are: in a data directory, or in a database of several machines. */
export const DATA_SETTINGS = ['data', 'database', 'databaseTimeout'] as const

/** Defines a command whose settings are typed inside its `run`, and only there. */
export const command = <N extends SettingName>(definition: Command<N>): Command =>
  definition as unknown as Command // `run` is only ever called with the settings it names

/** A closed stdout is no failure. @throws CommandError for any other. */
function expectClosed(error: unknown): void {
  if (codeOf(error) === 'EPIPE') return
  throw new CommandError(`cannot write to stdout: ${reasonOf(error)}`)
}

/**
 * Writes data to stdout and waits until it is written; a closed stdout is no failure.
 * @throws CommandError when it cannot be written.
 */
export const print = async (text: string): Promise<void> => {
  if (text === '') return // Bun would truncate a file that stdout is
  await Bun.write(Bun.stdout, printableLines(text)).catch(expectClosed)
}

/**
 * Returns a function that writes chunks of any size to stdout, each when it has room for it; it
 * returns false once stdout is closed. On a terminal they are text, and printable.
 */
export function createStdoutWriter(signal: AbortSignal): (chunk: Uint8Array) => Promise<boolean> {
  const out = Bun.stdout.writer()
  const isTerminal = isatty(1)
  return async chunk => {
    try {
      const shown = isTerminal ? printableLines(new TextDecoder().decode(chunk)) : chunk
      // Either may be a promise that fails when stdout is closed.
      await orAborted(Promise.all([out.write(shown), out.flush()]), signal)
      return true
    } catch (error) {
      signal.throwIfAborted()
      expectClosed(error)
      return false
    }
  }
}

/** A value as JSON for stdout, indented by two spaces. */
export const inJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
export const printJson = (value: unknown): Promise<void> => print(inJson(value))

/** A path as a shell takes it. */
export const quoted = (path: string): string =>
  /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`

/** Columns of a table: what each cell of a row shows. */
export type Columns<R> = { readonly [header: string]: (row: R) => string }

/** Rows under headers, in columns as wide as their widest cell. */
export function table<R>(rows: readonly R[], columns: Columns<R>): string {
  const body = rows.map(row => Object.values(columns).map(cell => printable(cell(row))))
  const all = [Object.keys(columns), ...body]
  const widths = Object.keys(columns).map((_, i) =>
    Math.max(...all.map(row => Bun.stringWidth(row[i] ?? ''))),
  )
  const pad = (cell: string, i: number): string =>
    cell + ' '.repeat((widths[i] ?? 0) - Bun.stringWidth(cell))
  return all.map(row => `${row.map(pad).join('  ').trimEnd()}\n`).join('')
}

/** Prints rows as JSON, or as a table. */
export const show = <R>(json: boolean, rows: readonly R[], columns: Columns<R>): Promise<void> =>
  json ? printJson(rows) : print(table(rows, columns))

/** A server on the same machine comes first: at a higher priority, and Ctrl-Z does not keep the data locked. */
export function yieldToServer(): void {
  process.on('SIGTSTP', () => say('not suspended, as it may have locked the data; Ctrl-C ends it'))
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {} // where the system does not allow it, the priority stays
}
