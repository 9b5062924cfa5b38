/** What is known of the use of a key over time: by hour and by day, for 90 days. Stores count and keep it. */
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

/** The sum of what is known of one day. */
export const addDays = (one: DayUse, two: DayUse): DayUse => ({
  day: one.day,
  requests: one.requests + two.requests,
  records: one.records + two.records,
  refused: one.refused + two.refused,
  hours: Array.from(
    { length: Math.max(one.hours.length, two.hours.length) },
    (_, hour) => (one.hours[hour] ?? 0) + (two.hours[hour] ?? 0),
  ),
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

/** What answers added to a day of a key, the last of them at `atMs`. */
export type Noted = { id: string; day: number; atMs: number; records: number; refused: number }

/**
 * Keys that a flush of some writes at least, and of how many such flushes one writes its part: writing
 * all of thousands of keys every second would make requests wait, and the log long.
 */
const FLUSH_MIN = 100
const FLUSH_CALLS = 30

export type Notes = ReturnType<typeof createNotes>

/** What answers added to the use of keys and is not written yet. */
export function createNotes() {
  /** What was noted first is at the start. */
  const byKey = new Map<string, Noted[]>()

  function note({ keyId: id, records, refused, nowMs: atMs }: AnswerUse): void {
    if (records + refused === 0) return
    const day = utcDay(atMs)
    const its = byKey.get(id)
    const noted = its?.find(each => each.day === day)
    if (noted !== undefined) {
      noted.records += records
      noted.refused += refused
      noted.atMs = atMs
    } else if (its !== undefined) its.push({ id, day, atMs, records, refused })
    else byKey.set(id, [{ id, day, atMs, records, refused }])
  }

  return {
    note,
    /** Takes what was noted out: all of it, or that of some keys. */
    take(keys: 'some' | 'all'): Noted[] {
      const some = Math.max(FLUSH_MIN, Math.ceil(byKey.size / FLUSH_CALLS))
      const taken = [...byKey.values().take(keys === 'all' ? byKey.size : some)].flat()
      for (const { id } of taken) byKey.delete(id)
      return taken
    },
    /** Puts back what was taken, at the start. */
    putBack(taken: readonly Noted[]): void {
      const later = [...byKey.values()].flat()
      byKey.clear()
      for (const { id, atMs, records, refused } of [...taken, ...later]) {
        note({ keyId: id, nowMs: atMs, records, refused })
      }
    },
    /** The days of a key, without what is in the store, and what is `writing` there. */
    daysOf: (id: string, writing: Iterable<Noted> = []): DayUse[] =>
      [...(byKey.get(id) ?? []), ...writing]
        .filter(noted => noted.id === id)
        .map(({ day, records, refused }) => ({ ...unusedDay(day), records, refused })),
  }
}
