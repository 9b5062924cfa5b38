/**
 * Killing the program: waiting for an exact moment, whether the kill is what ended it, and
 * how findings after it are named.
 */
import type { Child, LaunchOptions } from '../../../support/launch.ts'

/** Timers are late by up to this; the rest of a wait is spent in a loop. */
const TIMER_SLACK_MS = 2

/** How many problems are named, and how many characters of each. */
const NAMED = 3
const NAMED_LENGTH = 100

/** A command that takes this long has failed. */
export const DEADLINE: LaunchOptions = { deadlineSeconds: 60 }

/** Kills a child at once; says whether that ended it, and not that it had ended by itself. */
export async function kill(child: Child): Promise<boolean> {
  child.kill('SIGKILL')
  await child.exited
  return child.signalCode() === 'SIGKILL'
}

/** Resolves when `performance.now()` is `dueMs`, to a tenth of a millisecond. */
export async function until(dueMs: number): Promise<void> {
  const sleepMs = dueMs - performance.now() - TIMER_SLACK_MS
  if (sleepMs > 0) await Bun.sleep(sleepMs)
  while (performance.now() < dueMs);
}

export const fingerprintOf = (text: string | Uint8Array): string =>
  new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 16)

/** How many problems there were, and the first of them. */
export function summaryOf(problems: readonly string[]): string {
  if (problems.length === 0) return '0'
  const named = problems.slice(0, NAMED).map(text => text.slice(0, NAMED_LENGTH))
  return `${problems.length} (${named.join('; ')})`
}
