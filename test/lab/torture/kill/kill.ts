/**
 * Owns the program as a child that is to be killed: starting it, waiting for an exact moment,
 * whether it was the kill that ended it, and telling what was found wrong after it.
 */
import type { Subprocess } from 'bun'
import { childEnvironment, keepTrack } from '../../bench/processes.ts'

/** Timers are late by up to this; what remains is waited for without one. */
const TIMER_SLACK_MS = 2

/** How long a command may take that is not killed. */
const COMMAND_MS = 60_000

/** Things that were wrong are named up to this many, and this many characters of each. */
const NAMED = 3
const NAMED_LENGTH = 100

export type Child = Subprocess<'ignore', 'pipe', 'pipe'>

/** Starts the program. What it writes is read by `outputOf`, or not at all. */
export const startChild = (binary: string, args: readonly string[]): Child =>
  keepTrack(
    Bun.spawn([binary, ...args], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    }),
  )

export const isRunning = ({ exitCode, signalCode }: Subprocess): boolean =>
  exitCode === null && signalCode === null

/** Kills a child at once; says whether that was its end, or it had come to it by itself. */
export async function kill(child: Subprocess): Promise<boolean> {
  child.kill('SIGKILL')
  await child.exited
  return child.signalCode === 'SIGKILL'
}

/** Resolves when `performance.now()` is `dueMs`, to a tenth of a millisecond. */
export async function until(dueMs: number): Promise<void> {
  const sleepMs = dueMs - performance.now() - TIMER_SLACK_MS
  if (sleepMs > 0) await Bun.sleep(sleepMs)
  while (performance.now() < dueMs);
}

export type Output = { exitCode: number; stdout: string; stderr: string }

/** Waits for a command's end; one that takes a minute is killed, and has failed. */
export async function outputOf(child: Child): Promise<Output> {
  const timer = setTimeout(() => child.kill('SIGKILL'), COMMAND_MS)
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearTimeout(timer)
  return { exitCode, stdout, stderr }
}

/** Runs a command to its end; gives its stdout. @throws Error with its stderr when it fails. */
export async function succeed(binary: string, args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await outputOf(startChild(binary, args))
  if (exitCode !== 0) throw new Error(`${args[0]} exited with ${exitCode}: ${stderr}`)
  return stdout
}

export const digestOf = (text: string | Uint8Array): string =>
  new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 16)

/** How many things were wrong, and the first of them. */
export function wrongs(texts: readonly string[]): string {
  if (texts.length === 0) return '0'
  const named = texts.slice(0, NAMED).map(text => text.slice(0, NAMED_LENGTH))
  return `${texts.length} (${named.join('; ')})`
}
