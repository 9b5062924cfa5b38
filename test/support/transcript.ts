/**
 * Runs commands in this process, which costs a tenth of a new one. A transcript is a list of commands with their
 * expected output. It runs in a new working directory, with its data in `./data`.
 */
import { describe, expect, mock, spyOn, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import * as os from 'node:os'
import { dirname, join } from 'node:path'
import { run } from '../../src/cli/program.ts'
import { fileClock } from '../../src/lib/clock.ts'
import type { Outcome } from './launch.ts'
import { createClock, ROOT, type RunOptions } from './program.ts'
import { temporaryDirectory } from './temporary.ts'

// An import lowers the priority of its process. Here, that would slow all later tests and their servers.
void mock.module('node:os', () => ({ ...os, setPriority() {} }))

const MAIN = join(ROOT, 'src/main.ts')
const UMASK = 0o077 // as in src/bootstrap.ts

/** Runs a command with the directory, environment and stdio of this process replaced. Never run two at once. */
async function runAlone(
  args: readonly string[],
  { stdin = '', env: given = {}, cwd = ROOT }: RunOptions,
): Promise<Outcome> {
  const { PATH = '', HOME = '' } = process.env
  const env: { [name: string]: string } = { ...createClock().env, ...given }
  const clockFile = env.PROXYLIST_TEST_CLOCK ?? ''
  const before = { cwd: process.cwd(), env: process.env }
  const written = { stdout: '', stderr: '' }
  const decoder = new TextDecoder()
  const write = (chunk: string | Uint8Array): void => {
    written.stdout += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
  }
  const stdio = { stdin: Bun.stdin, stdout: Bun.stdout, main: Bun.main }
  const stdout = { writer: () => ({ write, flush() {}, end() {} }) }
  Object.assign(Bun, { stdin: new Blob([stdin]), stdout, main: MAIN })
  const { write: writeFile } = Bun
  using _written = spyOn(Bun, 'write').mockImplementation((async (file: unknown, data: string) =>
    file === stdout ? write(data) : writeFile(file as string, data)) as typeof Bun.write)
  using _stdout = spyOn(process.stdout, 'write').mockImplementation(text => {
    write(text)
    return true
  })
  using _stderr = spyOn(process.stderr, 'write').mockImplementation(text => {
    written.stderr += text
    return true
  })
  const umask = process.umask(UMASK)
  process.chdir(cwd)
  process.env = { PATH, HOME, TMPDIR: os.tmpdir(), ...env }
  try {
    return { exitCode: await run(args, env, fileClock(clockFile)), ...written }
  } finally {
    process.env = before.env
    process.chdir(before.cwd)
    process.umask(umask)
    process.removeAllListeners('SIGTSTP') // added by an import
    Object.assign(Bun, stdio)
  }
}

let last: Promise<unknown> = Promise.resolve()

/** Runs a command in this process, with its clock at T0. Commands wait for each other. */
export function runCommand(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const outcome = last.then(() => runAlone(args, options))
  last = outcome.catch(() => {})
  return outcome
}

/** One command line. Output must equal a string, or match a pattern. */
export type Step = {
  /** Arguments, or one string that is split at spaces. */
  args: string | readonly string[]
  stdin?: string
  env?: { [name: string]: string }
  /** Default 0. */
  exitCode?: number
  /** Default: empty. */
  stdout?: string | RegExp
  stderr?: string | RegExp
}

type Text = string | RegExp
/** A step that prints `stdout`, and says nothing unless `stderr` is given. */
export const prints = (args: Step['args'], stdout: Text, stderr: Text = ''): Step => ({
  ...{ args, stdout, stderr },
})
/** A step that prints nothing. */
export const says = (args: Step['args'], stderr: Text): Step => ({ args, stderr })
export const fails = (args: Step['args'], stderr: Text, exitCode = 1): Step => ({
  ...{ args, stderr, exitCode },
})

export type Transcript = {
  name: string
  files?: { [name: string]: string | Uint8Array }
  steps: readonly Step[]
}

/** Internals that no message may show: stack traces, codes of SQLite, paths of source files. */
const NOISE = /^\s+at |SQLITE|Error:|node:|bunfs|\.ts:\d/m

/** A failure prints nothing on stdout. Its last line on stderr says why; for wrong usage it is the only line. */
function expectFailure({ exitCode, stdout, stderr }: Outcome): void {
  expect(stdout).toBe('')
  expect(stderr).toMatch(exitCode === 2 ? /^proxylist: [^\n]+\n$/ : /^proxylist: [^\n]+\n$/m)
}

function expectText(actual: string, expected: string | RegExp): void {
  if (typeof expected === 'string') expect(actual).toBe(expected)
  else expect(actual).toMatch(expected)
}

/** Printed when a command creates the data directory. */
const NEW_DIRECTORY = /^there is no data directory .*; making a new one\n/

/** Runs a step in a directory, in this process or as a program, and checks its output. */
export async function runStep(
  cwd: string,
  { args, stdin, env, ...expected }: Step,
  runStep: typeof runCommand = runCommand,
): Promise<Outcome> {
  const input = { ...(env && { env }), ...(stdin !== undefined && { stdin }) }
  const words = typeof args === 'string' ? args.split(' ') : args
  const outcome = await runStep(words, { cwd, ...input })
  expectText(outcome.stderr.replace(NEW_DIRECTORY, ''), expected.stderr ?? '')
  expectText(outcome.stdout, expected.stdout ?? '')
  expect(outcome.exitCode).toBe(expected.exitCode ?? 0)
  if (outcome.exitCode !== 0) expectFailure(outcome)
  expect(outcome.stderr).not.toMatch(NOISE)
  return outcome
}

/** A new working directory with files. */
export function directoryOf(files: Transcript['files'] = {}): string {
  const cwd = temporaryDirectory()
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true })
    writeFileSync(join(cwd, name), text)
  }
  return cwd
}

/** Tests of transcripts, each in a directory with its files. */
export function testTranscripts(title: string, transcripts: readonly Transcript[]): void {
  describe(title, () => {
    test.each(transcripts.map(({ name, files, steps }) => [name, files, steps] as const))(
      '%s',
      async (_, files, steps) => {
        const cwd = directoryOf(files)
        for (const step of steps) await runStep(cwd, step)
      },
    )
  })
}
