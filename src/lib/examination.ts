/** What an examination (`doctor`) finds: one sentence a check. */

import type { Awaitable } from './awaitable.ts'
import { reasonOf } from './errors.ts'

/** What a check found; a note is about something that is allowed, but unwise. */
export type Result = { ok: boolean; note?: true; found: string }
export type Finding = { check: string } & Result

/** Checks by name, in the order in which they are made and shown. */
export type Checks<T> = { readonly [check: string]: (subject: T) => Awaitable<Result> }

export const right = (found: string): Result => ({ ok: true, found })
export const wrong = (found: string): Result => ({ ok: false, found })
export const note = (found: string): Result => ({ ok: true, note: true, found })

/** All that is wrong; else all that is unwise; else that all is right. */
export function finding(
  problems: readonly string[],
  allRight: string,
  notes: readonly string[] = [],
): Result {
  if (problems.length > 0) return wrong(problems.join('; '))
  return notes.length > 0 ? note(notes.join('; ')) : right(allRight)
}

/** Makes one check after the other; a failure is what a check found, unless `signal` has ended it. */
export async function examineAll<T>(
  checks: Checks<T>,
  subject: T,
  signal: AbortSignal,
): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const [check, work] of Object.entries(checks)) {
    try {
      findings.push({ check, ...(await work(subject)) })
    } catch (error) {
      signal.throwIfAborted()
      findings.push({ check, ...wrong(reasonOf(error)) })
    }
  }
  return findings
}

/** What goes wrong in `work`, as a list of none or one sentence. */
export async function problemOf(work: () => unknown): Promise<string[]> {
  try {
    await work()
    return []
  } catch (error) {
    return [reasonOf(error)]
  }
}
