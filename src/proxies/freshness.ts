/** How fresh a list is, and what of it lies in the future (contract B10), for `doctor`. */
import { counted } from '../lib/counted.ts'
import { right, wrong } from '../lib/examination.ts'
import { SECOND_MS } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from './filter.ts'

/** An import accepts checks that are so far ahead, because clocks of servers differ. */
export const FUTURE_SECONDS_MAX = 300

/** A list's proxies, newest check not ahead (Unix seconds), recent checks, and those ahead. */
export type Tally = { rows: number; newest: number | null; recent: number; ahead: number }

/** Counts checks since an instant as recent, and those after another one as ahead. */
export type TallyReader = (sinceMs: number, untilMs: number) => Promise<Tally> | Tally

/** A query without `time` finds proxies checked within this time. */
const RECENT_MS = DEFAULT_AGE_MAX_SECONDS * SECOND_MS

const tallyAt = (tally: TallyReader, nowMs: number) =>
  tally(nowMs - RECENT_MS, nowMs + FUTURE_SECONDS_MAX * SECOND_MS)

/** How fresh a list is; `origin` says how to fill one that is empty. */
export async function freshness(tally: TallyReader, nowMs: number, origin: string) {
  const { rows, newest, recent } = await tallyAt(tally, nowMs)
  if (rows === 0) return wrong(`the list is empty; ${origin}`)
  const age = Math.max(0, Math.round(nowMs / SECOND_MS - (newest ?? 0)))
  const last = newest === null ? 'none before' : `the newest ${counted(age)} s ago`
  const found =
    `${counted(recent)} of ${counted(rows)} proxies were checked in the last ` +
    `${RECENT_MS / SECOND_MS} s, ${last}`
  return recent > 0 ? right(found) : wrong(found)
}

/** Rows of the list that lie in the future, with the command that mends them. */
export async function rowsAhead(tally: TallyReader, nowMs: number): Promise<string[]> {
  const { ahead } = await tallyAt(tally, nowMs)
  if (ahead === 0) return []
  return [
    `${counted(ahead)} proxies were last checked in the future, and count as fresh until then: ` +
      'import them again, or the whole list with: proxylist import --replace FILE',
  ]
}
