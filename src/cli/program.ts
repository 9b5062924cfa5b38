/** The command line as a whole: the table of commands, dispatch, help, and error lines. */
import { Command as Commander, CommanderError, Option } from 'commander'
import { type RuleCode, RuleError } from '../access/manage.ts'
import type { Environment } from '../config/environment.ts'
import {
  defaultOf,
  environmentNameOf,
  flagOf,
  isGiven,
  readSettings,
  SETTINGS,
  type SettingName,
} from '../config/settings.ts'
import { VERSION } from '../config/version.ts'
import type { Clock } from '../lib/clock.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError, messageOf } from '../lib/errors.ts'
import { withoutPassword } from '../lib/redact.ts'
import { checkDirectory } from '../stores.ts'
import { type Command, say } from './command.ts'
import { backupCommand } from './commands/backup.ts'
import { CHECK_COMMANDS } from './commands/check.ts'
import { completeCommand, completionsCommand } from './commands/completions.ts'
import { consoleCommand } from './commands/console.ts'
import { doctorCommand } from './commands/doctor.ts'
import { FEED_COMMANDS, feedImportProcess } from './commands/feeds.ts'
import { healthCommand } from './commands/health.ts'
import { helpCommand, listTopics, topics } from './commands/help.ts'
import { importCommand, importProcess } from './commands/import.ts'
import { judgeCommand } from './commands/judge.ts'
import { KEY_COMMANDS } from './commands/keys.ts'
import { listCommand } from './commands/list.ts'
import { nodesCommand } from './commands/nodes.ts'
import { PLAN_COMMANDS } from './commands/plans.ts'
import { restoreCommand } from './commands/restore.ts'
import { serveCommand } from './commands/serve.ts'
import { statsCommand } from './commands/stats.ts'
import { systemdUnitCommand } from './commands/systemd-unit.ts'
import { versionCommand } from './commands/version.ts'
import { abandonable, interruptible } from './shutdown.ts'

export const COMMANDS: readonly Command[] = [
  serveCommand,
  importCommand,
  ...FEED_COMMANDS,
  judgeCommand,
  ...CHECK_COMMANDS,
  listCommand,
  ...KEY_COMMANDS,
  ...PLAN_COMMANDS,
  consoleCommand,
  statsCommand,
  backupCommand,
  restoreCommand,
  systemdUnitCommand,
  completionsCommand,
  doctorCommand,
  healthCommand,
  nodesCommand,
  versionCommand,
  helpCommand,
]

/** What a server or a shell starts, without help. */
const PROCESSES: readonly Command[] = [
  feedImportProcess,
  importProcess,
  completeCommand(() => COMMANDS),
]

const GROUPS: { [group: string]: string } = {
  keys: 'manage access keys',
  plans: 'manage plans',
}

type Flags = { [flag: string]: string | boolean | undefined }
type Start = (command: Command, args: readonly string[], flags: Flags) => Promise<void>

/** The commander program for the table; `start` runs the command that was given. */
function createProgram(start: Start): Commander {
  const program = configure(new Commander('proxylist'))
    .description(`proxylist ${VERSION} serves filtered lists of proxy servers.`)
    .version(VERSION, '--version', 'print the version')
    .addHelpText('after', listTopics)
  const groupOf = (name: string): Commander =>
    program.commands.find(known => known.name() === name) ??
    configure(program.command(name).description(GROUPS[name] ?? ''))
  for (const command of [...PROCESSES, ...COMMANDS]) {
    const [first = '', second] = command.name.split(' ')
    const parent = second === undefined ? program : groupOf(first)
    addCommand(parent, second ?? first, command, start)
  }
  return program
}

/** Errors become exceptions with one line; help goes to stdout. */
const configure = (commander: Commander): Commander =>
  commander
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .enablePositionalOptions() // those after `check explain` are its own

function addCommand(parent: Commander, name: string, command: Command, start: Start): void {
  const commander = configure(parent.command(name, { hidden: PROCESSES.includes(command) }))
    .description(command.summary)
    .addHelpText('after', `\nExample:\n  ${command.example}`)
  if (command.arguments) commander.arguments(command.arguments)
  const options = command.settings.map(name => ({ name, option: optionOf(name) }))
  for (const { option } of options) commander.addOption(option)
  commander.action(() => {
    const given = commander.opts()
    const flags = options.map(({ name, option }) => [name, given[option.attributeName()]])
    return start(command, commander.args, Object.fromEntries(flags))
  })
}

function optionOf(name: SettingName): Option {
  const standard = defaultOf(name) && ` (default: ${defaultOf(name)})`
  const { help } = SETTINGS[name]
  const option = new Option(flagOf(name), `${help}${standard} [${environmentNameOf(name)}]`)
  if (!('isRepeatable' in SETTINGS[name])) return option
  return option.argParser((given: string, before?: string) =>
    before === undefined ? given : `${before}\n${given}`,
  )
}

/**
 * `error: unknown option '--lsten'\n(Did you mean --listen?)` as one plain line. Arguments that are
 * too many are counted, not repeated: they may be the parts of a query, with a key. Nor is the password
 * of a URL in the wrong place.
 */
const oneLine = (message: string): string =>
  withoutPassword(message)
    .replace(/^error: /, '')
    .replace(/\. Expected (\d+) arguments? but got (\d+).*$/s, ': it takes $1, not $2')
    .replace(/\s*\n\(Did you mean (.*)\?\)$/s, "; did you mean '$1'?")

/**
 * `help feeds` shows a topic of the manual, `help keys add` means `keys add --help`.
 * @throws CommandError for any other word.
 */
function toOptions([first, ...words]: readonly string[]): string[] {
  if (first !== 'help') return first === undefined ? [] : [first, ...words]
  const name = words.filter(word => !word.startsWith('-')).join(' ')
  const known = topics()
  if (known.includes(name)) return ['help', ...words]
  if (name === '') return words.length === 0 ? ['--help'] : ['help', ...words]
  const names = [...Object.keys(GROUPS), ...COMMANDS.map(command => command.name)]
  if (names.includes(name)) return [...words, '--help']
  const near = nearest(name, [...known, ...names])
  const hint = near === null ? 'proxylist help lists them' : `did you mean '${near}'?`
  throw new CommandError(`unknown topic '${withoutPassword(name)}'; ${hint}`, 2)
}

/** What to do where a rule refuses; ID is the argument of the command. */
const HINTS: { readonly [code in RuleCode]?: string } = {
  'unknown-key': '; see proxylist keys list',
  'unknown-plan': '; see proxylist plans list',
  'expired-key': ' with keys set --expires',
  'key-not-revoked': '; first: proxylist keys revoke ID',
  'built-in-plan': '; plans set can change it',
}

/** Rules refuse a wrong value as wrong usage, all else as a failure. */
function withHint(error: unknown, [id = '']: readonly string[]): unknown {
  if (!(error instanceof RuleError)) return error
  const hint = (HINTS[error.code] ?? '').replace('ID', () => id)
  return new CommandError(error.message + hint, error.code === 'invalid' ? 2 : 1)
}

/** Runs the program; returns the exit status. Every failure is one line on stderr. */
export async function run(argv: readonly string[], env: Environment, clock: Clock) {
  const start: Start = async (command, args, flags) => {
    const settings = readSettings(command.settings, flags, env)
    const isShared = command.settings.includes('database') && settings.database !== undefined
    if (command.settings.includes('data') && (!isShared || command.usesCopies)) {
      checkDirectory(settings.data)
    }
    const given = (name: SettingName): boolean => isGiven(name, flags, env)
    const work = (signal: AbortSignal) =>
      command.run({ settings, isGiven: given, args, clock, signal })
    const run = command.endsAtSignal === 'by itself' ? interruptible : abandonable
    const kept = isShared
      ? 'the database has made its change or not, but no part of it'
      : 'nothing was changed'
    await run(command.kept ?? kept, work).catch(error => {
      throw withHint(error, args)
    })
  }
  try {
    await createProgram(start).parseAsync(toOptions(argv), { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0
      if (error.code !== 'commander.help') say(`proxylist: ${oneLine(error.message)}`)
      return 2
    }
    say(`proxylist: ${messageOf(error)}`)
    return error instanceof CommandError ? error.exitCode : 1
  }
}
