/** How fresh a list is, and how many of its checks lie in the future (contract B10). */
import { formatCount, several } from '../lib/plural.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from './filter.ts'

/** Imports accept checks up to this far ahead, because the clocks of servers differ. */
export const FUTURE_SECONDS_MAX = 300

/** The number of proxies, the newest check that is not ahead (Unix seconds), and the number of checks ahead. */
export type ListChecks = { rows: number; newest: number | null; ahead: number }

/** A query without `time` finds proxies checked within this time. */
export const RECENT_MS = DEFAULT_AGE_MAX_SECONDS * SECOND_MS

/** Checks after this instant are ahead. */
export const latestCheckMs = (nowMs: number): number => nowMs + FUTURE_SECONDS_MAX * SECOND_MS

/** Whether a query without `time` finds nothing. */
export const isStale = ({ newest }: ListChecks, nowMs: number): boolean =>
  newest === null || newest < toSeconds(nowMs - RECENT_MS)

export function describeFresh({ rows, newest }: ListChecks, nowMs: number): string {
  const age = Math.max(0, Math.round(nowMs / SECOND_MS - (newest ?? 0)))
  return `the newest of ${several(rows, 'proxy', 'proxies')} was checked ${formatCount(age)} s ago`
}
