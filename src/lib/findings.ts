/** The findings of `doctor`: one sentence for each check. */
import type { Awaitable } from './awaitable.ts'
import { reasonOf } from './errors.ts'

/** The result of a check. A note reports something that is allowed but unwise. */
export type Result = { ok: boolean; note?: true; found: string }
export type Finding = { check: string } & Result

/** Checks by name, in the order of the report. */
export type Checks<T> = { readonly [check: string]: (subject: T) => Awaitable<Result> }

export const right = (found: string): Result => ({ ok: true, found })
export const wrong = (found: string): Result => ({ ok: false, found })
export const note = (found: string): Result => ({ ok: true, note: true, found })

/** The problems if there are any, otherwise the notes, otherwise `allRight`. */
export function finding(
  problems: readonly string[],
  allRight: string,
  notes: readonly string[] = [],
): Result {
  if (problems.length > 0) return wrong(problems.join('; '))
  return notes.length > 0 ? note(notes.join('; ')) : right(allRight)
}

/** Runs the checks in sequence. A check that throws is a problem, unless `signal` was aborted. */
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

/** The failure of `work` as a list of one sentence; an empty list if it succeeds. */
export async function problemOf(work: () => unknown): Promise<string[]> {
  try {
    await work()
    return []
  } catch (error) {
    return [reasonOf(error)]
  }
}
