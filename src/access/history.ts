/**
 * What is known of the use of a key over time: by hour and by day, for 90 days. Pure; stores
 * count it.
 */
import { DAY_MS, HOUR_MS, utcDay } from '../lib/time.ts'

/** Days that are kept, today included. */
export const HISTORY_DAYS = 90

/** The use of a key on a UTC day, see `utcDay`. */
export type DayUse = {
  day: number
  /** Requests admitted and not given back. */
  requests: number
  /** Records in its answers. */
  records: number
  /** Requests refused because of a limit (429). */
  refused: number
  /** Requests by hour, up to the last hour with any; empty where hours are not known. */
  hours: readonly number[]
}

/** The use of a key: the instant of its last admission, and its days, oldest first. */
export type KeyUse = { lastSeenMs: number | null; days: readonly DayUse[] }

/** What an answer adds to the use of its key, besides the request itself. */
export type AnswerUse = { keyId: string; records: number; refused: number; nowMs: number }

export const unusedDay = (day: number): DayUse => ({
  ...{ day, requests: 0, records: 0, refused: 0, hours: [] },
})

/** The hour of its UTC day, 0 to 23. */
export const utcHour = (ms: number): number => Math.floor((ms - utcDay(ms) * DAY_MS) / HOUR_MS)

/** The sum of two lists of hours. */
const addHours = (one: readonly number[], two: readonly number[]): number[] =>
  Array.from(
    { length: Math.max(one.length, two.length) },
    (_, hour) => (one[hour] ?? 0) + (two[hour] ?? 0),
  )

/** The sum of what is known of one day. */
export const addDays = (one: DayUse, two: DayUse): DayUse => ({
  day: one.day,
  requests: one.requests + two.requests,
  records: one.records + two.records,
  refused: one.refused + two.refused,
  hours: addHours(one.hours, two.hours),
})

/** The days of both lists, oldest first; a day of both is one. */
export function mergeDays(one: readonly DayUse[], two: readonly DayUse[]): DayUse[] {
  const byDay = new Map<number, DayUse>()
  for (const use of [...one, ...two]) {
    const known = byDay.get(use.day)
    byDay.set(use.day, known ? addDays(known, use) : use)
  }
  return [...byDay.values()].sort((a, b) => a.day - b.day)
}
