/** Child processes of a server. Tasks come as JSON from stdin, because other users may see command lines. */
import { accessSync, constants, existsSync } from 'node:fs'
import { CommandError, messageOf } from '../lib/errors.ts'
import { foreignEnvironment, successorEnvironment } from './environment.ts'
import type { Settings } from './settings.ts'
import { IS_COMPILED } from './version.ts'

export type ProcessSettings = Settings<
  'data' | 'database' | 'databaseTimeout' | 'geoip' | 'providerService'
>

/** Picks the settings that a child needs. */
export const forProcesses = (settings: ProcessSettings): ProcessSettings => {
  const { data, database, databaseTimeout, geoip, providerService } = settings
  return { data, database, databaseTimeout, geoip, providerService }
}

/** The path of this program. Read it now: Bun looks it up at the first use, which fails after an upgrade. */
const PROGRAM_FILE = process.execPath
/** The program of this process on Linux, even after an upgrade has replaced the file. */
const OWN_FILE = '/proc/self/exe'
/** The descriptor of the open file that a child inherits. */
export const FILE_DESCRIPTOR = 3

const programOf = (): string[] => {
  if (!IS_COMPILED) return [PROGRAM_FILE, Bun.main]
  return [existsSync(OWN_FILE) ? OWN_FILE : PROGRAM_FILE]
}

/** A shell that runs a command. SIGTERM kills both; SIGKILL kills the shell alone. */
const GUARD = `"$@" <&3 >&4 2>&5 3<&- 4>&- 5>&- & command=$!; trap 'kill -KILL $command' TERM; wait $command`

/**
 * Starts the program that is now at this program's path, with the arguments of this process, below a shell. When the
 * new server has taken over, kill the shell with SIGKILL: the server then becomes a child of systemd, which otherwise
 * would not stop it gracefully. @throws Error if there is no such program.
 */
export function spawnSuccessor() {
  const program = [PROGRAM_FILE, ...process.argv.slice(IS_COMPILED ? 2 : 1)]
  accessSync(PROGRAM_FILE, constants.X_OK)
  return Bun.spawn(['/bin/sh', '-c', GUARD, 'sh', ...program], {
    env: successorEnvironment(),
    // Stdio is passed as 3–5. As 0–2, the child would make it blocking here too, and an unread log would halt this process.
    stdio: ['ignore', 'ignore', 'ignore', 0, 1, 2],
  })
}

/** The result of a child: its last line on stdout, and its stderr or, if that is empty, its exit status or signal. */
type TaskEnd = { isDone: boolean; stdout: string; stderr: string }

type OnLine = (line: string) => Promise<void>

/** Passes all lines except the last to `onLine` in sequence, and returns the last. */
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

/** Starts a command that calls `readTask`, with an open file if one is given. `said` returns its stderr so far. */
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
    // Stdin stays open. When the server ends, stdin ends, and so does the child.
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

/** Reads the task of this process from stdin. `signal` is aborted with `own`, and when the server ends. */
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
