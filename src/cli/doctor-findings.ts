/** Owns what a finding of `doctor` is, and the words that several checks share. */

import { reasonOf } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import { DEFAULT_AGE_MAX_SECONDS } from '../proxies/filter.ts'
import type { Tally } from '../sqlite/proxies/store.ts'

/** What a check found; a note is about something that is allowed, but unwise. */
export type Result = { ok: boolean; note?: true; found: string }
export type Finding = { check: string } & Result

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

export const counted = (n: number): string => n.toLocaleString('en-US')

/** A number of things, such as `1 standby` and `2 standbys`. */
export const several = (n: number, thing: string): string =>
  `${counted(n)} ${thing}${n === 1 ? '' : 's'}`

/** A query without `time` finds proxies checked within this time. */
export const RECENT_MS = DEFAULT_AGE_MAX_SECONDS * SECOND_MS

/** How fresh a list is; `origin` says how to fill one that is empty. */
export function freshness({ rows, newest, recent }: Tally, nowMs: number, origin: string): Result {
  if (rows === 0) return wrong(`the list is empty; ${origin}`)
  const age = Math.max(0, Math.round(nowMs / SECOND_MS - (newest ?? 0)))
  const last = newest === null ? 'none before' : `the newest ${counted(age)} s ago`
  const found =
    `${counted(recent)} of ${counted(rows)} proxies were checked in the last ` +
    `${RECENT_MS / SECOND_MS} s, ${last}`
  return recent > 0 ? right(found) : wrong(found)
}

/** The finding of a check; a failure is what it found, unless `signal` has ended it. */
export async function findingOf(
  check: string,
  work: () => Awaitable<Result>,
  signal: AbortSignal,
): Promise<Finding> {
  try {
    return { check, ...(await work()) }
  } catch (error) {
    signal.throwIfAborted()
    return { check, ...wrong(reasonOf(error)) }
  }
}
