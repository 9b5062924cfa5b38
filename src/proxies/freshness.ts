/** How fresh a list is, and what of it lies in the future (contract B10). */
import { formatCount } from '../lib/plural.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from './filter.ts'

/** An import accepts checks that are so far ahead, because clocks of servers differ. */
export const FUTURE_SECONDS_MAX = 300

/** A list's proxies, its newest check that is not ahead (Unix seconds), and how many checks are ahead. */
export type ListChecks = { rows: number; newest: number | null; ahead: number }
/** With how many checks are recent. */
export type Tally = ListChecks & { recent: number }

/** Counts checks since an instant as recent, and those after another one as ahead. */
export type TallyReader = (sinceMs: number, untilMs: number) => Promise<Tally> | Tally

/** A query without `time` finds proxies checked within this time. */
export const RECENT_MS = DEFAULT_AGE_MAX_SECONDS * SECOND_MS

/** The instant up to which checks are not ahead. */
export const latestCheckMs = (nowMs: number): number => nowMs + FUTURE_SECONDS_MAX * SECOND_MS

export const tallyAt = (tally: TallyReader, nowMs: number) =>
  tally(nowMs - RECENT_MS, latestCheckMs(nowMs))

/** Whether a query without `time` finds nothing. */
export const isStale = ({ newest }: ListChecks, nowMs: number): boolean =>
  newest === null || newest < toSeconds(nowMs - RECENT_MS)

export function describeFresh({ rows, newest, recent }: Tally, nowMs: number): string {
  const age = Math.max(0, Math.round(nowMs / SECOND_MS - (newest ?? 0)))
  const last = `the newest ${formatCount(age)} s ago`
  return (
    `${formatCount(recent)} of ${formatCount(rows)} proxies were checked in the last ` +
    `${RECENT_MS / SECOND_MS} s, ${last}`
  )
}
