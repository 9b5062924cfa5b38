/**
 * Processes to which a server gives work: this very program. A process of its own takes no time of the
 * requests, gives its memory back, and can be killed at any moment. What it is to do comes as one line of
 * JSON on stdin, because a command line and an environment can be read by others, and secrets are in feeds
 * and in the URL of a database.
 */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { CommandError, messageOf } from '../lib/errors.ts'
import { foreignEnvironment, successorEnvironment } from './environment.ts'
import type { Settings } from './settings.ts'
import { IS_COMPILED } from './version.ts'

export type ProcessSettings = Settings<
  'data' | 'database' | 'databaseTimeout' | 'geoip' | 'providerService'
>

/** Those settings among others: a process gets no more. */
export const forProcesses = (settings: ProcessSettings): ProcessSettings => {
  const { data, database, databaseTimeout, geoip, providerService } = settings
  return { data, database, databaseTimeout, geoip, providerService }
}

/** On Linux, the file of this very process: also when an upgrade has replaced it in its place. */
const OWN_FILE = '/proc/self/exe'
/** The descriptor under which a process finds the open file that it was given. */
export const FILE_DESCRIPTOR = 3

const programOf = (): string[] => {
  if (!IS_COMPILED) return [process.execPath, Bun.main]
  return [existsSync(OWN_FILE) ? OWN_FILE : process.execPath]
}

/** The file of the program under its usual name, whatever is there by now. */
const fileOf = (path: string) => statSync(path, { bigint: true, throwIfNoEntry: false })
const STARTED_AS = IS_COMPILED ? fileOf(process.execPath) : undefined

/** Whether an upgrade has replaced the file of this program since it was started. */
export function isReplaced(): boolean {
  if (STARTED_AS === undefined) return false
  const found = fileOf(process.execPath)
  return found?.ino !== STARTED_AS.ino || found.mtimeNs !== STARTED_AS.mtimeNs
}

/** Runs a command, and kills it when it is to end itself; killed itself, it leaves the command to init. */
const GUARD = `"$@" <&3 >&4 2>&5 3<&- 4>&- 5>&- & command=$!; trap 'kill -KILL $command' TERM; wait $command`

/**
 * Starts what is under the name of this program now, with the arguments of this process. The shell between them
 * ends with its status, and is to be killed with SIGKILL once the server has taken over: systemd then has it as a
 * child of its own, which it otherwise would not stop gracefully. @throws Error when there is no such program.
 */
export function spawnSuccessor() {
  const program = [process.execPath, ...process.argv.slice(IS_COMPILED ? 2 : 1)]
  accessSync(process.execPath, constants.X_OK)
  return Bun.spawn(['/bin/sh', '-c', GUARD, 'sh', ...program], {
    env: successorEnvironment(),
    // As 0 to 2 they would be made blocking for this process, too: a log that nobody reads would halt it.
    stdio: ['ignore', 'ignore', 'ignore', 0, 1, 2],
  })
}

/** How a process has ended: its last line, and where it was not done why, at least how it ended. */
type TaskEnd = { isDone: boolean; stdout: string; stderr: string }

type OnLine = (line: string) => Promise<void>

/** Passes on each line but the last, which it returns; the next ones are read when that is done. */
async function lastLine(bytes: ReadableStream<Uint8Array>, onLine: OnLine): Promise<string> {
  const decoder = new TextDecoder()
  let last = ''
  let rest = ''
  for await (const chunk of bytes) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (last !== '') await onLine(last)
      last = line
    }
  }
  return last
}

/** Starts a command that calls `readTask`, with an open file or none; `said` is what it said so far. */
export function spawnTask(
  command: string,
  task: unknown,
  file: number | 'ignore' = 'ignore',
  program: readonly string[] = programOf(),
  onLine: OnLine = async () => {},
) {
  let stderr = ''
  let kill = (): void => {}
  async function run(): Promise<TaskEnd> {
    const child = Bun.spawn([...program, command], {
      ...{ argv0: 'proxylist', env: foreignEnvironment(), stdio: ['pipe', 'pipe', 'pipe', file] },
    })
    kill = () => child.kill('SIGKILL')
    // Stdin stays open: when it ends, the server has ended, and its processes with it.
    child.stdin.write(`${JSON.stringify(task)}\n`)
    child.stdin.flush()
    const printed = lastLine(child.stdout, onLine)
    const decoder = new TextDecoder()
    for await (const chunk of child.stderr) stderr += decoder.decode(chunk, { stream: true })
    const [stdout, status] = await Promise.all([printed, child.exited])
    if (status === 0) return { isDone: true, stdout, stderr }
    const end = `its process ended with ${child.signalCode ?? `status ${status}`}`
    return { isDone: false, stdout, stderr: stderr.trim() === '' ? end : stderr }
  }
  const ended = run().catch((error): TaskEnd => {
    const why = `its process could not be started (${messageOf(error)})`
    return { isDone: false, stdout: '', stderr: why }
  })
  return { ended, said: () => stderr, kill: () => kill() }
}

/**
 * Reads the task of this process from stdin. `signal` is aborted when the server has ended, or with `own`.
 * @throws CommandError (usage) when a person has started it.
 */
export async function readTask<Task>(
  own: AbortSignal,
): Promise<{ task: Task; signal: AbortSignal }> {
  const ended = new AbortController()
  const reader = Bun.stdin.stream().getReader()
  const decoder = new TextDecoder()
  let text = ''
  while (!text.includes('\n')) {
    const { value, done } = await reader.read()
    if (done)
      throw new CommandError('a server starts this command, which reads a task from stdin', 2)
    text += decoder.decode(value, { stream: true })
  }
  const end = (): void => ended.abort(new CommandError('the server has ended'))
  void reader.read().then(end, end)
  return { task: JSON.parse(text), signal: AbortSignal.any([own, ended.signal]) }
}
