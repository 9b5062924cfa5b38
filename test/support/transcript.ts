/**
 * Transcripts of the command line: commands in order, and their expected output. Each runs in
 * a new working directory, where the data directory is the default `./data`.
 */
import { describe, expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Outcome } from './launch.ts'
import { proxylist } from './program.ts'
import { temporaryDirectory } from './temporary.ts'

/** One command line. `stdout` and `stderr` are compared as strings, or matched. */
export type Step = {
  /** Words, or a line of words. */
  args: string | readonly string[]
  stdin?: string
  env?: { [name: string]: string }
  /** Default 0. */
  exitCode?: number
  /** Default: empty. */
  stdout?: string | RegExp
  stderr?: string | RegExp
}

export type Transcript = {
  name: string
  files?: { [name: string]: string | Uint8Array }
  steps: readonly Step[]
}

/** What no operator should see. */
const NOISE = /^\s+at |SQLITE|Error:|node:|bunfs|\.ts:\d/m

/** A failure prints nothing on stdout, and a last line on stderr, the only one for wrong usage. */
function expectFailure({ exitCode, stdout, stderr }: Outcome): void {
  expect(stdout).toBe('')
  expect(stderr).toMatch(exitCode === 2 ? /^proxylist: [^\n]+\n$/ : /^proxylist: [^\n]+\n$/m)
}

function expectText(actual: string, expected: string | RegExp): void {
  if (typeof expected === 'string') expect(actual).toBe(expected)
  else expect(actual).toMatch(expected)
}

/** What a first change of keys and plans says. */
const NEW_DIRECTORY = /^there is no data directory .*; making a new one\n/

/** Runs a step in a directory and checks its output. */
export async function take(cwd: string, { args, stdin, env, ...expected }: Step): Promise<Outcome> {
  const input = { ...(env && { env }), ...(stdin !== undefined && { stdin }) }
  const words = typeof args === 'string' ? args.split(' ') : args
  const outcome = await proxylist(words, { cwd, ...input })
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
        for (const step of steps) await take(cwd, step)
      },
    )
  })
}
